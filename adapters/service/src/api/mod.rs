//! What is said over the wire: one type per body, all JSON.
//!
//! Times are in seconds and sizes in bytes. Requests with fields that are not known are refused; answers may get more
//! fields in later versions, but no field is removed or changes its meaning under `/v1`.

mod event;
mod job;
mod node;
pub(crate) mod object;
mod place;
mod problem;
mod whole;

pub use event::{Events, EventsAnswer, Heard, TaskEvent, What};
pub use job::{Extension, Job, JobState, Jobs, Submitted, Task, TaskState, Tasks};
pub use node::{Heartbeats, HeartbeatsAnswer, Node, NodeSpec, NodeState, Nodes, Registration};
pub use place::{
    Batch, BatchAnswer, Call, CallAnswer, Choice, Grant, Grants, Place, PlaceAnswer, Placement,
    PlacementState,
};
pub use problem::Problem;
