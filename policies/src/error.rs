//! What can go wrong when a policy is chosen.

/// Errors of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No policy has this name.
    #[error("unknown policy '{name}'{hint}; the policies are {known}")]
    UnknownPolicy {
        /// The name that was given.
        name: String,
        /// Empty, or the nearest name.
        hint: String,
        /// All names.
        known: String,
    },
}

/// Short for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
