//! Everything for one setting and one seed: trainings at equal time and at equal steps, and all baselines.

use std::sync::Arc;

use mdts_core::Rng;
use rand::{Rng as _, SeedableRng};

use super::baselines::Baseline;
use super::evaluation::{Metrics, evaluate};
use super::parameters::Parameters;
use super::training::{Head, Training, train};
use super::world::World;
use crate::learn::Result;

/// How much is trained and measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// Jobs that MDTS learns from, rounded up to whole updates. Raw DRL has the time that this takes.
    pub jobs: u64,
    /// Streams of jobs that policies are measured on.
    pub episodes: usize,
    /// Settings of both learners.
    pub training: Training,
}

/// A policy with its measures.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Its name.
    pub policy: &'static str,
    /// Its measures.
    pub metrics: Metrics,
    /// Jobs it learnt from; 0 for rules.
    pub jobs: u64,
    /// Seconds of learning, or of deciding for rules: those that equal time goes by.
    pub work_seconds: f64,
    /// The same on the wall.
    pub wall_seconds: f64,
}

/// What a comparison found. MDTS is the first.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// All policies.
    pub rows: Vec<Measured>,
    /// Mean seconds between jobs on this seed's cluster.
    pub mean_gap: f64,
}

/// What a clock tells, in seconds since any time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// What equal time goes by: processor time where it can be had, wall time else.
    pub work: f64,
    /// Wall time.
    pub wall: f64,
}

/// Where a comparison is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// Which policy is at work.
    pub policy: &'static str,
    /// How much of all is done, 0 to 1.
    pub done: f64,
    /// The mean reward of the last jobs learnt from.
    pub reward: f64,
}

impl Measured {
    fn new(policy: &'static str, metrics: Metrics, jobs: u64, begin: Moment, end: Moment) -> Self {
        let (work_seconds, wall_seconds) = (end.work - begin.work, end.wall - begin.wall);
        Self { policy, metrics, jobs, work_seconds, wall_seconds }
    }
}

impl Comparison {
    /// MDTS.
    pub const MDTS: &'static str = "mdts";
    /// One softmax over all joint actions, trained as long as MDTS.
    pub const RAW: &'static str = "raw-drl";
    /// MDTS that has learnt from no more jobs than raw DRL.
    pub const EQUAL_STEPS: &'static str = "mdts-equal-steps";

    /// The row of a policy.
    pub fn row(&self, policy: &str) -> Option<&Measured> {
        self.rows.iter().find(|row| row.policy == policy)
    }
}

/// Trains and measures all policies on the cluster and the streams of a seed. `report` hears how far it is.
///
/// # Errors
/// What the environment or a learner refuses.
pub fn compare(
    parameters: &Parameters,
    seed: u64,
    budget: &Budget,
    clock: &(dyn Fn() -> Moment + Sync),
    report: &mut (dyn FnMut(&Stage) + Send),
) -> Result<Comparison> {
    let mut seeds = Rng::seed_from_u64(seed);
    let world = Arc::new(World::new(parameters.clone(), &mut Rng::seed_from_u64(seeds.random()))?);
    let mut work = Work { world, budget, clock, report, training: seeds.random(), measuring: seeds.random() };

    let updates = budget.jobs.div_ceil(budget.training.jobs_per_update()).max(1);
    let ours = work.learn(Comparison::MDTS, Head::Branches, updates, f64::INFINITY, [0.0, 0.4])?;
    let pace = work.pace(Head::Joint, ours.work_seconds)?;
    let possible = ((ours.work_seconds / pace) as u64).max(1);
    let theirs = work.learn(Comparison::RAW, Head::Joint, possible, ours.work_seconds, [0.4, 0.8])?;
    let equal = if theirs.jobs >= ours.jobs {
        Measured { policy: Comparison::EQUAL_STEPS, ..ours.clone() }
    } else {
        let updates = theirs.jobs / budget.training.jobs_per_update();
        work.learn(Comparison::EQUAL_STEPS, Head::Branches, updates, f64::INFINITY, [0.8, 0.9])?
    };
    let mut rows = vec![ours, theirs, equal];
    for (i, baseline) in Baseline::ALL.into_iter().enumerate() {
        let done = 0.9 + 0.1 * i as f64 / Baseline::ALL.len() as f64;
        (work.report)(&Stage { policy: baseline.name(), done, reward: 0.0 });
        rows.push(work.rule(baseline)?);
    }
    Ok(Comparison { rows, mean_gap: work.world.mean_gap() })
}

