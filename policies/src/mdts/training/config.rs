//! The settings of a training.

use serde::{Deserialize, Serialize};

use crate::learn::{Error, Result};

/// What is learnt at a time of a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// To plan as a search does.
    Imitation,
    /// To plan, from what would have come of other choices.
    #[default]
    Lessons,
    /// To run jobs.
    Runs,
}

/// How to train.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Rounds in which plans that a search has found are imitated.
    pub imitation: u64,
    /// Trials of the search per job.
    pub search: u64,
    /// Rounds of lessons and updates after that.
    pub rounds: u64,
    /// Generations after that, in which runs are learnt.
    pub generations: u64,
    /// Pairs of runs per generation.
    pub pairs: usize,
    /// Standard deviation of the shifts of weights that are tried in runs.
    pub shift: f64,
    /// Step size of the generations at the beginning; it falls to a twentieth along a half cosine.
    pub stride: f64,
    /// Runs on which progress is measured.
    pub trials: usize,
    /// Jobs per round.
    pub jobs: usize,
    /// Updates per round.
    pub updates: usize,
    /// Lessons per update.
    pub batch: usize,
    /// Lessons that are kept.
    pub memory: usize,
    /// Step size at the beginning; it falls to a twentieth along a half cosine.
    pub rate: f64,
    /// Nodes of a cluster at most.
    pub nodes: usize,
    /// Rounds or generations from one measurement to the next. It tells which weights of plans can be the best.
    pub measure: u64,
    /// Share of jobs from which runs, rather than plans, are learnt.
    pub runs: f64,
    /// Share of the latest weights in the running average, per update.
    pub share: f64,
    /// What the mean square of learnt changes to scores costs, in percent of the makespan: what one choice does is mostly
    /// chance, and a change must show in many.
    pub ridge: f64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            imitation: 80,
            search: 5000,
            rounds: 1000,
            generations: 300,
            pairs: 512,
            shift: 0.2,
            stride: 0.03,
            trials: 600,
            jobs: 32,
            updates: 8,
            batch: 256,
            memory: 100_000,
            rate: 1e-3,
            nodes: 128,
            measure: 20,
            runs: 0.0,
            share: 0.01,
            ridge: 0.02,
        }
    }
}

impl TrainConfig {
    /// Rounds in which plans are learnt: of imitation and of lessons.
    pub(super) fn planning(&self) -> u64 {
        self.imitation + self.rounds
    }

    /// Rounds and generations in all.
    pub fn steps(&self) -> u64 {
        self.planning() + self.generations
    }

    /// Whether the weights are measured after so many rounds and generations.
    pub fn measures(&self, done: u64) -> bool {
        done.is_multiple_of(self.measure) || done == self.steps()
    }

    /// What a round or generation after so many others is for.
    pub(super) fn phase(&self, done: u64) -> Phase {
        if done < self.imitation {
            Phase::Imitation
        } else if done < self.planning() {
            Phase::Lessons
        } else {
            Phase::Runs
        }
    }

    /// Most jobs per round: each has a stream of random numbers of its own.
    const MOST_JOBS: usize = 10_000;
    /// Most nodes of a cluster.
    const MOST_NODES: usize = 4096;

    /// Checks that one can train like this.
    ///
    /// # Errors
    /// [`Error::Setting`] naming what is out of range.
    pub fn check(&self) -> Result<()> {
        let is_share = |x: f64| (0.0..=1.0).contains(&x);
        let is_size = |x: f64| x > 0.0 && x <= 10.0;
        let rules = [
            (self.search > 0, "trials of the search", self.search.to_string(), "at least 1"),
            (self.rounds > 0, "rounds", self.rounds.to_string(), "at least 1"),
            (
                (1..=Self::MOST_JOBS).contains(&self.jobs),
                "jobs per round",
                self.jobs.to_string(),
                "1 to 10000",
            ),
            (
                (1..=Self::MOST_JOBS).contains(&self.pairs),
                "pairs of runs",
                self.pairs.to_string(),
                "1 to 10000",
            ),
            (is_size(self.shift), "shift", self.shift.to_string(), "more than 0, up to 10"),
            (is_size(self.stride), "stride", self.stride.to_string(), "more than 0, up to 10"),
            ((1..=Self::MOST_JOBS).contains(&self.trials), "trials", self.trials.to_string(), "1 to 10000"),
            (self.batch > 0, "batch", self.batch.to_string(), "at least 1"),
            (self.memory >= self.batch, "memory", self.memory.to_string(), "at least as many as the batch"),
            (
                self.rate > 0.0 && self.rate < 1.0,
                "rate",
                self.rate.to_string(),
                "more than 0 and less than 1",
            ),
            ((2..=Self::MOST_NODES).contains(&self.nodes), "nodes", self.nodes.to_string(), "2 to 4096"),
            (
                self.measure > 0,
                "rounds from one measurement to the next",
                self.measure.to_string(),
                "at least 1",
            ),
            (is_share(self.runs), "runs", self.runs.to_string(), "a share from 0 to 1"),
            (
                is_share(self.share) && self.share > 0.0,
                "share",
                self.share.to_string(),
                "more than 0, up to 1",
            ),
            (
                self.ridge >= 0.0 && self.ridge.is_finite(),
                "ridge",
                self.ridge.to_string(),
                "a finite number of at least 0",
            ),
        ];
        match rules.into_iter().find(|rule| !rule.0) {
            Some((_, what, found, expected)) => Err(Error::Setting { what, found, expected }),
            None => Ok(()),
        }
    }
}
