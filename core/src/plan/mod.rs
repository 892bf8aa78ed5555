//! From a graph and a cluster to a schedule: costs, the schedule and its check, and what planners build on.

mod arrival;
mod bounds;
mod energy;
mod instance;
mod objectives;
mod partial;
mod resources;
mod rows;
mod schedule;
mod timeline;
mod verify;

pub use arrival::Arrival;
pub use bounds::{Bounds, lower_bounds, remaining_paths};
pub use instance::{Instance, Progress};
pub use objectives::{Objectives, objectives};
pub(crate) use partial::require_single_nodes;
pub use partial::{PartialSchedule, Slot};
pub use resources::Resources;
pub use schedule::{Placement, Schedule};
pub use timeline::Timeline;
pub use verify::Violation;
