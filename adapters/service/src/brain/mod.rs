//! The brain: jobs, nodes and clients over one engine. A state machine without clock, randomness and I/O.
//!
//! ```text
//!   desk -- Change, now --> apply --> Engine --> commands --> grants of jobs
//!   desk <-- answers ------ views
//! ```
//! [`Brain::apply`] is the only way to change what must survive. With the decisions of the time it repeats a change
//! exactly as it was, which is how a restarted service comes to know what it knew.

mod change;
mod events;
mod explain;
mod grants;
mod graphs;
mod guard;
mod image;
mod jobs;
mod leases;
mod nodes;
#[cfg(test)]
mod tests;
mod view;

use std::collections::VecDeque;
use std::sync::Arc;

use mdts_core::engine::{Command, Engine, Event, JobId, Record, State};
use mdts_core::{Cluster, Decision, Instance, Network, NodeId, Placer, SlotModel};
use mdts_dag::DataModel;
use mdts_policies::predict::Predictor;
use rustc_hash::FxHashMap;

pub(crate) use change::{Change, NewJob, Report};
pub(crate) use graphs::{named, read_extension, read_graph};
use guard::Guarded;
pub(crate) use image::ImageRead;
use jobs::JobEntry;
use nodes::NodeEntry;
pub(crate) use view::Figures;

use crate::api::{Heard, Problem};

/// The decisions of one call of the engine.
pub(crate) type Decided = Vec<(JobId, Decision)>;

/// What holds for all jobs and nodes.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) slots: SlotModel,
    pub(crate) data: DataModel,
    /// Between the first nodes as it says, between others its default.
    pub(crate) network: Network,
    /// Seconds; 0: never.
    pub(crate) node_lease: f64,
    pub(crate) job_lease: f64,
    /// For how many seconds, and for how many tasks, jobs that have ended can be asked about.
    pub(crate) keep_seconds: f64,
    pub(crate) keep_tasks: usize,
    /// What the graphs of all jobs may take.
    pub(crate) most_bytes: usize,
}

/// All that the service knows.
pub(crate) struct Brain {
    terms: Terms,
    now: f64,
    /// None until the first node is known.
    engine: Option<Engine<Guarded>>,
    /// Waits for the engine.
    policy: Option<Guarded>,
    cluster: Option<Arc<Cluster>>,
    nodes: Vec<NodeEntry>,
    node_names: FxHashMap<String, NodeId>,
    jobs: FxHashMap<JobId, JobEntry>,
    /// Jobs that have ended, the first of them first, and the number of their tasks.
    ended: VecDeque<JobId>,
    ended_tasks: usize,
    /// What the graphs of all jobs take.
    bytes: usize,
    /// Tasks of open jobs whose times are stated per node; right from [`Change::Opened`] on.
    rows: usize,
    /// Stands in the place of the instances of jobs that have ended.
    nothing: Option<Arc<Instance>>,
    clients: FxHashMap<String, u32>,
    next_client: u32,
    predictor: Predictor,
    /// Run times seen per kind of task.
    seen: FxHashMap<Arc<str>, u64>,
    totals: Totals,
    /// Decisions of calls of the engine: those just made, or those still to be repeated.
    decided: VecDeque<Decided>,
    repeats: bool,
    /// Jobs with new grants, or that have ended.
    news: Vec<JobId>,
}

/// Counts since the beginning, restarts included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Totals {
    pub(crate) jobs: u64,
    pub(crate) tasks: u64,
    pub(crate) grants: u64,
    pub(crate) revoked: u64,
    pub(crate) finished: u64,
    pub(crate) failed: u64,
}

/// What came of a change.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    Submitted(JobId),
    Heard(Vec<Heard>),
}

impl Brain {
    pub(crate) fn new(terms: Terms, policy: Box<dyn Placer>) -> Self {
        Self {
            terms,
            now: 0.0,
            engine: None,
            policy: Some(Guarded::new(policy)),
            cluster: None,
            nodes: Vec::new(),
            node_names: FxHashMap::default(),
            jobs: FxHashMap::default(),
            ended: VecDeque::new(),
            ended_tasks: 0,
            bytes: 0,
            rows: 0,
            nothing: nodes::nothing().ok(),
            clients: FxHashMap::default(),
            next_client: 0,
            predictor: Predictor::new(0),
            seen: FxHashMap::default(),
            totals: Totals::default(),
            decided: VecDeque::new(),
            repeats: false,
            news: Vec::new(),
        }
    }

