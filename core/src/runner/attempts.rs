//! What the runner knows of every task's latest attempt, and of second attempts beside it.

use std::collections::BTreeMap;

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

use super::Usage;
use crate::NodeId;
use crate::engine::{JobId, TaskRun};

/// One attempt; number 0 if there was none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Attempt {
    pub(super) number: u32,
    pub(super) node: NodeId,
    /// When it began; until that is told, when it was given to the executor.
    pub(super) start: f64,
    pub(super) finish: f64,
    /// Why it failed.
    pub(super) reason: Option<Box<str>>,
    /// What it used, if that is known.
    pub(super) usage: Option<Usage>,
    live: bool,
    /// Whether it has really begun; always so unless the executor queues.
    pub(super) begun: bool,
}

/// The latest attempts of all tasks of one job.
///
/// Of two attempts of a task at once, `of_task` has the one that decides: the first as long as both run, then the one
/// that goes on or has won.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Attempts {
    of_task: Vec<Attempt>,
    /// The others of two: second attempts, and those that have lost and are to be cancelled.
    beside: BTreeMap<u32, Attempt>,
    live: usize,
    queued: usize,
    /// When the last attempt ended that had begun.
    last_finish: f64,
    retried: usize,
    speculated: usize,
}

impl Attempts {
    pub(super) fn new(tasks: usize) -> Self {
        Self {
            of_task: vec![Attempt::default(); tasks],
            beside: BTreeMap::new(),
            live: 0,
            queued: 0,
            last_finish: 0.0,
            retried: 0,
            speculated: 0,
        }
    }

    /// Attempts that the executor has, begun or not.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Attempts that the executor has not begun.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// When the last attempt ended, in seconds since the run began.
    pub(super) fn last_finish(&self) -> f64 {
        self.last_finish
    }

    /// Attempts begun because an earlier one of the task had begun and ended without success.
    pub(super) fn retried(&self) -> usize {
        self.retried
    }

    /// Attempts begun beside an earlier one of the task.
    pub(super) fn speculated(&self) -> usize {
        self.speculated
    }

    /// Number of tasks.
    pub(super) fn tasks(&self) -> usize {
        self.of_task.len()
    }

    /// The attempt of a task that decides.
    pub(super) fn of(&self, task: TaskId) -> &Attempt {
        &self.of_task[task.index()]
    }

    /// An attempt is given to the executor; `begun` says whether it begins at once.
    pub(super) fn begin(&mut self, run: TaskRun, node: NodeId, now: f64, begun: bool) {
        self.live += 1;
        self.queued += usize::from(!begun);
        let attempt = Attempt {
            number: run.attempt,
            node,
            start: now,
            finish: now,
            live: true,
            begun,
            ..Attempt::default()
        };
        let first = &mut self.of_task[run.task.index()];
        if first.live {
            self.speculated += 1;
            self.beside.insert(run.task.get(), attempt);
        } else {
            self.retried += usize::from(first.begun);
            *first = attempt;
        }
    }

    /// An attempt has really begun; false if it does not run.
    pub(super) fn started(&mut self, run: TaskRun, now: f64) -> bool {
        if self.running(run).is_none() {
            return false;
        }
        let Some(attempt) = self.known(run) else { return false };
        attempt.start = now;
        let was_queued = !std::mem::replace(&mut attempt.begun, true);
        self.queued -= usize::from(was_queued);
        true
    }

    /// An attempt that the executor has.
    fn known(&mut self, run: TaskRun) -> Option<&mut Attempt> {
        if run.job != JobId::default() {
            return None;
        }
        let is_it = |attempt: &&mut Attempt| attempt.live && attempt.number == run.attempt;
        let beside = self.beside.get_mut(&run.task.get());
        beside.filter(is_it).or_else(|| self.of_task.get_mut(run.task.index()).filter(is_it))
    }

    /// An attempt that runs and whose end still counts.
    pub(super) fn running(&self, run: TaskRun) -> Option<&Attempt> {
        let first = self.of_task.get(run.task.index()).filter(|first| first.live)?;
        if run.job != JobId::default() {
            return None;
        }
        if first.number == run.attempt {
            return Some(first);
        }
        self.beside.get(&run.task.get()).filter(|second| second.number == run.attempt)
    }

