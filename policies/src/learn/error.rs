//! What can go wrong when something is learned or a checkpoint is read.

use std::fmt::Display;
use std::path::PathBuf;

/// Errors of the learning blocks. Each says what is wrong, where, and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed: shapes that do not fit, mostly.
    #[error("tensor operation: {0}")]
    Tensor(#[from] candle_core::Error),
    /// The environment failed.
    #[error("environment: {0}")]
    Environment(#[from] mdts_core::Error),
    /// A loss, gradient, logit or weight is NaN or infinite.
    #[error("{what} is not finite; a lower learning rate or scaled inputs and rewards may help")]
    NotFinite {
        /// The loss, or the parameter whose gradient it is, or the row.
        what: String,
    },
    /// A parameter has no part in the loss.
    #[error(
        "no gradient reaches parameter '{name}': an operation without backward, or a part the loss leaves out"
    )]
    NoGradient {
        /// The parameter.
        name: String,
    },
    /// No option of a branch is allowed.
    #[error("all {options} options are masked; at least one must be allowed")]
    NothingAllowed {
        /// How many options there are.
        options: usize,
    },
    /// An option that is masked or does not exist was chosen.
    #[error("option {option} of {options} is masked or does not exist")]
    Forbidden {
        /// The option.
        option: usize,
        /// How many options there are.
        options: usize,
    },
    /// Sizes that do not fit together.
    #[error("{what}: found {found}, expected {expected}")]
    Size {
        /// What has the wrong size.
        what: String,
        /// The size it has.
        found: String,
        /// The size it should have.
        expected: String,
    },
    /// A setting makes no sense.
    #[error("{what}: {found} given, {expected} expected")]
    Setting {
        /// The setting.
        what: &'static str,
        /// The value that was given.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// Bytes that are no checkpoint, or not a whole one.
    #[error("not a whole checkpoint: {0}; a safetensors file written by this program is expected")]
    Malformed(String),
    /// A checkpoint whose network reads other features.
    #[error("checkpoint has feature version {found}, this program reads version {expected}; train it again")]
    FeatureVersion {
        /// The version in the checkpoint.
        found: u32,
        /// The version of this program.
        expected: u32,
    },
    /// A tensor that the network has and the checkpoint lacks.
    #[error("tensor '{name}' is missing in the checkpoint; was it made with another configuration?")]
    MissingTensor {
        /// The tensor.
        name: String,
    },
    /// A tensor that the checkpoint has and the network lacks.
    #[error(
        "tensor '{name}' of the checkpoint is unknown to the network; was it made with another configuration?"
    )]
    UnknownTensor {
        /// The tensor.
        name: String,
    },
    /// An error in the named file.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        source: Box<Error>,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
}

impl Error {
    /// Something of size `found` that should be `expected`.
    pub(super) fn size(what: impl Into<String>, found: impl Display, expected: impl Display) -> Self {
        Self::Size { what: what.into(), found: found.to_string(), expected: expected.to_string() }
    }

    pub(super) fn not_finite(what: impl Into<String>) -> Self {
        Self::NotFinite { what: what.into() }
    }
}

/// Short for results of the learning blocks.
pub type Result<T, E = Error> = std::result::Result<T, E>;
