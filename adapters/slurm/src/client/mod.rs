//! What this crate wants of Slurm, whatever the way to it.
//!
//! [`Slurm`] is the contract. [`Commands`] keeps it by running Slurm's programs, [`Rest`] by calling
//! its REST daemon.

mod commands;
mod parse;
mod records;
mod rest;
mod state;
mod submission;

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;

pub use commands::{Commands, CommandsOptions};
pub use records::{JobRecord, NodeRecord, PartitionRecord};
pub use rest::{Rest, RestAddress, RestOptions};
pub use state::JobState;
pub use submission::{Array, Change, JobId, Selection, Submission};

use crate::Result;

/// A Slurm cluster.
///
/// Every call ends within a time limit of the implementation's. After [`crate::Error::Timeout`] and
/// [`crate::Error::Unreachable`] it is not known whether Slurm has done what was asked: look before asking again.
#[async_trait]
pub trait Slurm: Debug + Send + Sync {
    /// Submits a batch script; the number of the job.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with Slurm's own words, and those of every call.
    async fn submit(&self, submission: &Submission) -> Result<u32>;

    /// The jobs of a selection, also those that have ended and that the controller still remembers. Elements of arrays
    /// are jobs of their own.
    ///
    /// # Errors
    /// Those of every call: [`crate::Error::NoProgram`], [`crate::Error::Timeout`], [`crate::Error::Unreachable`],
    /// [`crate::Error::Refused`], [`crate::Error::Strange`].
    async fn jobs(&self, which: &Selection) -> Result<Vec<JobRecord>>;

    /// What is recorded of the ends of jobs that the controller has forgotten; empty where nothing is, as by default.
    ///
    /// # Errors
    /// Those of every call.
    async fn history(&self, _jobs: &[JobId]) -> Result<Vec<JobRecord>> {
        Ok(Vec::new())
    }

    /// Changes jobs, in this order. What is refused is told by the index of the change; the others are done.
    ///
    /// # Errors
    /// Those of every call; it is then not known which were done.
    async fn update(&self, changes: &[Change]) -> Result<Vec<(usize, String)>>;

    /// Cancels jobs. Those that have ended, or never were, are no error.
    ///
    /// # Errors
    /// Those of every call.
    async fn cancel(&self, jobs: &[JobId]) -> Result<()>;

    /// All nodes.
    ///
    /// # Errors
    /// Those of every call.
    async fn nodes(&self) -> Result<Vec<NodeRecord>>;

    /// All partitions.
    ///
    /// # Errors
    /// Those of every call.
    async fn partitions(&self) -> Result<Vec<PartitionRecord>>;

    /// The configuration as `scontrol show config` tells it.
    ///
    /// # Errors
    /// Those of every call.
    async fn config(&self) -> Result<BTreeMap<String, String>>;
}
