//! A run through Slurm: what is on disk, what the jobs do, and who watches them.
//!
//! ```text
//!   SlurmExecutor -- orders --> Conductor -- waves --> RunFolder <-- claims, results -- jobs
//!                                   '------ submissions, changes, looks --> Slurm
//! ```

mod book;
mod cancelling;
mod conductor;
mod fate;
mod folder;
mod graph;
mod judging;
mod nodes;
mod reasons;
mod script;
mod submitting;
mod wave;
mod words;

pub(crate) use conductor::{Conductor, Order};
pub(crate) use folder::RunFolder;
