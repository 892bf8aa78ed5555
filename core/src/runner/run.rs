//! One run: events from the executor and the clock go into the engine, its commands go to the executor.
//!
//! A step costs what the engine and the policy cost, plus O(1) per report and command.

use std::sync::Arc;
use std::time::Duration;

use mdts_dag::{JobGraph, TaskId};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::Instant;

use super::attempts::Attempts;
use super::options::{RunOptions, Snapshot, Stop, Stopper};
use super::report::{RunEnd, RunReport, TaskOutcome, TaskReport};
use super::{Assignment, Executor, Outcome, Report, Reports, stuck};
use crate::engine::{Command, Engine, Event, JobId, Phase, Step, TaskRun};
use crate::policy::{Decisions, Placer};
use crate::{Error, Instance, NodeId, Result};

/// The one job of a run.
const JOB: JobId = JobId::new(0);

/// Reports that are handled in one step at most.
const TOGETHER: usize = 4096;

type Progress = Box<dyn FnMut(&Snapshot) + Send>;

/// Runs one job through an executor, in real time.
///
/// The policy decides, the executor executes; the runner keeps time, repeats failed attempts, enforces the timeout
/// of every attempt and sees to it that every wait has an end.
///
/// ```
/// use std::sync::Arc;
/// use mdts_core::engine::Step;
/// use mdts_core::runner::{FnExecutor, Outcome, Runner};
/// use mdts_core::{Cluster, Decisions, Instance, Placer, SlotModel};
/// use mdts_dag::{DataModel, JobGraph, Task};
///
/// #[derive(Debug)]
/// struct First;
/// impl Placer for First {
///     fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<(), mdts_core::Error> {
///         step.ready().iter().for_each(|task| decisions.place(*task, 0.into()));
///         Ok(())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mdts_core::Error> {
/// let mut job = JobGraph::builder("one");
/// job.task(Task::new("a"))?;
/// let job = Arc::new(job.build()?);
/// let cluster = Arc::new(Cluster::identical(2, SlotModel::Exclusive)?);
/// let instance = Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Edges)?);
/// let mut executor = FnExecutor::new(|_| async { Outcome::Success });
/// let report = Runner::new(job, instance, First).run(&mut executor).await?;
/// assert!(report.is_success());
/// # Ok(())
/// # }
/// ```
pub struct Runner<P> {
    job: Arc<JobGraph>,
    instance: Arc<Instance>,
    policy: P,
    options: RunOptions,
    progress: Option<Progress>,
    stopper: Stopper,
}

impl<P: Placer> std::fmt::Debug for Runner<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner")
            .field("job", &self.job.name())
            .field("policy", &self.policy)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<P: Placer> Runner<P> {
    /// A run of `job` with the costs of `instance`, placed by `policy`.
    pub fn new(job: Arc<JobGraph>, instance: Arc<Instance>, policy: P) -> Self {
        let options = RunOptions::default();
        Self { job, instance, policy, options, progress: None, stopper: Stopper::new() }
    }

    /// Sets how the run behaves.
    #[must_use]
    pub fn options(mut self, options: RunOptions) -> Self {
        self.options = options;
        self
    }

    /// Calls `progress` after every step, within the run: it should be quick.
    #[must_use]
    pub fn on_progress(mut self, progress: impl FnMut(&Snapshot) + Send + 'static) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Stops the run from outside, before or while it runs.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Runs the job to its end. Needs a tokio runtime with timers.
    ///
    /// Failed tasks are no error of the run: see [`RunReport::failures`]. After an error, all that still ran was
    /// cancelled. If the future is dropped, stopping what runs is up to the executor.
    ///
    /// # Errors
    /// [`Error::Executor`] if the executor cannot go on, [`Error::BadDecision`] if the policy places a task where
    /// it cannot be, whatever else the policy fails with, [`Error::Stuck`] if nothing runs and nothing will, [`Error::BadSetting`] if the instance is
    /// not of this job.
    pub async fn run<E: Executor + ?Sized>(self, executor: &mut E) -> Result<RunReport> {
        if self.job.len() != self.instance.tasks() {
            return Err(Error::BadSetting {
                what: "number of tasks of the instance",
                value: self.instance.tasks().to_string(),
                expected: "that of the job",
            });
        }
        let mut run = Run::new(self, executor);
        match run.drive().await {
            Ok(end) => Ok(run.report(end)),
            Err(error) => {
                run.abandon().await;
                Err(error)
            }
        }
    }
}

/// A policy whose work is counted.
#[derive(Debug)]
struct Counted<P> {
    policy: P,
    steps: usize,
    decisions: usize,
    spent: Duration,
}

impl<P: Placer> Placer for Counted<P> {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        let begin = std::time::Instant::now();
        let placed = self.policy.place(step, decisions);
        self.spent += begin.elapsed();
        self.steps += 1;
        self.decisions += decisions.as_slice().len();
        placed
    }

    fn watches_progress(&self) -> bool {
        self.policy.watches_progress()
    }
}

