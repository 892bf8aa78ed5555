//! Epigenomics-shaped workflows: short DNA reads are cleaned and mapped to a genome, chunk by chunk.
//!
//! ```text
//! per sequence:                                        per chunk
//!              /--> filterContams --> sol2sanger --> fastq2bfq --> map --\
//!  fastqSplit ----> filterContams --> sol2sanger --> fastq2bfq --> map ----> mapMerge --\
//!              \--> filterContams --> sol2sanger --> fastq2bfq --> map --/               \
//!                                                                                         \
//! all sequences:                                                    mapMerge --> maqIndex --> pileup
//! ```
//! `sequences * (4 * chunks + 2) + 3` tasks and `sequences * (5 * chunks + 1) + 2` dependencies, which follow from the
//! files. O(tasks).
//!
//! Structure: Juve et al.: Characterizing and profiling scientific workflows, Future Generation Computer Systems 29(3),
//! 2013. Run times and file sizes: medians and rough spreads of the five executions on Chameleon in `WfInstances`
//! (`WfCommons`, doi:10.5281/zenodo.12510982); the long tails that its shared disk caused are left out.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::check;
use super::lognormal::{LogNormal, lognormal};
use crate::{FileId, JobGraph, JobGraphBuilder, Result, Task};

const SPLIT: LogNormal = lognormal(11.0, 0.5);
const FILTER: LogNormal = lognormal(14.6, 0.9);
const TO_SANGER: LogNormal = lognormal(7.8, 1.1);
const TO_BFQ: LogNormal = lognormal(1.2, 0.9);
const MAP: LogNormal = lognormal(38.0, 0.3);
const MERGE: LogNormal = lognormal(5.2, 0.6);
const INDEX: LogNormal = lognormal(5.8, 0.6);
const PILEUP: LogNormal = lognormal(27.0, 0.3);

const CHUNK_BYTES: LogNormal = lognormal(7.3e6, 0.17);
const GENOME_BYTES: f64 = 46_944_392.0;
/// What every step leaves of its input.
const FILTERED: f64 = 0.9;
const SANGER: f64 = 0.75;
const BFQ: f64 = 0.25;
const MAPPED: f64 = 0.44;

/// Reads of DNA mapped to a genome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Epigenomics {
    /// Sequence files (lanes of the sequencer), at least 1.
    pub sequences: usize,
    /// Chunks that each is split into, at least 1.
    pub chunks: usize,
}

impl Default for Epigenomics {
    fn default() -> Self {
        Self { sequences: 2, chunks: 12 }
    }
}

impl Epigenomics {
    /// Generates the graph. O(tasks).
    ///
    /// # Errors
    /// [`crate::Error::BadParameter`].
    pub fn generate(&self, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
        check::at_least("epigenomics:sequences", self.sequences, 1)?;
        check::at_least("epigenomics:chunks", self.chunks, 1)?;
        let (sequences, chunks) = (self.sequences as f64, self.chunks as f64);
        let tasks = sequences * (4.0 * chunks + 2.0) + 3.0;
        check::size("epigenomics:chunks", tasks, sequences * (5.0 * chunks + 1.0) + 2.0)?;
        let mut job = JobGraph::builder(format!("epigenomics-{}x{}", self.sequences, self.chunks));
        job.infer_parents_from_files();
        let mut lab = Lab { genome: job.file("genome.bfa", GENOME_BYTES)?, job, rng };
        let mut merged = Vec::with_capacity(self.sequences);
        for sequence in 1..=self.sequences {
            merged.push(lab.sequence(sequence, self.chunks)?);
        }
        lab.finish(&merged)?;
        lab.job.build()
    }
}

/// A file and its size.
type SizedFile = (FileId, f64);

/// The workflow under construction.
struct Lab<'a, R: ?Sized> {
    job: JobGraphBuilder,
    rng: &'a mut R,
    genome: FileId,
}

impl<R: Rng + ?Sized> Lab<'_, R> {
    /// Adds the tasks of one sequence; returns its merged map.
    fn sequence(&mut self, sequence: usize, chunks: usize) -> Result<SizedFile> {
        let mut parts = Vec::with_capacity(chunks);
        for chunk in 1..=chunks {
            let bytes = CHUNK_BYTES.draw_bytes(self.rng);
            parts.push(self.file(&format!("s{sequence}.{chunk}.sfq"), bytes)?);
        }
        let reads = self.file(&format!("s{sequence}.sfq"), total(&parts))?;
        self.task(format!("fastqSplit_{sequence}"), "fastqSplit", SPLIT, vec![reads.0], ids(&parts))?;
        let mut maps = Vec::with_capacity(chunks);
        for (chunk, part) in (1..).zip(parts) {
            maps.push(self.chunk(&format!("{sequence}_{chunk}"), part)?);
        }
        let merged = self.file(&format!("s{sequence}.map"), total(&maps))?;
        self.task(format!("mapMerge_{sequence}"), "mapMerge", MERGE, ids(&maps), vec![merged.0])?;
        Ok(merged)
    }

    /// The pipeline of one chunk; returns its map.
    fn chunk(&mut self, chunk: &str, part: SizedFile) -> Result<SizedFile> {
        let filtered = self.step(chunk, "filterContams", FILTER, part, ("nocontam.sfq", FILTERED))?;
        let sanger = self.step(chunk, "sol2sanger", TO_SANGER, filtered, ("nocontam.fq", SANGER))?;
        let bfq = self.step(chunk, "fastq2bfq", TO_BFQ, sanger, ("nocontam.bfq", BFQ))?;
        let map = self.file(&format!("{chunk}.nocontam.map"), bfq.1 * MAPPED)?;
        self.task(format!("map_{chunk}"), "map", MAP, vec![bfq.0, self.genome], vec![map.0])?;
        Ok(map)
    }

    fn step(
        &mut self,
        chunk: &str,
        kind: &str,
        time: LogNormal,
        input: SizedFile,
        (suffix, left): (&str, f64),
    ) -> Result<SizedFile> {
        let output = self.file(&format!("{chunk}.{suffix}"), input.1 * left)?;
        self.task(format!("{kind}_{chunk}"), kind, time, vec![input.0], vec![output.0])?;
        Ok(output)
    }

    fn finish(&mut self, merged: &[SizedFile]) -> Result<()> {
        let bytes = total(merged);
        let all = self.file("all.map", bytes)?;
        let indexed = self.file("all.indexed.map", bytes)?;
        let pileup = self.file("all.pileup", bytes * 0.5)?;
        self.task("mapMerge_all".into(), "mapMerge", MERGE, ids(merged), vec![all.0])?;
        self.task("maqIndex".into(), "maqIndex", INDEX, vec![all.0], vec![indexed.0])?;
        self.task("pileup".into(), "pileup", PILEUP, vec![indexed.0, self.genome], vec![pileup.0])
    }

    fn file(&mut self, name: &str, bytes: f64) -> Result<SizedFile> {
        let bytes = bytes.round();
        Ok((self.job.file(name, bytes)?, bytes))
    }

    fn task(
        &mut self,
        name: String,
        kind: &str,
        time: LogNormal,
        inputs: Vec<FileId>,
        outputs: Vec<FileId>,
    ) -> Result<()> {
        let mut task = Task::new(name).kind(kind).seconds(time.draw(self.rng));
        task.inputs = inputs;
        task.outputs = outputs;
        self.job.task(task)?;
        Ok(())
    }
}

fn ids(files: &[SizedFile]) -> Vec<FileId> {
    files.iter().map(|file| file.0).collect()
}

fn total(files: &[SizedFile]) -> f64 {
    files.iter().map(|file| file.1).sum()
}
