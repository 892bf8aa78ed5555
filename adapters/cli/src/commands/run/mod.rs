//! `mdts run DAG`: plans, shows the plan beside simple baselines, runs it and tells how it went.
//!
//! ```text
//!   Run (flags) --> Ready (what is to be run, and its plan) --> drive --> Report
//! ```

mod command;
mod ready;
mod report;
mod through_slurm;

pub(crate) use command::Run;
pub(super) use ready::executor;
