//! Runs job graphs through Slurm, and steers what Slurm accepts.
//!
//! [`Slurm`] is what is wanted of a cluster; [`Commands`] gets it from Slurm's own programs.

mod client;
mod error;

pub use client::{
    Array, Change, Commands, CommandsOptions, JobId, JobRecord, JobState, NodeRecord, PartitionRecord,
    Selection, Slurm, Submission,
};
pub use error::{Error, Result};
