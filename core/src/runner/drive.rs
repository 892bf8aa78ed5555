//! One run: events from the executor and the clock go into the engine, its commands go to the executor.
//!
//! A step costs what the engine and the policy cost, plus O(1) per report and command.

use std::sync::Arc;
use std::time::Duration;

use mdts_dag::{JobGraph, TaskId};
use rustc_hash::FxHashSet;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::Instant;

use super::attempts::Attempts;
use super::clocks::{Alarm, Clocks};
use super::ledger::{Ledger, Past};
use super::options::{Orders, RunOptions, Snapshot, Stopper};
use super::report::{RunEnd, RunReport, TaskOutcome, TaskReport};
use super::run::{Counted, Progress, Runner};
use super::stopping::{Stops, Why};
use super::{Assignment, Executor, Outcome, Report, Reports, stuck};
use crate::engine::{Command, Engine, Event, JobId, Phase, State, TaskRun};
use crate::policy::Placer;
use crate::{Error, Instance, NodeId, Result};

/// The one job of a run.
pub(super) const JOB: JobId = JobId::new(0);

/// Reports that are handled in one step at most.
const TOGETHER: usize = 4096;

/// Longest time between two calls for progress, and between two times in the journal while something runs.
const PULSE: Duration = Duration::from_secs(1);

/// A run under way.
pub(super) struct Run<'a, P, E: ?Sized> {
    pub(super) job: Arc<JobGraph>,
    instance: Arc<Instance>,
    pub(super) options: RunOptions,
    pub(super) engine: Engine<Counted<P>>,
    pub(super) executor: &'a mut E,
    reports: Reports,
    pub(super) inbox: UnboundedReceiver<Report>,
    pub(super) orders: watch::Receiver<Orders>,
    /// How many of the orders about tasks were followed.
    pub(super) orders_seen: usize,
    /// Failed tasks that are to run again after this step.
    pub(super) retried: Vec<TaskId>,
    /// Keeps `orders` open.
    _stopper: Stopper,
    progress: Option<Progress>,
    pub(super) begin: Instant,
    /// Seconds that the run had lasted when this process began.
    before: f64,
    pub(super) now: f64,
    pub(super) attempts: Attempts,
    clocks: Clocks,
    pub(super) stops: Stops,
    lost: Vec<NodeId>,
    idle_since: Option<Instant>,
    succeeded: usize,
    pub(super) failed: usize,
    /// Why nothing new starts.
    pub(super) drain: Option<RunEnd>,
    /// Why the executor cannot go on.
    broken: Option<String>,
    pub(super) ledger: Ledger,
    /// Whether an earlier process began the run, and how many tasks were done then.
    is_resumed: bool,
    done_before: usize,
    // Buffers, empty between steps.
    received: Vec<Report>,
    pub(super) events: Vec<Event>,
    pub(super) ended: Vec<TaskId>,
    commands: Vec<Command>,
}

impl<'a, P: Placer, E: Executor + ?Sized> Run<'a, P, E> {
    pub(super) fn new(runner: Runner<P>, executor: &'a mut E) -> Result<Self> {
        let Runner { job, instance, policy, options, progress, stopper, journal } = runner;
        options.speculation.map_or(Ok(()), |speculation| speculation.check())?;
        options.backoff.check()?;
        let mut ledger = Ledger::new(journal, options.keep_records);
        let past = ledger.open(&instance, executor.queues())?;
        let is_resumed = past.is_some();
        let Past { state, attempts } = past.unwrap_or_else(|| Past {
            state: State::new(instance.cluster(), false),
            attempts: Attempts::new(job.len()),
        });
        let count =
            |phase| job.task_ids().filter(|task| is_resumed && state.phase(JOB, *task) == phase).count();
        let (succeeded, failed) = (count(Phase::Done), count(Phase::Failed));
        let lost = instance.cluster().node_ids().filter(|node| !state.is_alive(*node)).collect();
        let before = state.now();
        let mut engine = Engine::with_state(state, Counted::new(policy));
        if ledger.is_on() {
            engine.keep_records();
        }
        let (reports, inbox) = Reports::channel();
        Ok(Self {
            attempts,
            clocks: Clocks::default(),
            stops: Stops::default(),
            job,
            instance,
            options,
            engine,
            executor,
            reports,
            inbox,
            orders: stopper.subscribe(),
            orders_seen: 0,
            retried: Vec::new(),
            _stopper: stopper,
            progress,
            begin: Instant::now(),
            before,
            now: before,
            lost,
            idle_since: None,
            succeeded,
            failed,
            drain: None,
            broken: None,
            ledger,
            is_resumed,
            done_before: succeeded,
            received: Vec::new(),
            events: Vec::new(),
            ended: Vec::new(),
            commands: Vec::new(),
        })
    }

