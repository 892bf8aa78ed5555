//! What was observed: the run times of tasks by kind, and the file that keeps them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use mdts_dag::whole;
use serde::{Deserialize, Serialize};

use super::features::{COLUMNS, Features};
use super::{Error, Result};

/// The version of the file, and with it of the columns.
const VERSION: u64 = 1;
/// Most samples of a kind. Beyond, every second is dropped, so that what is left spreads over all runs.
const MOST: usize = 4096;
/// Added to seconds before their logarithm is taken: run times of 0 are measured, too.
const INSTANT: f64 = 1e-3;
/// The longest run time accepted, as for the work of a task.
const LONGEST: f64 = 1e18;

/// One task that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    /// Samples of one run have the same number.
    pub(super) run: u32,
    /// On its node.
    pub(super) seconds: f64,
    pub(super) features: Features,
    /// Where it ran, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) on: Option<Place>,
}

/// Where a task ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    /// The name of the node.
    pub(super) node: Arc<str>,
    /// Seconds that the job expected there.
    pub(super) expected: f64,
}

impl Sample {
    /// What models predict: the logarithm of the run time on a node of speed 1.
    pub(super) fn target(&self) -> f64 {
        (self.seconds * self.features.speed + INSTANT).ln()
    }
}

/// Seconds on a node of this speed, from what a model predicted.
pub(super) fn seconds(target: f64, speed: f64) -> f64 {
    ((target.exp() - INSTANT).max(0.0) / speed).min(LONGEST)
}

/// All samples by kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct History {
    pub(super) runs: u32,
    pub(super) kinds: BTreeMap<String, Vec<Sample>>,
}

/// What the file holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    mdts_history: u64,
    columns: Vec<String>,
    runs: u32,
    kinds: BTreeMap<String, Vec<Sample>>,
}

/// What is read first, so that another version is not blamed for its other keys.
#[derive(Debug, Deserialize)]
struct Version {
    mdts_history: u64,
}

impl History {
    /// Adds a sample to its kind, whose samples are at most 4096.
    pub(super) fn add(&mut self, kind: &str, sample: Sample) -> Result<()> {
        check(kind, &sample)?;
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.into(), Vec::new());
        }
        if let Some(samples) = self.kinds.get_mut(kind) {
            samples.push(sample);
            if samples.len() > MOST {
                let mut keep = false;
                samples.retain(|_| {
                    keep = !keep;
                    keep
                });
            }
        }
        Ok(())
    }

    /// All samples of some kinds.
    pub(super) fn of<'a>(&'a self, kinds: &'a [String]) -> impl Iterator<Item = &'a Sample> {
        kinds.iter().filter_map(|kind| self.kinds.get(kind)).flatten()
    }

    pub(super) fn to_json(&self) -> String {
        let document = Document {
            mdts_history: VERSION,
            columns: COLUMNS.map(String::from).into(),
            runs: self.runs,
            kinds: self.kinds.clone(),
        };
        serde_json::to_string(&document).unwrap_or_default() // only maps without text keys can fail
    }

    pub(super) fn from_json(text: &str) -> Result<Self> {
        let parse = |error: serde_json::Error| Error::Parse { message: error.to_string() };
        let found = serde_json::from_str::<Version>(text).map_err(parse)?.mdts_history;
        if found != VERSION {
            return Err(Error::Version { found, expected: VERSION });
        }
        let document: Document = serde_json::from_str(text).map_err(parse)?;
        if document.columns != COLUMNS {
            let message = format!("the columns are {:?}; expected {COLUMNS:?}", document.columns);
            return Err(Error::Parse { message });
        }
        for (kind, samples) in &document.kinds {
            samples.iter().try_for_each(|sample| check(kind, sample))?;
        }
        Ok(Self { runs: document.runs, kinds: document.kinds })
    }

    /// Writes a file that is always whole.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let written = whole::write(path, |file| file.write_all(self.to_json().as_bytes()));
        written.map_err(|source| Error::Io { path: path.into(), source })
    }

    pub(super) fn load(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|source| Error::Io { path: path.into(), source })?;
        let text = str::from_utf8(&bytes).map_err(|error| Error::Parse { message: error.to_string() });
        text.and_then(Self::from_json)
            .map_err(|source| Error::InFile { path: path.into(), source: Box::new(source) })
    }
}

