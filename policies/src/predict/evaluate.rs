//! How good predictions are on workflows that were not learnt: every instance in turn is left out.

use std::collections::BTreeMap;

use mdts_dag::{JobGraph, Work};

use super::model::median;
use super::{Error, Features, Method, Predictor, Result};

/// What was said of one task of the instance left out, and what was true; seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Position of the instance.
    pub instance: usize,
    /// What was measured.
    pub actual: f64,
    /// By the chosen model.
    pub predicted: f64,
    /// Four in five are expected between these.
    pub interval: (f64, f64),
    /// By the median of the same discovered type: the same types without models.
    pub type_median: f64,
    /// By the mean of the kind, or of all tasks if the kind is new.
    pub kind_mean: f64,
    /// By the median of the kind, or of all tasks if the kind is new.
    pub kind_median: f64,
}

/// Median absolute errors, as parts of the measured run time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Tasks that count: run times of 0 have no relative error.
    pub tasks: usize,
    /// Of the chosen model.
    pub predicted: f64,
    /// Of the type's median.
    pub type_median: f64,
    /// Of the kind's mean.
    pub kind_mean: f64,
    /// Of the kind's median.
    pub kind_median: f64,
    /// Part of the run times that lie in their 80 % interval.
    pub covered: f64,
}

/// Leaves out every instance in turn and predicts its tasks from all others.
///
/// `known_before` hides from the tasks to be predicted what is often known only after a run: memory and the bytes
/// written.
///
/// # Errors
/// [`Error::TooFewRuns`] with fewer than two instances with run times.
pub fn leave_one_out(jobs: &[JobGraph], known_before: bool, seed: u64) -> Result<Vec<Trial>> {
    let instances: Vec<Vec<Known<'_>>> = jobs.iter().map(known).collect();
    let found = instances.iter().filter(|tasks| !tasks.is_empty()).count();
    if found < 2 {
        return Err(Error::TooFewRuns { found });
    }
    let mut trials = Vec::new();
    for (left_out, tasks) in instances.iter().enumerate() {
        let others = instances.iter().enumerate().filter(|(i, _)| *i != left_out).map(|(_, tasks)| tasks);
        let (mut chosen, mut medians) =
            (Predictor::new(seed), Predictor::with_methods(seed, &[Method::Median]));
        let mut kinds = Kinds::default();
        for other in others {
            for predictor in [&mut chosen, &mut medians] {
                predictor.begin_run();
                other.iter().try_for_each(|(kind, f, seconds)| predictor.observe(kind, *f, *seconds))?;
            }
            for (kind, _, seconds) in other {
                kinds.add(kind, *seconds);
            }
        }
        let kinds = kinds.summary();
        for (kind, features, actual) in tasks {
            let mut features = *features;
            if known_before {
                (features.memory, features.output_bytes) = (0.0, 0.0);
            }
            let prediction = chosen.predict(kind, &features)?;
            let (kind_mean, kind_median) = kinds.of(kind);
            trials.push(Trial {
                instance: left_out,
                actual: *actual,
                predicted: prediction.seconds,
                interval: prediction.interval(),
                type_median: medians.predict(kind, &features)?.seconds,
                kind_mean,
                kind_median,
            });
        }
    }
    Ok(trials)
}

/// Summarises trials; errors of no trials are NaN.
pub fn score<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Score {
    let trials: Vec<&Trial> = trials.into_iter().filter(|trial| trial.actual > 0.0).collect();
    let error = |said: fn(&Trial) -> f64| {
        median(&mut trials.iter().map(|t| (said(t) - t.actual).abs() / t.actual).collect::<Vec<_>>())
    };
    let inside = trials.iter().filter(|t| (t.interval.0..=t.interval.1).contains(&t.actual)).count();
    Score {
        tasks: trials.len(),
        predicted: error(|t| t.predicted),
        type_median: error(|t| t.type_median),
        kind_mean: error(|t| t.kind_mean),
        kind_median: error(|t| t.kind_median),
        covered: inside as f64 / trials.len() as f64,
    }
}

/// The median over instances of each instance's score, so that large ones count no more than small ones.
pub fn typical_score(trials: &[Trial]) -> Score {
    let by_instance = trials.chunk_by(|a, b| a.instance == b.instance);
    let scores: Vec<Score> = by_instance.map(score).filter(|score| score.tasks > 0).collect();
    let middle = |of: fn(&Score) -> f64| median(&mut scores.iter().map(of).collect::<Vec<_>>());
    Score {
        tasks: scores.iter().map(|s| s.tasks).sum(),
        predicted: middle(|s| s.predicted),
        type_median: middle(|s| s.type_median),
        kind_mean: middle(|s| s.kind_mean),
        kind_median: middle(|s| s.kind_median),
        covered: middle(|s| s.covered),
    }
}

type Known<'a> = (&'a str, Features, f64);

/// The tasks whose run time is stated.
fn known(job: &JobGraph) -> Vec<Known<'_>> {
    let tasks = job.tasks().zip(Features::of_job(job));
    let known = tasks.filter_map(|(task, features)| match task.work {
        Work::Seconds(seconds) => Some((&*task.kind, features, seconds)),
        _ => None,
    });
    known.collect()
}

/// Run times by kind, and all of them.
#[derive(Default)]
struct Kinds<'a> {
    of: BTreeMap<&'a str, Vec<f64>>,
    all: Vec<f64>,
}

impl<'a> Kinds<'a> {
    fn add(&mut self, kind: &'a str, seconds: f64) {
        self.of.entry(kind).or_default().push(seconds);
        self.all.push(seconds);
    }

    fn summary(mut self) -> Summary<'a> {
        let summary = |times: &mut [f64]| (times.iter().sum::<f64>() / times.len() as f64, median(times));
        let of = self.of.iter_mut().map(|(kind, times)| (*kind, summary(times))).collect();
        Summary { of, all: summary(&mut self.all) }
    }
}

/// Mean and median by kind.
struct Summary<'a> {
    of: BTreeMap<&'a str, (f64, f64)>,
    all: (f64, f64),
}

impl Summary<'_> {
    fn of(&self, kind: &str) -> (f64, f64) {
        self.of.get(kind).copied().unwrap_or(self.all)
    }
}
