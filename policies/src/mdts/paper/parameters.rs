//! The parameters of the environment. They were declared before any training was tuned, and stay as they are.

use std::fmt::Display;

use serde::Serialize;

use crate::learn::{Error, Result};

/// Nodes, jobs and rewards. Numbers in pairs are the ends of uniform distributions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameters {
    /// Nodes of the cluster, N.
    pub nodes: usize,
    /// Parallel child tasks of every job, K.
    pub child_tasks: usize,
    /// How far hidden factors on execution speeds, one per node and kind of task, lie from 1: uniform in 1 - x to 1 +
    /// x. No policy sees them.
    pub affinity: f64,
    /// Kinds of child tasks; each child task is of a random one.
    pub kinds: usize,
    /// Work per second of a node.
    pub speed: [f64; 2],
    /// Data per second into a node.
    pub bandwidth: [f64; 2],
    /// What a busy second of a node costs: `base_price + speed^2 * price_by_speed`.
    pub base_price: f64,
    /// See `base_price`.
    pub price_by_speed: [f64; 2],
    /// Work of a child task.
    pub work: [f64; 2],
    /// Data that must reach the node before a child task starts.
    pub data: [f64; 2],
    /// Mean work that arrives per second over the sum of speeds. Gaps between jobs are exponential.
    pub utilisation: f64,
    /// Jobs until the queues are emptied.
    pub episode_jobs: usize,
    /// What a job execution time, a load imbalance value and a total cost of 1 take from the reward.
    pub penalties: [f64; 3],
}

impl Default for Parameters {
    /// Ten nodes, four child tasks, affinity 0.4.
    fn default() -> Self {
        Self {
            nodes: 10,
            child_tasks: 4,
            affinity: 0.4,
            kinds: 3,
            speed: [0.5, 2.0],
            bandwidth: [1.0, 4.0],
            base_price: 0.2,
            price_by_speed: [0.3, 0.7],
            work: [0.5, 3.0],
            data: [0.2, 2.0],
            utilisation: 0.6,
            episode_jobs: 50,
            // Weights 1, 0.5 and 0.5 of values scaled by 4 s, 2 s and 4.
            penalties: [0.25, 0.25, 0.125],
        }
    }
}

impl Parameters {
    /// How many ways there are to place a job, N^K.
    pub fn joint_actions(&self) -> u64 {
        u32::try_from(self.child_tasks).map_or(u64::MAX, |k| (self.nodes as u64).saturating_pow(k))
    }

    /// Refuses what makes no environment.
    pub(super) fn check(&self) -> Result<()> {
        for (what, count) in [
            ("nodes", self.nodes),
            ("child_tasks", self.child_tasks),
            ("kinds", self.kinds),
            ("episode_jobs", self.episode_jobs),
        ] {
            refuse_unless(count > 0, what, &count, "at least 1")?;
        }
        let inside = (0.0..1.0).contains(&self.affinity);
        refuse_unless(inside, "affinity", &self.affinity, "at least 0 and below 1")?;
        let positive = self.utilisation > 0.0 && self.utilisation.is_finite();
        refuse_unless(positive, "utilisation", &self.utilisation, "more than 0")?;
        for (what, [low, high]) in [
            ("speed", self.speed),
            ("bandwidth", self.bandwidth),
            ("work", self.work),
            ("data", self.data),
            ("price_by_speed", self.price_by_speed),
        ] {
            let range = low > 0.0 && low <= high && high.is_finite();
            refuse_unless(range, what, &format!("{low} to {high}"), "numbers above 0, the lower first")?;
        }
        Ok(())
    }
}

fn refuse_unless(good: bool, what: &'static str, found: &dyn Display, expected: &'static str) -> Result<()> {
    if good { Ok(()) } else { Err(Error::Setting { what, found: found.to_string(), expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joint_actions_grow_with_a_power() {
        let with = |nodes, child_tasks| Parameters { nodes, child_tasks, ..Default::default() };
        assert_eq!(with(10, 5).joint_actions(), 100_000);
        assert_eq!(with(6, 4).joint_actions(), 1_296);
        assert_eq!(with(10, 100).joint_actions(), u64::MAX);
    }

    #[test]
    fn mistakes_are_named() {
        let good = Parameters::default();
        assert!(good.check().is_ok());
        let table = [
            (Parameters { nodes: 0, ..good.clone() }, "nodes: 0"),
            (Parameters { affinity: 1.0, ..good.clone() }, "affinity: 1"),
            (Parameters { affinity: f64::NAN, ..good.clone() }, "affinity: NaN"),
            (Parameters { utilisation: 0.0, ..good.clone() }, "utilisation: 0"),
            (Parameters { work: [2.0, 1.0], ..good }, "work: 2 to 1"),
        ];
        for (bad, message) in table {
            assert!(bad.check().unwrap_err().to_string().starts_with(message));
        }
    }
}
