//! The jobs of a cluster as graphs: what waits for what, and how urgent it is.

mod dependency;
mod graph;
#[cfg(test)]
pub(crate) mod graph_tests;
mod standings;

pub use dependency::named_jobs;
pub use graph::{Queued, graph};
pub use standings::Standings;