    pub(super) async fn drive(&mut self) -> Result<RunEnd> {
        if self.is_resumed {
            self.take_up().await?;
        } else {
            self.events.push(Event::Submitted(self.instance.clone()));
        }
        self.obey().await?;
        loop {
            self.advance()?;
            self.carry_out().await?;
            if self.events.is_empty() {
                self.ledger.compact(self.engine.state(), &self.attempts);
            }
            let end = self.end();
            self.show_progress(end.is_some());
            if let Some(end) = end {
                self.ledger.close(end)?;
                return Ok(end);
            }
            if self.events.is_empty() {
                self.wait().await?;
            }
        }
    }

    /// Why the run is over, if it is.
    fn end(&self) -> Option<RunEnd> {
        if !self.stops.is_empty() {
            return None;
        }
        if self.engine.state().is_finished() {
            return Some(RunEnd::Complete);
        }
        self.drain.filter(|_| self.attempts.live() == 0 && self.events.is_empty())
    }

    /// Goes on with the run of an earlier process: what it had started is found again or will run again.
    async fn take_up(&mut self) -> Result<()> {
        let live = self.attempts.live_runs();
        let node = |run: &TaskRun| self.attempts.running(*run).map(|attempt| attempt.node);
        let assignments = live.iter().filter_map(|run| Some(self.assignment(*run, node(run)?))).collect();
        let recover = self.executor.recover(assignments, &self.reports);
        let found = within(self.options.call_limit, "finding", recover).await?;
        let found: FxHashSet<TaskRun> = found.into_iter().collect();
        for run in live {
            if !found.contains(&run) {
                self.interrupt(run);
                continue;
            }
            let Some(attempt) = self.attempts.running(run) else { continue };
            let (node, start, begun) = (attempt.node, attempt.start, attempt.begun);
            if !begun {
                self.attempts.started(run, self.now);
                self.events.push(Event::Started(run));
            }
            self.start_clocks(run, node, if begun { self.now - start } else { 0.0 });
        }
        self.events.push(Event::Resumed);
        let (done, of) = (self.succeeded, self.job.len());
        tracing::info!(done, of, found = found.len(), "the run is resumed");
        Ok(())
    }

    /// An attempt that runs ends through no fault of its own.
    pub(super) fn interrupt(&mut self, run: TaskRun) {
        self.attempts.cancel(run, self.now);
        self.events.push(Event::Interrupted(run));
    }

    /// One step of the engine. Every event, decision and command of a run passes here, and no command is carried
    /// out before they are in the journal.
    fn advance(&mut self) -> Result<()> {
        self.now = self.clock();
        if self.events.is_empty() {
            return Ok(());
        }
        let commands = self.engine.handle(self.now, self.events.drain(..))?;
        let has_commands = !commands.is_empty();
        self.commands.extend_from_slice(commands);
        self.ledger.keep(&mut self.engine, has_commands)?;
        for task in self.ended.drain(..) {
            match self.engine.state().phase(JOB, task) {
                Phase::Done => self.succeeded += 1,
                Phase::Failed => self.failed += 1,
                _ => {} // will be repeated
            }
        }
        for task in self.retried.drain(..) {
            self.failed -= usize::from(self.engine.state().phase(JOB, task) != Phase::Failed);
        }
        Ok(())
    }

    pub(super) fn clock(&self) -> f64 {
        self.before + self.begin.elapsed().as_secs_f64()
    }

    /// When the clock of the run shows this; never if that is beyond the reach of the system's.
    fn instant(&self, at: f64) -> Option<Instant> {
        self.begin.checked_add(Duration::try_from_secs_f64((at - self.before).max(0.0)).ok()?)
    }

