//! The state of all jobs and nodes, and where each event goes. The three moves on it are [`State::apply`],
//! [`State::decide`] and [`State::dispatch`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

use super::fair::{Hold, Terms};
use super::jobs::Jobs;
use super::life::Retry;
use super::node::NodeState;
use super::ready::SeenReady;
use super::rest::Resting;
use super::speculation::Second;
use super::{Command, Event, JobId, TaskRun, Trigger};
use crate::plan::require_single_nodes;
use crate::policy::Order;
use crate::{Cluster, Error, Instance, Node, NodeId, Resources, Result, SlotModel};

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Some parent has not finished, or it [rests](State::rests_until) before it is repeated.
    Waiting,
    /// All parents have finished; it may be placed already.
    Ready,
    /// It has been started.
    Running,
    /// It has succeeded.
    Done,
    /// It has failed for good.
    Failed,
    /// It never runs: a task that it depends on failed, or the job was cancelled.
    Blocked,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TaskState {
    pub(super) phase: Phase,
    pub(super) node: Option<NodeId>,
    pub(super) order: Order,
    pub(super) staged: bool,
    /// It may be placed and started.
    pub(super) asked: bool,
    pub(super) open_parents: u32,
    /// Attempts begun.
    pub(super) attempts: u32,
    /// The attempt that runs or ran last; of two that run at once, the first.
    pub(super) number: u32,
    pub(super) failures: u32,
    /// Serial number of its latest placement; tickets with another number are out of date.
    pub(super) ticket: u64,
    /// Of the attempt that runs or ran last.
    pub(super) hold: Hold,
    pub(super) start: f64,
    /// Expected while running, real when done.
    pub(super) finish: f64,
}

impl TaskState {
    pub(super) fn new(open_parents: u32, asked: bool) -> Self {
        Self {
            phase: Phase::Waiting,
            node: None,
            order: Order::Arrival,
            staged: false,
            asked,
            open_parents,
            attempts: 0,
            number: 0,
            failures: 0,
            ticket: 0,
            hold: Hold::default(),
            start: 0.0,
            finish: 0.0,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) instance: Arc<Instance>,
    pub(super) terms: Terms,
    pub(super) tasks: Vec<TaskState>,
    /// Ready and not placed.
    pub(super) ready: Vec<TaskId>,
    pub(super) seen_ready: SeenReady,
    /// Second attempts of tasks that run.
    pub(super) second: BTreeMap<TaskId, Second>,
    pub(super) trigger: Option<Trigger>,
    /// Tasks that have not come to their end.
    pub(super) remaining: usize,
    pub(super) lost: usize,
    pub(super) closed: bool,
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.instance, &other.instance)
            && self.tasks == other.tasks
            && self.ready == other.ready
            && self.terms == other.terms
            && self.second == other.second
            && (self.remaining, self.lost, self.closed) == (other.remaining, other.lost, other.closed)
    }
}

/// All jobs and nodes at one moment.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // modes of their own
pub struct State {
    pub(super) now: f64,
    pub(super) slots: SlotModel,
    pub(super) staging: bool,
    pub(super) jobs: Jobs,
    pub(super) nodes: Vec<NodeState>,
    pub(super) resources: Resources,
    pub(super) cores: Vec<f64>,
    pub(super) tickets: u64,
    pub(super) next_terms: Terms,
    /// Tasks are placed only when they are asked for.
    pub(super) on_demand: bool,
    /// Jobs that have not come to their end, and those of them with ready tasks that are not placed.
    pub(super) open: BTreeSet<JobId>,
    pub(super) unplaced: BTreeSet<JobId>,
    pub(super) resting: Resting,
    /// Attempts that run for too long and have no other one beside them.
    pub(super) overdue: BTreeSet<TaskRun>,
    /// Nothing is decided or started. While it holds, nothing is noted in `overdue` and the two lists below.
    pub(super) held: bool,
    /// Jobs that need a decision step, and nodes that may be able to start something.
    pub(super) attention: VecDeque<JobId>,
    /// Attention is to be sorted.
    pub(super) is_unsorted: bool,
    pub(super) dirty: Vec<NodeId>,
}

