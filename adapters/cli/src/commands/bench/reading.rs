//! Reading a workflow file measured, against nothing but inflating where it is packed.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use mdts_dag::format;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::usage::{self, Meter};

/// Bytes of a mebibyte.
pub(super) const MIB: f64 = 1024.0 * 1024.0;

/// What was measured. Speeds count unpacked bytes over processor time.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReadRow {
    pub(super) file: String,
    pub(super) tasks: usize,
    pub(super) edges: usize,
    pub(super) bytes: usize,
    /// In the file, if it is packed.
    pub(super) packed_bytes: Option<usize>,
    /// Median wall time from opening the file to the validated graph.
    pub(super) read_seconds: f64,
    pub(super) read_cpu_seconds: f64,
    pub(super) megabytes_per_second: f64,
    pub(super) repeats: usize,
    /// Median wall time from opening the file to the end of its text, which is inflated and dropped piece by piece.
    pub(super) inflate_seconds: Option<f64>,
    /// The same as a speed.
    pub(super) inflate_megabytes_per_second: Option<f64>,
    /// Peak resident memory of the process after the first reading.
    pub(super) peak_memory_mib: Option<f64>,
    /// The same over the unpacked size.
    pub(super) peak_over_bytes: Option<f64>,
}

/// Reads a file often enough for a median.
///
/// # Errors
/// Those of [`format::read_path`].
pub(super) fn measure(file: &Path) -> Result<ReadRow> {
    let job = format::read_path(file)?;
    let (tasks, edges) = (job.len(), job.dependency_count());
    let peak = usage::peak_mib();
    drop(job);
    let timing = Timing::of(|| format::read_path(file))?;
    let size =
        fs::metadata(file).map_err(|source| Error::Input { path: file.into(), source })?.len() as usize;
    let inflating = inflate(file).map_err(|source| Error::Input { path: file.into(), source })?;
    let bytes = inflating.as_ref().map_or(size, |(bytes, _)| *bytes);
    let speed = |seconds: f64| bytes as f64 / 1e6 / seconds;
    Ok(ReadRow {
        file: file.display().to_string(),
        tasks,
        edges,
        bytes,
        packed_bytes: inflating.is_some().then_some(size),
        read_seconds: timing.wall,
        read_cpu_seconds: timing.cpu,
        megabytes_per_second: speed(timing.cpu),
        repeats: timing.repeats,
        inflate_seconds: inflating.as_ref().map(|(_, timing)| timing.wall),
        inflate_megabytes_per_second: inflating.map(|(_, timing)| speed(timing.cpu)),
        peak_memory_mib: peak,
        peak_over_bytes: peak.map(|peak| peak * MIB / bytes as f64),
    })
}

/// The unpacked size, and how long unpacking takes; `None` if the file is not packed.
fn inflate(file: &Path) -> io::Result<Option<(usize, Timing)>> {
    if !fs::read(file)?.starts_with(b"\x1f\x8b") {
        return Ok(None);
    }
    let (mut bytes, mut piece) = (0, vec![0; 1 << 16]);
    let timing = Timing::of(|| {
        let packed = fs::read(file)?;
        let mut text = MultiGzDecoder::new(&packed[..]);
        bytes = 0;
        loop {
            match text.read(&mut piece)? {
                0 => return io::Result::Ok(()),
                read => bytes += read,
            }
        }
    })?;
    Ok(Some((bytes, timing)))
}

/// Median seconds of some work.
#[derive(Debug)]
pub(super) struct Timing {
    pub(super) wall: f64,
    pub(super) cpu: f64,
    pub(super) repeats: usize,
}

impl Timing {
    /// Repeats the work for half a second, at least 3 and at most 1000 times.
    ///
    /// # Errors
    /// The work's own.
    pub(super) fn of<T, E>(mut work: impl FnMut() -> Result<T, E>) -> Result<Self, E> {
        const ENOUGH: f64 = 0.5;
        const MOST: usize = 1000;
        let (mut walls, mut cpus) = (Vec::new(), Vec::new());
        let all = Instant::now();
        while walls.len() < 3 || all.elapsed().as_secs_f64() < ENOUGH && walls.len() < MOST {
            let (begin, meter) = (Instant::now(), Meter::begin());
            let done = work()?;
            cpus.push(meter.cpu_seconds());
            walls.push(begin.elapsed().as_secs_f64());
            drop(done);
        }
        let repeats = walls.len();
        Ok(Self { wall: median(walls), cpu: median(cpus), repeats })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_repeated() {
        let mut calls = 0;
        let timing = Timing::of(|| {
            calls += 1;
            std::thread::sleep(std::time::Duration::from_millis(200));
            Ok::<_, ()>(())
        });
        let timing = timing.unwrap();
        assert_eq!((timing.repeats, calls), (3, 3));
        assert!(timing.wall >= timing.cpu);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