    /// Hands the engine's commands to the executor. While draining, what the executor has not begun is taken back.
    async fn carry_out(&mut self) -> Result<()> {
        self.withdraw_queued();
        let mut batch = self.begin_released();
        for command in std::mem::take(&mut self.commands) {
            match command {
                Command::Start { run, node } => batch.extend(self.begin(run, node)),
                Command::Cancel { run, node } if self.attempts.cancel(run, self.now) => {
                    self.stop(vec![run], Why::Over(Some(node)));
                }
                _ => {}
            }
        }
        if !batch.is_empty() {
            let start = self.executor.start(batch, &self.reports);
            within(self.options.call_limit, "starting", start).await?;
        }
        Ok(())
    }

    /// While draining: ends the attempts that were given to the executor and that it has not begun.
    fn withdraw_queued(&mut self) {
        if self.drain.is_none() || self.attempts.queued() == 0 {
            return;
        }
        let queued = self.attempts.queued_runs();
        for run in &queued {
            self.interrupt(*run);
        }
        self.stop(queued, Why::Over(None));
    }

    /// The assignment of a new attempt, unless it has to wait for its node.
    fn begin(&mut self, run: TaskRun, node: NodeId) -> Option<Assignment> {
        let is_held_back = self.stops.hold_back(run, node);
        let begins = !is_held_back && !self.executor.queues();
        self.attempts.begin(run, node, self.now, begins);
        if is_held_back {
            return None;
        }
        if begins {
            self.start_clocks(run, node, 0.0);
        }
        let assignment = self.assignment(run, node);
        tracing::debug!(task = %assignment.task().name, attempt = run.attempt, ?node, "start");
        Some(assignment)
    }

    pub(super) fn assignment(&self, run: TaskRun, node: NodeId) -> Assignment {
        let expected_seconds = self.instance.exec(run.task, node);
        Assignment { run, node, expected_seconds, job: self.job.clone() }
    }

    /// Begins to count the time of an attempt that has run for so many seconds.
    pub(super) fn start_clocks(&mut self, run: TaskRun, node: NodeId, ran_for: f64) {
        if let Some(timeout) = self.timeout(run.task) {
            self.set_clock(run, Alarm::TimedOut, timeout - ran_for);
        }
        if let Some(speculation) = self.options.speculation {
            let patience = speculation.patience(self.instance.exec(run.task, node));
            self.set_clock(run, Alarm::Overdue, patience - ran_for);
        }
    }

    /// What is beyond the reach of the clock never comes.
    fn set_clock(&mut self, run: TaskRun, alarm: Alarm, seconds: f64) {
        let left = Duration::try_from_secs_f64(seconds.max(0.0)).ok();
        if let Some(at) = left.and_then(|left| Instant::now().checked_add(left)) {
            self.clocks.set(run, alarm, at, &self.attempts);
        }
    }

    pub(super) fn timeout(&self, task: TaskId) -> Option<f64> {
        self.job.task(task).run.as_ref()?.timeout
    }

    pub(super) async fn cancel(&mut self, runs: &[TaskRun]) -> Result<()> {
        within(self.options.call_limit, "cancelling", self.executor.cancel(runs)).await
    }

    /// Whether what runs goes on after this error, for another process to find it: what is wrong is neither its fault nor the
    /// policy's.
    pub(super) fn may_be_left(&self, error: &Error) -> bool {
        let is_outside = matches!(error, Error::NotRecorded { .. } | Error::Executor(_));
        is_outside && self.ledger.has_journal() && self.executor.survives()
    }

    /// Stops what still runs after an error; the first error is the one that counts.
    pub(super) async fn abandon(&mut self) {
        let live = self.attempts.live_runs();
        if let (false, Err(error)) = (live.is_empty(), self.cancel(&live).await) {
            tracing::warn!(%error, "after a failure of the run, some tasks could not be cancelled");
        }
        while !self.stops.is_empty() {
            self.stops.next().await.ok(); // it is over in any case
        }
    }

    fn show_progress(&mut self, is_last: bool) {
        if let Some(progress) = &mut self.progress {
            let tasks = self.job.len();
            let ended = tasks - self.engine.state().remaining(JOB);
            progress(&Snapshot {
                state: self.engine.state(),
                now: self.now,
                tasks,
                succeeded: self.succeeded,
                failed: self.failed,
                blocked: ended - self.succeeded - self.failed,
                cancelled: if is_last { tasks - ended } else { 0 },
                running: self.attempts.live() - self.attempts.queued(),
                retried: self.attempts.retried(),
                speculated: self.attempts.speculated(),
            });
        }
    }

