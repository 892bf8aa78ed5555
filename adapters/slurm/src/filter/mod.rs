//! The submit filter: reads what a batch script asks for, and adds to it what its author has left open.
//!
//! ```text
//!   script --Script::scan--> directives --getopt--> options --read_request--> Request --> brain --> Decision --rewrite--> script
//! ```
//! The rules are those of sbatch, found by trying (22.05): directives end at the first command, the last one wins, options on
//! the command line come before `SBATCH_*` variables and those before directives. What the filter does not understand it
//! leaves alone.

mod getopt;
mod options;
mod read;
mod rewrite;
mod script;
mod words;

pub use getopt::Given;
pub use options::Name;
pub use read::{Sources, read_request};
pub use rewrite::{Lines, filter, insert};
pub use script::{Directive, Script};
pub use words::split;

use thiserror::Error;

/// Why the filter leaves a script alone. None of it is the filter's to correct: sbatch or the user decide.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// There is no `#!` in the first line.
    #[error("the first line does not begin with #!")]
    NoInterpreter,
    /// A batch script holds no zero bytes.
    #[error("the script holds a zero byte")]
    Zero,
    /// The script has been through the filter.
    #[error("the filter has been here before")]
    FilteredBefore,
    /// Directives of another batch system count, too.
    #[error("line {line}: directives of another batch system count here; --ignore-pbs passes over them")]
    Foreign {
        /// Where, from 1.
        line: usize,
    },
    /// A directive that sbatch refuses.
    #[error("line {line}: {what}")]
    Directive {
        /// Where, from 1; 0 is the command line.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Several components in one job.
    #[error("line {line}: jobs of several components are placed by Slurm alone")]
    Heterogeneous {
        /// Where, from 1.
        line: usize,
    },
    /// The job goes to other clusters.
    #[error("the job names clusters, and the filter knows one only")]
    Clusters,
}