    /// Makes a change at `now` (seconds). An error says why it was refused; nothing is changed then.
    pub(crate) fn apply(&mut self, now: f64, change: &Change) -> Result<Outcome, Problem> {
        self.now = self.now.max(now);
        match change {
            Change::Opened => self.opened(),
            Change::Nodes(nodes) => self.register(nodes),
            Change::NodeGone { node, removed } => self.node_gone((*node).into(), *removed),
            Change::NodeDrained(node) => self.node_told(Event::NodeDrained((*node).into())),
            Change::NodeUndrained(node) => self.node_told(Event::NodeJoined((*node).into())),
            Change::Submitted(job) => self.submit(job),
            Change::Extended { job, tasks, predicted, parsed } => {
                self.extend((*job).into(), tasks, predicted, parsed.as_ref())
            }
            Change::Asked(jobs) => self.asked(jobs),
            Change::Events { job, events } => self.events((*job).into(), events),
            Change::Cancelled(job) => self.cancelled((*job).into()),
            Change::Lapsed(job) => self.lapsed((*job).into()),
            Change::Forgotten(jobs) => Ok(self.forgotten(jobs)),
            Change::Nothing => Ok(Outcome::Done),
        }
    }

    /// Makes a change again as it was decided then.
    pub(crate) fn repeat(&mut self, now: f64, change: &Change, decided: Vec<Decided>) -> Result<(), Problem> {
        (self.decided, self.repeats) = (decided.into(), true);
        let outcome = self.apply(now, change);
        self.repeats = false;
        self.news.clear();
        outcome.map(drop)
    }

    /// The decisions of the change that was just made.
    pub(crate) fn take_decided(&mut self) -> Vec<Decided> {
        std::mem::take(&mut self.decided).into()
    }

    /// The jobs whose clients may wait for what has just happened.
    pub(crate) fn take_news(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.news)
    }

    /// Everybody gets a new lease, and what waits is decided anew.
    fn opened(&mut self) -> Result<Outcome, Problem> {
        let now = self.now;
        self.nodes.iter_mut().for_each(|node| node.heard = now);
        for job in self.jobs.values_mut() {
            job.heard = now;
            // What ended before can be asked about for as long as if it had ended now.
            job.ended = job.ended.map(|(_, succeeded)| (now, succeeded));
        }
        let open = self.jobs.values().filter(|job| job.ended.is_none());
        self.rows = open.map(|job| job.flat.per_node_times().len()).sum();
        if self.engine.is_some() {
            self.advance(vec![Event::Resumed])?;
        }
        Ok(Outcome::Done)
    }

    fn engine(&self) -> Result<&Engine<Guarded>, Problem> {
        self.engine
            .as_ref()
            .ok_or_else(|| Problem::conflict("no node is registered yet; register nodes first"))
    }

    fn state(&self) -> Result<&State, Problem> {
        self.engine().map(Engine::state)
    }

    /// Tells the engine, and carries out its commands.
    fn advance(&mut self, events: Vec<Event>) -> Result<(), Problem> {
        let Some(engine) = &mut self.engine else { return Ok(()) };
        let told = if self.repeats {
            let decisions = self.decided.pop_front().unwrap_or_default();
            engine.repeat(&Record { now: self.now, events, decisions })
        } else {
            engine.handle(self.now, events)
        };
        let commands = told.map_err(|error| Problem::internal(error.to_string()))?.to_vec();
        if !self.repeats {
            let records = engine.take_records();
            self.decided.extend(records.into_iter().map(|record| record.decisions));
        }
        for command in commands {
            self.carry_out(command);
        }
        Ok(())
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Start { run, node } => self.grant(run, node, true),
            Command::Cancel { run, node } => self.grant(run, node, false),
            Command::JobDone { job, succeeded } => self.end(job, succeeded),
            Command::Stage { .. } => {} // inputs are the clients' business
        }
    }
}

impl std::fmt::Debug for Brain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Brain")
            .field("now", &self.now)
            .field("nodes", &self.nodes.len())
            .field("jobs", &self.jobs.len())
            .finish_non_exhaustive()
    }
}
