//! What the records of a journal say. Encoded with postcard.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

use super::digest;
use crate::engine::{Event, JobId, Record, TaskRun};
use crate::policy::Decision;
use crate::runner::Usage;
use crate::{Instance, NodeId, plain};

/// What a run is about; the first record of its journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Name of the job.
    pub job: String,
    /// Number of its tasks.
    pub tasks: u64,
    /// [`digest`](super::digest()) of the instance that runs.
    pub digest: u64,
    /// The policy that decides.
    pub policy: String,
    /// Seed of all that is random.
    pub seed: u64,
    /// Milliseconds since 1970 when the run began.
    pub created_ms: u64,
    /// Whatever else the program that runs the job needs to go on, by name.
    pub notes: Vec<(String, String)>,
}

impl Manifest {
    /// The manifest of a run that begins now, without seed and notes.
    pub fn new(instance: &Instance, policy: impl Into<String>) -> Self {
        Self {
            job: instance.graph().name().to_owned(),
            tasks: instance.tasks() as u64,
            digest: digest(instance),
            policy: policy.into(),
            seed: 0,
            created_ms: wall_ms(),
            notes: Vec::new(),
        }
    }

    /// A note by its name.
    pub fn note(&self, name: &str) -> Option<&str> {
        self.notes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// The first record of every journal.
    Manifest(Manifest),
    /// A process begins to run the job or goes on with it.
    Opened {
        /// Milliseconds since 1970.
        at_ms: u64,
        /// Its number.
        process: u32,
    },
    /// One call of the engine.
    Step(StepEntry),
    /// Stands for all that was before it.
    Snapshot(Snapshot),
    /// The process stops running the job.
    Ended {
        /// Milliseconds since 1970.
        at_ms: u64,
        /// Why, in a word.
        why: String,
    },
    /// Bytes that only the program which wrote them needs to understand, for journals of other things than runs.
    Record(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A piece of the snapshot that follows. [`Reader::next`](super::Reader::next) puts the pieces together and does not return them.
    Piece(Snapshot),
}

/// What an engine was told at one moment, and what the policy decided on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepEntry {
    /// Seconds since the run began; the clock stands still while no process runs the job.
    pub now: f64,
    /// The events, in order.
    pub events: Vec<Happening>,
    /// The decisions, in order.
    pub decisions: Vec<(JobId, Decision)>,
    /// Why attempts failed, or were dropped.
    pub reasons: Vec<(TaskRun, String)>,
    /// What attempts used.
    pub usage: Vec<(TaskRun, Usage)>,
}

/// The state of a run as bytes that only the program which wrote them needs to understand.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Of the engine.
    #[serde(with = "serde_bytes")]
    pub engine: Vec<u8>,
    /// Of the runner.
    #[serde(with = "serde_bytes")]
    pub runner: Vec<u8>,
}

/// An [`Event`] without its instance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // each is the event of the same name
pub enum Happening {
    Submitted,
    Staged {
        job: JobId,
        #[serde(with = "plain::task")]
        task: TaskId,
        node: NodeId,
    },
    Started(TaskRun),
    Finished(TaskRun),
    Failed(TaskRun),
    Interrupted(TaskRun),
    NodeJoined(NodeId),
    NodeLost(NodeId),
    Held,
    Resumed,
    Cancelled(JobId),
    Tick,
    Overdue(TaskRun),
    FailedForGood(TaskRun),
    Dropped {
        job: JobId,
        #[serde(with = "plain::task")]
        task: TaskId,
    },
    Retried {
        job: JobId,
        #[serde(with = "plain::task")]
        task: TaskId,
    },
    Asked {
        job: JobId,
        #[serde(with = "plain::task")]
        task: TaskId,
    },
    Withdrawn(JobId),
    NodeDrained(NodeId),
    FailedUntil {
        run: TaskRun,
        until: f64,
    },
}

impl From<&Event> for Happening {
    fn from(event: &Event) -> Self {
        match *event {
            Event::Submitted(_) => Self::Submitted,
            Event::Staged { job, task, node } => Self::Staged { job, task, node },
            Event::Started(run) => Self::Started(run),
            Event::Finished(run) => Self::Finished(run),
            Event::Failed(run) => Self::Failed(run),
            Event::FailedUntil { run, until } => Self::FailedUntil { run, until },
            Event::FailedForGood(run) => Self::FailedForGood(run),
            Event::Interrupted(run) => Self::Interrupted(run),
            Event::NodeJoined(node) => Self::NodeJoined(node),
            Event::NodeLost(node) => Self::NodeLost(node),
            Event::Held => Self::Held,
            Event::Resumed => Self::Resumed,
            Event::Cancelled(job) => Self::Cancelled(job),
            Event::Tick => Self::Tick,
            Event::Overdue(run) => Self::Overdue(run),
            Event::Dropped { job, task } => Self::Dropped { job, task },
            Event::Retried { job, task } => Self::Retried { job, task },
            Event::Asked { job, task } => Self::Asked { job, task },
            Event::Withdrawn(job) => Self::Withdrawn(job),
            Event::NodeDrained(node) => Self::NodeDrained(node),
        }
    }
}

impl Happening {
    /// The event; every job is `instance`.
    pub fn event(self, instance: &Arc<Instance>) -> Event {
        match self {
            Self::Submitted => Event::Submitted(instance.clone()),
            Self::Staged { job, task, node } => Event::Staged { job, task, node },
            Self::Started(run) => Event::Started(run),
            Self::Finished(run) => Event::Finished(run),
            Self::Failed(run) => Event::Failed(run),
            Self::FailedUntil { run, until } => Event::FailedUntil { run, until },
            Self::FailedForGood(run) => Event::FailedForGood(run),
            Self::Interrupted(run) => Event::Interrupted(run),
            Self::NodeJoined(node) => Event::NodeJoined(node),
            Self::NodeLost(node) => Event::NodeLost(node),
            Self::Held => Event::Held,
            Self::Resumed => Event::Resumed,
            Self::Cancelled(job) => Event::Cancelled(job),
            Self::Tick => Event::Tick,
            Self::Overdue(run) => Event::Overdue(run),
            Self::Dropped { job, task } => Event::Dropped { job, task },
            Self::Retried { job, task } => Event::Retried { job, task },
            Self::Asked { job, task } => Event::Asked { job, task },
            Self::Withdrawn(job) => Event::Withdrawn(job),
            Self::NodeDrained(node) => Event::NodeDrained(node),
        }
    }
}

impl StepEntry {
    /// The entry of an engine's record, without usage.
    pub fn new(record: &Record, reasons: Vec<(TaskRun, String)>) -> Self {
        Self {
            now: record.now,
            events: record.events.iter().map(Happening::from).collect(),
            decisions: record.decisions.clone(),
            reasons,
            usage: Vec::new(),
        }
    }

    /// The engine's record; every job is `instance`.
    pub fn record(&self, instance: &Arc<Instance>) -> Record {
        Record {
            now: self.now,
            events: self.events.iter().map(|happening| happening.event(instance)).collect(),
            decisions: self.decisions.clone(),
        }
    }
}

/// The wall clock, in milliseconds since 1970: for people, nothing is decided by it.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_millis() as u64)
}
