//! Words for people about attempts that failed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use mdts_core::runner::{Assignment, log_files};
use mdts_dag::FileId;

/// The name of a file of a task.
pub(super) fn file(assignment: &Assignment, file: Option<&FileId>) -> String {
    file.map(|file| assignment.job.file(*file).name.to_string()).unwrap_or_default()
}

/// How an attempt ended, with the last lines of its complaints.
pub(super) fn with_last_words(how: &str, assignment: &Assignment, logs: &Path) -> String {
    let run = assignment.run;
    match last_lines(&log_files(logs, &assignment.job, run.task, run.attempt).err) {
        Ok(lines) if !lines.is_empty() => format!("{how}: {lines}"),
        _ => how.to_owned(), // the status alone must do
    }
}

/// How much of the end of a file is read, in bytes, and shown, in lines and characters.
const READ: u64 = 4096;
const LINES: usize = 3;
const SHOWN: usize = 300;

fn last_lines(path: &Path) -> io::Result<String> {
    if !path.metadata()?.is_file() {
        return Ok(String::new()); // a pipe would keep this process waiting
    }
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(READ)))?;
    let mut end = Vec::new();
    file.take(READ).read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end);
    let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(LINES);
    let mut lines: Vec<&str> = lines.collect();
    lines.reverse();
    let line = lines.join(" | ").replace(char::is_control, " ");
    Ok(match line.char_indices().rev().nth(SHOWN) {
        Some((cut, c)) => format!("...{}", &line[cut + c.len_utf8()..]),
        None => line,
    })
}
