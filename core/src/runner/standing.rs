//! How a run stands by its journal, without running it.

use std::sync::Arc;

use mdts_dag::{JobGraph, TaskId};

use super::attempts::{Attempt, Attempts};
use super::replay::Replay;
use super::{Assignment, Usage};
use crate::engine::{JobId, Phase, State, TaskRun};
use crate::journal::{Entry, Reader, Torn, digest};
use crate::{Error, Instance, NodeId, Result};

/// How a run stands by its journal.
#[derive(Debug)]
pub struct Standing {
    state: State,
    attempts: Attempts,
    process: Option<u32>,
    end: Option<String>,
    torn: Option<Torn>,
}

/// The latest attempt of a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatestAttempt {
    /// 1 for the first.
    pub number: u32,
    /// Where it runs or ran.
    pub node: NodeId,
    /// When it began, in seconds since the run began.
    pub start: f64,
    /// When it ended, on the same clock; no later than its start while it runs.
    pub finish: f64,
    /// What it used, if that is known.
    pub usage: Option<Usage>,
}

impl LatestAttempt {
    fn new(of: &Attempt) -> Self {
        Self { number: of.number, node: of.node, start: of.start, finish: of.finish, usage: of.usage }
    }
}

impl Standing {
    /// Reads a journal to its end. `queues` says whether the executor of the run [queues](super::Executor::queues).
    ///
    /// # Errors
    /// [`Error::Journal`] if it is damaged or of another job than `instance`.
    pub fn read(reader: &mut Reader, instance: &Arc<Instance>, queues: bool, place: &str) -> Result<Self> {
        if reader.manifest().digest != digest(instance) {
            let message = "workflow, cluster or model are not those of the journal".to_owned();
            return Err(Error::Journal { place: place.to_owned(), message });
        }
        let mut replay = Replay::new(instance.clone(), queues, place.to_owned());
        let (mut process, mut end) = (None, None);
        while let Some(entry) = reader.next()? {
            match &entry {
                Entry::Opened { process: number, .. } => (process, end) = (Some(*number), None),
                Entry::Ended { why, .. } => end = Some(why.clone()),
                _ => {}
            }
            replay.take(entry)?;
        }
        Ok(Self { state: replay.state, attempts: replay.attempts, process, end, torn: reader.torn() })
    }

    /// The state of the engine.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Number of the process that began the run or went on with it last.
    pub fn process(&self) -> Option<u32> {
        self.process
    }

    /// Why that process stopped, in a word, if it said so; see [`super::RunEnd::word`].
    pub fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }

    /// The torn record at the end, if there is one.
    pub fn torn(&self) -> Option<Torn> {
        self.torn
    }

    /// The latest attempt of a task, if it was ever started.
    pub fn attempt(&self, task: TaskId) -> Option<LatestAttempt> {
        Some(self.attempts.of(task)).filter(|of| of.number > 0).map(LatestAttempt::new)
    }

    /// The attempt that runs beside that one, if two run.
    pub fn second_attempt(&self, task: TaskId) -> Option<LatestAttempt> {
        self.attempts.beside(task).map(LatestAttempt::new)
    }

    /// The attempts that an executor was given and of whose end nothing is recorded, as an executor that
    /// [recovers](super::Executor::recover) wants them; `job` is that of the run.
    pub fn live(&self, instance: &Instance, job: &Arc<JobGraph>) -> Vec<Assignment> {
        let assignment = |run: TaskRun| {
            let node = self.attempts.running(run)?.node;
            let expected_seconds = instance.exec(run.task, node);
            Some(Assignment { run, node, expected_seconds, job: job.clone() })
        };
        self.attempts.live_runs().into_iter().filter_map(assignment).collect()
    }

    /// Why a task failed the last time, or was cancelled.
    pub fn reason(&self, task: TaskId) -> Option<&str> {
        self.attempts.of(task).reason.as_deref()
    }

    /// Tasks in this phase; all wait before the run has begun.
    pub fn count(&self, phase: Phase) -> usize {
        (0..self.attempts.tasks()).filter(|task| self.phase(TaskId::new(*task)) == phase).count()
    }

    /// Where a task is in its life.
    pub fn phase(&self, task: TaskId) -> Phase {
        if self.state.job_count() == 0 { Phase::Waiting } else { self.state.phase(JobId::default(), task) }
    }
}
