//! What the runner knows of every task's latest attempt, and when which attempt runs out of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::NodeId;
use crate::engine::{JobId, TaskRun};

/// The latest attempt of one task; number 0 if there was none.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Attempt {
    pub(super) number: u32,
    pub(super) node: NodeId,
    /// When it began; until that is told, when it was given to the executor.
    pub(super) start: f64,
    pub(super) finish: f64,
    /// Why it failed.
    pub(super) reason: Option<String>,
    live: bool,
    /// Whether it has really begun; always so unless the executor queues.
    pub(super) begun: bool,
    #[serde(skip)]
    timeout: Option<Instant>,
}

/// The latest attempts of all tasks of one job. The clocks of timeouts are no part of it when it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Attempts {
    of_task: Vec<Attempt>,
    live: usize,
    queued: usize,
    /// When the last attempt ended that had begun.
    last_finish: f64,
    retried: usize,
    /// Attempts by their timeout; those whose timeout has changed or that have ended are skipped.
    #[serde(skip)]
    timeouts: BinaryHeap<Reverse<(Instant, TaskRun)>>,
}

impl Attempts {
    pub(super) fn new(tasks: usize) -> Self {
        Self {
            of_task: vec![Attempt::default(); tasks],
            live: 0,
            queued: 0,
            last_finish: 0.0,
            retried: 0,
            timeouts: BinaryHeap::new(),
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

    /// Attempts begun that were not the first of their task.
    pub(super) fn retried(&self) -> usize {
        self.retried
    }

    /// Number of tasks.
    pub(super) fn tasks(&self) -> usize {
        self.of_task.len()
    }

    pub(super) fn of(&self, task: TaskId) -> &Attempt {
        &self.of_task[task.index()]
    }

    /// An attempt is given to the executor; `begun` says whether it begins at once.
    pub(super) fn begin(&mut self, run: TaskRun, node: NodeId, now: f64, begun: bool) {
        let attempt = &mut self.of_task[run.task.index()];
        self.retried += usize::from(attempt.number > 0);
        self.live += 1;
        self.queued += usize::from(!begun);
        let number = run.attempt;
        *attempt = Attempt { number, node, start: now, finish: now, live: true, begun, ..Attempt::default() };
    }

    /// An attempt has really begun; false if it does not run.
    pub(super) fn started(&mut self, run: TaskRun, now: f64) -> bool {
        let Some(attempt) = self.current(run) else { return false };
        attempt.start = now;
        let was_queued = !std::mem::replace(&mut attempt.begun, true);
        self.queued -= usize::from(was_queued);
        true
    }

    /// (Re)starts the clock of an attempt.
    pub(super) fn limit(&mut self, run: TaskRun, until: Instant) {
        if let Some(attempt) = self.current(run) {
            attempt.timeout = Some(until);
            self.timeouts.push(Reverse((until, run)));
        }
    }

    fn current(&mut self, run: TaskRun) -> Option<&mut Attempt> {
        let attempt = self.of_task.get_mut(run.task.index())?;
        (attempt.live && attempt.number == run.attempt && run.job == JobId::default()).then_some(attempt)
    }

    pub(super) fn is_live(&mut self, run: TaskRun) -> bool {
        self.current(run).is_some()
    }

    /// Ends an attempt by itself, so that it has begun; false if it did not run.
    pub(super) fn end(&mut self, run: TaskRun, now: f64, reason: Option<String>) -> bool {
        let Some(attempt) = self.current(run) else { return false };
        let was_queued = !std::mem::replace(&mut attempt.begun, true);
        attempt.reason = reason;
        self.queued -= usize::from(was_queued);
        self.cancel(run, now)
    }

    /// Ends an attempt from outside, begun or not; false if it did not run.
    pub(super) fn cancel(&mut self, run: TaskRun, now: f64) -> bool {
        let Some(attempt) = self.current(run) else { return false };
        (attempt.live, attempt.finish) = (false, now);
        let begun = attempt.begun;
        self.live -= 1;
        self.queued -= usize::from(!begun);
        if begun {
            self.last_finish = self.last_finish.max(now);
        }
        true
    }

    /// Says why a task failed that was given up.
    pub(super) fn blame(&mut self, task: TaskId, reason: String) {
        if let Some(attempt) = self.of_task.get_mut(task.index()) {
            attempt.reason = Some(reason);
        }
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

    /// All attempts that the executor has not begun.
    pub(super) fn queued_runs(&self) -> Vec<TaskRun> {
        self.runs(|attempt| attempt.live && !attempt.begun)
    }

    fn runs(&self, is: impl Fn(&Attempt) -> bool) -> Vec<TaskRun> {
        let of_task = self.of_task.iter().enumerate().filter(|(_, attempt)| is(attempt));
        of_task
            .map(|(i, a)| TaskRun { job: JobId::default(), task: TaskId::new(i), attempt: a.number })
            .collect()
    }

    /// When the next attempt runs out of time.
    pub(super) fn next_timeout(&mut self) -> Option<Instant> {
        while let Some(&Reverse((until, run))) = self.timeouts.peek() {
            if self.current(run).is_some_and(|attempt| attempt.timeout == Some(until)) {
                return Some(until);
            }
            self.timeouts.pop();
        }
        None
    }

    /// An attempt whose time is up.
    pub(super) fn pop_overdue(&mut self, now: Instant) -> Option<TaskRun> {
        self.next_timeout().filter(|until| *until <= now)?;
        self.timeouts.pop().map(|Reverse((_, run))| run)
    }
}
