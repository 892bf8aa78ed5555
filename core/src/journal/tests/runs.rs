//! Runs that are stopped in the middle and go on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mdts_dag::{DataModel, JobGraph, Task, TaskId};

use super::Memory;
use crate::engine::{Event, JobId, Phase, Speculation, Step};
use crate::journal::{Durability, Entry};
use crate::policy::Placer;
use crate::runner::{
    FnExecutor, Obstacle, Outcome, RunEnd, RunOptions, RunReport, Runner, Standing, Stop, TaskOutcome, amend,
};
use crate::{Cluster, Decisions, Error, Instance, Result, SlotModel};

const TASKS: usize = 60;

/// Everything on the node of its number.
#[derive(Debug)]
struct ByNumber;

impl Placer for ByNumber {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        for &task in step.ready() {
            decisions.place(task, crate::NodeId::new(task.index() % step.instance().nodes()));
        }
        Ok(())
    }
}

/// Three chains side by side; every tenth task fails the first time.
struct Bench {
    job: Arc<JobGraph>,
    instance: Arc<Instance>,
    /// How often each task has succeeded.
    done: Arc<Mutex<Vec<u32>>>,
    /// Why the first attempts fail.
    reason: String,
}

impl Bench {
    fn new() -> Result<Self> {
        Self::with_reason("the first time")
    }

    fn with_reason(reason: &str) -> Result<Self> {
        let mut job = JobGraph::builder("bench");
        for i in 0..TASKS {
            let task = job.task(Task::new(format!("t{i}")).seconds(1.0).retries(1))?;
            if i >= 3 {
                job.depend(task, TaskId::new(i - 3), 0.0);
            }
        }
        let job = Arc::new(job.build()?);
        let cluster = Arc::new(Cluster::identical(3, SlotModel::Exclusive)?);
        let instance = Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Edges)?);
        Ok(Self { job, instance, done: Arc::new(Mutex::new(vec![0; TASKS])), reason: reason.to_owned() })
    }

    fn executor(&self) -> impl crate::runner::Executor {
        let (done, reason) = (self.done.clone(), self.reason.clone());
        FnExecutor::new(move |assignment| {
            let (done, reason) = (done.clone(), reason.clone());
            async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                if assignment.run.task.index().is_multiple_of(10) && assignment.run.attempt == 1 {
                    return Outcome::Failure(reason);
                }
                done.lock().expect("whole")[assignment.run.task.index()] += 1;
                Outcome::Success
            }
        })
    }

    fn runner(&self) -> Runner<ByNumber> {
        Runner::new(self.job.clone(), self.instance.clone(), ByNumber)
    }

    async fn run(&self, memory: &Memory) -> Result<RunReport> {
        let journal = memory.create(&self.instance, Durability::Process)?;
        self.runner().journal(journal).run(&mut self.executor()).await
    }

    async fn resume(&self, memory: &Memory) -> Result<RunReport> {
        self.runner().journal(memory.open()?).run(&mut self.executor()).await
    }

    fn standing(&self, memory: &Memory) -> Result<Standing> {
        Standing::read(&mut memory.reader()?, &self.instance, false, "memory")
    }
}

/// Offsets behind the manifest and behind every further record.
fn ends_of_records(memory: &Memory) -> Result<Vec<usize>> {
    let mut reader = memory.reader()?;
    let mut ends = vec![reader.offset() as usize];
    while reader.next()?.is_some() {
        ends.push(reader.offset() as usize);
    }
    Ok(ends)
}

