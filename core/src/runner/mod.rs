//! The runner: drives the engine in real time through an executor.
//!
//! ```text
//!   Executor -- reports --> Runner -- events --> Engine (asks the policy)
//!      ^                      |  <-- commands --/
//!      '---- start, cancel ---'
//! ```

mod attempts;
mod drive;
mod executor;
mod function;
mod ledger;
mod options;
mod report;
mod run;
mod stuck;
#[cfg(test)]
mod tests;

pub use executor::{Assignment, Executor, Outcome, Report, Reports};
pub use function::FnExecutor;
pub use options::{RunOptions, Snapshot, Stop, Stopper};
pub use report::{RunEnd, RunReport, TaskOutcome, TaskReport};
pub use run::Runner;
