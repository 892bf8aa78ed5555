//! The brain: what a submission should say besides what its author has said. No I/O, no clock; well below a millisecond.
//!
//! ```text
//!   Request (what is asked) + View (nodes, their plans, partitions) + Standing (of the job in its workflow) --> Verdict
//! ```
//! All ways into Slurm ask this one: the rewriter of scripts, the Lua scripts, the plugin, and the sidecar for jobs that wait.

mod decide;
mod demand;
mod features;
mod hopeless;
mod request;
mod standing;
mod verdict;
mod view;
mod wire;

pub use decide::{Brain, Settings, Steering, eligible};
pub use demand::{Demand, demand};
pub use request::{Memory, Request};
pub use standing::{Standing, Tag};
pub use verdict::{Decision, Verdict};
pub use view::{Node, Partition, Running, View};
pub use wire::WireError;
