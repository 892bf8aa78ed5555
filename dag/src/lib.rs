//! What is to be done: tasks, their data and dependencies, the files that describe them, and their analysis.
//!
//! A [`JobGraph`] is built by hand ([`JobGraph::builder`]), read from a file ([`mod@format`]) or generated
//! ([`generate`]); [`JobGraph::freeze`] gives the [`FlatGraph`] that schedulers read. This crate knows no machine.

pub mod analysis;
mod builder;
mod error;
mod flat;
pub mod format;
pub mod generate;
mod graph;
mod ids;
mod retry;
mod sharing;
mod task;
pub mod text;
pub mod units;
mod validate;
pub mod whole;

pub use builder::JobGraphBuilder;
pub use error::{Error, Result};
pub use flat::{DataModel, EdgeId, FlatGraph, TimesByNode};
pub use graph::{DataFile, Dependency, JobGraph};
pub use ids::{DemandId, FileId, KindId, TaskId};
pub use retry::{Failing, RetryRule};
pub use task::{Demand, Execution, Task, Work};
