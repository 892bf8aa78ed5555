//! What can be wrong with a graph or a file that describes one.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Errors of this crate. Each says what is wrong, where, and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Dependencies form a cycle; `tasks` lists it in order, each depending on the one before.
    #[error("the graph has a cycle: {}; remove one of these dependencies", show_cycle(tasks))]
    Cycle {
        /// The tasks on the cycle, in order of their dependencies.
        tasks: Vec<String>,
    },
    /// Two tasks have one name.
    #[error("two tasks are named '{}'; task names must be unique", one_line(name))]
    DuplicateTask {
        /// The name.
        name: String,
    },
    /// A dependency names a task that does not exist.
    #[error(
        "task '{}' depends on '{}', which is not a task of this graph{}",
        one_line(task),
        one_line(parent),
        one_line(hint)
    )]
    UnknownTask {
        /// The task that has the dependency.
        task: String,
        /// The name that was not found.
        parent: String,
        /// Empty, or the nearest existing name.
        hint: String,
    },
    /// A graph was gone on with, and one of its tasks would depend on another one than before.
    #[error(
        "task '{}' is there already and cannot wait for '{}' now; only new tasks depend on new ones",
        one_line(task),
        one_line(parent)
    )]
    Settled {
        /// The task that was there.
        task: String,
        /// What it would wait for.
        parent: String,
    },
    /// A number is negative, not finite or otherwise out of range.
    #[error("{}: {what} is {value}; expected {expected}", one_line(place))]
    BadNumber {
        /// The task, dependency or file that holds the number.
        place: String,
        /// Which number.
        what: &'static str,
        /// The value found.
        value: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// A generator or one of its parameters is not what it may be.
    #[error("{name}: {message}")]
    BadParameter {
        /// The generator and its parameter, as in `fft:points`.
        name: String,
        /// What was found and what was expected.
        message: String,
    },
    /// The graph has no task.
    #[error("the graph has no tasks; a job needs at least one")]
    Empty,
    /// The graph is larger than 32-bit ids allow, or a short text stands for more than memory should hold.
    #[error("the graph has more than {limit} {what}")]
    TooLarge {
        /// What there is too much of, and the remedy where there is one.
        what: &'static str,
        /// The largest number allowed.
        limit: u64,
    },
    /// A file's text is not what its format demands.
    #[error("{format}, {}: {}", one_line(place), one_line(message))]
    Parse {
        /// The format that was read.
        format: &'static str,
        /// Line (and column) or path inside the document.
        place: String,
        /// What was found and what was expected.
        message: String,
    },
    /// The format of a file could not be told.
    #[error("{}", one_line(message))]
    UnknownFormat {
        /// What was looked at and what is supported.
        message: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", one_line(&path.to_string_lossy()))]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// An error in the named file.
    #[error("{}: {source}", one_line(&path.to_string_lossy()))]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        source: Box<Error>,
    },
}

/// Short for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The same error, said of a file.
    #[must_use]
    pub fn in_file(self, path: impl Into<PathBuf>) -> Self {
        match self {
            Self::Io { .. } | Self::UnknownFormat { .. } | Self::InFile { .. } => self,
            other => Self::InFile { path: path.into(), source: Box::new(other) },
        }
    }
}

/// The text with its control characters escaped, so that an error stays on one line whatever names it holds.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    Cow::Owned(text.chars().map(escape).collect())
}

/// `a -> b -> c -> a`, shortened in the middle when it is long.
fn show_cycle(tasks: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut text = String::new();
    let skipped = tasks.len().saturating_sub(SHOWN);
    for (i, task) in tasks.iter().enumerate() {
        if skipped > 0 && i == SHOWN - 2 {
            _ = write!(text, "... ({} more) -> ", skipped + 1);
        }
        if skipped > 0 && i >= SHOWN - 2 && i + 1 < tasks.len() {
            continue;
        }
        text += &one_line(task);
        text += " -> ";
    }
    text + &one_line(tasks.first().map_or("", String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stay_on_one_line() {
        let error = Error::DuplicateTask { name: "a\nb".into() };
        assert_eq!(error.to_string(), r"two tasks are named 'a\nb'; task names must be unique");
    }

    #[test]
    fn long_cycles_are_shortened() {
        let tasks: Vec<String> = (0..100).map(|i| format!("t{i}")).collect();
        let text = show_cycle(&tasks);
        assert!(text.starts_with("t0 -> t1 -> ") && text.ends_with("-> t99 -> t0"), "{text}");
        assert!(text.len() < 120);
        assert_eq!(show_cycle(&tasks[..2]), "t0 -> t1 -> t0");
    }
}
