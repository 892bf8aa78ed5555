//! What the state of a job says of an attempt that has left no word of its own.

use mdts_core::runner::Outcome;
use mdts_dag::{Failing, Task};

use super::script::{NO_FOLDER, NO_PARENT, NOT_WRITTEN, TERMINATED};
use crate::{JobRecord, JobState};

/// See [`of`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fate {
    /// It has not begun, or runs.
    GoesOn,
    /// It has succeeded.
    Success,
    /// It has failed in this way.
    Failed(Failing, String),
    /// Somebody ended it on purpose, or it can never run.
    Final(String),
    /// It was lost through no fault of its own.
    Lost(String),
}

impl Fate {
    /// As the runner wants to know it; `None` if it goes on or is lost.
    pub(crate) fn outcome(&self, task: &Task) -> Option<Outcome> {
        match self {
            Self::GoesOn | Self::Lost(_) => None,
            Self::Success => Some(Outcome::Success),
            Self::Final(reason) => Some(Outcome::Final(reason.clone())),
            Self::Failed(failing, reason) => Some(failed(task, *failing, reason.clone())),
        }
    }
}

/// Whether another attempt is worth it is for the task to say.
pub(crate) fn failed(task: &Task, failing: Failing, reason: String) -> Outcome {
    let repeats = match &task.run {
        Some(run) => run.retry.repeats(failing),
        None => false,
    };
    if repeats { Outcome::Failure(reason) } else { Outcome::Final(reason) }
}

/// What a job's state says of an attempt in it that was claimed and has left no result; `log` is where the job's own words
/// are.
pub(crate) fn of(job: &JobRecord, log: &str) -> Fate {
    let (state, id) = (job.state, job.id);
    let on = if job.nodes.is_empty() { String::new() } else { format!(" on {}", job.nodes) };
    match state {
        JobState::Pending
        | JobState::Configuring
        | JobState::Running
        | JobState::Completing
        | JobState::Resizing
        | JobState::Signaling
        | JobState::StageOut
        | JobState::Stopped
        | JobState::Suspended
        | JobState::ResvDelHold
        | JobState::Unknown => Fate::GoesOn,
        // It would do nothing a second time: what it was to run is claimed.
        JobState::Requeued | JobState::RequeueFed | JobState::RequeueHold | JobState::SpecialExit => {
            Fate::Lost(format!("Slurm's job {id} was put back into the queue ({state})"))
        }
        JobState::BootFail | JobState::NodeFail => {
            Fate::Lost(format!("a node failed under Slurm's job {id}{on} ({state})"))
        }
        JobState::Preempted | JobState::Revoked => {
            Fate::Lost(format!("Slurm's job {id} had to make room for others ({state})"))
        }
        JobState::Completed => Fate::Success,
        JobState::Timeout => {
            Fate::Failed(Failing::Timeout, format!("Slurm's job {id} reached its time limit{on} (TIMEOUT)"))
        }
        JobState::Deadline => {
            Fate::Final(format!("Slurm's job {id} could not end before its deadline (DEADLINE)"))
        }
        JobState::OutOfMemory => Fate::Failed(
            Failing::Memory,
            format!("Slurm's job {id} took more memory than it asked for{on} (OUT_OF_MEMORY)"),
        ),
        JobState::Cancelled if job.reason == "DependencyNeverSatisfied" => {
            Fate::Lost(format!("what Slurm's job {id} waited for did not succeed"))
        }
        JobState::Cancelled => {
            Fate::Final(format!("Slurm's job {id} was cancelled by somebody{on} (CANCELLED)"))
        }
        JobState::Failed => failure(job, log),
    }
}

