//! Runs job graphs through Slurm, and steers what Slurm accepts.
//!
//! [`Slurm`] is what is wanted of a cluster; [`Commands`] gets it from Slurm's own programs. [`SlurmExecutor`] runs the tasks
//! of a job as batch jobs, on the nodes that a policy chooses.

mod client;
mod cluster;
mod error;
mod executor;
mod run;

pub use client::{
    Array, Change, Commands, CommandsOptions, JobId, JobRecord, JobState, NodeRecord, PartitionRecord, Rest,
    RestAddress, RestOptions, Selection, Slurm, Submission,
};
pub use cluster::{Discovered, discover};
pub use error::{Error, Result};
pub use executor::{Packing, Placement, SlurmExecutor, SlurmHandle, SlurmOptions, SlurmSummary};
