//! Virtual time: an event queue around the engine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use mdts_dag::TaskId;
use rustc_hash::FxHashMap;

use super::Conditions;
use super::conditions::Factors;
use super::trace::{Attempt, JobTrace, Trace};
use super::transfers::{Later, Transfers};
use crate::engine::{Command, Engine, Event, JobId, Phase, Record, State, TaskRun};
use crate::{Cluster, Error, Instance, NodeId, Placer, Result, Rng};

/// Jobs by the time of their submission, ascending.
pub type Arrivals = Vec<(f64, Arc<Instance>)>;

/// Runs jobs under a policy until the last has ended.
///
/// O((tasks + dependencies) log tasks) without contention.
///
/// # Errors
/// The policy's own; [`Error::Stuck`] if it leaves tasks unplaced for ever; [`Error::BadSetting`] for conditions
/// or arrival times out of range.
pub fn simulate(arrivals: &Arrivals, policy: impl Placer, conditions: &Conditions) -> Result<Trace> {
    let mut simulator = Simulator::new(arrivals, policy, conditions)?;
    simulator.run()?;
    Ok(simulator.trace())
}

/// As [`simulate`], and also returns the engine's last state and its records, for replay.
///
/// # Errors
/// Those of [`simulate`].
pub fn simulate_recorded(
    arrivals: &Arrivals,
    policy: impl Placer,
    conditions: &Conditions,
) -> Result<(Trace, State, Vec<Record>)> {
    let mut simulator = Simulator::new(arrivals, policy, conditions)?;
    simulator.engine.keep_records();
    simulator.run()?;
    let (state, records) = (simulator.engine.state().clone(), simulator.engine.take_records());
    Ok((simulator.trace(), state, records))
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Due {
    Submit(usize),
    Finish(TaskRun),
    Overdue(TaskRun),
    Staged(JobId, TaskId, NodeId),
    Begin(usize),
    Lose(NodeId),
    Join(NodeId),
    Wake,
}

/// Ordered by time, then by serial number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    at: f64,
    serial: u64,
    due: Due,
}

impl Eq for Entry {}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.total_cmp(&other.at).then(self.serial.cmp(&other.serial))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug)]
struct Simulator<'a, P> {
    arrivals: &'a Arrivals,
    conditions: &'a Conditions,
    engine: Engine<P>,
    queue: BinaryHeap<Reverse<Entry>>,
    serial: u64,
    now: f64,
    jobs: Vec<JobTrace>,
    factors: Vec<Factors>,
    /// Per job and task: position of the running attempt in the trace, plus 1.
    running: Vec<Vec<u32>>,
    /// The same of second attempts.
    second: FxHashMap<TaskRun, u32>,
    transfers: Option<Transfers>,
    failure: Vec<(Rng, u32)>,
    failures: u32,
    // Scratch.
    events: Vec<Event>,
    commands: Vec<Command>,
    later: Vec<Later>,
}

impl<'a, P: Placer> Simulator<'a, P> {
    fn new(arrivals: &'a Arrivals, policy: P, conditions: &'a Conditions) -> Result<Self> {
        conditions.check()?;
        let Some((_, first)) = arrivals.first() else {
            let what = "number of jobs";
            return Err(Error::BadSetting { what, value: "0".into(), expected: "at least one job" });
        };
        if let Some((at, _)) = arrivals.iter().find(|(at, _)| !(*at >= 0.0 && at.is_finite())) {
            let what = "arrival time";
            return Err(Error::BadSetting { what, value: at.to_string(), expected: "seconds, at least 0" });
        }
        let cluster: &Cluster = first.cluster();
        let mut simulator = Self {
            arrivals,
            conditions,
            engine: Engine::new(cluster, policy, true),
            queue: BinaryHeap::new(),
            serial: 0,
            now: 0.0,
            jobs: Vec::new(),
            factors: Vec::new(),
            running: Vec::new(),
            second: FxHashMap::default(),
            transfers: conditions.contention.then(|| Transfers::new(cluster)),
            failure: Vec::new(),
            failures: 0,
            events: Vec::new(),
            commands: Vec::new(),
            later: Vec::new(),
        };
        for (i, (at, instance)) in arrivals.iter().enumerate() {
            let begun = instance.progress().map_or(0.0, |p| p.now);
            simulator.push(at.max(begun), Due::Submit(i));
        }
        if conditions.failures.is_some() {
            simulator.failure = cluster.node_ids().map(|n| (conditions.failure_generator(n), 0)).collect();
            for node in cluster.node_ids() {
                simulator.schedule_failure(node);
            }
        }
        Ok(simulator)
    }