fn failure(job: &JobRecord, log: &str) -> Fate {
    let id = job.id;
    match job.exit {
        (NO_FOLDER, _) => Fate::Failed(
            Failing::Start,
            format!(
                "Slurm's job {id} does not see the folder of the run on {}; it must be on a file system that the nodes share",
                job.nodes
            ),
        ),
        (NOT_WRITTEN, _) => Fate::Failed(
            Failing::Start,
            format!(
                "Slurm's job {id} cannot write to the folder of the run on {}; {log} may tell why",
                job.nodes
            ),
        ),
        (NO_PARENT, _) => Fate::Lost(format!("what Slurm's job {id} waited for has not succeeded")),
        (TERMINATED, _) => Fate::Lost(format!("Slurm's job {id} was told to end on {}", job.nodes)),
        // What it was to run was claimed: by itself, before it was put back into the queue.
        (1, 0) => Fate::Lost(format!("Slurm's job {id} was begun twice")),
        (status, 0) => Fate::Failed(
            Failing::Start,
            format!(
                "Slurm's job {id} failed before its task had ended: exit status {status}, {}; {log} may tell why",
                job.reason
            ),
        ),
        (_, signal) => Fate::Failed(
            Failing::Signal,
            format!("Slurm's job {id} was killed by signal {signal} on {}", job.nodes),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobId;

    fn job(state: JobState, exit: (i32, i32), reason: &str) -> JobRecord {
        JobRecord {
            state,
            exit,
            reason: reason.into(),
            nodes: "fast1".into(),
            ..JobRecord::empty(JobId::whole(7))
        }
    }

    #[test]
    fn every_state_has_a_meaning() {
        use JobState as S;
        let table = [
            (S::BootFail, "lost"),
            (S::Cancelled, "final"),
            (S::Completed, "success"),
            (S::Configuring, "goes on"),
            (S::Completing, "goes on"),
            (S::Deadline, "final"),
            (S::Failed, "start"), // with a status that the script does not give
            (S::NodeFail, "lost"),
            (S::OutOfMemory, "memory"),
            (S::Pending, "goes on"),
            (S::Preempted, "lost"),
            (S::Running, "goes on"),
            (S::ResvDelHold, "goes on"),
            (S::RequeueFed, "lost"),
            (S::RequeueHold, "lost"),
            (S::Requeued, "lost"),
            (S::Resizing, "goes on"),
            (S::Revoked, "lost"),
            (S::Signaling, "goes on"),
            (S::SpecialExit, "lost"),
            (S::StageOut, "goes on"),
            (S::Stopped, "goes on"),
            (S::Suspended, "goes on"),
            (S::Timeout, "timeout"),
            (S::Unknown, "goes on"),
        ];
        assert_eq!(table.len(), JobState::NAMES.len() + 1, "all states");
        for (state, expected) in table {
            let fate = of(&job(state, (9, 0), ""), "log");
            let word = match &fate {
                Fate::GoesOn => "goes on".to_owned(),
                Fate::Success => "success".to_owned(),
                Fate::Failed(failing, _) => failing.to_string(),
                Fate::Final(_) => "final".to_owned(),
                Fate::Lost(_) => "lost".to_owned(),
            };
            assert_eq!(word, expected, "{state}");
            // A state that goes on is not over, and the others are, or are put back.
            let is_back = matches!(state, S::Requeued | S::RequeueFed | S::RequeueHold | S::SpecialExit);
            assert_eq!(fate != Fate::GoesOn, state.is_over() || is_back, "{state}");
        }
    }

    #[test]
    fn failures_say_what_to_do() {
        let table = [
            ((NO_FOLDER, 0), "file system that the nodes share"),
            ((NOT_WRITTEN, 0), "cannot write"),
            ((3, 0), "exit status 3"),
            ((0, 11), "signal 11"),
        ];
        for (exit, expected) in table {
            let fate = of(&job(JobState::Failed, exit, "NonZeroExitCode"), "the log");
            assert!(matches!(&fate, Fate::Failed(_, reason) if reason.contains(expected)), "{fate:?}");
        }
        let killed = of(&job(JobState::Cancelled, (0, 0), "DependencyNeverSatisfied"), "");
        assert!(matches!(killed, Fate::Lost(_)));
        let twice = of(&job(JobState::Failed, (1, 0), "NonZeroExitCode"), "");
        assert!(matches!(twice, Fate::Lost(_)));
    }

    #[test]
    fn tasks_say_what_is_repeated() {
        let patient = Task::new("a").with_execution(|run| run.retry.on = vec![Failing::Memory]);
        let fate = Fate::Failed(Failing::Memory, "too much".into());
        assert_eq!(fate.outcome(&patient), Some(Outcome::Failure("too much".into())));
        assert_eq!(fate.outcome(&Task::new("a")), Some(Outcome::Final("too much".into())));
        assert_eq!(Fate::Lost(String::new()).outcome(&patient), None);
    }
}
