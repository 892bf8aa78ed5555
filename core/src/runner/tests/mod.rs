//! Stories of whole runs. Time is tokio's, paused: it jumps to the next timer when nothing else is to do.

mod replayed;
mod speculation;
mod stopping;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mdts_dag::{DataModel, Failing, JobGraph, RetryRule, Task};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::engine::{State, Step, TaskRun};
use crate::journal::Durability;
use crate::journal::tests::Memory;
use crate::{Cluster, Decisions, Error, Instance, NodeId, Placer, Result, SlotModel};

/// Places each ready task on the node with the fewest tasks.
#[derive(Debug)]
struct Spread;

impl Placer for Spread {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        for (i, &task) in step.ready().iter().enumerate() {
            let nodes = step.instance().cluster().node_ids().filter(|n| step.can_run(task, *n));
            let load = |n: &NodeId| step.running(*n) + step.waiting(*n) + usize::from(n.index() != i % 2);
            if let Some(node) = nodes.min_by_key(load) {
                decisions.place(task, node);
            }
        }
        Ok(())
    }
}

/// A job from "task: parents" lines, each task changed by `set`; two nodes, one task each at a time.
fn job(lines: &[(&str, &[&str])], set: impl Fn(Task) -> Task) -> Result<(Arc<JobGraph>, Arc<Instance>)> {
    let mut job = JobGraph::builder("story");
    for (name, parents) in lines {
        let task = job.task(set(Task::new(*name).seconds(1.0)))?;
        parents.iter().for_each(|parent| job.depend_on(task, parent, 0.0));
    }
    let job = Arc::new(job.build()?);
    let cluster = Arc::new(Cluster::identical(2, SlotModel::Exclusive)?);
    Ok((job.clone(), Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Edges)?)))
}

const DIAMOND: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])];

/// Sleeps the expected time; tasks named in `failing` fail then.
fn sleeper(failing: &'static [&'static str]) -> impl Executor {
    FnExecutor::new(move |assignment| async move {
        sleep(Duration::from_secs_f64(assignment.expected_seconds)).await;
        if failing.contains(&&*assignment.task().name) {
            Outcome::Failure("broken".to_owned())
        } else {
            Outcome::Success
        }
    })
}

fn outcomes(report: &RunReport) -> String {
    let letter = |task: &TaskReport| match task.outcome {
        TaskOutcome::Succeeded => 's',
        TaskOutcome::Failed(_) => 'f',
        TaskOutcome::Blocked => 'b',
        TaskOutcome::Cancelled => 'c',
    };
    report.tasks.iter().map(letter).collect()
}

#[track_caller]
fn assert_seconds(seconds: f64, expected: f64) {
    assert!((seconds - expected).abs() < 0.1, "{seconds} s instead of {expected} s");
}

