//! Runs job graphs through Slurm, and steers what Slurm accepts.
//!
//! [`Slurm`] is what is wanted of a cluster; [`Commands`] gets it from Slurm's own programs. [`SlurmExecutor`] runs the tasks
//! of a job as batch jobs, on the nodes that a policy chooses. What steers submissions:
//!
//! - [`filter`]: what batch scripts ask for, and what is added to them
//! - [`brain`]: where a submission should run, how urgent it is, and whether it can run at all
//! - [`sidecar`]: answers submissions at once, and places jobs that wait
//! - [`doctor`]: what is right and wrong with a cluster
//! - [`mod@ask`]: one question to the sidecar
//! - [`mod@escape`]: values in the lines that are exchanged with it
//! - [`import`]: folders of batch scripts and logs of clusters as graphs
//! - [`queue`]: the jobs of a cluster as graphs
//! - [`spell`]: how Slurm spells times, sizes and lists

pub mod ask;
pub mod brain;
mod client;
mod cluster;
pub mod doctor;
mod error;
pub mod escape;
mod executor;
pub mod filter;
pub mod import;
pub mod queue;
mod run;
pub mod sidecar;
pub mod spell;

pub use client::{
    Array, Change, Commands, CommandsOptions, JobId, JobRecord, JobState, NodeRecord, PartitionRecord, Rest,
    RestAddress, RestOptions, Selection, Slurm, Submission,
};
pub use cluster::{Discovered, discover};
pub use error::{Error, Result};
pub use executor::{Packing, Placement, SlurmExecutor, SlurmHandle, SlurmOptions, SlurmSummary};