    fn push(&mut self, at: f64, due: Due) {
        self.serial += 1;
        self.queue.push(Reverse(Entry { at, serial: self.serial, due }));
    }

    fn run(&mut self) -> Result<()> {
        while self.jobs.len() < self.arrivals.len() || !self.engine.state().is_finished() {
            let Some((at, flow_ends)) = self.next() else {
                return Err(Error::Stuck(self.explain()));
            };
            self.now = at;
            while let Some(due) = self.queue.peek().filter(|e| e.0.at == at).map(|e| e.0.due) {
                self.queue.pop();
                self.take(due);
            }
            if let Some(transfers) = self.transfers.as_mut().filter(|_| flow_ends) {
                transfers.end_until(at, &mut self.later);
            }
            self.carry_on()?;
        }
        Ok(())
    }

    /// The time of what happens next, and whether that is the end of a transfer.
    fn next(&mut self) -> Option<(f64, bool)> {
        let queued = self.queue.peek().map(|e| e.0.at);
        if queued == Some(self.now) {
            return Some((self.now, false)); // transfers that begin at this moment share the network first
        }
        let end = self.transfers.as_mut().and_then(|t| t.next_end(self.now));
        match (queued, end) {
            (Some(queued), Some(end)) => Some((queued.min(end), end <= queued)),
            (queued, end) => queued.or(end).map(|at| (at, end.is_some())),
        }
    }

    /// Turns what is due into events for the engine.
    fn take(&mut self, due: Due) {
        match due {
            Due::Submit(i) => self.submit(i),
            Due::Finish(run) => {
                if self.engine.state().is_running(run) && !self.has_finished(run) {
                    let fails = self.conditions.fails(run);
                    self.close_attempt(run, !fails);
                    let event = if fails { self.failure(run) } else { Event::Finished(run) };
                    self.events.push(event);
                }
            }
            Due::Overdue(run) => self.overdue(run),
            Due::Wake => self.events.push(Event::Tick),
            Due::Staged(job, task, node) => self.events.push(Event::Staged { job, task, node }),
            Due::Begin(number) => {
                if let Some(transfers) = &mut self.transfers {
                    transfers.begin(self.now, number, &mut self.later);
                }
            }
            Due::Lose(node) => self.lose(node),
            Due::Join(node) => {
                self.events.push(Event::NodeJoined(node));
                self.schedule_failure(node);
            }
        }
    }

    fn submit(&mut self, i: usize) {
        let instance = &self.arrivals[i].1;
        self.factors.push(Factors::new(self.conditions, instance, i));
        self.running.push(vec![0; instance.tasks()]);
        let mut job = JobTrace { submitted: self.arrivals[i].0, ..JobTrace::default() };
        let id = JobId::new(self.jobs.len());
        if let Some(transfers) = &mut self.transfers {
            transfers.submit(instance);
        }
        for p in instance.progress().map_or(&[][..], |p| &p.started) {
            let succeeded = p.finish <= self.now;
            job.attempts.push(Attempt {
                task: p.task,
                node: p.node,
                start: p.start,
                finish: p.finish,
                succeeded,
            });
            if !succeeded {
                self.running[i][p.task.index()] = job.attempts.len() as u32;
                let run = TaskRun { job: id, task: p.task, attempt: 1 };
                self.push(p.finish, Due::Finish(run));
            }
        }
        self.jobs.push(job);
        self.events.push(Event::Submitted(instance.clone()));
    }

    /// Lets the engine handle all events of this moment, and those that follow at once.
    fn carry_on(&mut self) -> Result<()> {
        self.follow_up();
        while !self.events.is_empty() {
            let mut events = std::mem::take(&mut self.events);
            let finished: Vec<(JobId, TaskId)> = events
                .iter()
                .filter_map(|e| match e {
                    Event::Finished(run) => Some((run.job, run.task)),
                    _ => None,
                })
                .collect();
            let mut commands = std::mem::take(&mut self.commands);
            commands.clear();
            commands.extend_from_slice(self.engine.handle(self.now, events.drain(..))?);
            self.events = events;
            for (job, task) in finished {
                // Not if its node was lost at the same moment, before.
                if self.engine.state().phase(job, task) == Phase::Done {
                    self.send_results(job, task);
                }
            }
            for command in &commands {
                self.carry_out(*command);
            }
            self.commands = commands;
            self.follow_up();
        }
        Ok(())
    }

