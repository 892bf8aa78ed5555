//! One attempt as a process, from its start to the judgement on it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use mdts_core::Cluster;
use mdts_core::runner::{Assignment, Outcome, Report, Reports};
use tokio::sync::oneshot;

use crate::group::Group;
use crate::keeper::{Ending, Keeper, Launch};
use crate::logs::{LogFiles, log_files};
use crate::{LocalOptions, executor};

/// What all attempts have in common.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) options: LocalOptions,
    pub(crate) cluster: Arc<Cluster>,
}

/// Runs an attempt to its end, as a child of this process or of the keeper; `None` if it was cancelled.
pub(crate) async fn run(
    assignment: &Assignment,
    setting: &Setting,
    keeper: Option<&Keeper>,
    cancelled: oneshot::Receiver<()>,
    reports: &Reports,
) -> Option<Outcome> {
    let launch = match launch(assignment, setting) {
        Ok(launch) => launch,
        Err(reason) => return Some(Outcome::Failure(reason)),
    };
    match keeper {
        Some(keeper) => {
            let ends = keeper.launch(launch);
            follow(assignment, setting, keeper, ends, cancelled, reports).await
        }
        None => own(assignment, setting, &launch, cancelled).await,
    }
}

/// Follows an attempt that the keeper has, to its end; `None` if it was cancelled or the keeper cannot go on, which is
/// reported.
pub(crate) async fn follow(
    assignment: &Assignment,
    setting: &Setting,
    keeper: &Keeper,
    mut ends: oneshot::Receiver<Ending>,
    cancelled: oneshot::Receiver<()>,
    reports: &Reports,
) -> Option<Outcome> {
    tokio::select! {
        biased;
        ending = &mut ends => match ending {
            Ok(Ending::Refused(reason)) => {
                reports.send(Report::Broken(reason));
                None
            }
            Ok(ending) => Some(judge(assignment, setting, &ending)),
            Err(_) => Some(Outcome::Failure("the keeper of the tasks was killed".to_owned())),
        },
        _ = cancelled => {
            keeper.end(assignment.run, ends, setting.options.grace).await;
            None
        }
    }
}

async fn own(
    assignment: &Assignment,
    setting: &Setting,
    launch: &Launch,
    cancelled: oneshot::Receiver<()>,
) -> Option<Outcome> {
    let started = command(launch).and_then(|command| {
        let program = &launch.program;
        let mut command = tokio::process::Command::from(command);
        command.spawn().map_err(|error| format!("cannot start '{}': {error}", program.display()))
    });
    let mut child = match started {
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
        Ok(status) => {
            let ending = match (status.code(), status.signal()) {
                (Some(code), _) => Ending::Exit(code),
                (None, signal) => Ending::Signal(signal.unwrap_or_default()),
            };
            judge(assignment, setting, &ending)
        }
        Err(error) => Outcome::Failure(format!("the process could not be waited for: {error}")),
    })
}

fn launch(assignment: &Assignment, setting: &Setting) -> Result<Launch, String> {
    let (task, run, options) = (assignment.task(), assignment.run, &setting.options);
    let Some((program, arguments)) = task.run.as_ref().and_then(|run| run.command.split_first()) else {
        return Err(executor::NO_COMMAND.to_owned());
    };
    let variables = [
        ("MDTS_JOB", assignment.job.name().to_owned()),
        ("MDTS_TASK", task.name.to_string()),
        ("MDTS_ATTEMPT", run.attempt.to_string()),
        ("MDTS_NODE", setting.cluster.node(assignment.node).name.clone()),
    ];
    let LogFiles { out, err } = log_files(&options.log_directory, &assignment.job, run.task, run.attempt);
    Ok(Launch {
        run,
        program: locate(program, &options.working_directory),
        arguments: arguments.to_vec(),
        directory: options.working_directory.clone(),
        variables: variables.map(|(name, value)| (name.to_owned(), value)).into(),
        out,
        err,
    })
}

/// The command of a launch, with its files opened.
pub(crate) fn command(launch: &Launch) -> Result<Command, String> {
    let log = |path: &PathBuf| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.arguments)
        .current_dir(&launch.directory)
        .envs(launch.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log(&launch.out)?)
        .stderr(log(&launch.err)?)
        .process_group(0);
    Ok(command)
}

/// A program given by a relative path is meant from the working directory; a bare name is looked for in PATH.
fn locate(program: &str, working_directory: &Path) -> PathBuf {
    if program.contains('/') { working_directory.join(program) } else { program.into() }
}

fn judge(assignment: &Assignment, setting: &Setting, ending: &Ending) -> Outcome {
    let how = match ending {
        Ending::Exit(0) => return judge_outputs(assignment, &setting.options),
        Ending::Exit(code) => format!("exit status {code}"),
        Ending::Signal(signal) => format!("killed by signal {signal}"),
        Ending::NotStarted(reason) | Ending::Refused(reason) => return Outcome::Failure(reason.clone()),
    };
    let run = assignment.run;
    let logs = log_files(&setting.options.log_directory, &assignment.job, run.task, run.attempt);
    Outcome::Failure(match last_lines(&logs.err) {
        Ok(lines) if !lines.is_empty() => format!("{how}: {lines}"),
        _ => how, // the status alone must do
    })
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