#[tokio::test(start_paused = true)]
async fn a_diamond_runs_in_three_waves() -> Result<()> {
    let (job, instance) = job(DIAMOND, |t| t)?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let runner = Runner::new(job, instance.clone(), Spread)
        .options(RunOptions { keep_records: true, ..RunOptions::default() })
        .on_progress(move |snapshot| log.lock().unwrap().push((snapshot.ended(), snapshot.running)));
    let report = runner.run(&mut sleeper(&[])).await?;
    assert!(report.is_success());
    assert_eq!(report.end, RunEnd::Complete);
    assert_seconds(report.makespan, 3.0);
    assert_eq!((report.steps, report.decisions, report.retried()), (3, 4, 0));
    assert_eq!(report.schedule().placements().len(), 4);
    assert_ne!(report.tasks[1].node, report.tasks[2].node);
    let seen = seen.lock().unwrap();
    assert_eq!((seen.first(), seen.last()), (Some(&(0, 1)), Some(&(4, 0))));
    assert!(State::replay(instance.cluster(), false, &report.records)?.is_finished());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn failures_are_repeated_and_block_what_depends_on_them() -> Result<()> {
    let (job, instance) = job(DIAMOND, |t| t.retries(2))?;
    let report = Runner::new(job.clone(), instance, Spread).run(&mut sleeper(&["b"])).await?;
    assert_eq!(outcomes(&report), "sfsb");
    assert_eq!((report.tasks[1].attempts, report.retried(), report.end), (3, 2, RunEnd::Complete));
    assert_eq!((report.succeeded(), report.failed(), report.blocked(), report.cancelled()), (2, 1, 1, 0));
    assert_eq!(report.failures().collect::<Vec<_>>(), [(1.into(), "broken")]);
    assert_eq!(report.tasks[3].node, None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_second_attempt_may_succeed() -> Result<()> {
    let (job, instance) = job(&[("a", &[])], |t| t.retries(1))?;
    let mut executor = FnExecutor::new(|a| async move {
        if a.run.attempt == 1 { Outcome::Failure("flaky".to_owned()) } else { Outcome::Success }
    });
    let report = Runner::new(job, instance, Spread).run(&mut executor).await?;
    assert_eq!((outcomes(&report).as_str(), report.tasks[0].attempts), ("s", 2));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_fails_for_good_is_not_repeated() -> Result<()> {
    let (job, instance) = job(DIAMOND, |t| t.retries(5))?;
    let mut executor = FnExecutor::new(|a| async move {
        match (&*a.task().name, a.run.attempt) {
            ("b", 1) => Outcome::Failure("flaky".to_owned()),
            ("b", _) => Outcome::Final("hopeless".to_owned()),
            _ => Outcome::Success,
        }
    });
    let options = RunOptions { keep_records: true, ..RunOptions::default() };
    let report = Runner::new(job.clone(), instance, Spread).options(options).run(&mut executor).await?;
    assert_eq!((outcomes(&report).as_str(), report.tasks[1].attempts), ("sfsb", 2));
    assert_eq!(report.failures().collect::<Vec<_>>(), [(1.into(), "hopeless")]);

    let never = RetryRule { on: vec![], never_on: vec![Failing::Timeout] };
    let slow =
        |t: Task| t.seconds(100.0).timeout(2.5).retries(5).with_execution(|run| run.retry = never.clone());
    let (job, instance) = self::job(&[("a", &[])], slow)?;
    let report = Runner::new(job, instance, Spread).run(&mut sleeper(&[])).await?;
    assert_eq!((outcomes(&report).as_str(), report.tasks[0].attempts), ("f", 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_the_task() -> Result<()> {
    let (job, instance) = job(DIAMOND, |t| t)?;
    let mut executor = FnExecutor::new(|a| async move {
        assert_ne!(&*a.task().name, "b", "meant to fail");
        Outcome::Success
    });
    let report = Runner::new(job, instance, Spread).run(&mut executor).await?;
    assert_eq!(outcomes(&report), "sfsb");
    assert!(report.failures().all(|(_, reason)| reason.contains("panicked")));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn failing_fast_lets_running_tasks_finish() -> Result<()> {
    let lines: &[(&str, &[&str])] = &[("a", &[]), ("b", &[]), ("c", &["b"]), ("d", &["a"])];
    let (job, instance) = job(lines, |t| if &*t.name == "b" { t.seconds(2.0) } else { t })?;
    let options = RunOptions { fail_fast: true, ..RunOptions::default() };
    let runner = Runner::new(job, instance, Spread).options(options);
    let report = runner.run(&mut sleeper(&["a"])).await?;
    assert_eq!((outcomes(&report).as_str(), report.end), ("fscb", RunEnd::FailedFast));
    assert_seconds(report.makespan, 2.0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn timeouts_cancel_the_attempt_and_count_as_failures() -> Result<()> {
    let (job, instance) = job(&[("a", &[]), ("b", &["a"])], |t| t.seconds(100.0).timeout(2.5).retries(1))?;
    let report = Runner::new(job, instance, Spread).run(&mut sleeper(&[])).await?;
    assert_eq!(outcomes(&report), "fb");
    assert_eq!(report.failures().collect::<Vec<_>>(), [(0.into(), "timed out after 2.5 s")]);
    assert_seconds(report.makespan, 5.0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_is_not_reached_changes_nothing() -> Result<()> {
    let (job, instance) = job(DIAMOND, |t| t.timeout(f64::MAX))?;
    assert!(Runner::new(job, instance, Spread).run(&mut sleeper(&[])).await?.is_success());
    let (job, instance) = self::job(DIAMOND, |t| t.timeout(1.5))?;
    assert!(Runner::new(job, instance, Spread).run(&mut sleeper(&[])).await?.is_success());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_everything() -> Result<()> {
    let (job, instance) = job(DIAMOND, |t| t)?;
    let options = RunOptions { deadline: Some(Duration::from_millis(1500)), ..RunOptions::default() };
    let report = Runner::new(job, instance, Spread).options(options).run(&mut sleeper(&[])).await?;
    assert_eq!((outcomes(&report).as_str(), report.end), ("sccc", RunEnd::Deadline));
    assert_seconds(report.makespan, 1.5);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn stopping_drains_first_and_cancels_then() -> Result<()> {
    for (calls, expected, end, makespan) in
        [(1, "sscc", RunEnd::Drained, 2.0), (2, "sccc", RunEnd::Cancelled, 1.7)]
    {
        let lines: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &["b"])];
        let (job, instance) = job(lines, |t| t)?;
        let runner = Runner::new(job, instance, Spread);
        let stopper = runner.stopper();
        tokio::spawn(async move {
            sleep(Duration::from_millis(1600)).await;
            for _ in 0..calls {
                stopper.escalate();
                sleep(Duration::from_millis(100)).await;
            }
        });
        let report = runner.run(&mut sleeper(&[])).await?;
        assert_eq!((outcomes(&report).as_str(), report.end), (expected, end));
        assert_seconds(report.makespan, makespan);
    }
    Ok(())
}

#[tokio::test]
async fn a_run_stopped_before_it_begins_starts_nothing() -> Result<()> {
    for stop in [Stop::Drain, Stop::Cancel] {
        let (job, instance) = job(DIAMOND, |t| t)?;
        let runner = Runner::new(job, instance, Spread);
        runner.stopper().stop(stop);
        let report = runner.run(&mut sleeper(&[])).await?;
        assert_eq!((outcomes(&report).as_str(), report.tasks[0].attempts), ("cccc", 0));
    }
    Ok(())
}

#[tokio::test]
async fn a_policy_that_places_nothing_is_stuck() -> Result<()> {
    #[derive(Debug)]
    struct Idle;
    impl Placer for Idle {
        fn place(&mut self, _: &Step<'_>, _: &mut Decisions) -> Result<()> {
            Ok(())
        }
    }
    let (job, instance) = job(DIAMOND, |t| t)?;
    let error = Runner::new(job, instance, Idle).run(&mut sleeper(&[])).await;
    let message = error.err().map(|e| e.to_string()).unwrap_or_default();
    assert_eq!(
        message,
        "the run is stuck: nothing runs, and 4 tasks are left; \
         'a' could run on 'm0', but the policy places it nowhere"
    );
    Ok(())
}

#[tokio::test]
async fn an_order_that_contradicts_the_graph_is_stuck() -> Result<()> {
    /// Places children strictly before their parents.
    #[derive(Debug)]
    struct Backwards;
    impl Placer for Backwards {
        fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
            let tasks: Vec<_> = step.instance().graph().tasks().collect();
            tasks.into_iter().rev().for_each(|task| decisions.place_in_order(task, 0.into()));
            Ok(())
        }
    }
    let (job, instance) = job(&[("a", &[]), ("b", &["a"])], |t| t)?;
    let error = Runner::new(job, instance, Backwards).run(&mut sleeper(&[])).await;
    assert!(error.is_err_and(|e| e.to_string().ends_with("'a' waits on 'm0' behind tasks that never start")));
    Ok(())
}

#[tokio::test]
async fn a_wrong_instance_is_refused() -> Result<()> {
    let (job, _) = job(DIAMOND, |t| t)?;
    let (_, other) = self::job(&[("a", &[])], |t| t)?;
    let error = Runner::new(job, other, Spread).run(&mut sleeper(&[])).await;
    assert!(error.is_err_and(|e| e.to_string().contains("that of the job")));
    Ok(())
}

/// An executor driven by a script: what to report on which start.
#[derive(Default)]
struct Scripted {
    starts: usize,
    on_start: Vec<Vec<Report>>,
    fail_at: Option<usize>,
    hang: bool,
    survives: bool,
    cancelled: Arc<AtomicUsize>,
}

#[async_trait]
impl Executor for Scripted {
    async fn start(&mut self, _: Vec<Assignment>, reports: &Reports) -> Result<()> {
        if self.hang {
            std::future::pending::<()>().await;
        }
        if self.fail_at == Some(self.starts) {
            return Err(Error::Executor("no disk left".to_owned()));
        }
        if let Some(script) = self.on_start.get_mut(self.starts) {
            script.drain(..).for_each(|report| reports.send(report));
        }
        self.starts += 1;
        Ok(())
    }

    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping {
        self.cancelled.fetch_add(runs.len(), Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(())))
    }

    fn survives(&self) -> bool {
        self.survives
    }
}

fn run(task: u32, attempt: u32) -> TaskRun {
    TaskRun { job: 0.into(), task: task.into(), attempt }
}

fn ended(task: u32, attempt: u32) -> Report {
    Report::Ended(run(task, attempt), Outcome::Success)
}

#[tokio::test]
async fn an_executor_that_fails_ends_the_run_and_the_rest_is_cancelled() -> Result<()> {
    let lines: &[(&str, &[&str])] = &[("a", &[]), ("b", &[]), ("c", &["a"])];
    let (job, instance) = job(lines, |t| t)?;
    let mut executor =
        Scripted { on_start: vec![vec![ended(0, 1)]], fail_at: Some(1), ..Scripted::default() };
    let error = Runner::new(job, instance, Spread).run(&mut executor).await;
    assert_eq!(error.err().map(|e| e.to_string()), Some("executor: no disk left".to_owned()));
    assert_eq!(executor.cancelled.load(Ordering::Relaxed), 2, "b, and c whose start failed");
    Ok(())
}

#[tokio::test]
async fn what_another_run_can_find_again_is_left_alone_after_a_failure() -> Result<()> {
    for (has_journal, cancelled) in [(true, 0), (false, 2)] {
        let lines: &[(&str, &[&str])] = &[("a", &[]), ("b", &[]), ("c", &["a"])];
        let (job, instance) = job(lines, |t| t)?;
        let on_start = vec![vec![ended(0, 1)]];
        let mut executor = Scripted { on_start, fail_at: Some(1), survives: true, ..Scripted::default() };
        let mut runner = Runner::new(job, instance.clone(), Spread);
        if has_journal {
            runner = runner.journal(Memory::new().create(&instance, Durability::Process)?);
        }
        assert!(runner.run(&mut executor).await.is_err());
        assert_eq!(executor.cancelled.load(Ordering::Relaxed), cancelled);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_hangs_is_given_up() -> Result<()> {
    let (job, instance) = job(DIAMOND, |t| t)?;
    let mut executor = Scripted { hang: true, ..Scripted::default() };
    let error = Runner::new(job, instance, Spread).run(&mut executor).await;
    assert!(error.is_err_and(|e| e.to_string().contains("starting tasks did not return within 600 s")));
    Ok(())
}

#[tokio::test]
async fn reports_about_other_attempts_are_ignored() -> Result<()> {
    let (job, instance) = job(&[("a", &[]), ("b", &["a"])], |t| t)?;
    let stray = TaskRun { job: 7.into(), ..run(1, 1) };
    let first = vec![
        ended(1, 1),
        ended(0, 2),
        ended(9, 1),
        Report::Ended(stray, Outcome::Success),
        Report::Started(run(1, 1)),
        Report::NodeLost(77.into()),
        Report::Started(run(0, 1)),
        ended(0, 1),
        Report::Ended(run(0, 1), Outcome::Failure("twice".to_owned())),
    ];
    let mut executor = Scripted { on_start: vec![first, vec![ended(1, 1)]], ..Scripted::default() };
    let report = Runner::new(job, instance, Spread).run(&mut executor).await?;
    assert_eq!((outcomes(&report).as_str(), executor.starts), ("ss", 2));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_of_a_lost_node_moves_and_lost_nodes_are_waited_for() -> Result<()> {
    let (job, instance) = job(&[("a", &[])], |t| t)?;
    let lost = |n: u32| Report::NodeLost(n.into());
    let script = vec![vec![lost(0)], vec![lost(1), Report::NodeJoined(0.into())], vec![ended(0, 3)]];
    let mut executor = Scripted { on_start: script, ..Scripted::default() };
    let report = Runner::new(job.clone(), instance.clone(), Spread).run(&mut executor).await?;
    assert_eq!((outcomes(&report).as_str(), report.tasks[0].attempts), ("s", 3));

    let mut executor = Scripted { on_start: vec![vec![lost(0), lost(1)]], ..Scripted::default() };
    let begin = tokio::time::Instant::now();
    let error = Runner::new(job, instance, Spread).run(&mut executor).await;
    assert!(error.is_err_and(|e| e.to_string().contains("'a' can run on lost nodes only")));
    assert_seconds(begin.elapsed().as_secs_f64(), 60.0);
    Ok(())
}

/// Begins one attempt at a time, however many it is given; each sleeps the expected time.
struct OneByOne {
    permit: Arc<Semaphore>,
    handles: HashMap<TaskRun, JoinHandle<()>>,
}

impl OneByOne {
    fn new() -> Self {
        Self { permit: Arc::new(Semaphore::new(1)), handles: HashMap::new() }
    }
}

#[async_trait]
impl Executor for OneByOne {
    async fn start(&mut self, batch: Vec<Assignment>, reports: &Reports) -> Result<()> {
        for assignment in batch {
            let (run, permit, reports) = (assignment.run, self.permit.clone(), reports.clone());
            let attempt = async move {
                let _permit = permit.acquire().await;
                reports.send(Report::Started(run));
                sleep(Duration::from_secs_f64(assignment.expected_seconds)).await;
                reports.send(Report::Ended(run, Outcome::Success));
            };
            self.handles.insert(run, tokio::spawn(attempt));
        }
        Ok(())
    }

    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping {
        runs.iter().filter_map(|run| self.handles.remove(run)).for_each(|handle| handle.abort());
        Box::pin(std::future::ready(Ok(())))
    }

    fn queues(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_in_the_executor_is_no_part_of_an_attempt() -> Result<()> {
    let (job, instance) = job(&[("a", &[]), ("b", &[])], |t| t.timeout(1.5))?;
    let most = Arc::new(AtomicUsize::new(0));
    let seen = most.clone();
    let runner = Runner::new(job, instance, Spread)
        .on_progress(move |snapshot| _ = seen.fetch_max(snapshot.running, Ordering::Relaxed));
    let report = runner.run(&mut OneByOne::new()).await?;
    assert_eq!(outcomes(&report), "ss", "{:?}", report.tasks);
    for (task, start) in report.tasks.iter().zip([0.0, 1.0]) {
        assert_seconds(task.start, start);
        assert_seconds(task.finish, start + 1.0);
    }
    assert_eq!(most.load(Ordering::Relaxed), 1, "what waits does not run");

    let (job, instance) = self::job(&[("a", &[]), ("b", &[])], |t| t.seconds(9.0).timeout(1.5))?;
    let report = Runner::new(job, instance, Spread).run(&mut OneByOne::new()).await?;
    assert_eq!(outcomes(&report), "ff");
    assert_seconds(report.tasks[1].start, 1.5);
    assert_seconds(report.makespan, 3.0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn stopping_takes_back_what_the_executor_has_not_begun() -> Result<()> {
    for (stop, expected, makespan) in [(Stop::Drain, "sc", 1.0), (Stop::Cancel, "cc", 0.5)] {
        let (job, instance) = job(&[("a", &[]), ("b", &[])], |t| t)?;
        let runner = Runner::new(job, instance, Spread);
        stop_after(0.5, stop, &runner);
        let report = runner.run(&mut OneByOne::new()).await?;
        assert_eq!(outcomes(&report), expected);
        assert_seconds(report.makespan, makespan);
        assert_eq!((report.tasks[0].attempts, report.tasks[0].node.is_some()), (1, true));
        assert_eq!(report.tasks[1], NEVER_BEGUN);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn starts_held_back_while_draining_are_no_attempts() -> Result<()> {
    let (job, instance) = job(&[("a", &[]), ("b", &[]), ("c", &["a"])], |t| t.retries(1))?;
    let runner = Runner::new(job, instance, Spread);
    stop_after(0.5, Stop::Drain, &runner);
    let report = runner.run(&mut sleeper(&["b"])).await?;
    assert_eq!((outcomes(&report).as_str(), report.end), ("scc", RunEnd::Drained));
    assert_eq!(report.tasks[2], NEVER_BEGUN);
    // The attempt that failed is told, the one held back is not.
    assert_eq!((report.tasks[1].attempts, report.retried()), (1, 0));
    assert_seconds(report.tasks[1].finish, 1.0);
    assert_seconds(report.makespan, 1.0);
    Ok(())
}

const NEVER_BEGUN: TaskReport = TaskReport {
    outcome: TaskOutcome::Cancelled,
    node: None,
    start: 0.0,
    finish: 0.0,
    attempts: 0,
    usage: None,
};

fn stop_after(seconds: f64, stop: Stop, runner: &Runner<Spread>) {
    let stopper = runner.stopper();
    tokio::spawn(async move {
        sleep(Duration::from_secs_f64(seconds)).await;
        stopper.stop(stop);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_tasks_on_any_thread() -> Result<()> {
    let mut job = JobGraph::builder("many");
    let root = job.task(Task::new("root"))?;
    for i in 0..10_000 {
        let task = job.task(Task::new(format!("t{i}")))?;
        job.depend(task, root, 0.0);
    }
    let job = Arc::new(job.build()?);
    let cluster = Arc::new(Cluster::identical(64, SlotModel::Exclusive)?);
    let instance = Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Edges)?);
    let run = async move {
        let mut executor = FnExecutor::new(|_| async { Outcome::Success });
        Runner::new(job, instance, Box::new(Spread) as Box<dyn Placer>).run(&mut executor).await
    };
    let report = tokio::spawn(run).await.map_err(|e| Error::Executor(e.to_string()))??;
    assert_eq!(report.succeeded(), 10_001);
    eprintln!(
        "{:.1} us per task, of which {:.1} us in the policy",
        report.makespan * 1e6 / 10_001.0,
        report.deciding_seconds * 1e6 / 10_001.0
    );
    Ok(())
}
