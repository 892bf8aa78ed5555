//! Jobs and their tasks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Choice, Placement};

/// A job was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    /// What the job is called from now on.
    pub id: String,
    /// Number of its tasks.
    pub tasks: usize,
    /// Tasks that can be placed now: all that they depend on is done.
    pub ready: Vec<String>,
}

/// Tasks to add to a job, as in the project's own workflow format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    /// The tasks; they may depend on tasks that the job has, and its tasks do not change.
    #[schema(value_type = Vec<Object>)]
    pub tasks: Vec<serde_json::Value>,
    /// Sizes of files that the new tasks name.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub files: serde_json::Map<String, serde_json::Value>,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Some task has not come to its end.
    Open,
    /// It is open, but its client was silent for longer than its lease: it holds no node.
    Lapsed,
    /// Every task succeeded.
    Succeeded,
    /// Some task failed for good.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// What it is called.
    pub id: String,
    /// The name of its graph.
    pub name: String,
    /// Whose it is; jobs without a client count by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Higher comes first.
    pub priority: i32,
    /// Weight among clients.
    pub share: f64,
    /// How it stands.
    pub state: JobState,
    /// Number of its tasks.
    pub tasks: usize,
    /// Tasks that wait for others.
    pub waiting: usize,
    /// Tasks that can start and have not.
    pub ready: usize,
    /// Tasks that hold a node.
    pub running: usize,
    /// Tasks that succeeded.
    pub done: usize,
    /// Tasks that failed for good.
    pub failed: usize,
    /// Tasks that never run, since a task before them failed or the job was cancelled.
    pub blocked: usize,
    /// Attempts that were granted so far.
    pub granted: u64,
    /// Seconds of silence after which the job loses its nodes; 0: never.
    pub lease_seconds: f64,
    /// Seconds since it was submitted.
    pub age: f64,
}

/// Jobs, the newest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// Up to 1,000.
    pub jobs: Vec<Job>,
}

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// Some parent has not finished.
    Waiting,
    /// All parents have finished.
    Ready,
    /// It holds a node.
    Running,
    /// It succeeded.
    Done,
    /// It failed for good.
    Failed,
    /// It never runs.
    Blocked,
}

/// A task, with the reasons for where it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// Its name.
    pub task: String,
    /// Where it is in its life.
    pub state: TaskState,
    /// The latest answer about its placement.
    pub placement: Placement,
    /// Why it is where it is, in a sentence.
    pub why: String,
    /// The nodes that were compared when it was placed, or that would be now: the earliest finish first, at most four.
    pub options: Vec<Choice>,
    /// Seconds that the attempt took, once it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// What the client said when its latest attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Tasks of a job, in the order of the graph.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Tasks {
    /// Placements of up to 1,000 tasks.
    pub tasks: Vec<Placement>,
    /// Where to go on with `offset`, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<usize>,
}
