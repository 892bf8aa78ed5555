//! MDTS: multi-task deep reinforcement learning, in which one shared network places all parallel child tasks of a job
//! at once, with one output branch per child task.
//!
//! [`paper`] is the method as published, in an environment of its own: a fixed number of child tasks and nodes.

mod experience;
mod imitation;
mod lessons;
mod network;
pub mod paper;
mod placer;
mod planner;
mod policy;
mod situation;
mod teaching;
pub mod training;
mod weights;

pub use experience::Experience;
pub use placer::Raw;
pub use policy::{Mdts, MdtsRaw};
pub use weights::{Probe, Training, Weights, save};
