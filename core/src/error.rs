//! What can be wrong with a cluster, an instance, a plan or a run.

use std::path::PathBuf;

/// Errors of this crate. Each says what is wrong, where, and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something is wrong with the graph.
    #[error(transparent)]
    Graph(#[from] mdts_dag::Error),
    /// A cluster description makes no sense.
    #[error("cluster, {place}: {message}")]
    Cluster {
        /// The node, link or key.
        place: String,
        /// What was found and what was expected.
        message: String,
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
    /// No node can run a task.
    #[error("task '{task}' fits no node of the cluster: {reason}")]
    Infeasible {
        /// The task.
        task: String,
        /// What it needs and what there is.
        reason: String,
    },
    /// A policy cannot do what the job asks for.
    #[error("cannot schedule this job: {message}")]
    Unsupported {
        /// What is not supported and what to use instead.
        message: String,
    },
    /// A setting is out of range.
    #[error("{what} is {value}; expected {expected}")]
    BadSetting {
        /// Which setting.
        what: &'static str,
        /// The value found.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// A schedule breaks a rule.
    #[error("invalid schedule: {0}")]
    Invalid(#[from] crate::Violation),
    /// A policy placed a task where it cannot be.
    #[error("the policy placed task {task} on node {node}, but {reason}; this is a fault of the policy")]
    BadDecision {
        /// The task.
        task: String,
        /// The node.
        node: String,
        /// Why it cannot be there.
        reason: String,
    },
    /// An executor could not do its work.
    #[error("executor: {0}")]
    Executor(String),
    /// A journal cannot be used.
    #[error("journal {place}: {message}")]
    Journal {
        /// Its folder or file.
        place: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// Something could not be recorded, so that it must not be done.
    #[error(
        "journal {place}: cannot be written: {source}; the run has stopped; make room or mend the folder, then go on \
         with --resume"
    )]
    NotRecorded {
        /// The journal.
        place: String,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A run stopped making progress.
    #[error("the run is stuck: {0}")]
    Stuck(String),
}

/// Short for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