    /// Waits for reports, the clock or a stop, and turns what has come into events.
    async fn wait(&mut self) -> Result<()> {
        let wake = self.next_wake()?;
        let mut gone = None;
        tokio::select! {
            biased;
            stopped = self.stops.next() => gone = Some(stopped?),
            _ = self.inbox.recv_many(&mut self.received, TOGETHER) => {}
            _ = self.orders.changed() => {}
            () = sleep_until(wake) => {}
        }
        self.ledger.flush()?;
        self.now = self.clock();
        self.tick();
        let mut received = std::mem::take(&mut self.received);
        // What has succeeded in time has not timed out.
        while let Some(report) = (received.len() < TOGETHER).then(|| self.inbox.try_recv().ok()).flatten() {
            received.push(report);
        }
        received.drain(..).for_each(|report| self.take(report));
        if let Some(gone) = gone {
            self.stopped(gone)?;
        }
        self.received = received; // keeps its room
        if let Some(reason) = self.broken.take() {
            return Err(Error::Executor(reason));
        }
        self.take_alarms();
        self.obey().await
    }

    /// Tells the engine the time if a task has rested, and the journal every few seconds: the clock of the run that goes
    /// on after a kill stands at the last event.
    fn tick(&mut self) {
        let state = self.engine.state();
        let is_due = state.next_due().is_some_and(|due| due <= self.now);
        let is_old = self.ledger.has_journal() && self.now - state.now() >= PULSE.as_secs_f64();
        if is_due || is_old && self.attempts.live() > 0 {
            self.events.push(Event::Tick);
        }
    }

