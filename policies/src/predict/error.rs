//! What can go wrong when run times are learnt or a history is read.

use std::path::PathBuf;

/// Errors of run-time prediction. Each says what is wrong, where, and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A feature or a run time is NaN, infinite or negative.
    #[error("kind '{}': {what} is {value}; expected a number of at least 0{}", kind.escape_debug(), remedy(what))]
    BadNumber {
        /// The kind of task.
        kind: String,
        /// Which number.
        what: &'static str,
        /// The value found.
        value: f64,
    },
    /// Nothing was learnt yet.
    #[error("the history holds no run times; learn from workflows with run times first")]
    Empty,
    /// There are too few runs to leave one out.
    #[error("found {found} workflows with run times; an evaluation leaves one out and needs at least 2")]
    TooFewRuns {
        /// How many there are.
        found: usize,
    },
    /// A history's text is not what it should be.
    #[error("not a history of run times: {message}")]
    Parse {
        /// What was found and what was expected.
        message: String,
    },
    /// A history was written by another version.
    #[error("the history is of version {found}, this program reads version {expected}; learn it anew")]
    Version {
        /// The file's version.
        found: u64,
        /// The version that this crate reads.
        expected: u64,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// An error in the named file.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        source: Box<Error>,
    },
    /// A graph could not be given its run times.
    #[error(transparent)]
    Graph(#[from] mdts_dag::Error),
}

/// Speeds alone may not be 0.
fn remedy(what: &str) -> &'static str {
    if what == "speed" { ", and above 0 for a speed" } else { "" }
}

/// Short for results of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;
