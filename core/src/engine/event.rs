//! What an engine is told, and what it tells its driver to do.

use std::sync::Arc;

use mdts_dag::{TaskId, typed_id};
use serde::{Deserialize, Serialize};

use crate::{Instance, NodeId, plain};

typed_id!(
    /// A job submitted to one engine, numbered in the order of submission.
    #[derive(Serialize, Deserialize)]
    JobId, "j"
);

/// One attempt to run a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskRun {
    /// The job.
    pub job: JobId,
    /// The task.
    #[serde(with = "plain::task")]
    pub task: TaskId,
    /// 1 for the first attempt.
    pub attempt: u32,
}

/// What has happened. Events about an attempt that is no longer the current one are ignored.
#[derive(Debug, Clone)]
pub enum Event {
    /// A job arrives; it gets the next [`JobId`]. All jobs of an engine share one cluster.
    Submitted(Arc<Instance>),
    /// All inputs of a task are on the node that it was placed on. Only after a [`Command::Stage`].
    Staged {
        /// The job.
        job: JobId,
        /// The task.
        task: TaskId,
        /// Where its inputs are.
        node: NodeId,
    },
    /// A task has really begun; until told, it counts as begun when it was commanded.
    Started(TaskRun),
    /// A task has succeeded.
    Finished(TaskRun),
    /// A task has failed; it is repeated as often as its `retries` allow.
    Failed(TaskRun),
    /// A task has failed; if it is to be repeated, then not before this time.
    FailedUntil {
        /// The attempt.
        run: TaskRun,
        /// In seconds.
        until: f64,
    },
    /// A task has failed, and no retries will help.
    FailedForGood(TaskRun),
    /// A node is (again) there.
    NodeJoined(NodeId),
    /// A node is gone, with all that runs there. Results of finished tasks survive.
    NodeLost(NodeId),
    /// An attempt was stopped or lost through no fault of its own; the task is ready again, and no retry is used up.
    Interrupted(TaskRun),
    /// An attempt runs for much longer than expected: the task gets a second one on another node as soon as one is
    /// idle for it. While both run, the end of one is no failure of the task; the first success counts. To be told
    /// again if the attempt still runs alone much later.
    Overdue(TaskRun),
    /// Nothing more is decided or started until [`Event::Resumed`].
    Held,
    /// Work goes on, perhaps under another policy than before: every job gets a decision step as if it were new.
    Resumed,
    /// A job is given up.
    Cancelled(JobId),
    /// A task is given up: if it has not come to its end, it fails for good, running or not.
    Dropped {
        /// The job.
        job: JobId,
        /// The task.
        task: TaskId,
    },
    /// A task that failed for good gets another chance, with all its retries; what was blocked behind it alone waits for
    /// it again.
    Retried {
        /// The job.
        job: JobId,
        /// The task.
        task: TaskId,
    },
    /// A task of a job is wanted; only for states that work [on demand](super::State::on_demand).
    Asked {
        /// The job.
        job: JobId,
        /// The task.
        task: TaskId,
    },
    /// None of a job's tasks is wanted any more: what runs is stopped, and no retry is used up.
    Withdrawn(JobId),
    /// Nothing more is placed on a node until it joins again; what runs there goes on.
    NodeDrained(NodeId),
    /// Time has passed; tasks may have [rested](super::State::next_due).
    Tick,
}

/// What the driver has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Bring the inputs of a task to a node as soon as they exist, then report [`Event::Staged`].
    /// A later command for the same task replaces an earlier one.
    Stage {
        /// The job.
        job: JobId,
        /// The task.
        task: TaskId,
        /// Where to.
        node: NodeId,
    },
    /// Start an attempt; its capacity is reserved from now on.
    Start {
        /// The attempt.
        run: TaskRun,
        /// Where.
        node: NodeId,
    },
    /// Stop an attempt; nothing needs to be reported.
    Cancel {
        /// The attempt.
        run: TaskRun,
        /// Where.
        node: NodeId,
    },
    /// Every task of a job has come to its end.
    JobDone {
        /// The job.
        job: JobId,
        /// Whether every task succeeded.
        succeeded: bool,
    },
}
