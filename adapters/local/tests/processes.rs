//! Real processes, well-behaved and not.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mdts_core::engine::Step;
use mdts_core::runner::{RunEnd, RunOptions, RunReport, Runner, Stop, TaskOutcome};
use mdts_core::testkit::{SampleTasks, check_executor};
use mdts_core::{Cluster, Decisions, Instance, Placer, Result, SlotModel};
use mdts_dag::{DataModel, JobGraph, JobGraphBuilder, Task};
use mdts_local::{EmulatedExecutor, LocalExecutor, LocalOptions, log_files, this_machine};

/// Everything on the only node.
#[derive(Debug)]
struct Here;

impl Placer for Here {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        step.ready().iter().for_each(|task| decisions.place(*task, 0.into()));
        Ok(())
    }
}

fn sh(name: &str, script: &str) -> Task {
    Task::new(name).seconds(1.0).cores(0.01).command(["sh", "-c", script])
}

/// A directory to work in, with an executor and a runner of these tasks.
struct Bench {
    directory: tempfile::TempDir,
    job: Arc<JobGraph>,
    executor: LocalExecutor,
    runner: Runner<Here>,
}

impl Bench {
    fn new(tasks: impl IntoIterator<Item = Task>) -> Result<Self> {
        let mut builder = JobGraph::builder("bench");
        for task in tasks {
            builder.task(task)?;
        }
        Self::of(builder, |_| {})
    }

    fn of(builder: JobGraphBuilder, set: impl FnOnce(&mut LocalOptions)) -> Result<Self> {
        let directory = tempfile::tempdir().unwrap();
        let job = Arc::new(builder.build()?);
        let cluster = Arc::new(this_machine()?);
        let mut options = LocalOptions::new(directory.path().join("logs"), directory.path());
        options.grace = Duration::from_millis(300);
        set(&mut options);
        let executor = LocalExecutor::new(options, cluster.clone())?;
        let instance = Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Files)?);
        let runner = Runner::new(job.clone(), instance, Here);
        Ok(Self { directory, job, executor, runner })
    }

    /// Runs all tasks; gives the report and the directory.
    async fn run(mut self) -> Result<(RunReport, tempfile::TempDir)> {
        Ok((self.runner.run(&mut self.executor).await?, self.directory))
    }

    fn log(directory: &Path, job: &JobGraph, task: u32, attempt: u32) -> (String, String) {
        let files = log_files(&directory.join("logs"), job, task.into(), attempt);
        // What writes nothing has no file.
        let text =
            |file: &Path| if file.exists() { std::fs::read_to_string(file).unwrap() } else { String::new() };
        (text(&files.out), text(&files.err))
    }
}

fn reason(report: &RunReport, task: usize) -> &str {
    match &report.tasks[task].outcome {
        TaskOutcome::Failed(reason) => reason,
        other => panic!("task {task} did not fail: {other:?}"),
    }
}

