//! What the simulated world does that no plan knows.

use mdts_dag::KindId;
use rand::{Rng as _, SeedableRng};

use crate::engine::{Backoff, Speculation, TaskRun};
use crate::{Error, Instance, NodeId, Result, Rng};

/// Conditions of a simulation. The default is ideal: everything happens as the instance says, and every task is begun once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conditions {
    /// Seed of all that is drawn.
    pub seed: u64,
    /// Sigma of lognormal run-time factors with mean 1, one per task.
    pub noise: f64,
    /// Hidden factor on run times per node and task kind, uniform in 1 +- this (0 to below 1).
    pub affinity: f64,
    /// Transfers share the network by max-min fairness, and begin when producer and consumer's node are known.
    pub contention: bool,
    /// Nodes fail and come back.
    pub failures: Option<Failures>,
    /// Hidden factors on all run times on some nodes.
    pub slowdowns: Vec<(NodeId, f64)>,
    /// Tasks that run for too long get a second attempt. It fetches its inputs itself when it begins, beside whatever
    /// else the network carries.
    pub speculation: Option<Speculation>,
    /// Probability that an attempt fails at its end. The task is repeated as often as its retries allow; then it has
    /// failed for good, and what depends on it never runs.
    pub faults: f64,
    /// How long tasks rest after such a failure.
    pub backoff: Backoff,
}

/// When nodes fail: exponentially distributed times, each node on its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Failures {
    /// Mean seconds from (re)joining to the next failure.
    pub mean_between: f64,
    /// Seconds that a node stays away.
    pub repair: f64,
    /// Most failures per node, so that every job ends.
    pub most: u32,
}

impl Conditions {
    /// Checks all ranges.
    ///
    /// # Errors
    /// [`Error::BadSetting`].
    pub fn check(&self) -> Result<()> {
        let bad =
            |what, value: f64, expected| Err(Error::BadSetting { what, value: value.to_string(), expected });
        if !(0.0..=5.0).contains(&self.noise) {
            return bad("noise", self.noise, "a sigma from 0 to 5");
        }
        if !(0.0..1.0).contains(&self.affinity) {
            return bad("affinity", self.affinity, "a number from 0 to below 1");
        }
        if !(0.0..1.0).contains(&self.faults) {
            return bad("probability of a failure", self.faults, "a number from 0 to below 1");
        }
        self.backoff.check()?;
        if let Some((_, factor)) = self.slowdowns.iter().find(|(_, f)| !(*f > 0.0 && f.is_finite())) {
            return bad("slowdown", *factor, "a number above 0");
        }
        self.speculation.map_or(Ok(()), |speculation| speculation.check())?;
        if let Some(f) = self.failures {
            if f.mean_between.is_nan() || f.mean_between <= 0.0 {
                return bad("mean time between failures", f.mean_between, "more than 0 seconds");
            }
            if !(f.repair >= 0.0 && f.repair.is_finite()) {
                return bad("repair time", f.repair, "at least 0 seconds");
            }
        }
        Ok(())
    }

    /// A generator for one purpose, independent of all others.
    fn generator(&self, purpose: u64) -> Rng {
        let mut rng = Rng::seed_from_u64(self.seed);
        rng.set_stream(purpose);
        rng
    }

    /// Noise factor of every task of the `job`-th job.
    pub(super) fn noise_factors(&self, instance: &Instance, job: usize) -> Vec<f64> {
        if self.noise == 0.0 {
            return Vec::new();
        }
        let mut rng = self.generator(1 << 62 | job as u64);
        (0..instance.tasks())
            .map(|_| (self.noise * normal(&mut rng) - self.noise.powi(2) / 2.0).exp())
            .collect()
    }

    /// Affinity factor of every kind (row) on every node.
    pub(super) fn affinity_factors(&self, instance: &Instance) -> Vec<f64> {
        if self.affinity == 0.0 {
            return Vec::new();
        }
        let kinds = instance.graph().kinds().iter();
        kinds
            .flat_map(|kind| {
                let mut rng = self.generator(stable_hash(kind) >> 2);
                (0..instance.nodes())
                    .map(|_| 1.0 + self.affinity * rng.random_range(-1.0..=1.0))
                    .collect::<Vec<f64>>()
            })
            .collect()
    }

    /// Slowdown of every node.
    fn slowdown_factors(&self, nodes: usize) -> Vec<f64> {
        if self.slowdowns.is_empty() {
            return Vec::new();
        }
        let mut factors = vec![1.0; nodes];
        for (node, factor) in &self.slowdowns {
            if let Some(of_node) = factors.get_mut(node.index()) {
                *of_node *= factor;
            }
        }
        factors
    }

    /// Whether an attempt fails.
    pub(super) fn fails(&self, run: TaskRun) -> bool {
        if self.faults == 0.0 {
            return false;
        }
        let mut rng = self.generator(1 << 61 | u64::from(run.job.get()));
        rng.set_word_pos(u128::from(run.task.get()) << 32 | u128::from(run.attempt) << 4);
        rng.random_bool(self.faults)
    }

    /// Generator of one node's failure times.
    pub(super) fn failure_generator(&self, node: NodeId) -> Rng {
        self.generator(1 << 63 | u64::from(node.get()))
    }
}

impl Failures {
    /// Seconds until the next failure.
    pub(super) fn next(&self, rng: &mut Rng) -> f64 {
        -self.mean_between * (1.0 - rng.random::<f64>()).ln()
    }
}

/// Run-time factors of one job.
#[derive(Debug, Clone)]
pub(super) struct Factors {
    noise: Vec<f64>,
    affinity: Vec<f64>,
    /// Per node; empty if there are none.
    slowdowns: Vec<f64>,
    nodes: usize,
}

impl Factors {
    pub(super) fn new(conditions: &Conditions, instance: &Instance, job: usize) -> Self {
        Self {
            noise: conditions.noise_factors(instance, job),
            affinity: conditions.affinity_factors(instance),
            slowdowns: conditions.slowdown_factors(instance.nodes()),
            nodes: instance.nodes(),
        }
    }

    pub(super) fn of(&self, task: usize, kind: KindId, node: NodeId) -> f64 {
        let noise = self.noise.get(task).copied().unwrap_or(1.0);
        let slowdown = self.slowdowns.get(node.index()).copied().unwrap_or(1.0);
        slowdown * noise * self.affinity.get(kind.index() * self.nodes + node.index()).copied().unwrap_or(1.0)
    }
}

/// A standard normal number (Box-Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// FNV-1a: the same on every machine and in every version.
fn stable_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
