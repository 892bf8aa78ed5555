//! Placements and grants, and several calls in one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which tasks to place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The tasks; absent: all that are ready. A task whose parents are not done is placed as soon as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<String>>,
    /// Without `tasks`: all tasks of the job, each as soon as it is ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
}

/// What a client may do about a task now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlacementState {
    /// Nobody has asked for it.
    Idle,
    /// It was asked for, and no node is chosen yet: see `why`.
    Waiting,
    /// The node is chosen and not yet free: a grant will follow.
    Queued,
    /// Granted: start this attempt on this node now, and report what comes of it.
    Start,
    /// The client has reported that it started.
    Running,
    /// It succeeded.
    Done,
    /// It failed for good.
    Failed,
    /// It never runs: a task before it failed, or the job was cancelled.
    Blocked,
}

/// A task and its node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Placement {
    /// The task.
    pub task: String,
    /// What a client may do about it.
    pub state: PlacementState,
    /// The node; absent while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The attempt that was granted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Seconds that it is expected to run on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_seconds: Option<f64>,
    /// Why it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What came of a decision step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct PlaceAnswer {
    /// One per task that was asked for, in the order of the request.
    pub placements: Vec<Placement>,
    /// Ask for grants after this number.
    pub after: u64,
}

/// An attempt that may start, or must stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Grant {
    /// Numbered from 1 in each job.
    pub number: u64,
    /// The task.
    pub task: String,
    /// The attempt.
    pub attempt: u32,
    /// Where.
    pub node: String,
    /// False if the attempt has lost its node and is to be stopped.
    pub start: bool,
}

/// What was granted after some number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Grants {
    /// At most 10,000, in order.
    pub grants: Vec<Grant>,
    /// Ask for grants after this number next time.
    pub after: u64,
    /// Whether the job has come to its end.
    pub ended: bool,
}

/// A node that a task was compared on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Choice {
    /// The node.
    pub node: String,
    /// Seconds from the decision until it could start there.
    pub starts_in: f64,
    /// Seconds that it would run there.
    pub seconds: f64,
    /// Seconds from the decision until it would be done there.
    pub done_in: f64,
}

/// Several calls, carried out one after the other; one that fails does not keep the next from being made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// At most 1,000.
    #[serde(deserialize_with = "super::object::list")]
    pub calls: Vec<Call>,
}

/// One call of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// GET, POST, PUT or DELETE.
    pub method: String,
    /// Path and query, from `/v1/` on; neither a batch nor one that waits.
    pub path: String,
    /// Its `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its body, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub body: Option<serde_json::Value>,
}

/// What came of the calls, in their order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct BatchAnswer {
    /// One per call.
    pub answers: Vec<CallAnswer>,
}

/// What came of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    #[schema(value_type = Object)]
    pub body: serde_json::Value,
}
