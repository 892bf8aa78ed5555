//! One attempt as a process, from its start to the judgement on it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mdts_core::Cluster;
use mdts_core::runner::{Assignment, LogFiles, Outcome, Report, Reports, Usage, log_files};
use mdts_dag::{Execution, Failing, JobGraph, RetryRule};
use rustix::fs::OFlags;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;
use tokio::time::sleep;

use crate::care::Care;
use crate::devices::thousandths;
use crate::group::Group;
use crate::keeper::{Ended, Ending, Keeper};
use crate::launch::{Gpus, Launch, MARK, Needs, VISIBLE, mark};
use crate::leader::{Leader, OwnPeak};
use crate::programs::Programs;
use crate::{LocalOptions, executor, memory};

/// What all attempts have in common.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) options: LocalOptions,
    pub(crate) cluster: Arc<Cluster>,
    /// Looks after the processes that are this process's own.
    pub(crate) care: Arc<Care>,
    pub(crate) programs: Programs,
    pub(crate) produced: Produced,
    pub(crate) own_peak: OwnPeak,
}

/// For every file whether a task writes it.
type Files = Arc<[bool]>;

/// Which files the tasks of a job write.
#[derive(Debug, Default)]
pub(crate) struct Produced {
    of: Mutex<Option<(Arc<JobGraph>, Files)>>,
}

impl Produced {
    /// By the index of the file. O(tasks + files) for another job than before.
    fn by(&self, job: &Arc<JobGraph>) -> Files {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, files)) = &*of
            && Arc::ptr_eq(known, job)
        {
            return files.clone();
        }
        let mut files = vec![false; job.files().len()];
        job.tasks().flat_map(|task| &task.outputs).for_each(|file| files[file.index()] = true);
        let files: Files = files.into();
        *of = Some((job.clone(), files.clone()));
        files
    }
}

/// Seconds until an attempt is begun again for which the system lacked something.
const PAUSES: [f64; 5] = [0.1, 0.5, 2.0, 5.0, 10.0];

/// Runs an attempt to its end, as a child of this process or of the keeper; `None` if it was cancelled or nothing can go on,
/// which is reported.
pub(crate) async fn run(
    assignment: &Assignment,
    setting: &Setting,
    keeper: Option<&Keeper>,
    mut cancelled: oneshot::Receiver<()>,
    reports: &Reports,
) -> Option<Outcome> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let launch = match launch(assignment, setting) {
            Ok(launch) => launch,
            Err((failing, reason)) => return Some(failed(assignment, failing, reason)),
        };
        let end = match keeper {
            Some(keeper) => {
                let ends = keeper.launch(launch);
                await_end(assignment, setting, keeper, ends, &mut cancelled, reports).await?
            }
            None => Ok(own(assignment, setting, &launch, &mut cancelled, reports).await?),
        };
        let (Ok(Ended { ending: Ending::Lacking(reason), .. }), Some(pause)) = (&end, pauses.next()) else {
            return conclude(assignment, setting, end, reports);
        };
        tracing::warn!("{}: {reason}; the next try follows in {pause} s", assignment.task().name);
        tokio::select! {
            biased;
            _ = &mut cancelled => return None,
            () = sleep(Duration::from_secs_f64(pause)) => {}
        }
    }
}

/// Follows an attempt that the keeper has, to its end; `None` as for [`run`].
pub(crate) async fn follow(
    assignment: &Assignment,
    setting: &Setting,
    keeper: &Keeper,
    ends: oneshot::Receiver<Ended>,
    mut cancelled: oneshot::Receiver<()>,
    reports: &Reports,
) -> Option<Outcome> {
    let end = await_end(assignment, setting, keeper, ends, &mut cancelled, reports).await?;
    conclude(assignment, setting, end, reports)
}

/// The end of an attempt that the keeper has, or that of the keeper; `None` if it was cancelled before it succeeded.
async fn await_end(
    assignment: &Assignment,
    setting: &Setting,
    keeper: &Keeper,
    mut ends: oneshot::Receiver<Ended>,
    cancelled: &mut oneshot::Receiver<()>,
    reports: &Reports,
) -> Option<Result<Ended, RecvError>> {
    tokio::select! {
        biased;
        end = &mut ends => Some(end),
        _ = cancelled => {
            let (ended, is_before) = keeper.end(assignment.run, ends, setting.options.grace).await;
            let ended = ended?;
            if is_before && ended.ending == Ending::Exit(0) {
                return Some(Ok(ended)); // work that is done is not done again
            }
            tell_usage(assignment, ended.usage, reports);
            None
        }
    }
}