struct Work<'a> {
    world: Arc<World>,
    budget: &'a Budget,
    clock: &'a (dyn Fn() -> Moment + Sync),
    report: &'a mut (dyn FnMut(&Stage) + Send),
    /// Seed of all trainings.
    training: u64,
    /// Seed of the streams to measure on.
    measuring: u64,
}

impl Work<'_> {
    /// Trains for so many updates, but no longer than some seconds, and measures. Time counts from the first update
    /// on: making the network is no learning, and takes seconds for many joint actions.
    fn learn(
        &mut self,
        policy: &'static str,
        head: Head,
        updates: u64,
        seconds: f64,
        [from, to]: [f64; 2],
    ) -> Result<Measured> {
        let (clock, report, mut begin) = (self.clock, &mut *self.report, None);
        let training = &self.budget.training;
        let learned = train(&self.world, head, training, updates, self.training, |progress| {
            let done = from + (to - from) * progress.updates as f64 / updates as f64;
            report(&Stage { policy, done, reward: progress.reward });
            let now = clock();
            now.work - begin.get_or_insert(now).work < seconds
        })?;
        let end = clock();
        let begin = begin.unwrap_or(end);
        let metrics =
            evaluate(&self.world, self.measuring, self.budget.episodes, |streams| learned.place(streams))?;
        let jobs = learned.updates() * training.jobs_per_update();
        Ok(Measured::new(policy, metrics, jobs, begin, end))
    }

    /// Seconds per update, from a few that are thrown away. Learning rates fall with updates: how many there will be
    /// must be known before.
    fn pace(&self, head: Head, seconds: f64) -> Result<f64> {
        const SHARE: f64 = 0.02;
        const LEAST: u64 = 3;
        const MOST: u64 = 1_000;
        let clock = self.clock;
        let (mut begin, mut end, mut updates) = (None, 0.0, 0);
        train(&self.world, head, &self.budget.training, MOST, self.training, |progress| {
            end = clock().work;
            updates = progress.updates;
            let begin = *begin.get_or_insert((end, updates));
            end - begin.0 < SHARE * seconds || updates < begin.1 + LEAST
        })?;
        let (begin, first) = begin.unwrap_or_default();
        Ok((end - begin).max(1e-9) / (updates - first).max(1) as f64)
    }

    fn rule(&self, baseline: Baseline) -> Result<Measured> {
        let begin = (self.clock)();
        let metrics = baseline.evaluate(&self.world, self.measuring, self.budget.episodes)?;
        Ok(Measured::new(baseline.name(), metrics, 0, begin, (self.clock)()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn raw_drl_gets_as_many_ticks_as_mdts() {
        // A clock that ticks whenever it is read, once per update: equal time is an equal number of updates.
        let ticks = AtomicU32::new(0);
        let clock = || Moment { work: f64::from(ticks.fetch_add(1, Ordering::Relaxed)), wall: 0.0 };
        let parameters = Parameters { nodes: 3, child_tasks: 2, ..Default::default() };
        let training = Training { trunk: vec![8], ..Default::default() };
        let budget = Budget { jobs: 128 * 40, episodes: 3, training };
        let mut stages = Vec::new();
        let found = compare(&parameters, 1, &budget, &clock, &mut |stage| stages.push(*stage)).unwrap();
        let names: Vec<&str> = found.rows.iter().map(|row| row.policy).collect();
        let rules = Baseline::ALL.map(Baseline::name);
        assert_eq!(names[..3], [Comparison::MDTS, Comparison::RAW, Comparison::EQUAL_STEPS]);
        assert_eq!(names[3..], rules);
        let (mdts, raw) = (found.row("mdts").unwrap(), found.row("raw-drl").unwrap());
        assert_eq!((mdts.jobs, mdts.work_seconds), (128 * 40, 40.0));
        assert!(raw.work_seconds <= mdts.work_seconds && raw.jobs >= 128 * 40, "{raw:?}");
        assert!(stages.windows(2).all(|pair| pair[0].done <= pair[1].done), "it only goes on");
        assert!(found.rows.iter().all(|row| row.metrics.time > 0.0 && row.metrics.reward < 0.0));
    }
}
