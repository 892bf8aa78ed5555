//! How long jobs really run: learnt from those that have ended, by user and kind of name, since time limits tell little.

use std::collections::BTreeSet;

use mdts_policies::predict::{Features, Predictor};

use crate::brain::View;
use crate::{JobId, JobRecord, JobState, spell};

/// Fewer runs of a kind teach nothing.
const FEWEST: usize = 3;
/// No more runs are kept in mind.
const MOST: usize = 100_000;

/// What is known of run times.
#[derive(Debug)]
pub struct Durations {
    predictor: Predictor,
    /// Those learnt from that Slurm still remembers.
    learnt: BTreeSet<(JobId, Option<u64>)>,
}

impl Durations {
    /// Begins with what a predictor knows.
    pub fn new(mut predictor: Predictor) -> Self {
        predictor.begin_run();
        Self { predictor, learnt: BTreeSet::new() }
    }

    /// Learns from jobs that have succeeded since the last time.
    pub(super) fn learn(&mut self, jobs: &[JobRecord], view: &View) {
        let ended = jobs.iter().filter(|job| job.state == JobState::Completed);
        let mut seen = BTreeSet::new();
        for job in ended {
            let key = (job.id, job.ended);
            seen.insert(key);
            let (Some(began), Some(ended)) = (job.began, job.ended) else { continue };
            if !self.learnt.contains(&key) && self.predictor.samples() < MOST {
                // A second is the least that Slurm measures.
                let seconds = ended.saturating_sub(began).max(1) as f64;
                // Only what is no number is refused, and these are.
                _ = self.predictor.observe(&kind(job), features(job, view), seconds);
            }
        }
        self.learnt = seen;
    }

    /// Seconds that a job is expected to run: on its node if it runs, else at speed 1; never more than its time limit.
    pub(super) fn expect(&self, job: &JobRecord, view: &View) -> Option<f64> {
        let kind = kind(job);
        self.predictor.kinds().find(|(known, samples)| *known == kind && *samples >= FEWEST)?;
        let predicted = self.predictor.predict(&kind, &features(job, view)).ok()?.seconds;
        let limit = job.limit_seconds.map_or(f64::INFINITY, |limit| limit as f64);
        Some(predicted.min(limit))
    }
}

fn kind(job: &JobRecord) -> String {
    format!("{}/{}", job.user, mdts_dag::Task::new(job.name.as_str()).kind)
}

fn features(job: &JobRecord, view: &View) -> Features {
    let node = spell::hosts(&job.nodes).and_then(|hosts| view.node(hosts.first()?));
    Features {
        cores: f64::from(job.cpus.max(1)),
        speed: node.map_or(1.0, |at| view.nodes[at].speed),
        ..Features::default()
    }
}