fn tell_usage(assignment: &Assignment, usage: Option<Usage>, reports: &Reports) {
    if let Some(usage) = usage {
        reports.send(Report::Used(assignment.run, usage));
    }
}

/// What the end of an attempt means.
fn conclude(
    assignment: &Assignment,
    setting: &Setting,
    end: Result<Ended, RecvError>,
    reports: &Reports,
) -> Option<Outcome> {
    match end {
        Ok(Ended { ending: Ending::Refused(reason) | Ending::Lacking(reason), .. }) => {
            let remedy = "make room for it, then go on with --resume if the run has a journal";
            reports.send(Report::Broken(format!("{reason}; {remedy}")));
            None
        }
        Ok(ended) => {
            tell_usage(assignment, ended.usage, reports);
            Some(judge(assignment, setting, &ended.ending))
        }
        Err(_) => {
            // The keeper of the tasks was killed, and they with it; another one is started for the next.
            reports.send(Report::Lost(assignment.run));
            None
        }
    }
}

/// Runs an attempt to its end as a child of this process; `None` if it was cancelled before it succeeded.
async fn own(
    assignment: &Assignment,
    setting: &Setting,
    launch: &Launch,
    cancelled: &mut oneshot::Receiver<()>,
    reports: &Reports,
) -> Option<Ended> {
    let gpus = launch.needs.gpus.and_then(|_| std::env::var_os(VISIBLE));
    let started = setting.care.start(launch, gpus, |start| {
        let child = start.command().spawn()?;
        Ok((child.id(), Leader::new(child)))
    });
    let (number, mut leader) = match started {
        Ok(started) => started,
        Err(ending) => return Some(Ended { ending, usage: None }),
    };
    let mut group = Group::led_by(number);
    let status = tokio::select! {
        biased;
        end = leader.wait() => end,
        _ = cancelled => if let Ok(Some(end)) = leader.try_wait() && end.status.success() {
            Ok(end) // work that is done is not done again
        } else {
            // Both at once: the leader stays in its group until it is waited for.
            let ((), ended) = tokio::join!(group.end(setting.options.grace), leader.wait());
            let seen = setting.care.peak_memory(number.cast_signed());
            setting.care.ended(number.cast_signed(), Ending::Signal(0));
            tracing::debug!(task = %assignment.task().name, ?ended, "cancelled");
            tell_usage(assignment, ended.ok().map(|end| leader.usage(&end, seen, &setting.own_peak)), reports);
            return None;
        }
    };
    group.kill(); // what the task has left behind
    let seen = setting.care.peak_memory(number.cast_signed());
    let (ending, usage) = match status {
        Ok(end) => (Ending::of(end.status), Some(leader.usage(&end, seen, &setting.own_peak))),
        Err(error) => (Ending::NotStarted(format!("the process could not be waited for: {error}")), None),
    };
    Some(Ended { ending: setting.care.ended(number.cast_signed(), ending), usage })
}

fn launch(assignment: &Assignment, setting: &Setting) -> Result<Launch, (Failing, String)> {
    let (task, run, options) = (assignment.task(), assignment.run, &setting.options);
    let none = || (Failing::Start, executor::NO_COMMAND.to_owned());
    let execution = task.run.as_deref().ok_or_else(none)?;
    let program = execution.command.first().ok_or_else(none)?;
    check_inputs(assignment, setting)?;
    let own = [
        ("MDTS_JOB", assignment.job.name().to_owned()),
        ("MDTS_TASK", task.name.to_string()),
        ("MDTS_ATTEMPT", run.attempt.to_string()),
        ("MDTS_NODE", setting.cluster.node(assignment.node).name.clone()),
        (MARK, mark(run)),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let directory = directory(execution, &options.working_directory);
    let path = execution.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| &**value);
    let LogFiles { out, err } = log_files(&options.log_directory, &assignment.job, run.task, run.attempt);
    Ok(Launch {
        run,
        program: setting.programs.locate(program, &directory, path),
        arguments: execution.command.clone(),
        directory,
        variables: execution.env.iter().cloned().chain(own).collect(),
        out,
        err,
        needs: needs(assignment, setting),
    })
}

