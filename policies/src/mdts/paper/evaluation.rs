//! Measures over streams of jobs that are the same for all policies, and statistics over seeds.

use std::sync::Arc;

use mdts_core::Rng;
use rand::{Rng as _, SeedableRng};
use serde::Serialize;

use super::baselines::Baseline;
use super::environment::Episode;
use super::world::World;
use crate::learn::{Error, Result};

/// Means over jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Job execution time in seconds.
    pub time: f64,
    /// Load imbalance value in seconds.
    pub imbalance: f64,
    /// Total cost.
    pub cost: f64,
    /// The reward.
    pub reward: f64,
}

/// One of the measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Job execution time.
    Time,
    /// Load imbalance value.
    Imbalance,
    /// Total cost.
    Cost,
    /// Reward.
    Reward,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Time, Self::Imbalance, Self::Cost, Self::Reward];

    /// Its name with unit in tables and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "job_execution_time",
            Self::Imbalance => "load_imbalance",
            Self::Cost => "total_cost",
            Self::Reward => "reward",
        }
    }

    /// Its value.
    pub fn of(self, metrics: &Metrics) -> f64 {
        match self {
            Self::Time => metrics.time,
            Self::Imbalance => metrics.imbalance,
            Self::Cost => metrics.cost,
            Self::Reward => metrics.reward,
        }
    }
}

/// A number over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Summary {
    /// Of some numbers; NaN, infinity and minus infinity of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let (mut sum, mut count, mut low, mut high) = (0.0, 0_u32, f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            sum += value;
            count += 1;
            low = low.min(value);
            high = high.max(value);
        }
        Self { mean: sum / f64::from(count), low, high }
    }
}

/// How far ours lies above theirs, as a share of theirs: -0.1 is 10 % less. Of rewards, which are negative, less is
/// better, too: it is a smaller loss.
pub fn change(ours: f64, theirs: f64) -> f64 {
    ours / theirs - 1.0
}

/// Runs `episodes` streams side by side. `place` sees all of them and gives a placement for each. The same seed gives
/// the same jobs, whatever is placed.
///
/// # Errors
/// What `place` gives, and [`Error::Size`] if it does not give a placement for each stream.
pub fn evaluate(
    world: &Arc<World>,
    seed: u64,
    episodes: usize,
    mut place: impl FnMut(&[Episode]) -> Result<Vec<Vec<u32>>>,
) -> Result<Metrics> {
    let mut seeds = Rng::seed_from_u64(seed);
    let mut streams: Vec<Episode> =
        (0..episodes).map(|_| Episode::new(world.clone(), seeds.random())).collect();
    let (mut sums, mut jobs) = (Metrics::default(), 0_u32);
    for _ in 0..world.parameters.episode_jobs {
        let placements = place(&streams)?;
        if placements.len() != streams.len() {
            let (what, found) = ("placements".to_owned(), placements.len().to_string());
            return Err(Error::Size { what, found, expected: streams.len().to_string() });
        }
        for (stream, nodes) in streams.iter_mut().zip(placements) {
            let outcome = stream.place(&nodes)?;
            sums.time += outcome.time;
            sums.imbalance += outcome.imbalance;
            sums.cost += outcome.cost;
            sums.reward += world.reward(&outcome);
            jobs += 1;
        }
    }
    let mean = |sum: f64| sum / f64::from(jobs.max(1));
    Ok(Metrics {
        time: mean(sums.time),
        imbalance: mean(sums.imbalance),
        cost: mean(sums.cost),
        reward: mean(sums.reward),
    })
}

impl Baseline {
    /// [`evaluate`] for a rule.
    ///
    /// # Errors
    /// None that its placements could cause.
    pub fn evaluate(self, world: &Arc<World>, seed: u64, episodes: usize) -> Result<Metrics> {
        let mut rng = Rng::seed_from_u64(seed.wrapping_add(1));
        evaluate(world, seed, episodes, |streams| {
            Ok(streams.iter().map(|stream| self.place(stream, &mut rng)).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mdts::paper::queues::tests::pair;

    #[test]
    fn statistics_by_hand() {
        assert_eq!(Summary::of([2.0, 1.0, 6.0]), Summary { mean: 3.0, low: 1.0, high: 6.0 });
        assert!((change(4.5, 5.0) + 0.1).abs() < 1e-12);
        assert!((change(-1.5, -2.0) + 0.25).abs() < 1e-12, "a quarter less loss");
    }

    #[test]
    fn means_are_over_all_jobs_of_all_streams() {
        let world = Arc::new(pair());
        let mut seen = Vec::new();
        let found = evaluate(&world, 4, 3, |streams| {
            seen.extend(streams.iter().map(|s| s.job().clone()));
            Ok(vec![vec![0, 0]; streams.len()])
        });
        let found = found.unwrap();
        assert_eq!(seen.len(), 150);
        // On node 0 of speed 1, price 1 and no affinity, cost is work.
        let work: f64 = seen.iter().flat_map(|job| &job.tasks).map(|task| task.work).sum();
        assert!((found.cost - work / 150.0).abs() < 1e-9);
        // One of two queues is empty: the deviation is half of the other, which ends with the job.
        assert!((found.imbalance - found.time / 2.0).abs() < 1e-9);
        let reward = -(0.25 * found.time + 0.25 * found.imbalance + 0.125 * found.cost);
        assert!((found.reward - reward).abs() < 1e-9);
    }

    #[test]
    fn all_policies_meet_the_same_jobs() {
        let world = Arc::new(pair());
        let jobs = |node: u32| {
            let mut seen = Vec::new();
            let run = evaluate(&world, 4, 2, |streams| {
                seen.extend(streams.iter().map(|s| s.job().clone()));
                Ok(vec![vec![node, 0]; streams.len()])
            });
            (seen, run.unwrap())
        };
        let (a, b) = (jobs(0), jobs(1));
        assert_eq!(a.0, b.0);
        assert_ne!(a.1, b.1);
        assert_eq!(
            Baseline::Random.evaluate(&world, 4, 2).unwrap(),
            Baseline::Random.evaluate(&world, 4, 2).unwrap()
        );
    }

    #[test]
    fn too_few_placements_are_refused() {
        let world = Arc::new(pair());
        assert!(matches!(evaluate(&world, 1, 2, |_| Ok(Vec::new())), Err(Error::Size { .. })));
    }
}
