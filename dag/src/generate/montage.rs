//! Montage-shaped workflows: mosaics of the sky from many overlapping images, in several colour bands.
//!
//! ```text
//! per band:   mProject x n ----> mDiffFit x d --> mConcatFit --> mBgModel
//!                   \                                               |
//!                    +----------> mBackground x n <-----------------+
//!                                  |            \
//!                                  +> mImgtbl --> mAdd --> mViewer
//!                                                   \
//! all bands:                                         +--> mViewer (colour)
//! ```
//! `bands * (2n + d + 5) + 1` tasks for n images and d = `min(overlaps_per_image * n, n (n - 1) / 2)` overlapping pairs
//! per band, and `bands * (4n + 3d + 4)` dependencies, which follow from the files; the colour viewer and its
//! dependencies are missing when there is one band. O(tasks).
//!
//! Structure: Jacob et al.: Montage, a grid portal and software toolkit for science-grade astronomical image
//! mosaicking, International Journal of Computational Science and Engineering 4(2), 2009. Run times and file sizes:
//! medians, rough spreads and linear fits of the four 2MASS executions on Chameleon in `WfInstances`
//! (`WfCommons`, doi:10.5281/zenodo.12510982).

use rand::Rng;
use rand::seq::index;
use serde::{Deserialize, Serialize};

use super::check;
use super::lognormal::{LogNormal, lognormal};
use crate::{FileId, JobGraph, JobGraphBuilder, Result, Task};

const PROJECT: LogNormal = lognormal(24.0, 0.28);
const DIFF_FIT: LogNormal = lognormal(0.11, 1.0);
const BACKGROUND: LogNormal = lognormal(4.6, 1.2);
/// Spread of the tasks that there are one or few of.
const SINGLE_SIGMA: f64 = 0.15;

const RAW_IMAGE: LogNormal = lognormal(1.5e6, 0.05);
const PROJECTED: LogNormal = lognormal(4.15e6, 0.002);
const FIT: LogNormal = lognormal(265.0, 0.02);
const HEADER_BYTES: f64 = 277.0;

/// A mosaic of the sky.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Montage {
    /// Colour bands, at least 1.
    pub bands: usize,
    /// Images per band, at least 2.
    pub images: usize,
    /// Overlapping pairs per image; real mosaics have 1.5 (small) to 17 (large and dense).
    pub overlaps_per_image: f64,
}

impl Default for Montage {
    fn default() -> Self {
        Self { bands: 3, images: 12, overlaps_per_image: 3.0 }
    }
}

impl Montage {
    /// Generates the graph. O(tasks).
    ///
    /// # Errors
    /// [`crate::Error::BadParameter`].
    pub fn generate(&self, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
        check::at_least("montage:bands", self.bands, 1)?;
        check::at_least("montage:images", self.images, 2)?;
        check::within("montage:overlaps_per_image", self.overlaps_per_image, 0.5..=1e6)?;
        let (bands, images, overlaps) = (self.bands as f64, self.images as f64, self.overlaps());
        let tasks = bands * (2.0 * images + overlaps + 5.0) + 1.0;
        let dependencies = bands * (4.0 * images + 3.0 * overlaps + 4.0);
        check::size("montage:images", tasks, dependencies)?;
        let mut job = JobGraph::builder(format!("montage-{}x{}", self.bands, self.images));
        job.infer_parents_from_files();
        let header = job.file("region.hdr", HEADER_BYTES)?;
        let mut mosaics = Vec::with_capacity(self.bands);
        for number in 1..=self.bands {
            let mut band = Band { job: &mut job, rng: &mut *rng, number, images: self.images, header };
            mosaics.push(band.build(overlaps as usize)?);
        }
        if self.bands > 1 {
            let picture = job.file("mosaic-color.jpg", 30e3 * bands * images)?;
            let seconds = lognormal(0.2 + 0.015 * bands * images, SINGLE_SIGMA).draw(rng);
            add(&mut job, "mViewer_color".into(), "mViewer", seconds, mosaics, vec![picture])?;
        }
        job.build()
    }

    /// Overlapping pairs per band.
    fn overlaps(&self) -> f64 {
        let images = self.images as f64;
        (self.overlaps_per_image * images).round().min(images * (images - 1.0) / 2.0)
    }
}

/// One colour band under construction.
struct Band<'a, R: ?Sized> {
    job: &'a mut JobGraphBuilder,
    rng: &'a mut R,
    number: usize,
    images: usize,
    header: FileId,
}

/// An image and the file that says how much each of its pixels counts.
type Image = [FileId; 2];

