//! Rest: a task that has failed waits for some time before its next attempt. Meanwhile its place is free for others.
//!
//! The driver says [until when](super::Event::FailedUntil), by a [`Backoff`] or otherwise, and tells an event, such as
//! [`Tick`](super::Event::Tick), when [that time](State::next_due) has come. Waiting longer after every failure, and not
//! all for the same time, is what keeps many clients from breaking what they share: Brooker, "Exponential Backoff And
//! Jitter", AWS Architecture Blog 2015. O(log resting tasks) per rest, plus the placed tasks behind it.

use std::collections::{BTreeMap, BTreeSet};

use mdts_dag::TaskId;
use rand::{Rng as _, SeedableRng};

use super::{JobId, Phase, State};
use crate::{Error, Result, Rng};

/// How long a task rests after its failures: `first` seconds after the first, `factor` times as long after every
/// further one, `most` at most; and of that a part between half and all of it, drawn anew each time. The default is
/// no rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Seconds after the first failure, for tasks that [say nothing](mdts_dag::Execution::retry_delay).
    pub first: f64,
    /// At least 1.
    pub factor: f64,
    /// Seconds; a task that asks for more at first gets that every time.
    pub most: f64,
    /// Of what is drawn.
    pub seed: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: 0.0, factor: 2.0, most: 300.0, seed: 0 }
    }
}

impl Backoff {
    /// Seconds to wait after the `failures`-th failure of a task; `own` is what the task itself wants after the first.
    ///
    /// ```
    /// use mdts_core::engine::Backoff;
    /// let backoff = Backoff { first: 10.0, ..Backoff::default() };
    /// let third = backoff.seconds(0.into(), 3, None);
    /// assert!((20.0..=40.0).contains(&third) && third == backoff.seconds(0.into(), 3, None));
    /// assert_eq!(backoff.seconds(0.into(), 1, Some(0.0)), 0.0);
    /// ```
    pub fn seconds(&self, task: TaskId, failures: u32, own: Option<f64>) -> f64 {
        let first = own.unwrap_or(self.first);
        let grown = first * self.factor.powf(f64::from(failures.saturating_sub(1)));
        let most = grown.min(self.most.max(first));
        if most <= 0.0 {
            return 0.0;
        }
        let mut rng = Rng::seed_from_u64(self.seed);
        rng.set_stream(u64::from(task.get()) << 32 | u64::from(failures));
        most * rng.random_range(0.5..=1.0)
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// [`Error::BadSetting`].
    pub fn check(&self) -> Result<()> {
        let is_time = |seconds: f64| seconds >= 0.0 && seconds.is_finite();
        let bad =
            |what, value: f64, expected| Err(Error::BadSetting { what, value: value.to_string(), expected });
        if !is_time(self.first) {
            return bad("delay before another attempt", self.first, "seconds, at least 0");
        }
        if !is_time(self.most) {
            return bad("longest delay before another attempt", self.most, "seconds, at least 0");
        }
        if !(self.factor >= 1.0 && self.factor.is_finite()) {
            return bad("growth of the delay before another attempt", self.factor, "a number of at least 1");
        }
        Ok(())
    }
}

/// The tasks that rest.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Resting {
    until: BTreeMap<(JobId, TaskId), f64>,
    /// The same by time, as bits, which have the order of times that are not negative.
    by_time: BTreeSet<(u64, JobId, TaskId)>,
}

impl Resting {
    pub(super) fn add(&mut self, job: JobId, task: TaskId, until: f64) {
        self.remove(job, task);
        self.until.insert((job, task), until);
        self.by_time.insert((until.to_bits(), job, task));
    }

    pub(super) fn remove(&mut self, job: JobId, task: TaskId) {
        if let Some(until) = self.until.remove(&(job, task)) {
            self.by_time.remove(&(until.to_bits(), job, task));
        }
    }

    pub(super) fn contains(&self, job: JobId, task: TaskId) -> bool {
        !self.until.is_empty() && self.until.contains_key(&(job, task))
    }

    fn next(&self) -> Option<(f64, JobId, TaskId)> {
        self.by_time.first().map(|(until, job, task)| (f64::from_bits(*until), *job, *task))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (JobId, TaskId, f64)> + '_ {
        self.until.iter().map(|((job, task), until)| (*job, *task, *until))
    }
}

impl State {
    /// When the next task has rested, if one rests.
    pub fn next_due(&self) -> Option<f64> {
        self.resting.next().map(|(until, ..)| until)
    }

    /// Until when a task rests, if it does. It counts as [waiting](Phase::Waiting).
    pub fn rests_until(&self, job: JobId, task: TaskId) -> Option<f64> {
        self.resting.until.get(&(job, task)).copied()
    }

    /// Failures of a task that count against its retries.
    pub fn failures(&self, job: JobId, task: TaskId) -> u32 {
        self.jobs[job.index()].tasks[task.index()].failures
    }

    /// A task that has left its node waits. What is placed behind it leaves its node, too, so that it holds up nobody
    /// there; it is placed when it is ready.
    pub(super) fn rest(&mut self, job: JobId, task: TaskId, until: f64) {
        self.task(job, task).phase = Phase::Waiting;
        self.resting.add(job, task, until);
        let instance = self.jobs[job.index()].instance.clone();
        let mut open = vec![task];
        while let Some(task) = open.pop() {
            for &child in instance.graph().children(task) {
                let t = self.task(job, child);
                if t.phase == Phase::Waiting && t.node.is_some() {
                    self.unplace(job, child);
                    open.push(child);
                }
            }
        }
    }

    /// Tasks that have rested are ready.
    pub(super) fn wake(&mut self) {
        while let Some((_, job, task)) = self.resting.next().filter(|(until, ..)| *until <= self.now) {
            self.resting.remove(job, task);
            self.make_ready(job, task);
        }
    }
}