/// Whether the process whose number is in a file runs; zombies do not.
fn is_alive(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

async fn appears(file: &Path) {
    let begin = Instant::now();
    while !std::fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n')) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{} does not appear", file.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn output_environment_and_directory_are_as_promised() -> Result<()> {
    let script = "echo $MDTS_JOB $MDTS_TASK $MDTS_ATTEMPT; echo $MDTS_NODE >&2; pwd; cat";
    let bench = Bench::new([sh("who/am i", script)])?;
    let job = bench.job.clone();
    let (report, directory) = bench.run().await?;
    assert!(report.is_success());
    let (out, err) = Bench::log(directory.path(), &job, 0, 1);
    let place = directory.path().canonicalize().unwrap();
    assert_eq!(out, format!("bench who/am i 1\n{}\n", place.display()));
    assert_eq!(err.trim(), this_machine()?.node(0.into()).name);
    assert!(directory.path().join("logs/who_am_i~0.1.out").exists());
    Ok(())
}

#[tokio::test]
async fn failures_say_why() -> Result<()> {
    let tasks = [
        Task::new("false").command(["false"]),
        sh("loud", "echo first >&2; echo 'no such table' >&2; exit 7"),
        Task::new("missing").command(["no-such-program-here", "x"]),
        sh("shot", "kill -9 $$"),
        Task::new("trace"),
        Task::new("fine").command(["true"]),
    ];
    let (report, _directory) = Bench::new(tasks)?.run().await?;
    assert_eq!(reason(&report, 0), "exit status 1");
    assert_eq!(reason(&report, 1), "exit status 7: first | no such table");
    assert!(reason(&report, 2).starts_with("cannot start 'no-such-program-here': No such file"));
    assert_eq!(reason(&report, 3), "killed by signal 9");
    assert_eq!(reason(&report, 4), "the task has no command; use --emulate to run a trace");
    assert_eq!(report.tasks[5].outcome, TaskOutcome::Succeeded);
    Ok(())
}

#[tokio::test]
async fn every_attempt_has_its_own_output() -> Result<()> {
    let script = "echo attempt $MDTS_ATTEMPT; test -e mark || { touch mark; exit 1; }";
    let bench = Bench::new([sh("again", script).retries(3)])?;
    let job = bench.job.clone();
    let (report, directory) = bench.run().await?;
    assert_eq!((report.is_success(), report.tasks[0].attempts), (true, 2));
    assert_eq!(Bench::log(directory.path(), &job, 0, 1).0, "attempt 1\n");
    assert_eq!(Bench::log(directory.path(), &job, 0, 2).0, "attempt 2\n");
    Ok(())
}

#[tokio::test]
async fn a_megabyte_of_output_on_both_streams_is_kept() -> Result<()> {
    let script = "head -c 1000000 /dev/zero | tr '\\0' x; head -c 1000000 /dev/zero | tr '\\0' y >&2";
    let bench = Bench::new([sh("big", script)])?;
    let job = bench.job.clone();
    let (report, directory) = bench.run().await?;
    assert!(report.is_success());
    let (out, err) = Bench::log(directory.path(), &job, 0, 1);
    assert_eq!((out.len(), err.len()), (1_000_000, 1_000_000));
    Ok(())
}

#[tokio::test]
async fn declared_outputs_must_be_there() -> Result<()> {
    for (check, succeeds) in [(true, false), (false, true)] {
        let mut builder = JobGraph::builder("outputs");
        for (name, script) in [("writes", "echo > there"), ("forgets", "true")] {
            let task = builder.task(sh(name, script))?;
            let file = builder.file(if name == "writes" { "there" } else { "not/there" }, 0.0)?;
            builder.task_mut(task).outputs.push(file);
        }
        let (report, _directory) = Bench::of(builder, |o| o.check_outputs = check)?.run().await?;
        assert_eq!(report.tasks[0].outcome, TaskOutcome::Succeeded);
        assert_eq!(report.tasks[1].outcome == TaskOutcome::Succeeded, succeeds);
        if check {
            assert!(reason(&report, 1).starts_with("it ended well, but its output 'not/there' is not in /"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn cancelling_stops_the_whole_group() -> Result<()> {
    // One task with a child, one that ignores the request to end, one that ends well within the grace.
    let tasks = [
        sh("family", "sleep 100 & echo $! > child; echo $$ > family; wait"),
        sh("deaf", "trap '' TERM; echo $$ > deaf; while true; do sleep 0.05; done"),
        sh("polite", "trap 'echo bye > bye; exit 0' TERM; echo $$ > polite; while true; do sleep 0.05; done"),
    ];
    let mut bench = Bench::new(tasks)?;
    let place = bench.directory.path().to_owned();
    let stopper = bench.runner.stopper();
    let pids = ["family", "deaf", "polite", "child"].map(|name| place.join(name));
    let files = pids.clone();
    tokio::spawn(async move {
        for file in &files {
            appears(file).await;
        }
        stopper.stop(Stop::Cancel);
    });
    let begin = Instant::now();
    let report = bench.runner.run(&mut bench.executor).await?;
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!((report.end, report.cancelled()), (RunEnd::Cancelled, 3));
    tokio::time::sleep(Duration::from_millis(50)).await; // for the system to deliver the last signals
    for file in pids {
        assert!(!is_alive(&file), "{} still runs", file.display());
    }
    assert!(place.join("bye").exists());
    Ok(())
}

#[tokio::test]
async fn dropping_the_executor_stops_what_runs() -> Result<()> {
    let mut bench = Bench::new([sh("long", "echo $$ > long; sleep 100")])?;
    let file = bench.directory.path().join("long");
    tokio::select! {
        _ = bench.runner.run(&mut bench.executor) => panic!("it cannot end so soon"),
        () = appears(&file) => {}
    }
    assert!(is_alive(&file));
    drop(bench.executor);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!is_alive(&file));
    Ok(())
}

#[tokio::test]
async fn what_a_task_leaves_behind_is_killed() -> Result<()> {
    let bench = Bench::new([sh("parent", "sleep 100 & echo $! > child")])?;
    let (report, directory) = bench.run().await?;
    assert!(report.is_success());
    assert!(report.makespan < 20.0, "the child is not waited for");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!is_alive(&directory.path().join("child")));
    Ok(())
}

#[tokio::test]
async fn timeouts_and_deadlines_end_processes() -> Result<()> {
    let (report, _directory) = Bench::new([sh("slow", "sleep 100").timeout(0.2)])?.run().await?;
    assert_eq!(reason(&report, 0), "timed out after 0.2 s");

    let mut bench = Bench::new([sh("slow", "sleep 100")])?;
    let options = RunOptions { deadline: Some(Duration::from_millis(200)), ..RunOptions::default() };
    let report = bench.runner.options(options).run(&mut bench.executor).await?;
    assert_eq!((report.end, report.cancelled()), (RunEnd::Deadline, 1));
    Ok(())
}

#[tokio::test]
async fn no_more_processes_than_allowed() -> Result<()> {
    // Each task fails if the other one runs.
    let script = "mkdir lock || exit 1; sleep 0.1; rmdir lock";
    let mut builder = JobGraph::builder("one by one");
    for i in 0..5 {
        builder.task(sh(&format!("t{i}"), script))?;
    }
    let (report, _directory) = Bench::of(builder, |o| o.max_processes = 1)?.run().await?;
    assert!(report.is_success(), "{:?}", report.tasks);
    Ok(())
}

#[tokio::test]
async fn an_attempt_that_waits_for_a_process_does_not_time_out() -> Result<()> {
    let mut builder = JobGraph::builder("queue");
    for (name, script) in [("first", "sleep 2"), ("second", "sleep 1.5"), ("slow", "echo begun; sleep 100")] {
        builder.task(sh(name, script).timeout(3.0))?;
    }
    let bench = Bench::of(builder, |o| o.max_processes = 1)?;
    let job = bench.job.clone();
    let (report, directory) = bench.run().await?;
    let [first, second, slow] = &report.tasks[..] else { panic!("three tasks") };
    assert_eq!(first.outcome, TaskOutcome::Succeeded);
    assert_eq!(second.outcome, TaskOutcome::Succeeded);
    assert!(second.start >= 2.0, "it begins when it has a process, not at {} s", second.start);
    assert_eq!(reason(&report, 2), "timed out after 3 s");
    assert!(slow.start >= second.finish - 0.05 && slow.finish >= slow.start + 3.0, "{slow:?}");
    // What was written before the timeout is there to read.
    assert_eq!(Bench::log(directory.path(), &job, 2, 1), ("begun\n".to_owned(), String::new()));
    Ok(())
}

#[tokio::test]
async fn draining_begins_no_attempt_that_waits_for_a_process() -> Result<()> {
    let mut builder = JobGraph::builder("drained");
    builder.task(sh("first", "echo > begun; sleep 0.5"))?;
    for i in 0..20 {
        builder.task(sh(&format!("t{i}"), "sleep 100"))?;
    }
    let mut bench = Bench::of(builder, |o| o.max_processes = 1)?;
    let (stopper, begun) = (bench.runner.stopper(), bench.directory.path().join("begun"));
    tokio::spawn(async move {
        appears(&begun).await;
        stopper.stop(Stop::Drain);
    });
    let report = bench.runner.run(&mut bench.executor).await?;
    assert_eq!((report.end, report.succeeded(), report.cancelled()), (RunEnd::Drained, 1, 20));
    assert!(report.tasks[1..].iter().all(|task| (task.attempts, task.node) == (0, None)));
    drop(bench.executor);
    assert_eq!(
        std::fs::read_dir(bench.directory.path().join("logs")).unwrap().count(),
        0,
        "nothing was written"
    );
    Ok(())
}

#[tokio::test]
async fn settings_are_checked() -> Result<()> {
    let mut bench = Bench::new([Task::new("trace"), Task::new("trace2"), sh("x", "true")])?;
    let error = LocalExecutor::check(&bench.job).err().map(|e| e.to_string());
    let expected = "executor: task 'trace' and 1 more: the task has no command; use --emulate to run a trace";
    assert_eq!(error.as_deref(), Some(expected));

    let cluster = Arc::new(this_machine()?);
    let new = |options| LocalExecutor::new(options, cluster.clone()).err().map(|e| e.to_string());
    let place = bench.directory.path();
    let missing = new(LocalOptions::new(place, place.join("missing")));
    assert!(missing.is_some_and(|e| e.contains("missing: No such file")));
    let no_processes = LocalOptions { max_processes: 0, ..LocalOptions::new(place, place) };
    assert_eq!(new(no_processes), Some("number of processes is 0; expected at least 1".to_owned()));

    // A log directory that can be there no more is a failure of the attempt, not of the program.
    std::fs::remove_dir_all(place.join("logs")).unwrap();
    std::fs::write(place.join("logs"), "").unwrap();
    let report = bench.runner.run(&mut bench.executor).await?;
    assert!(reason(&report, 2).contains("logs/x.1.out: Not a directory"));
    Ok(())
}

#[tokio::test]
async fn a_log_directory_that_is_removed_is_made_again() -> Result<()> {
    let mut builder = JobGraph::builder("tidy");
    let first = builder.task(sh("first", "rm -r logs"))?;
    let second = builder.task(sh("second", "echo here"))?;
    builder.depend(second, first, 0.0);
    let bench = Bench::of(builder, |_| {})?;
    let job = bench.job.clone();
    let (report, directory) = bench.run().await?;
    assert!(report.is_success(), "{:?}", report.tasks);
    assert_eq!(Bench::log(directory.path(), &job, 1, 1).0, "here\n");
    Ok(())
}

#[tokio::test]
async fn a_missing_folder_is_told_from_a_missing_program() -> Result<()> {
    let task = sh("lost", "true").with_execution(|run| run.directory = Some("not/made".to_owned()));
    let (report, _directory) = Bench::new([task])?.run().await?;
    let told = reason(&report, 0);
    assert!(
        told.starts_with("cannot start '") && told.contains("/not/made', which is no folder: "),
        "{told}"
    );
    Ok(())
}

#[tokio::test]
async fn a_task_may_open_its_own_output_once_more() -> Result<()> {
    let script = "echo one >&2; echo two >> /dev/stderr; echo three >&2; \
                  echo 1; sh -c 'echo 2 > /proc/self/fd/1'; echo 3";
    let bench = Bench::new([sh("again", script)])?;
    let job = bench.job.clone();
    let (report, directory) = bench.run().await?;
    assert!(report.is_success());
    let (out, err) = Bench::log(directory.path(), &job, 0, 1);
    assert_eq!((out.as_str(), err.as_str()), ("2\n3\n", "one\ntwo\nthree\n"), "> cuts off what was before");
    Ok(())
}

#[tokio::test]
async fn emulation_sleeps_as_long_as_the_task_would_run() -> Result<()> {
    let mut builder = JobGraph::builder("trace");
    let a = builder.task(Task::new("a").seconds(10.0))?;
    let b = builder.task(Task::new("b").seconds(20.0))?;
    builder.depend(b, a, 0.0);
    let job = Arc::new(builder.build()?);
    let cluster = Arc::new(this_machine()?.with_slots(SlotModel::Exclusive));
    let instance = Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Edges)?);
    for (scale, seconds) in [(0.01, 0.3), (0.0, 0.0)] {
        let mut executor = EmulatedExecutor::new(scale)?;
        let report = Runner::new(job.clone(), instance.clone(), Here).run(&mut executor).await?;
        assert!(report.is_success());
        assert!(report.makespan >= seconds && report.makespan < seconds + 5.0, "{}", report.makespan);
    }
    for scale in [-0.1, f64::NAN, f64::INFINITY] {
        assert!(EmulatedExecutor::new(scale).is_err_and(|e| e.to_string().contains("at least 0")));
    }
    Ok(())
}

#[tokio::test]
async fn the_executor_keeps_its_contract() {
    let directory = tempfile::tempdir().unwrap();
    let options = LocalOptions {
        grace: Duration::from_millis(300),
        ..LocalOptions::new(directory.path().join("logs"), directory.path())
    };
    let local = |cluster: &Arc<Cluster>| LocalExecutor::new(options.clone(), cluster.clone());
    let limit = Duration::from_secs(30);
    let tasks = SampleTasks {
        linger_once: Some(|task| task.command(["sh", "-c", "test $MDTS_ATTEMPT -gt 1 || exec sleep 600"])),
        ..SampleTasks::default()
    };
    assert_eq!(check_executor(local, &tasks, limit).await, Ok(()));
}