impl State {
    /// No job, all nodes alive. With `staging`, the driver is told to bring inputs to nodes before tasks start.
    pub fn new(cluster: &Cluster, staging: bool) -> Self {
        let cores = |n: &Node| n.capacity.cores.unwrap_or(1.0);
        let resources = Resources::new(&[], cluster);
        let node = |n: NodeId| NodeState::new(resources.capacity(n.index()));
        Self {
            now: 0.0,
            slots: cluster.slots(),
            staging,
            jobs: Jobs::default(),
            nodes: cluster.node_ids().map(node).collect(),
            resources,
            cores: cluster.nodes().iter().map(cores).collect(),
            tickets: 0,
            next_terms: Terms::default(),
            on_demand: false,
            open: BTreeSet::new(),
            unplaced: BTreeSet::new(),
            resting: Resting::default(),
            overdue: BTreeSet::new(),
            held: false,
            attention: VecDeque::new(),
            is_unsorted: false,
            dirty: Vec::new(),
        }
    }

    /// Whether an event can be applied.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::BadSetting`] for jobs that are not for this engine.
    pub(super) fn check(&self, event: &Event) -> Result<()> {
        let Event::Submitted(instance) = event else { return Ok(()) };
        require_single_nodes(instance)?;
        if instance.nodes() != self.nodes.len() || instance.slots() != self.slots {
            let (what, expected) = ("cluster of a job", "that of the engine; all its jobs share one");
            let value = format!("one of {} nodes", instance.nodes());
            return Err(Error::BadSetting { what, value, expected });
        }
        Ok(())
    }

    /// Applies an event; commands that follow at once are added to `out`.
    pub(super) fn apply(&mut self, now: f64, event: &Event, watched: bool, out: &mut Vec<Command>) {
        self.now = self.now.max(now);
        self.wake();
        match event {
            Event::Submitted(instance) => self.submit(instance, out),
            Event::Staged { job, task, node } => self.staged(*job, *task, *node),
            Event::Started(run) => self.started(*run),
            Event::Finished(run) => self.finished(*run, watched, out),
            Event::Failed(run) => self.failed(*run, Retry::At(0.0), watched, out),
            Event::FailedUntil { run, until } => self.failed(*run, Retry::At(*until), watched, out),
            Event::FailedForGood(run) => self.failed(*run, Retry::Never, watched, out),
            Event::NodeJoined(node) => self.joined(*node),
            Event::NodeLost(node) => self.lost(*node),
            Event::Interrupted(run) => self.interrupted(*run, watched),
            Event::Held => self.hold(),
            Event::Resumed => self.resumed(),
            Event::Cancelled(job) => self.cancelled(*job, watched, out),
            Event::Overdue(run) => self.overdue(*run, watched),
            Event::Dropped { job, task } => self.dropped(*job, *task, watched, out),
            Event::Retried { job, task } => self.retried(*job, *task),
            Event::Asked { job, task } => self.asked(*job, *task),
            Event::Withdrawn(job) => self.withdrawn(*job, watched, out),
            Event::NodeDrained(node) => self.drained(*node),
            Event::Tick => {}
        }
    }

    pub(super) fn task(&mut self, job: JobId, task: TaskId) -> &mut TaskState {
        &mut self.jobs[job.index()].tasks[task.index()]
    }

    pub(super) fn close(&mut self, id: JobId, out: &mut Vec<Command>) {
        let job = &mut self.jobs[id.index()];
        if job.remaining == 0 && !job.closed {
            job.closed = true;
            job.seen_ready = SeenReady::default();
            self.open.remove(&id);
            out.push(Command::JobDone { job: id, succeeded: job.lost == 0 });
        }
    }

    /// Demand, backlog weight (cores; 1 on exclusive nodes) and run time of a task on a node.
    pub(super) fn load(&self, job: JobId, task: TaskId, node: NodeId) -> (&[u64], f64, f64) {
        let instance = &self.jobs[job.index()].instance;
        let demand = instance.demand(task);
        let weight = match self.slots {
            SlotModel::Exclusive => 1.0,
            SlotModel::Resources => demand.first().map_or(1.0, |cores| *cores as f64 / 1000.0),
        };
        (demand, weight, instance.exec(task, node))
    }

    pub(super) fn touch(&mut self, node: NodeId) {
        if !self.held {
            self.dirty.push(node);
        }
    }
}