    /// Transfers that begin or end at this moment.
    fn follow_up(&mut self) {
        while let Some(later) = self.later.pop() {
            match later {
                Later::Begin(number, latency) => self.push(self.now + latency, Due::Begin(number)),
                Later::Staged(job, task, node) => {
                    if self.engine.state().phase(job, task) == Phase::Ready || self.transfers.is_some() {
                        self.events.push(Event::Staged { job, task, node });
                    }
                }
            }
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Stage { job, task, node } => {
                let instance = &self.arrivals[job.index()].1;
                let state = self.engine.state();
                if state.node_of(job, task) != Some(node) {
                    return; // replaced in the same step
                }
                match &mut self.transfers {
                    Some(transfers) => {
                        transfers.stage(state, instance, (job, task, node), &mut self.later);
                    }
                    None if state.phase(job, task) == Phase::Ready => self.stage_ideally(job, task, node),
                    None => {}
                }
            }
            Command::Start { run, node } => self.start(run, node),
            Command::Cancel { run, .. } => self.close_attempt(run, false),
            Command::JobDone { job, .. } => self.jobs[job.index()].finished = self.now,
        }
    }

    /// Without contention, data is there `transfer` seconds after its producer finished.
    fn stage_ideally(&mut self, job: JobId, task: TaskId, node: NodeId) {
        let instance = &self.arrivals[job.index()].1;
        let state = self.engine.state();
        let parents = instance.graph().parents(task).iter().zip(instance.parent_bytes(task));
        let arrival = parents.fold(0.0_f64, |latest, (parent, bytes)| {
            match (state.node_of(job, *parent), state.times(job, *parent)) {
                (Some(from), Some((_, finish))) => latest.max(finish + instance.transfer(*bytes, from, node)),
                _ => latest,
            }
        });
        if arrival <= self.now {
            self.later.push(Later::Staged(job, task, node));
        } else {
            self.push(arrival, Due::Staged(job, task, node));
        }
    }

    /// The results of a finished task go to children that were placed ahead of time.
    fn send_results(&mut self, job: JobId, task: TaskId) {
        let instance = &self.arrivals[job.index()].1;
        if let Some(transfers) = &mut self.transfers {
            transfers.finished(self.engine.state(), instance, (job, task), &mut self.later);
            return;
        }
        for &child in instance.graph().children(task) {
            let state = self.engine.state();
            if let (Phase::Ready, Some(node)) = (state.phase(job, child), state.node_of(job, child)) {
                self.stage_ideally(job, child, node);
            }
        }
    }

    fn start(&mut self, run: TaskRun, node: NodeId) {
        let instance = &self.arrivals[run.job.index()].1;
        let kind = instance.graph().kind(run.task);
        let factor = self.factors[run.job.index()].of(run.task.index(), kind, node);
        let exec = instance.exec(run.task, node);
        let state = self.engine.state();
        let is_second = state.second_attempt(run.job, run.task).is_some_and(|(second, _)| second == run);
        let fetch = if is_second { state.fetch_seconds(run.job, run.task, node) } else { 0.0 };
        let finish = self.now + fetch + exec * factor;
        let attempts = &mut self.jobs[run.job.index()].attempts;
        attempts.push(Attempt { task: run.task, node, start: self.now, finish, succeeded: false });
        let position = attempts.len() as u32;
        if is_second {
            self.second.insert(run, position);
        } else {
            self.running[run.job.index()][run.task.index()] = position;
        }
        if let Some(speculation) = self.conditions.speculation {
            self.push(self.now + speculation.patience(exec), Due::Overdue(run));
        }
        self.push(finish, Due::Finish(run));
    }

