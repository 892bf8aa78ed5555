//! One attempt as a process, from its start to the judgement on it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use mdts_core::Cluster;
use mdts_core::runner::{Assignment, Outcome};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::group::Group;
use crate::logs::{LogFiles, log_files};
use crate::{LocalOptions, executor};

/// What all attempts have in common.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) options: LocalOptions,
    pub(crate) cluster: std::sync::Arc<Cluster>,
}

/// Runs an attempt to its end; `None` if it was cancelled.
pub(crate) async fn run(
    assignment: &Assignment,
    setting: &Setting,
    cancelled: oneshot::Receiver<()>,
) -> Option<Outcome> {
    let run = assignment.run;
    let logs = log_files(&setting.options.log_directory, &assignment.job, run.task, run.attempt);
    let mut child = match start(assignment, setting, &logs) {
        Ok(child) => child,
        Err(reason) => return Some(Outcome::Failure(reason)),
    };
    let mut group = Group::led_by(child.id().unwrap_or_default());
    let status = tokio::select! {
        biased;
        status = child.wait() => status,
        _ = cancelled => {
            // Both at once: the leader stays in its group until it is waited for.
            let ((), ended) = tokio::join!(group.end(setting.options.grace), child.wait());
            tracing::debug!(task = %assignment.task().name, ?ended, "cancelled");
            return None;
        }
    };
    group.kill(); // what the task has left behind
    Some(match status {
        Ok(status) if status.success() => judge_outputs(assignment, &setting.options),
        Ok(status) => Outcome::Failure(explain(status, &logs.err)),
        Err(error) => Outcome::Failure(format!("the process could not be waited for: {error}")),
    })
}

fn start(assignment: &Assignment, setting: &Setting, logs: &LogFiles) -> Result<Child, String> {
    let task = assignment.task();
    let options = &setting.options;
    let Some((program, arguments)) = task.run.as_ref().and_then(|run| run.command.split_first()) else {
        return Err(executor::NO_COMMAND.to_owned());
    };
    let log = |path: &PathBuf| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut command = Command::new(locate(program, &options.working_directory));
    command
        .args(arguments)
        .current_dir(&options.working_directory)
        .env("MDTS_JOB", assignment.job.name())
        .env("MDTS_TASK", &*task.name)
        .env("MDTS_ATTEMPT", assignment.run.attempt.to_string())
        .env("MDTS_NODE", &setting.cluster.node(assignment.node).name)
        .stdin(Stdio::null())
        .stdout(log(&logs.out)?)
        .stderr(log(&logs.err)?)
        .process_group(0);
    command.spawn().map_err(|error| format!("cannot start '{program}': {error}"))
}

/// A program given by a relative path is meant from the working directory; a bare name is looked for in PATH.
fn locate(program: &str, working_directory: &Path) -> PathBuf {
    if program.contains('/') { working_directory.join(program) } else { program.into() }
}

fn judge_outputs(assignment: &Assignment, options: &LocalOptions) -> Outcome {
    if options.check_outputs {
        for file in &assignment.task().outputs {
            let name = &assignment.job.file(*file).name;
            if !options.working_directory.join(&**name).exists() {
                let directory = options.working_directory.display();
                return Outcome::Failure(format!(
                    "it ended well, but its output '{name}' is not in {directory}"
                ));
            }
        }
    }
    Outcome::Success
}

fn explain(status: ExitStatus, err: &Path) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    };
    match last_lines(err) {
        Ok(lines) if !lines.is_empty() => format!("{how}: {lines}"),
        _ => how, // the status alone must do
    }
}

/// How much of the end of a file is read, in bytes, and shown, in lines and characters.
const READ: u64 = 4096;
const LINES: usize = 3;
const SHOWN: usize = 300;

/// The last lines of a file that are not empty, on one line.
fn last_lines(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(READ)))?;
    let mut end = Vec::new();
    file.take(READ).read_to_end(&mut end)?;
    Ok(shorten(&String::from_utf8_lossy(&end)))
}

fn shorten(text: &str) -> String {
    let mut lines: Vec<&str> =
        text.lines().rev().map(str::trim).filter(|l| !l.is_empty()).take(LINES).collect();
    lines.reverse();
    let line = lines.join(" | ").replace(char::is_control, " ");
    match line.char_indices().rev().nth(SHOWN) {
        Some((cut, c)) => format!("...{}", &line[cut + c.len_utf8()..]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_output_is_shown() {
        let long = "y".repeat(400);
        let cases = [
            ("", String::new()),
            ("one\n\n  \n", "one".to_owned()),
            ("a\nb\nc\r\nd\n", "b | c | d".to_owned()),
            ("tab\there\u{1b}[0m", "tab here [0m".to_owned()),
            (&long, format!("...{}", "y".repeat(SHOWN))),
        ];
        for (text, shown) in cases {
            assert_eq!(shorten(text), shown);
        }
    }

    #[test]
    fn relative_programs_are_meant_from_the_working_directory() {
        let cases = [("sort", "sort"), ("./x.sh", "/w/./x.sh"), ("bin/x", "/w/bin/x"), ("/bin/x", "/bin/x")];
        for (program, path) in cases {
            assert_eq!(locate(program, Path::new("/w")), Path::new(path));
        }
    }
}
