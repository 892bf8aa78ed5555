//! The runner: drives the engine in real time through an executor.

mod executor;

pub use executor::{Assignment, Executor, Outcome, Report, Reports};