    /// The failure of an attempt, after which its task rests if it is to be repeated.
    fn failure(&mut self, run: TaskRun) -> Event {
        let graph = self.arrivals[run.job.index()].1.graph();
        let failures = self.engine.state().failures(run.job, run.task) + 1;
        let rest = self.conditions.backoff.seconds(run.task, failures, graph.retry_delay(run.task));
        if rest == 0.0 || failures > graph.retries(run.task) {
            return Event::Failed(run);
        }
        let until = self.now + rest;
        self.push(until, Due::Wake);
        Event::FailedUntil { run, until }
    }

    /// An attempt that still runs has run for too long; the next time is when it has run for twice as long.
    fn overdue(&mut self, run: TaskRun) {
        if !self.engine.state().is_running(run) {
            return;
        }
        if let Some(attempt) = self.attempt(run) {
            let ran_for = self.now - attempt.start;
            self.push(self.now + ran_for.max(1.0), Due::Overdue(run));
            self.events.push(Event::Overdue(run));
        }
    }

    /// Whether another attempt of the same task ends at this moment, and was first.
    fn has_finished(&self, run: TaskRun) -> bool {
        let is_it = |e: &Event| matches!(e, Event::Finished(r) if (r.job, r.task) == (run.job, run.task));
        self.engine.state().second_attempt(run.job, run.task).is_some() && self.events.iter().any(is_it)
    }

    fn attempt(&self, run: TaskRun) -> Option<&Attempt> {
        let job = run.job.index();
        let at = self.second.get(&run).copied().unwrap_or(self.running[job][run.task.index()]);
        self.jobs[job].attempts.get((at as usize).wrapping_sub(1))
    }

    fn close_attempt(&mut self, run: TaskRun, succeeded: bool) {
        let job = run.job.index();
        let at = match self.second.remove(&run) {
            Some(at) => at,
            None => std::mem::take(&mut self.running[job][run.task.index()]),
        };
        if let Some(attempt) = self.jobs[job].attempts.get_mut((at as usize).wrapping_sub(1)) {
            (attempt.finish, attempt.succeeded) = (self.now, succeeded);
        }
    }

    fn lose(&mut self, node: NodeId) {
        let Some(failures) = self.conditions.failures else { return };
        self.failures += 1;
        for (job, running) in self.jobs.iter_mut().zip(&mut self.running) {
            for at in running {
                let of = job.attempts.get_mut((*at as usize).wrapping_sub(1));
                if let Some(attempt) = of.filter(|attempt| attempt.node == node) {
                    (attempt.finish, *at) = (self.now, 0);
                }
            }
        }
        let jobs = &mut self.jobs;
        self.second.retain(|run, at| {
            let attempt = &mut jobs[run.job.index()].attempts[*at as usize - 1];
            if attempt.node == node {
                attempt.finish = self.now;
            }
            attempt.node != node
        });
        // A task that finishes at this very moment has finished.
        let kept = |e: &Event| !matches!(e, Event::Staged { node: n, .. } if *n == node);
        self.events.retain(kept);
        if let Some(transfers) = &mut self.transfers {
            transfers.lost(node);
        }
        self.events.push(Event::NodeLost(node));
        self.push(self.now + failures.repair, Due::Join(node));
    }

    fn schedule_failure(&mut self, node: NodeId) {
        let Some(failures) = self.conditions.failures else { return };
        let (rng, count) = &mut self.failure[node.index()];
        if *count < failures.most {
            *count += 1;
            let at = self.now + failures.next(rng);
            self.push(at, Due::Lose(node));
        }
    }

    fn explain(&self) -> String {
        let state = self.engine.state();
        for (i, (_, instance)) in self.arrivals.iter().enumerate().take(self.jobs.len()) {
            let job = JobId::new(i);
            let waiting = |t: &TaskId| state.phase(job, *t) == Phase::Ready;
            if let Some(task) = instance.graph().tasks().find(waiting) {
                let name = instance.graph().task_name(task);
                return match state.node_of(job, task) {
                    None => format!("the policy placed '{name}' nowhere, and nothing is left to happen"),
                    Some(node) => format!(
                        "'{name}' waits on '{}' behind a task that cannot start",
                        instance.cluster().node(node).name
                    ),
                };
            }
        }
        "no task is ready and none is running".into()
    }

    fn trace(self) -> Trace {
        Trace {
            jobs: self.jobs,
            moved_bytes: self.transfers.map_or(0.0, |t| t.moved_bytes),
            failures: self.failures,
        }
    }
}