    /// Notes what an attempt used that the executor has.
    pub(super) fn note_usage(&mut self, run: TaskRun, usage: Usage) {
        if let Some(attempt) = self.known(run) {
            attempt.usage = Some(usage);
        }
    }

    /// The attempt beside the one that decides, if two run.
    pub(super) fn beside(&self, task: TaskId) -> Option<&Attempt> {
        self.beside.get(&task.get())
    }

    /// Whether two attempts of the task run.
    pub(super) fn is_pair(&self, task: TaskId) -> bool {
        self.beside.contains_key(&task.get())
    }

    /// Ends an attempt by itself, so that it has begun; false if it did not run or its task has been won by another.
    pub(super) fn end(&mut self, run: TaskRun, now: f64, reason: Option<String>) -> bool {
        if self.running(run).is_none() {
            return false;
        }
        if reason.is_none() {
            self.win(run);
        }
        let Some(attempt) = self.known(run) else { return false };
        let was_queued = !std::mem::replace(&mut attempt.begun, true);
        attempt.reason = reason.map(String::into_boxed_str);
        let won = attempt.reason.is_none();
        self.queued -= usize::from(was_queued);
        self.close(run, now, won)
    }

    /// Puts an attempt in the place of the one that decides.
    fn win(&mut self, run: TaskRun) {
        if let Some(second) = self.beside.get_mut(&run.task.get()).filter(|s| s.number == run.attempt) {
            std::mem::swap(second, &mut self.of_task[run.task.index()]);
        }
    }

    /// Ends an attempt from outside, begun or not; false if it did not run.
    pub(super) fn cancel(&mut self, run: TaskRun, now: f64) -> bool {
        self.close(run, now, false)
    }

    /// The attempt is over; false if it did not run. Unless it has won, one that goes on takes its place.
    fn close(&mut self, run: TaskRun, now: f64, won: bool) -> bool {
        let Some(attempt) = self.known(run) else { return false };
        (attempt.live, attempt.finish) = (false, now);
        let begun = attempt.begun;
        self.live -= 1;
        self.queued -= usize::from(!begun);
        if begun {
            self.last_finish = self.last_finish.max(now);
        }
        let of_task = &mut self.of_task[run.task.index()];
        if of_task.number != run.attempt {
            self.beside.remove(&run.task.get());
        } else if let Some(other) = (!won).then(|| self.beside.remove(&run.task.get())).flatten() {
            *of_task = other;
        }
        true
    }

    /// Says why a task failed that was given up.
    pub(super) fn blame(&mut self, task: TaskId, reason: &str) {
        let attempts = self.of_task.get_mut(task.index()).into_iter().chain(self.beside.get_mut(&task.get()));
        attempts.for_each(|attempt| attempt.reason = Some(reason.into()));
    }

    /// Ends all attempts on a node that is lost.
    pub(super) fn lose(&mut self, node: NodeId, now: f64) {
        for run in self.runs(|attempt| attempt.live && attempt.node == node) {
            self.cancel(run, now);
        }
    }

    /// All attempts that the executor has.
    pub(super) fn live_runs(&self) -> Vec<TaskRun> {
        self.runs(|attempt| attempt.live)
    }

    /// The attempts of a task that the executor has.
    pub(super) fn runs_of(&self, task: TaskId) -> Vec<TaskRun> {
        let of = self.of_task.get(task.index()).into_iter().chain(self.beside.get(&task.get()));
        let live = of.filter(|attempt| attempt.live);
        live.map(|attempt| TaskRun { job: JobId::default(), task, attempt: attempt.number }).collect()
    }

    /// All attempts that the executor has not begun.
    pub(super) fn queued_runs(&self) -> Vec<TaskRun> {
        self.runs(|attempt| attempt.live && !attempt.begun)
    }

    fn runs(&self, is: impl Fn(&Attempt) -> bool) -> Vec<TaskRun> {
        let beside = self.beside.iter().map(|(task, attempt)| (TaskId::from(*task), attempt));
        let of_task = self.of_task.iter().enumerate().map(|(i, attempt)| (TaskId::new(i), attempt));
        of_task
            .chain(beside)
            .filter(|(_, attempt)| is(attempt))
            .map(|(task, attempt)| TaskRun { job: JobId::default(), task, attempt: attempt.number })
            .collect()
    }
}
