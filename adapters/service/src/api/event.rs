//! What clients report about their attempts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What has happened to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// It has really begun.
    Started,
    /// It succeeded.
    Finished,
    /// It failed; as often as the task's retries allow, it may be asked for again.
    Failed,
    /// It was stopped through no fault of its own; it is placed again, and no retry is used up.
    Interrupted,
}

/// One report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskEvent {
    /// The task.
    pub task: String,
    /// The attempt, as granted.
    #[serde(deserialize_with = "super::whole::read")]
    pub attempt: u32,
    /// What has happened.
    pub event: What,
    /// How long a finished attempt ran; absent: the time since it was started, or granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1e12)]
    pub seconds: Option<f64>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Reports, in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// The reports.
    #[serde(deserialize_with = "super::object::list")]
    pub events: Vec<TaskEvent>,
}

/// What came of one report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Heard {
    /// The task.
    pub task: String,
    /// Whether it counts. One that was told already counts as before.
    pub accepted: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What came of reports.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EventsAnswer {
    /// One per report, in order.
    pub results: Vec<Heard>,
    /// Tasks that are ready and that nobody has asked for.
    pub ready: Vec<String>,
    /// Tasks that have not come to their end.
    pub remaining: usize,
    /// Ask for grants after this number.
    pub after: u64,
}