/// A run under way.
struct Run<'a, P, E: ?Sized> {
    job: Arc<JobGraph>,
    instance: Arc<Instance>,
    options: RunOptions,
    engine: Engine<Counted<P>>,
    executor: &'a mut E,
    reports: Reports,
    inbox: UnboundedReceiver<Report>,
    stop: watch::Receiver<Stop>,
    /// Keeps `stop` open.
    _stopper: Stopper,
    progress: Option<Progress>,
    begin: Instant,
    now: f64,
    attempts: Attempts,
    lost: Vec<NodeId>,
    idle_since: Option<Instant>,
    succeeded: usize,
    failed: usize,
    /// Why nothing new starts.
    drain: Option<RunEnd>,
    end: RunEnd,
    // Buffers, empty between steps.
    received: Vec<Report>,
    events: Vec<Event>,
    ended: Vec<TaskId>,
    commands: Vec<Command>,
}

impl<'a, P: Placer, E: Executor + ?Sized> Run<'a, P, E> {
    fn new(runner: Runner<P>, executor: &'a mut E) -> Self {
        let Runner { job, instance, policy, options, progress, stopper } = runner;
        let counted = Counted { policy, steps: 0, decisions: 0, spent: Duration::ZERO };
        let mut engine = Engine::new(instance.cluster(), counted, false);
        if options.keep_records {
            engine.keep_records();
        }
        let (reports, inbox) = Reports::channel();
        Self {
            attempts: Attempts::new(job.len()),
            job,
            instance,
            options,
            engine,
            executor,
            reports,
            inbox,
            stop: stopper.subscribe(),
            _stopper: stopper,
            progress,
            begin: Instant::now(),
            now: 0.0,
            lost: Vec::new(),
            idle_since: None,
            succeeded: 0,
            failed: 0,
            drain: None,
            end: RunEnd::Complete,
            received: Vec::new(),
            events: Vec::new(),
            ended: Vec::new(),
            commands: Vec::new(),
        }
    }

    async fn drive(&mut self) -> Result<RunEnd> {
        self.events.push(Event::Submitted(self.instance.clone()));
        self.obey_stop();
        loop {
            self.advance()?;
            self.carry_out().await?;
            self.show_progress();
            match self.drain {
                _ if self.engine.state().is_finished() => return Ok(self.end),
                Some(end) if self.attempts.live() == 0 => self.give_up(end),
                _ => self.wait().await?,
            }
        }
    }

    /// One step of the engine. Every event, decision and command of a run passes here, and no command is carried
    /// out before this returns: the place for a journal.
    fn advance(&mut self) -> Result<()> {
        self.now = self.begin.elapsed().as_secs_f64();
        let commands = self.engine.handle(self.now, self.events.drain(..))?;
        self.commands.extend_from_slice(commands);
        for task in self.ended.drain(..) {
            match self.engine.state().phase(JOB, task) {
                Phase::Done => self.succeeded += 1,
                Phase::Failed => self.failed += 1,
                _ => {} // will be repeated
            }
        }
        if self.options.fail_fast && self.failed > 0 {
            self.drain.get_or_insert(RunEnd::FailedFast);
        }
        Ok(())
    }

