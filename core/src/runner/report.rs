//! What came of a run.

use mdts_dag::TaskId;

use super::Usage;
use crate::engine::Record;
use crate::{NodeId, Placement, Schedule};

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEnd {
    /// Every task came to its end.
    Complete,
    /// A task failed, and the run was to stop then.
    FailedFast,
    /// It was asked to start nothing more.
    Drained,
    /// It was cancelled.
    Cancelled,
    /// Its deadline passed; what ran was cancelled.
    Deadline,
}

impl RunEnd {
    /// The end in a word: `complete`, `failed-fast`, `drained`, `cancelled` or `deadline`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::FailedFast => "failed-fast",
            Self::Drained => "drained",
            Self::Cancelled => "cancelled",
            Self::Deadline => "deadline",
        }
    }
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// An attempt succeeded.
    Succeeded,
    /// All its attempts failed, or it was cancelled for good; why.
    Failed(String),
    /// It never ran, because a task that it depends on failed.
    Blocked,
    /// The run ended before the task did.
    Cancelled,
}

/// What came of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskReport {
    /// How it ended.
    pub outcome: TaskOutcome,
    /// Where its last attempt ran, or the one that succeeded; `None` if that never began.
    pub node: Option<NodeId>,
    /// When that attempt began, in seconds since the run began; 0 if it never did.
    pub start: f64,
    /// When it ended, in seconds since the run began; 0 if it never began.
    pub finish: f64,
    /// Attempts begun.
    pub attempts: u32,
    /// What that attempt used, if the executor told it.
    pub usage: Option<Usage>,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// Why it ended.
    pub end: RunEnd,
    /// Seconds from the beginning to the end of the last attempt.
    pub makespan: f64,
    /// All tasks in the order of their ids.
    pub tasks: Vec<TaskReport>,
    /// Tasks that an earlier process of the same run had done; 0 unless the run was resumed.
    pub done_before: usize,
    pub(super) retried: usize,
    /// Attempts begun beside one that ran for too long.
    pub speculated: usize,
    /// Decision steps: how often the policy was asked.
    pub steps: usize,
    /// Placements decided.
    pub decisions: usize,
    /// Seconds spent in the policy.
    pub deciding_seconds: f64,
    /// The engine's records, if they were to be kept.
    pub records: Vec<Record>,
}

impl RunReport {
    /// Whether every task succeeded.
    pub fn is_success(&self) -> bool {
        self.succeeded() == self.tasks.len()
    }

    /// Number of tasks that succeeded.
    pub fn succeeded(&self) -> usize {
        self.count(|outcome| *outcome == TaskOutcome::Succeeded)
    }

    /// Number of tasks that failed for good.
    pub fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, TaskOutcome::Failed(_)))
    }

    /// Number of tasks that never ran because a task that they depend on failed.
    pub fn blocked(&self) -> usize {
        self.count(|outcome| *outcome == TaskOutcome::Blocked)
    }

    /// Number of tasks that did not come to their end.
    pub fn cancelled(&self) -> usize {
        self.count(|outcome| *outcome == TaskOutcome::Cancelled)
    }

    /// Attempts that repeat one which had begun and ended without success.
    pub fn retried(&self) -> usize {
        self.retried
    }

    /// The tasks that failed for good, with the reason.
    pub fn failures(&self) -> impl Iterator<Item = (TaskId, &str)> {
        self.tasks.iter().enumerate().filter_map(|(i, task)| match &task.outcome {
            TaskOutcome::Failed(reason) => Some((TaskId::new(i), reason.as_str())),
            _ => None,
        })
    }

    /// When and where the tasks that succeeded really ran.
    pub fn schedule(&self) -> Schedule {
        let placements = self.tasks.iter().enumerate().filter_map(|(i, task)| {
            let node = task.node.filter(|_| task.outcome == TaskOutcome::Succeeded)?;
            Some(Placement { task: TaskId::new(i), node, start: task.start, finish: task.finish })
        });
        Schedule::new(placements.collect())
    }

    fn count(&self, is: impl Fn(&TaskOutcome) -> bool) -> usize {
        self.tasks.iter().filter(|task| is(&task.outcome)).count()
    }
}
