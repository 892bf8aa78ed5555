//! How a run behaves, how it is watched and how it is stopped from outside.

use std::time::Duration;

use mdts_dag::TaskId;
use tokio::sync::watch;

use crate::engine::{Backoff, Speculation, State};

/// How a run behaves.
///
/// ```
/// use mdts_core::runner::RunOptions;
/// let options = RunOptions { fail_fast: true, ..RunOptions::default() };
/// assert!(options.deadline.is_none());
/// ```
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// After this time everything is cancelled. Default: none.
    pub deadline: Option<Duration>,
    /// Whether nothing new starts once a task has failed for good; what runs may finish. Otherwise all tasks that
    /// do not depend on it still run. Default: no.
    pub fail_fast: bool,
    /// How long a task rests between a failure and its next attempt. Default: not at all.
    pub backoff: Backoff,
    /// When a task that runs for too long gets a second attempt on another node. The first success counts, and the other
    /// attempt is cancelled then, perhaps in the middle of its work: tasks must write what others read in one piece,
    /// for example to another name first, and rename it. Default: never.
    pub speculation: Option<Speculation>,
    /// How long to wait for lost nodes to join again while nothing runs. Default: one minute.
    pub node_patience: Duration,
    /// How long one call of the executor may take. Default: ten minutes.
    pub call_limit: Duration,
    /// Whether the report holds the engine's records, for replay. Default: no.
    pub keep_records: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            deadline: None,
            fail_fast: false,
            backoff: Backoff::default(),
            speculation: None,
            node_patience: Duration::from_mins(1),
            call_limit: Duration::from_mins(10),
            keep_records: false,
        }
    }
}

/// A run at one moment, for progress bars.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// The engine's state, in which the run is the first job: which tasks run where.
    pub state: &'a State,
    /// Seconds since the run began.
    pub now: f64,
    /// All tasks of the job.
    pub tasks: usize,
    /// Tasks that have succeeded.
    pub succeeded: usize,
    /// Tasks that have failed for good.
    pub failed: usize,
    /// Tasks that will never run.
    pub blocked: usize,
    /// Tasks that do not run any more because the run has stopped; only in its last moment.
    pub cancelled: usize,
    /// Attempts that run now.
    pub running: usize,
    /// Attempts started so far that repeat one which ended without success.
    pub retried: usize,
    /// Attempts started so far beside one that ran for too long.
    pub speculated: usize,
}

impl Snapshot<'_> {
    /// Tasks that have come to their end.
    pub fn ended(&self) -> usize {
        self.succeeded + self.failed + self.blocked + self.cancelled
    }
}

/// How far a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Stop {
    /// Not at all.
    #[default]
    No,
    /// Nothing new starts; what runs may finish.
    Drain,
    /// What runs is cancelled.
    Cancel,
}

/// What a run was told from outside.
#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) stop: Stop,
    /// Only added to: the runner counts how many it has seen.
    pub(super) of_tasks: Vec<TaskOrder>,
}

/// What is to become of one task.
#[derive(Debug, Clone)]
pub(super) enum TaskOrder {
    /// It is cancelled for this reason.
    Cancel(TaskId, String),
    /// It may run again.
    Retry(TaskId),
}

/// Stops a run, or tasks of it, or lets tasks run again, from outside, for example on Ctrl-C. Cheap to clone; works from any thread.
#[derive(Debug, Clone)]
pub struct Stopper {
    sender: watch::Sender<Orders>,
}

impl Stopper {
    pub(super) fn new() -> Self {
        Self { sender: watch::Sender::new(Orders::default()) }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Orders> {
        self.sender.subscribe()
    }

    /// Stops one degree further: the first call drains, the second cancels. Returns the degree reached.
    pub fn escalate(&self) -> Stop {
        let next = match self.sender.borrow().stop {
            Stop::No => Stop::Drain,
            Stop::Drain | Stop::Cancel => Stop::Cancel,
        };
        self.stop(next);
        next
    }

    /// Stops to this degree; never less than before.
    pub fn stop(&self, degree: Stop) {
        self.sender.send_if_modified(|orders| {
            let further = degree > orders.stop;
            orders.stop = degree.max(orders.stop);
            further
        });
    }

    /// Cancels tasks for good, running or not: they fail for this reason, without further retries. Tasks that have come to
    /// their end stay as they are.
    pub fn cancel_tasks(&self, tasks: impl IntoIterator<Item = TaskId>, reason: &str) {
        self.sender.send_modify(|orders| {
            let cancel = |task| TaskOrder::Cancel(task, reason.to_owned());
            orders.of_tasks.extend(tasks.into_iter().map(cancel));
        });
    }

    /// Lets tasks that have failed for good run again, with all their retries, and with them what was blocked behind them
    /// alone. Others stay as they are.
    pub fn retry_tasks(&self, tasks: impl IntoIterator<Item = TaskId>) {
        self.sender.send_modify(|orders| orders.of_tasks.extend(tasks.into_iter().map(TaskOrder::Retry)));
    }
}