    /// Hands the engine's commands to the executor. While draining, starts are held back: the engine takes them
    /// as running until the job is given up. What the executor has not begun is taken back.
    async fn carry_out(&mut self) -> Result<()> {
        let (mut batch, mut cancelled) = (Vec::new(), self.withdraw_queued());
        for command in std::mem::take(&mut self.commands) {
            match command {
                Command::Start { run, node } if self.drain.is_none() => batch.push(self.begin(run, node)),
                Command::Cancel { run, .. } if self.attempts.cancel(run, self.now) => cancelled.push(run),
                _ => {}
            }
        }
        if !cancelled.is_empty() {
            self.cancel(&cancelled).await?;
        }
        if !batch.is_empty() {
            let start = self.executor.start(batch, &self.reports);
            within(self.options.call_limit, "starting", start).await?;
        }
        Ok(())
    }

    /// While draining: the attempts that the executor has but has not begun. They end here.
    fn withdraw_queued(&mut self) -> Vec<TaskRun> {
        if self.drain.is_none() || self.attempts.queued() == 0 {
            return Vec::new();
        }
        let queued = self.attempts.queued_runs();
        for run in &queued {
            self.attempts.cancel(*run, self.now);
        }
        queued
    }

    fn begin(&mut self, run: TaskRun, node: NodeId) -> Assignment {
        let queues = self.executor.queues();
        self.attempts.begin(run, node, self.now, !queues);
        if !queues {
            self.start_clock(run);
        }
        let expected_seconds = self.instance.exec(run.task, node);
        let assignment = Assignment { run, node, expected_seconds, job: self.job.clone() };
        tracing::debug!(task = %assignment.task().name, attempt = run.attempt, ?node, "start");
        assignment
    }

    fn start_clock(&mut self, run: TaskRun) {
        if let Some(seconds) = self.timeout(run.task) {
            // A timeout beyond the reach of the clock never comes.
            let until = Duration::try_from_secs_f64(seconds).ok().and_then(|t| Instant::now().checked_add(t));
            if let Some(until) = until {
                self.attempts.limit(run, until);
            }
        }
    }

    fn timeout(&self, task: TaskId) -> Option<f64> {
        self.job.task(task).run.as_ref()?.timeout
    }

    async fn cancel(&mut self, runs: &[TaskRun]) -> Result<()> {
        within(self.options.call_limit, "cancelling", self.executor.cancel(runs)).await
    }

    /// Stops what still runs after an error; the first error is the one that counts.
    async fn abandon(&mut self) {
        let live = self.attempts.live_runs();
        if let (false, Err(error)) = (live.is_empty(), self.cancel(&live).await) {
            tracing::warn!(%error, "after a failure of the run, some tasks could not be cancelled");
        }
    }

    fn show_progress(&mut self) {
        if let Some(progress) = &mut self.progress {
            let tasks = self.job.len();
            let ended = tasks - self.engine.state().remaining(JOB);
            progress(&Snapshot {
                now: self.now,
                tasks,
                succeeded: self.succeeded,
                failed: self.failed,
                blocked: ended - self.succeeded - self.failed,
                running: self.attempts.live() - self.attempts.queued(),
                retried: self.attempts.retried(),
            });
        }
    }

    /// Waits for reports, the clock or a stop, and turns what has come into events.
    async fn wait(&mut self) -> Result<()> {
        let wake = self.next_wake()?;
        tokio::select! {
            biased;
            _ = self.inbox.recv_many(&mut self.received, TOGETHER) => {}
            _ = self.stop.changed() => {}
            () = sleep_until(wake) => {}
        }
        self.now = self.begin.elapsed().as_secs_f64();
        let mut received = std::mem::take(&mut self.received);
        received.drain(..).for_each(|report| self.take(report));
        self.received = received; // keeps its room
        self.take_timeouts().await?;
        self.obey_stop();
        Ok(())
    }

