//! What can go wrong in a command, and which exit status tells it.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use mdts_core::Error as CoreError;
use mdts_dag::text::nearest;
use mdts_policies::learn::Error as LearnError;
use mdts_policies::predict::Error as PredictError;

/// Errors of the command line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Something is wrong with a workflow.
    #[error(transparent)]
    Dag(mdts_dag::Error),
    /// Something is wrong with a cluster, a plan or a run.
    #[error(transparent)]
    Core(CoreError),
    /// Something is wrong with a history of run times.
    #[error(transparent)]
    Predict(PredictError),
    /// Something cannot be learned.
    #[error("learning: {0}")]
    Learn(LearnError),
    /// A file of weights, or of a training, cannot be used.
    #[error(transparent)]
    Checkpoint(LearnError),
    /// A flag or a setting makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read.
    #[error("{}: cannot be read: {source}; check the path and its permissions", path.display())]
    Input { path: PathBuf, source: io::Error },
    /// A file cannot be written.
    #[error("{}: cannot be written: {source}; choose a file in a folder that exists and that you may write to", path.display())]
    Output { path: PathBuf, source: io::Error },
    /// Slurm does not do what it is asked for.
    #[error(transparent)]
    Slurm(mdts_slurm::Error),
    /// The service cannot begin or go on.
    #[error(transparent)]
    Service(mdts_service::Error),
    /// A policy gave a schedule that breaks a rule.
    #[error("policy {policy}: {violation}; this is a fault of the policy, please report it")]
    InvalidPlan { policy: &'static str, violation: mdts_core::Violation },
    /// A chart cannot be drawn.
    #[error("the chart cannot be drawn: {0}")]
    Plot(String),
    /// Standard output cannot be written to.
    #[error("standard output: {0}")]
    Stdout(io::Error),
    /// What a setting names cannot be used; `origin` tells where the setting is.
    #[error("{origin}: {error}")]
    Setting { origin: String, error: Box<Error> },
    /// What was asked for did not happen.
    #[error("{0}")]
    Failed(String),
    /// The system cannot do what a run needs.
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

/// Short for results of this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl From<mdts_dag::Error> for Error {
    fn from(error: mdts_dag::Error) -> Self {
        match error {
            mdts_dag::Error::Io { path, source } => Self::Input { path, source },
            other => Self::Dag(other),
        }
    }
}

impl From<CoreError> for Error {
    fn from(error: CoreError) -> Self {
        match error {
            CoreError::Io { path, source } => Self::Input { path, source },
            other => Self::Core(other),
        }
    }
}

impl From<mdts_service::Error> for Error {
    fn from(error: mdts_service::Error) -> Self {
        match error {
            mdts_service::Error::Core(error) => error.into(),
            other => Self::Service(other),
        }
    }
}

impl From<mdts_slurm::Error> for Error {
    fn from(error: mdts_slurm::Error) -> Self {
        match error {
            mdts_slurm::Error::Io { path, source } => Self::Input { path, source },
            mdts_slurm::Error::Usage(message) => Self::Usage(message),
            other => Self::Slurm(other),
        }
    }
}

impl From<PredictError> for Error {
    fn from(error: PredictError) -> Self {
        match error {
            PredictError::Io { path, source } => Self::Input { path, source },
            PredictError::Graph(error) => error.into(),
            other => Self::Predict(other),
        }
    }
}

impl Error {
    /// What was wrong with a file that holds weights.
    pub(crate) fn reading(error: LearnError) -> Self {
        match error {
            LearnError::Io { path, source } => Self::Input { path, source },
            other => Self::Checkpoint(other),
        }
    }

    /// What was wrong when something was learned or its outcome written.
    pub(crate) fn learning(error: LearnError) -> Self {
        match error {
            LearnError::Io { path, source } => Self::Output { path, source },
            LearnError::Setting { .. } => Self::Usage(error.to_string()),
            other => Self::Learn(other),
        }
    }

    /// 1 if the work failed, 2 if what was asked for is wrong.
    pub(crate) fn exit_code(&self) -> ExitCode {
        let failed = match self {
            Self::Setting { error, .. } => return error.exit_code(),
            Self::Core(error) => matches!(
                error,
                CoreError::Invalid(_)
                    | CoreError::BadDecision { .. }
                    | CoreError::Executor(_)
                    | CoreError::Stuck(_)
                    | CoreError::NotRecorded { .. }
            ),
            // That it is not installed is for the user to change.
            Self::Slurm(error) => !matches!(error, mdts_slurm::Error::NoProgram { .. }),
            Self::Service(error) => matches!(error, mdts_service::Error::Closed(_)),
            Self::Learn(_)
            | Self::InvalidPlan { .. }
            | Self::Plot(_)
            | Self::Stdout(_)
            | Self::Failed(_)
            | Self::System { .. } => true,
            Self::Dag(_)
            | Self::Predict(_)
            | Self::Checkpoint(_)
            | Self::Usage(_)
            | Self::Input { .. }
            | Self::Output { .. } => false,
        };
        ExitCode::from(if failed { 1 } else { 2 })
    }

    /// Whether the reader of standard output has gone away, which is no fault.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// A message on one line, whatever names and parsers put into it.
pub(crate) fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty() && !is_drawing(line));
    let joined = lines.collect::<Vec<_>>().join(", ");
    joined.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Lines with which parsers point at the place: `|`, `3 | x = `, `|    ^^^`.
fn is_drawing(line: &str) -> bool {
    line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|')
}

/// `; did you mean 'x'?` with the nearest of some names, or nothing.
pub(crate) fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, names).map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

/// What clap says of wrong usage, in one line: the fault and its tips, without the synopsis.
pub(crate) fn usage(rendered: &str) -> String {
    let lines = rendered.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let told: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.contains("to pass '-"))
        .map(|l| l.trim_start_matches("tip: "))
        .collect();
    one_line(&told.join("; ")).replace(":; ", ": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_one_line() {
        let table = [
            ("plain", "plain"),
            (
                "error at line 1\n  |\n1 | x = \n  |     ^\nexpected a value\n",
                "error at line 1, expected a value",
            ),
            ("a\tb\u{1b}[31m", "a\u{fffd}b\u{fffd}[31m"),
        ];
        for (message, expected) in table {
            assert_eq!(one_line(message), expected);
        }
    }

    #[test]
    fn the_nearest_name_is_offered() {
        assert_eq!(did_you_mean("HEFFT", ["cpop", "heft"]), "; did you mean 'heft'?");
        assert_eq!(did_you_mean("zzz", ["cpop", "heft"]), "");
    }
}