/// A run whose journal was cut goes on: what is recorded as done does not run again, all else does.
async fn goes_on(bytes: &[u8], reason: &str) -> Result<()> {
    let (memory, bench, cut) = (Memory::holding(bytes.to_vec()), Bench::with_reason(reason)?, bytes.len());
    let standing = bench.standing(&memory)?;
    let before: Vec<Phase> = bench.job.task_ids().map(|task| standing.phase(task)).collect();
    let report = bench.resume(&memory).await?;
    assert!(report.is_success(), "cut at {cut}");
    assert_eq!(report.done_before, before.iter().filter(|phase| **phase == Phase::Done).count());
    let done = bench.done.lock().expect("whole");
    for (task, phase) in before.iter().enumerate() {
        assert_eq!(done[task], u32::from(*phase != Phase::Done), "cut at {cut}, t{task}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_from_wherever_its_journal_was_cut() -> Result<()> {
    let memory = Memory::new();
    let first = Bench::new()?;
    assert!(first.run(&memory).await?.is_success());
    let bytes = memory.bytes();
    for cut in ends_of_records(&memory)?[0]..=bytes.len() {
        goes_on(&bytes[..cut], "the first time").await?;
    }
    Ok(())
}

/// Its state is that of the last whole record at every byte, and it goes on from there, tried beside the ends of records.
#[tokio::test(start_paused = true)]
async fn a_longer_journal_may_be_cut_at_every_byte_of_its_last_64_kib() -> Result<()> {
    let (memory, reason) = (Memory::new(), "for long reasons ".repeat(800));
    let first = Bench::with_reason(&reason)?;
    assert!(first.run(&memory).await?.is_success());
    let (bytes, ends) = (memory.bytes(), ends_of_records(&memory)?);
    assert!(bytes.len() > (64 << 10) + ends[0], "{} bytes", bytes.len());
    let (mut whole, mut expected) = (usize::MAX, None);
    for cut in bytes.len() - (64 << 10)..=bytes.len() {
        let standing = first.standing(&Memory::holding(bytes[..cut].to_vec()))?;
        let records = ends.partition_point(|end| *end <= cut);
        if whole != records {
            whole = records;
            expected = Some(first.standing(&Memory::holding(bytes[..ends[records - 1]].to_vec()))?);
        }
        assert_eq!(Some(standing.state()), expected.as_ref().map(Standing::state), "cut at {cut}");
        if ends.iter().any(|end| end.abs_diff(cut) <= 1) {
            goes_on(&bytes[..cut], &reason).await?;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_full_storage_stops_the_run_and_leaves_it_resumable() -> Result<()> {
    let memory = Memory::new();
    Bench::new()?.run(&memory).await?;
    let all = memory.bytes().len();
    for room in (500..all).step_by(211) {
        let memory = Memory::new();
        memory.look().room = room;
        let bench = Bench::new()?;
        let error = bench.run(&memory).await.expect_err("no room");
        assert!(matches!(error, Error::NotRecorded { .. }), "{error}");
        memory.look().room = usize::MAX;
        let recorded = bench.standing(&memory)?.count(Phase::Done);
        let report = bench.resume(&memory).await?;
        assert!(report.is_success());
        assert_eq!(report.done_before, recorded);
        // What ended while its end could not be recorded has run again.
        let again = bench.done.lock().expect("whole").iter().filter(|n| **n > 1).count();
        assert!(again <= 3, "{again} tasks ran twice with {room} bytes");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn stopping_leaves_a_journal_that_goes_on() -> Result<()> {
    for (degree, end) in [(Stop::Drain, RunEnd::Drained), (Stop::Cancel, RunEnd::Cancelled)] {
        let (bench, memory) = (Bench::new()?, Memory::new());
        let runner = bench.runner().journal(memory.create(&bench.instance, Durability::Process)?);
        let cancelled = Arc::new(AtomicUsize::new(0));
        let seen = cancelled.clone();
        let runner = runner.on_progress(move |moment| seen.store(moment.cancelled, Ordering::Relaxed));
        let stopper = runner.stopper();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(95)).await;
            stopper.stop(degree);
        });
        let report = runner.run(&mut bench.executor()).await?;
        assert_eq!(report.end, end);
        assert_eq!(cancelled.load(Ordering::Relaxed), report.cancelled());
        assert_eq!(report.succeeded() + report.cancelled(), TASKS);
        let standing = bench.standing(&memory)?;
        assert_eq!((standing.end(), standing.count(Phase::Running)), (Some(end.word()), 0));
        assert_eq!(standing.count(Phase::Done), report.succeeded());
        let ready =
            bench.job.task_ids().find(|task| standing.phase(*task) == Phase::Ready).expect("some wait");
        assert_eq!(Obstacle::of(standing.state(), &bench.instance, ready, 0.0), Some(Obstacle::Held));
        let resumed = bench.resume(&memory).await?;
        assert!(resumed.is_success());
        assert_eq!((resumed.end, resumed.done_before), (RunEnd::Complete, report.succeeded()));
        assert!(bench.done.lock().expect("whole").iter().all(|n| *n == 1), "each exactly once");
        assert!(resumed.tasks[10].attempts >= 2, "its failure before the stop counts");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn cancelled_tasks_fail_for_good_until_they_are_retried() -> Result<()> {
    let (bench, memory) = (Bench::new()?, Memory::new());
    let runner = bench.runner().journal(memory.create(&bench.instance, Durability::Process)?);
    let stopper = runner.stopper();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(35)).await;
        // One that runs, one that waits, one that is done, one that is not there.
        stopper.cancel_tasks([6, 31, 0, 99].map(TaskId::from), "by hand");
    });
    let report = runner.run(&mut bench.executor()).await?;
    let failed = |task: usize| report.tasks[task].outcome == TaskOutcome::Failed("by hand".to_owned());
    assert!(failed(6) && failed(31));
    assert_eq!((report.failed(), report.cancelled()), (2, 0));
    let standing = bench.standing(&memory)?;
    assert_eq!([6, 31].map(|task| standing.reason(task.into())), [Some("by hand"); 2]);
    assert_eq!((standing.phase(31.into()), standing.phase(34.into())), (Phase::Failed, Phase::Blocked));

    let retried = [6, 31].map(|task| Event::Retried { job: JobId::new(0), task: TaskId::from(task) });
    amend(memory.open()?, &bench.instance, false, &retried, Vec::new(), "retried")?;
    let standing = bench.standing(&memory)?;
    assert_eq!(
        (standing.end(), standing.count(Phase::Failed), standing.count(Phase::Running)),
        (Some("retried"), 0, 0)
    );
    assert_eq!((standing.phase(6.into()), standing.phase(34.into())), (Phase::Ready, Phase::Waiting));
    let resumed = bench.resume(&memory).await?;
    assert!(resumed.is_success());
    assert!(bench.done.lock().expect("whole").iter().all(|n| *n == 1), "each exactly once");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn snapshots_take_the_place_of_entries() -> Result<()> {
    let plain = Memory::new();
    Bench::new()?.run(&plain).await?;
    let (bench, memory) = (Bench::new()?, Memory::new());
    let journal = memory.create(&bench.instance, Durability::Process)?.compact_after(1000);
    assert!(bench.runner().journal(journal).run(&mut bench.executor()).await?.is_success());
    let mut reader = memory.reader()?;
    assert!(matches!(reader.next()?, Some(Entry::Snapshot(_))));
    let standing = bench.standing(&memory)?;
    assert_eq!((standing.count(Phase::Done), standing.end()), (TASKS, Some("complete")));
    assert_eq!(standing.attempt(20.into()).map(|attempt| attempt.number), Some(2));
    let report = bench.resume(&memory).await?;
    assert!(report.is_success() && report.done_before == TASKS);
    assert!(bench.done.lock().expect("whole").iter().all(|n| *n == 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn another_job_is_refused() -> Result<()> {
    let (bench, memory) = (Bench::new()?, Memory::new());
    bench.run(&memory).await?;
    let mut other = JobGraph::builder("bench");
    for i in 0..TASKS {
        other.task(Task::new(format!("t{i}")).seconds(2.0).retries(1))?;
    }
    let other = Arc::new(other.build()?);
    let cluster = Arc::new(Cluster::identical(3, SlotModel::Exclusive)?);
    let instance = Arc::new(Instance::new(other.freeze().into(), cluster, DataModel::Edges)?);
    let runner = Runner::new(other, instance, ByNumber).journal(memory.open()?);
    let error = runner.run(&mut bench.executor()).await.expect_err("another job").to_string();
    assert!(error.contains("are not those of the journal; resume with what"), "{error}");
    Ok(())
}

#[test]
fn obstacles_are_told_in_words() -> Result<()> {
    use crate::engine::{Engine, Event};
    let bench = Bench::new()?;
    let mut engine = Engine::new(bench.instance.cluster(), ByNumber, false);
    engine.handle(0.0, [Event::Submitted(bench.instance.clone())])?;
    let why = |engine: &Engine<ByNumber>, task: u32| {
        let obstacle = Obstacle::of(engine.state(), &bench.instance, task.into(), engine.state().now());
        obstacle.map(|obstacle| obstacle.explain(&bench.instance).to_string())
    };
    assert_eq!(why(&engine, 0), None);
    assert_eq!(why(&engine, 3).as_deref(), Some("it waits for 't0', which is running"));
    engine.handle(1.0, [Event::Held])?;
    let run = |task: u32, attempt| crate::engine::TaskRun { job: 0.into(), task: task.into(), attempt };
    engine.handle(2.0, [Event::Finished(run(0, 1))])?;
    assert_eq!(why(&engine, 3).as_deref(), Some("the run was stopped before it; go on with --resume"));
    engine.handle(3.0, [Event::Resumed, Event::Failed(run(1, 1))])?;
    engine.handle(4.0, [Event::Failed(run(1, 2))])?;
    assert_eq!(why(&engine, 7).as_deref(), Some("it never runs, because 't1' failed"));
    Ok(())
}

/// The first attempts of two tasks hang; second ones end in time.
#[tokio::test(start_paused = true)]
async fn a_run_with_second_attempts_goes_on_from_wherever_its_journal_was_cut() -> Result<()> {
    let options =
        || RunOptions { speculation: Some(Speculation { factor: 2.0, least: 0.0 }), ..RunOptions::default() };
    let executor = |bench: &Bench| {
        let done = bench.done.clone();
        FnExecutor::new(move |assignment| {
            let done = done.clone();
            async move {
                let hangs = [7, 23].contains(&assignment.run.task.index()) && assignment.run.attempt == 1;
                tokio::time::sleep(Duration::from_millis(if hangs { 3_600_000 } else { 10 })).await;
                done.lock().expect("whole")[assignment.run.task.index()] += 1;
                Outcome::Success
            }
        })
    };
    let (bench, memory) = (Bench::new()?, Memory::new());
    let runner = bench.runner().options(options());
    let runner = runner.journal(memory.create(&bench.instance, Durability::Process)?.compact_after(700));
    let report = runner.run(&mut executor(&bench)).await?;
    assert!(report.is_success() && report.makespan < 10.0);
    assert_eq!((report.speculated, report.retried(), report.tasks[7].attempts), (2, 0, 2));
    assert!(matches!(memory.reader()?.next()?, Some(Entry::Snapshot(_))));

    let (bench, memory) = (Bench::new()?, Memory::new());
    let runner = bench.runner().options(options());
    let runner = runner.journal(memory.create(&bench.instance, Durability::Process)?);
    assert!(runner.run(&mut executor(&bench)).await?.is_success());
    let bytes = memory.bytes();
    for cut in (400..=bytes.len()).rev().step_by(41) {
        let memory = Memory::holding(bytes[..cut].to_vec());
        let bench = Bench::new()?;
        let Ok(standing) = bench.standing(&memory) else { continue }; // cut in the manifest
        let before: Vec<Phase> = bench.job.task_ids().map(|task| standing.phase(task)).collect();
        let runner = bench.runner().options(options()).journal(memory.open()?);
        let report = runner.run(&mut executor(&bench)).await?;
        assert!(report.is_success(), "cut at {cut}");
        let done = bench.done.lock().expect("whole");
        for (task, phase) in before.iter().enumerate() {
            assert_eq!(done[task], u32::from(*phase != Phase::Done), "cut at {cut}, t{task}");
        }
    }
    Ok(())
}

/// The wall clock is told in the journal, and nothing else: a run that goes on after it was set back by years is the same.
#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_changes_nothing() -> Result<()> {
    let (bench, memory) = (Bench::new()?, Memory::new());
    let runner = bench.runner().journal(memory.create(&bench.instance, Durability::Process)?);
    let stopper = runner.stopper();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(95)).await;
        stopper.stop(Stop::Drain);
    });
    let stopped = runner.run(&mut bench.executor()).await?;
    for at_ms in [u64::MAX, 0] {
        let mut journal = memory.open()?;
        journal.replay(|_| Ok(()))?;
        journal.append(&Entry::Opened { at_ms, process: 1 })?;
        journal.append(&Entry::Ended { at_ms: at_ms / 2, why: "drained".to_owned() })?;
    }
    let before = bench.standing(&memory)?.state().now();
    let resumed = bench.resume(&memory).await?;
    assert!(resumed.is_success() && resumed.done_before == stopped.succeeded());
    let since = resumed.makespan - before;
    assert!((0.1..0.5).contains(&since), "{since} s for what is left");
    assert!(resumed.tasks.iter().all(|task| task.start <= task.finish));
    Ok(())
}
