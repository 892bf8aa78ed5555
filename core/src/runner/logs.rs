//! Names of the files that hold the output of every attempt, wherever it runs.

use std::path::{Path, PathBuf};

use mdts_dag::{JobGraph, TaskId};

/// The files with the output of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFiles {
    /// Standard output.
    pub out: PathBuf,
    /// Standard error.
    pub err: PathBuf,
}

/// The files `directory/TASK.ATTEMPT.out` and `.err` of an attempt.
///
/// The task's name is kept if it is a plain file name of letters, digits, `.`, `_` and `-`; otherwise other
/// characters become `_` and `~` with the task's number is added, so that no two tasks share a file.
pub fn log_files(directory: &Path, job: &JobGraph, task: TaskId, attempt: u32) -> LogFiles {
    let name = file_name(&job.task(task).name, task);
    let file = |stream: &str| directory.join(format!("{name}.{attempt}.{stream}"));
    LogFiles { out: file("out"), err: file("err") }
}

/// Longest part of a task's name that goes into a file name, in bytes; systems allow 255 in all.
const LONGEST: usize = 180;

fn file_name(task: &str, id: TaskId) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if task.chars().all(is_plain) && !task.starts_with('.') && (1..=LONGEST).contains(&task.len()) {
        return task.to_owned();
    }
    let safe = task.chars().take(LONGEST).map(|c| if is_plain(c) { c } else { '_' });
    let safe: String = safe.collect();
    format!("{}~{}", safe.replacen('.', "_", usize::from(safe.starts_with('.'))), id.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_unique() {
        let long = "x".repeat(300);
        let cases = [
            ("align_7", "align_7".to_owned()),
            ("a/../b c", "a_.._b_c~5".to_owned()),
            ("..", "_.~5".to_owned()),
            ("", "~5".to_owned()),
            ("größe", "gr__e~5".to_owned()),
            ("a~5", "a_5~5".to_owned()),
            (&long, format!("{}~5", "x".repeat(LONGEST))),
        ];
        for (task, name) in cases {
            assert_eq!(file_name(task, TaskId::new(5)), name);
        }
    }
}
