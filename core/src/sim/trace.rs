//! What happened in a simulation.

use mdts_dag::TaskId;

use crate::{NodeId, Placement, Schedule};

/// One attempt to run a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// The task.
    pub task: TaskId,
    /// Where.
    pub node: NodeId,
    /// Seconds.
    pub start: f64,
    /// When it finished or failed, was lost with its node, or was cancelled because another attempt had finished.
    pub finish: f64,
    /// Whether it finished.
    pub succeeded: bool,
}

/// What happened to one job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobTrace {
    /// When it was submitted.
    pub submitted: f64,
    /// When its last task ended.
    pub finished: f64,
    /// All attempts in the order of their starts.
    pub attempts: Vec<Attempt>,
}

impl JobTrace {
    /// Job completion time: from submission to the end.
    pub fn completion_seconds(&self) -> f64 {
        self.finished - self.submitted
    }

    /// The successful attempts as a schedule. Under ideal conditions it passes verification.
    pub fn schedule(&self) -> Schedule {
        let done = self.attempts.iter().filter(|a| a.succeeded);
        Schedule::new(
            done.map(|a| Placement { task: a.task, node: a.node, start: a.start, finish: a.finish })
                .collect(),
        )
    }
}

/// What happened in a simulation of one or more jobs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// Per job, in the order of submission.
    pub jobs: Vec<JobTrace>,
    /// Bytes moved between nodes; counted under contention only (else see [`crate::objectives`]).
    pub moved_bytes: f64,
    /// Node failures that happened.
    pub failures: u32,
}

impl Trace {
    /// Latest end of all jobs.
    pub fn makespan(&self) -> f64 {
        self.jobs.iter().fold(0.0, |latest, job| latest.max(job.finished))
    }

    /// Mean job completion time (JCT).
    pub fn mean_completion_seconds(&self) -> f64 {
        let sum: f64 = self.jobs.iter().map(JobTrace::completion_seconds).sum();
        sum / self.jobs.len().max(1) as f64
    }
}
