//! What can keep a service from beginning or going on.

use std::io;
use std::path::PathBuf;

/// Errors of this crate. Requests that are refused are told to their senders, see [`crate::api::Problem`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The journal cannot be used, or something cannot be recorded any more.
    #[error(transparent)]
    Core(#[from] mdts_core::Error),
    /// A record of the journal cannot be applied.
    #[error(
        "journal {place}: record {number}: {message}; it was not written by this version of mdts, or was changed since"
    )]
    Strange {
        /// The journal.
        place: String,
        /// From 1, the manifest not counted.
        number: u64,
        /// What is wrong.
        message: String,
    },
    /// The service cannot listen.
    #[error("cannot listen on {place}: {source}{hint}")]
    Listen {
        /// The socket or address.
        place: String,
        /// The operating system's reason.
        source: io::Error,
        /// Empty, or what to do.
        hint: &'static str,
    },
    /// A file that is needed cannot be used.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong and what would be right.
        message: String,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// Nothing more can be recorded, so that nothing more is answered.
    #[error("the service has stopped: {0}")]
    Closed(String),
    /// A client could not reach the service, or did not understand it.
    #[error("{place}: {message}")]
    Client {
        /// The socket or address.
        place: String,
        /// What went wrong.
        message: String,
    },
    /// The service refused a request.
    #[error("{} ({}): {}", .0.title, .0.status, .0.detail)]
    Refused(crate::api::Problem),
}

/// Short for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
