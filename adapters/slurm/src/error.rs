//! What can go wrong between mdts and Slurm.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program of Slurm is not installed, or not where it is looked for.
    #[error("'{program}' cannot be run: {source}; is Slurm's client installed on this machine and in PATH?")]
    NoProgram {
        /// Its name.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// Slurm did not answer in time. What was asked for may have happened.
    #[error("{what}: no answer from Slurm within {} s", limit.as_secs_f64())]
    Timeout {
        /// The command or call.
        what: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The controller cannot be reached. What was asked for may have happened.
    #[error("{what}: Slurm's controller cannot be reached: {message}")]
    Unreachable {
        /// The command or call.
        what: String,
        /// What the program says.
        message: String,
    },
    /// Slurm says no.
    #[error("{what}: {message}")]
    Refused {
        /// The command or call.
        what: String,
        /// What Slurm says.
        message: String,
    },
    /// Slurm's answer is not what this crate knows.
    #[error("{what}: the answer is not understood: {message}")]
    Strange {
        /// The command or call.
        what: String,
        /// What is not understood.
        message: String,
    },
    /// A file of a run cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A setting, or what is asked for, makes no sense here.
    #[error("{0}")]
    Usage(String),
}

/// Short for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether asking again later may help: Slurm is out of reach rather than of another opinion.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Unreachable { .. })
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

impl From<Error> for mdts_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { path, source } => Self::Io { path, source },
            other => Self::Executor(other.to_string()),
        }
    }
}