    /// The latest time to wake up at.
    ///
    /// # Errors
    /// [`Error::Stuck`] if there is nothing to wait for.
    fn next_wake(&mut self) -> Result<Option<Instant>> {
        let mut wake = self.clocks.next(&self.attempts);
        if self.progress.is_some() || self.ledger.has_journal() && self.attempts.live() > 0 {
            wake = earlier(wake, Instant::now().checked_add(PULSE));
        }
        wake = earlier(wake, self.ledger.due());
        if let Some(deadline) = self.options.deadline {
            wake = earlier(wake, self.begin.checked_add(deadline));
        }
        let rested = self.engine.state().next_due().filter(|_| self.drain.is_none());
        wake = earlier(wake, rested.and_then(|due| self.instant(due)));
        if self.attempts.live() > 0 || rested.is_some() || !self.inbox.is_empty() || !self.stops.is_empty() {
            self.idle_since = None;
            return Ok(wake);
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        if self.lost.is_empty() || since.elapsed() >= self.options.node_patience {
            return Err(stuck::explain(self.engine.state(), &self.instance, |n| self.lost.contains(&n)));
        }
        Ok(earlier(wake, since.checked_add(self.options.node_patience)))
    }

    pub(super) fn take(&mut self, report: Report) {
        match report {
            Report::Started(run) | Report::Ended(run, _) if self.stops.is_leaving(run) => {}
            Report::Started(run) if self.attempts.started(run, self.now) => {
                if let Some(node) = self.attempts.running(run).map(|attempt| attempt.node) {
                    self.start_clocks(run, node, 0.0);
                }
                self.events.push(Event::Started(run));
            }
            Report::Ended(run, Outcome::Success) if self.attempts.end(run, self.now, None) => {
                self.ended.push(run.task);
                self.events.push(Event::Finished(run));
            }
            Report::Ended(run, Outcome::Failure(reason)) if self.attempts.running(run).is_some() => {
                self.fail(run, reason, false);
            }
            Report::Ended(run, Outcome::Final(reason)) if self.attempts.running(run).is_some() => {
                self.fail(run, reason, true);
            }
            Report::Used(run, usage) if self.attempts.running(run).is_some() => {
                self.attempts.note_usage(run, usage);
                self.ledger.note_usage(run, usage);
            }
            Report::Lost(run) if self.attempts.running(run).is_some() => {
                tracing::warn!(task = %self.job.task(run.task).name, attempt = run.attempt, "lost");
                self.interrupt(run);
            }
            Report::RanFor(run, seconds) if self.attempts.running(run).is_some() => {
                // Beside the clocks that do not know of it, which are slower.
                if let Some(node) = self.attempts.running(run).map(|attempt| attempt.node) {
                    self.start_clocks(run, node, seconds);
                }
            }
            Report::Started(run)
            | Report::RanFor(run, _)
            | Report::Used(run, _)
            | Report::Lost(run)
            | Report::Ended(run, _) => {
                tracing::debug!(?run, "a report about an attempt that does not run is ignored");
            }
            Report::NodeLost(node) => {
                self.attempts.lose(node, self.now);
                if node.index() < self.instance.nodes() && !self.lost.contains(&node) {
                    self.lost.push(node);
                }
                self.events.push(Event::NodeLost(node));
            }
            Report::Broken(reason) => self.broken = Some(reason),
            Report::NodeJoined(node) => {
                self.lost.retain(|n| *n != node);
                self.events.push(Event::NodeJoined(node));
            }
        }
    }

    pub(super) fn fail(&mut self, run: TaskRun, reason: String, for_good: bool) {
        tracing::info!(task = %self.job.task(run.task).name, attempt = run.attempt, reason, "failed");
        self.ledger.note(run, &reason);
        let goes_on = self.attempts.is_pair(run.task);
        self.attempts.end(run, self.now, Some(reason));
        let rest = if for_good || goes_on { 0.0 } else { self.rest_seconds(run.task) };
        self.events.push(match rest {
            _ if for_good => Event::FailedForGood(run),
            rest if rest > 0.0 => Event::FailedUntil { run, until: self.now + rest },
            _ => Event::Failed(run),
        });
        if goes_on {
            return; // in the other attempt
        }
        self.ended.push(run.task);
        if self.options.fail_fast && (for_good || self.engine.state().is_last_chance(run)) {
            self.hold(RunEnd::FailedFast);
        }
    }

    /// How long a task rests that has just failed.
    fn rest_seconds(&self, task: TaskId) -> f64 {
        let graph = self.instance.graph();
        let failures = self.engine.state().failures(JOB, task) + 1;
        if failures > graph.retries(task) {
            return 0.0;
        }
        self.options.backoff.seconds(task, failures, graph.retry_delay(task))
    }

    fn take_alarms(&mut self) {
        let now = Instant::now();
        while let Some((run, alarm)) = self.clocks.pop(now, &self.attempts) {
            match alarm {
                _ if self.stops.is_leaving(run) => {}
                Alarm::TimedOut => self.stop(vec![run], Why::TimedOut),
                Alarm::Overdue => self.take_overdue(run),
            }
        }
    }

    /// Tells the engine of an attempt that runs for too long, now and whenever it has run for twice as long again.
    fn take_overdue(&mut self, run: TaskRun) {
        let Some(attempt) = self.attempts.running(run) else { return };
        let ran_for = self.now - attempt.start;
        self.set_clock(run, Alarm::Overdue, ran_for.max(1.0));
        if self.drain.is_none() && !self.attempts.is_pair(run.task) {
            tracing::info!(task = %self.job.task(run.task).name, attempt = run.attempt, ran_for, "overdue");
            self.events.push(Event::Overdue(run));
        }
    }

    pub(super) fn report(mut self, end: RunEnd) -> RunReport {
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
            retried: self.attempts.retried(),
            speculated: self.attempts.speculated(),
            done_before: self.done_before,
            steps: counted.steps,
            decisions: counted.decisions,
            deciding_seconds: counted.spent.as_secs_f64(),
            records: self.ledger.take_records(),
            tasks,
        }
    }

    fn task_report(&self, task: TaskId) -> TaskReport {
        let attempt = self.attempts.of(task);
        let outcome = match self.engine.state().phase(JOB, task) {
            Phase::Done => TaskOutcome::Succeeded,
            Phase::Failed => TaskOutcome::Failed(attempt.reason.clone().unwrap_or_default().into_string()),
            _ => TaskOutcome::Cancelled,
        };
        let attempts = self.engine.state().attempts(JOB, task);
        if !attempt.begun {
            let attempts = attempts.saturating_sub(1);
            return TaskReport { outcome, node: None, start: 0.0, finish: 0.0, attempts, usage: None };
        }
        TaskReport {
            outcome,
            node: Some(attempt.node),
            start: attempt.start,
            finish: attempt.finish,
            attempts,
            usage: attempt.usage,
        }
    }
}

/// Bounds a call of the executor.
pub(super) async fn within<T>(
    limit: Duration,
    what: &str,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
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