fn check(kind: &str, sample: &Sample) -> Result<()> {
    if !(0.0..=LONGEST).contains(&sample.seconds) {
        return Err(Error::BadNumber {
            kind: kind.into(),
            what: "run time in seconds",
            value: sample.seconds,
        });
    }
    if let Some(place) = sample.on.as_ref().filter(|place| !(0.0..=LONGEST).contains(&place.expected)) {
        return Err(Error::BadNumber {
            kind: kind.into(),
            what: "expected run time in seconds",
            value: place.expected,
        });
    }
    sample.features.check(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(run: u32, seconds: f64) -> Sample {
        let features = Features { input_bytes: 0.1 + 0.2, ..Features::default() };
        Sample { run, seconds, features, on: None }
    }

    fn history() -> History {
        let mut history = History { runs: 2, ..History::default() };
        for (kind, run, seconds) in [("a", 1, 1.0 / 3.0), ("b", 1, 0.0), ("a", 2, 1e17 + 0.1)] {
            history.add(kind, sample(run, seconds)).unwrap();
        }
        let place = Place { node: "m0".into(), expected: 0.25 };
        history.add("c", Sample { on: Some(place), ..sample(2, 2.0) }).unwrap();
        history
    }

    #[test]
    fn files_come_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.json");
        std::fs::write(&path, "old").unwrap();
        history().save(&path).unwrap();
        assert_eq!(History::load(&path).unwrap(), history());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        let nowhere = folder.path().join("none/history.json");
        assert!(matches!(history().save(&nowhere), Err(Error::Io { .. })));
        assert!(matches!(History::load(&nowhere), Err(Error::Io { .. })));
    }

    #[test]
    fn every_truncation_is_refused() {
        let text = history().to_json();
        for end in 0..text.len() {
            assert!(History::from_json(&text[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn damage_is_named() {
        let text = history().to_json();
        let table = [
            ("\"mdts_history\":1", "\"mdts_history\":2", "version 2"),
            ("\"mdts_history\":1", "\"mdts_history\":1,\"more\":1", "unknown field `more`"),
            ("\"gpus\"", "\"tpus\"", "columns"),
            ("\"seconds\":0.0", "\"seconds\":-1.0", "'b': run time in seconds is -1"),
            ("\"seconds\":0.0", "\"seconds\":null", "null"),
            ("\"expected\":0.25", "\"expected\":-2.0", "'c': expected run time in seconds is -2"),
            ("\"seconds\":0.0", "\"seconds\":1e999", "number out of range"),
        ];
        for (from, to, message) in table {
            assert!(text.contains(from), "{from}");
            let error = History::from_json(&text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(message), "{to}: {error}");
        }
    }

    #[test]
    fn a_kind_keeps_samples_of_all_runs() {
        let mut history = History::default();
        for run in 0..10_000 {
            history.add("a", sample(run, 1.0)).unwrap();
        }
        let samples = &history.kinds["a"];
        assert!((MOST / 2..=MOST).contains(&samples.len()), "{}", samples.len());
        assert!(samples[0].run == 0 && samples[samples.len() - 1].run == 9999);
        assert!(samples.windows(2).all(|pair| pair[1].run - pair[0].run <= 8));
    }

    #[test]
    fn seconds_and_targets_belong_together() {
        for (time, speed) in [(0.0, 1.0), (0.001, 2.0), (3.0, 0.5), (1e6, 4.0)] {
            let features = Features { speed, ..Features::default() };
            let target = Sample { run: 0, seconds: time, features, on: None }.target();
            assert!((seconds(target, speed) - time).abs() <= 1e-9 * time + 1e-12, "{time}");
        }
    }
}