    /// The latest time to wake up at.
    ///
    /// # Errors
    /// [`Error::Stuck`] if there is nothing to wait for.
    fn next_wake(&mut self) -> Result<Option<Instant>> {
        let mut wake = self.attempts.next_timeout();
        if let Some(deadline) = self.options.deadline {
            wake = earlier(wake, self.begin.checked_add(deadline));
        }
        if self.attempts.live() > 0 || !self.inbox.is_empty() {
            self.idle_since = None;
            return Ok(wake);
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        if self.lost.is_empty() || since.elapsed() >= self.options.node_patience {
            return Err(stuck::explain(self.engine.state(), &self.instance, |n| self.lost.contains(&n)));
        }
        Ok(earlier(wake, since.checked_add(self.options.node_patience)))
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Started(run) if self.attempts.started(run, self.now) => {
                self.start_clock(run);
                self.events.push(Event::Started(run));
            }
            Report::Ended(run, Outcome::Success) if self.attempts.end(run, self.now, None) => {
                self.ended.push(run.task);
                self.events.push(Event::Finished(run));
            }
            Report::Ended(run, Outcome::Failure(reason)) if self.attempts.is_live(run) => {
                self.fail(run, reason);
            }
            Report::Started(run) | Report::Ended(run, _) => {
                tracing::debug!(?run, "a report about an attempt that does not run is ignored");
            }
            Report::NodeLost(node) => {
                self.attempts.lose(node, self.now);
                if node.index() < self.instance.nodes() && !self.lost.contains(&node) {
                    self.lost.push(node);
                }
                self.events.push(Event::NodeLost(node));
            }
            Report::NodeJoined(node) => {
                self.lost.retain(|n| *n != node);
                self.events.push(Event::NodeJoined(node));
            }
        }
    }

    fn fail(&mut self, run: TaskRun, reason: String) {
        tracing::info!(task = %self.job.task(run.task).name, attempt = run.attempt, reason, "failed");
        self.attempts.end(run, self.now, Some(reason));
        self.ended.push(run.task);
        self.events.push(Event::Failed(run));
    }

    async fn take_timeouts(&mut self) -> Result<()> {
        let now = Instant::now();
        let overdue: Vec<TaskRun> = std::iter::from_fn(|| self.attempts.pop_overdue(now)).collect();
        if overdue.is_empty() {
            return Ok(());
        }
        self.cancel(&overdue).await?;
        for run in overdue {
            let seconds = self.timeout(run.task).unwrap_or_default();
            self.fail(run, format!("timed out after {seconds} s"));
        }
        Ok(())
    }

    fn obey_stop(&mut self) {
        let stop = *self.stop.borrow_and_update();
        if self.options.deadline.is_some_and(|limit| self.begin.elapsed() >= limit) {
            self.give_up(RunEnd::Deadline);
        } else if stop == Stop::Cancel {
            self.give_up(RunEnd::Cancelled);
        } else if stop == Stop::Drain {
            self.drain.get_or_insert(RunEnd::Drained);
        }
    }

    /// Cancels all that has not ended.
    fn give_up(&mut self, end: RunEnd) {
        (self.end, self.drain) = (end, Some(end)); // what the policy still places must not start
        self.events.push(Event::Cancelled(JOB));
    }

    fn report(mut self, end: RunEnd) -> RunReport {
        let mut tasks: Vec<TaskReport> = self.job.task_ids().map(|task| self.task_report(task)).collect();
        let graph = self.instance.graph();
        for &task in graph.topological_order() {
            let held_up = |p: &TaskId| {
                matches!(tasks[p.index()].outcome, TaskOutcome::Failed(_) | TaskOutcome::Blocked)
            };
            if tasks[task.index()].outcome == TaskOutcome::Cancelled
                && graph.parents(task).iter().any(held_up)
            {
                tasks[task.index()].outcome = TaskOutcome::Blocked;
            }
        }
        let counted = self.engine.policy();
        RunReport {
            end,
            makespan: self.attempts.last_finish(),
            steps: counted.steps,
            decisions: counted.decisions,
            deciding_seconds: counted.spent.as_secs_f64(),
            records: self.engine.take_records(),
            tasks,
        }
    }

    fn task_report(&self, task: TaskId) -> TaskReport {
        let attempt = self.attempts.of(task);
        let outcome = match self.engine.state().phase(JOB, task) {
            Phase::Done => TaskOutcome::Succeeded,
            Phase::Failed => TaskOutcome::Failed(attempt.reason.clone().unwrap_or_default()),
            _ => TaskOutcome::Cancelled,
        };
        if !attempt.begun {
            let attempts = attempt.number.saturating_sub(1);
            return TaskReport { outcome, node: None, start: 0.0, finish: 0.0, attempts };
        }
        TaskReport {
            outcome,
            node: Some(attempt.node),
            start: attempt.start,
            finish: attempt.finish,
            attempts: attempt.number,
        }
    }
}

/// Bounds a call of the executor.
async fn within(limit: Duration, what: &str, call: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        Err(Error::Executor(format!("{what} tasks did not return within {} s", limit.as_secs_f64())))
    })
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