fn directory(execution: &Execution, working_directory: &Path) -> PathBuf {
    match &execution.directory {
        Some(directory) => working_directory.join(directory),
        None => working_directory.to_owned(),
    }
}

/// Files that no task writes must be there from the beginning.
fn check_inputs(assignment: &Assignment, setting: &Setting) -> Result<(), (Failing, String)> {
    let inputs = &assignment.task().inputs;
    if inputs.is_empty() || !setting.options.check_inputs {
        return Ok(());
    }
    let produced = setting.produced.by(&assignment.job);
    for file in inputs.iter().filter(|file| !produced[file.index()]) {
        let name = &assignment.job.file(*file).name;
        if !setting.options.working_directory.join(&**name).exists() {
            let directory = setting.options.working_directory.display();
            return Err((
                Failing::Input,
                format!("its input '{name}' is not in {directory}, and no task writes it"),
            ));
        }
    }
    Ok(())
}

fn needs(assignment: &Assignment, setting: &Setting) -> Needs {
    let (options, nodes) = (&setting.options, setting.cluster.nodes());
    let demand = assignment.task().demand.as_deref();
    let gpus_of = |node: &mdts_core::Node| node.capacity.gpus.ceil() as u32;
    let gpus = demand.filter(|demand| demand.gpus > 0.0).map(|demand| Gpus {
        // All nodes are this machine: each has the devices behind those of the nodes before it.
        first: nodes[..assignment.node.index()].iter().map(gpus_of).sum(),
        count: gpus_of(&nodes[assignment.node.index()]),
        wanted: thousandths(demand.gpus),
    });
    let cores = demand.map_or(1.0, |demand| demand.cores);
    let memory = demand.map(|demand| demand.memory).filter(|bytes| *bytes > 0 && options.limit_memory);
    Needs {
        output: options.output_limit,
        memory,
        cgroups: memory.and(options.cgroup.clone()).map(PathBuf::into_os_string),
        processors: (options.pin && cores > 0.0).then(|| thousandths(cores)),
        gpus,
    }
}

/// Whether another attempt is worth it is for the task to say.
fn failed(assignment: &Assignment, failing: Failing, reason: String) -> Outcome {
    let rule = assignment.task().run.as_ref().map(|run| &run.retry);
    if rule.unwrap_or(&RetryRule::default()).repeats(failing) {
        Outcome::Failure(reason)
    } else {
        Outcome::Final(reason)
    }
}

fn judge(assignment: &Assignment, setting: &Setting, ending: &Ending) -> Outcome {
    let (failing, how) = match ending {
        Ending::Exit(0) => return judge_outputs(assignment, &setting.options),
        Ending::Exit(code) => (Failing::Status(*code), format!("exit status {code}")),
        Ending::Signal(signal) => (Failing::Signal, format!("killed by signal {signal}")),
        Ending::Memory { used, limit } => {
            let [used, limit] = [*used, *limit].map(memory::show);
            return failed(assignment, Failing::Memory, format!("killed: used {used} of {limit} of memory"));
        }
        Ending::NotStarted(reason) | Ending::Lacking(reason) | Ending::Refused(reason) => {
            return failed(assignment, Failing::Start, reason.clone());
        }
    };
    let run = assignment.run;
    let logs = log_files(&setting.options.log_directory, &assignment.job, run.task, run.attempt);
    let reason = match last_lines(&logs.err) {
        Ok(lines) if !lines.is_empty() => format!("{how}: {lines}"),
        _ => how, // the status alone must do
    };
    failed(assignment, failing, reason)
}

fn judge_outputs(assignment: &Assignment, options: &LocalOptions) -> Outcome {
    if options.check_outputs {
        for file in &assignment.task().outputs {
            let name = &assignment.job.file(*file).name;
            if !options.working_directory.join(&**name).exists() {
                let directory = options.working_directory.display();
                let reason = format!("it ended well, but its output '{name}' is not in {directory}");
                return failed(assignment, Failing::Output, reason);
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
fn last_lines(path: &Path) -> io::Result<String> {
    // A pipe that somebody has put there must not keep this process waiting for a writer.
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = File::options().read(true).custom_flags(nonblocking).open(path)?;
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
    fn a_pipe_in_the_place_of_output_is_not_waited_for() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("a.1.err");
        assert!(std::process::Command::new("mkfifo").arg(&path).status()?.success());
        assert_eq!(last_lines(&path).unwrap_or_default(), "");
        Ok(())
    }

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
}