impl<R: Rng + ?Sized> Band<'_, R> {
    /// Adds the tasks of the band; returns its mosaic.
    fn build(&mut self, overlaps: usize) -> Result<FileId> {
        let projected = self.project()?;
        let fits = self.fit_differences(&projected, overlaps)?;
        let corrections = self.model_background(fits)?;
        let corrected = self.correct(&projected, corrections)?;
        self.add_up(&corrected)
    }

    fn project(&mut self) -> Result<Vec<Image>> {
        let mut projected = Vec::with_capacity(self.images);
        for i in 1..=self.images {
            let raw_bytes = RAW_IMAGE.draw_bytes(self.rng);
            let raw = self.file(&format!("raw{i}.fits"), raw_bytes)?;
            let bytes = PROJECTED.draw_bytes(self.rng);
            let image = self.image("p", i, bytes)?;
            self.task("mProject", Some(i), PROJECT, vec![raw, self.header], image.to_vec())?;
            projected.push(image);
        }
        Ok(projected)
    }

    /// Images lie along the path of the survey: neighbours overlap first, then those two apart, and so on; of the
    /// last distance that is needed only a random part.
    fn fit_differences(&mut self, projected: &[Image], overlaps: usize) -> Result<Vec<FileId>> {
        let mut fits = Vec::with_capacity(overlaps);
        for distance in 1..self.images {
            let pairs = self.images - distance;
            let wanted = pairs.min(overlaps - fits.len());
            let mut chosen = index::sample(self.rng, pairs, wanted).into_vec();
            chosen.sort_unstable();
            for i in chosen {
                let (a, b) = (projected[i], projected[i + distance]);
                let bytes = FIT.draw_bytes(self.rng);
                let fit = self.file(&format!("fit{}-{}.txt", i + 1, i + distance + 1), bytes)?;
                let inputs = vec![a[0], a[1], b[0], b[1], self.header];
                self.task("mDiffFit", Some(fits.len() + 1), DIFF_FIT, inputs, vec![fit])?;
                fits.push(fit);
            }
            if fits.len() == overlaps {
                break;
            }
        }
        Ok(fits)
    }

    fn model_background(&mut self, fits: Vec<FileId>) -> Result<FileId> {
        let overlaps = fits.len() as f64;
        let table = self.file("fits.tbl", 208.0 * overlaps + 209.0)?;
        self.task("mConcatFit", None, single(0.15 + 0.0065 * overlaps), fits, vec![table])?;
        let images = self.file("images.tbl", 440.0 * self.images as f64 + 440.0)?;
        let corrections = self.file("corrections.tbl", 55.0 * self.images as f64 + 56.0)?;
        let time = single(0.5 + 0.049 * overlaps);
        self.task("mBgModel", None, time, vec![table, images], vec![corrections])?;
        Ok(corrections)
    }

    fn correct(&mut self, projected: &[Image], corrections: FileId) -> Result<Vec<Image>> {
        let mut corrected = Vec::with_capacity(projected.len());
        for (i, image) in (1..).zip(projected) {
            let bytes = PROJECTED.draw_bytes(self.rng);
            let output = self.image("c", i, bytes)?;
            let inputs = vec![image[0], image[1], corrections];
            self.task("mBackground", Some(i), BACKGROUND, inputs, output.to_vec())?;
            corrected.push(output);
        }
        Ok(corrected)
    }

    fn add_up(&mut self, corrected: &[Image]) -> Result<FileId> {
        let images = self.images as f64;
        let table = self.file("corrected.tbl", 436.0 * images + 892.0)?;
        let inputs = corrected.iter().map(|image| image[0]).collect();
        self.task("mImgtbl", None, single(0.16 + 0.0037 * images), inputs, vec![table])?;
        let mosaic = self.file("mosaic.fits", 300e3 * images)?;
        let area = self.file("mosaic_area.fits", 300e3 * images)?;
        let inputs = corrected.iter().flatten().copied().chain([table, self.header]).collect();
        self.task("mAdd", None, single(0.15 + 0.01 * images), inputs, vec![mosaic, area])?;
        let picture = self.file("mosaic.jpg", 25e3 * images)?;
        self.task("mViewer", None, single(0.1 + 0.023 * images), vec![mosaic], vec![picture])?;
        Ok(mosaic)
    }

    fn image(&mut self, prefix: &str, i: usize, bytes: f64) -> Result<Image> {
        Ok([
            self.file(&format!("{prefix}{i}.fits"), bytes)?,
            self.file(&format!("{prefix}{i}_area.fits"), bytes)?,
        ])
    }

    fn file(&mut self, name: &str, bytes: f64) -> Result<FileId> {
        self.job.file(&format!("{}-{name}", self.number), bytes)
    }

    fn task(
        &mut self,
        kind: &str,
        i: Option<usize>,
        time: LogNormal,
        inputs: Vec<FileId>,
        outputs: Vec<FileId>,
    ) -> Result<()> {
        let name = match i {
            Some(i) => format!("{kind}_{}_{i}", self.number),
            None => format!("{kind}_{}", self.number),
        };
        add(self.job, name, kind, time.draw(self.rng), inputs, outputs)
    }
}

const fn single(median: f64) -> LogNormal {
    lognormal(median, SINGLE_SIGMA)
}

fn add(
    job: &mut JobGraphBuilder,
    name: String,
    kind: &str,
    seconds: f64,
    inputs: Vec<FileId>,
    outputs: Vec<FileId>,
) -> Result<()> {
    let mut task = Task::new(name).kind(kind).seconds(seconds);
    task.inputs = inputs;
    task.outputs = outputs;
    job.task(task)?;
    Ok(())
}
