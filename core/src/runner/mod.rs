//! The runner: drives the engine in real time through an executor.
//!
//! ```text
//!   Executor -- reports --> Runner -- events --> Engine (asks the policy)
//!      ^                      |  <-- commands --/
//!      '---- start, cancel ---'
//! ```
//! With a [journal](crate::journal) every step is recorded before its commands are carried out, and a run that was
//! stopped or killed goes on from there. [`Standing`] tells from the journal alone how a run stands, [`Obstacle`] why a
//! task of it is not running.

mod amend;
mod attempts;
mod clocks;
mod drive;
mod executor;
mod function;
mod ledger;
mod logs;
mod obstacle;
mod options;
mod orders;
mod replay;
mod report;
mod run;
mod standing;
mod stopping;
mod stuck;
#[cfg(test)]
mod tests;

pub use amend::amend;
pub use executor::{Assignment, Executor, Outcome, Report, Reports, Stopping, Usage};
pub use function::FnExecutor;
pub use logs::{LogFiles, log_files};
pub use obstacle::{Obstacle, Obstacles};
pub use options::{RunOptions, Snapshot, Stop, Stopper};
pub use report::{RunEnd, RunReport, TaskOutcome, TaskReport};
pub use run::Runner;
pub use standing::{LatestAttempt, Standing};
