//! Why a task is not running.

use std::fmt;

use mdts_dag::TaskId;

use crate::engine::{JobId, Phase, State};
use crate::{Instance, NodeId, Resources, SlotModel};

/// What keeps a task from running.
#[derive(Debug, Clone, PartialEq)]
pub enum Obstacle {
    /// These parents are not done.
    Parents(Vec<(TaskId, Phase)>),
    /// It has failed, and rests before its next attempt.
    Resting {
        /// Seconds that are left.
        seconds: f64,
        /// Number of the next attempt.
        attempt: u32,
    },
    /// A task that it depends on, directly or not, failed for good.
    Failed(TaskId),
    /// The job was given up.
    GivenUp,
    /// The run was told to start nothing more.
    Held,
    /// The policy has not placed it.
    Unplaced,
    /// All nodes that could run it are lost.
    NodesLost,
    /// Its node is full: the resource that is short, what the task wants of it and what is free. The resource is empty
    /// where a node runs one task at a time.
    Full {
        /// Where it is placed.
        node: NodeId,
        /// Dimension, demand and what is free.
        short: Option<(usize, u64, u64)>,
    },
    /// Tasks that were placed before it come first.
    Behind {
        /// Where it is placed.
        node: NodeId,
        /// How many, counted up to [`State::COUNTED`].
        tasks: usize,
    },
}

impl Obstacle {
    /// What keeps a task of the first job from running at `now`; `None` if it runs or has come to its end. O(parents), and
    /// O(edges) for tasks that never run.
    pub fn of(state: &State, instance: &Instance, task: TaskId, now: f64) -> Option<Self> {
        Obstacles::new(state, instance, now).of(task)
    }

    /// The obstacle in words, with the names of the instance.
    pub fn explain<'a>(&'a self, instance: &'a Instance) -> impl fmt::Display + 'a {
        Explained { obstacle: self, instance }
    }
}

/// What keeps the tasks of a state's first job from running.
#[derive(Debug)]
pub struct Obstacles<'a> {
    state: &'a State,
    instance: &'a Instance,
    now: f64,
}

impl<'a> Obstacles<'a> {
    /// Those at this time.
    pub fn new(state: &'a State, instance: &'a Instance, now: f64) -> Self {
        Self { state, instance, now }
    }

    /// What keeps a task from running; `None` if it runs or has come to its end. O(parents), and O(edges) for tasks that
    /// never run.
    pub fn of(&self, task: TaskId) -> Option<Obstacle> {
        use Obstacle::{Failed, GivenUp, Parents, Resting};
        let (state, instance) = (self.state, self.instance);
        let job = JobId::default();
        match state.phase(job, task) {
            Phase::Running | Phase::Done | Phase::Failed => None,
            Phase::Blocked => Some(failed_ancestor(state, instance, task).map_or(GivenUp, Failed)),
            Phase::Waiting => {
                if let Some(until) = state.rests_until(job, task) {
                    let attempt = state.attempts(job, task) + 1;
                    return Some(Resting { seconds: (until - self.now).max(0.0), attempt });
                }
                let open = |parent: &TaskId| {
                    let phase = state.phase(job, *parent);
                    (phase != Phase::Done).then_some((*parent, phase))
                };
                Some(Parents(instance.graph().parents(task).iter().filter_map(open).collect()))
            }
            Phase::Ready => Some(self.of_ready(task)),
        }
    }

    fn of_ready(&self, task: TaskId) -> Obstacle {
        use Obstacle::{Behind, Full, Held, NodesLost, Unplaced};
        let (state, instance) = (self.state, self.instance);
        if state.is_held() {
            return Held;
        }
        let Some(node) = state.node_of(JobId::default(), task) else {
            let mut fitting = instance.cluster().node_ids().filter(|node| instance.can_run(task, *node));
            let is_placeable = fitting.any(|node| state.is_alive(node));
            return if is_placeable { Unplaced } else { NodesLost };
        };
        let tasks = state.waits_behind(JobId::default(), task);
        if tasks > 0 {
            return Behind { node, tasks };
        }
        let short = match instance.slots() {
            SlotModel::Exclusive => None,
            SlotModel::Resources => {
                let pairs = instance.demand(task).iter().zip(state.free(node)).enumerate();
                pairs.map(|(d, (wants, free))| (d, *wants, *free)).find(|(_, wants, free)| wants > free)
            }
        };
        Full { node, short }
    }
}

fn failed_ancestor(state: &State, instance: &Instance, task: TaskId) -> Option<TaskId> {
    let mut seen = rustc_hash::FxHashSet::default();
    let mut open = vec![task];
    while let Some(task) = open.pop() {
        for &parent in instance.graph().parents(task) {
            match state.phase(JobId::default(), parent) {
                Phase::Failed => return Some(parent),
                Phase::Blocked if seen.insert(parent) => open.push(parent),
                _ => {}
            }
        }
    }
    None
}

struct Explained<'a> {
    obstacle: &'a Obstacle,
    instance: &'a Instance,
}

/// How many parents are named.
const NAMED: usize = 3;

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |task: TaskId| self.instance.graph().task_name(task);
        let node_name = |node: NodeId| self.instance.cluster().node(node).name.as_str();
        match self.obstacle {
            Obstacle::Parents(open) => {
                f.write_str("it waits for ")?;
                for (i, (parent, phase)) in open.iter().take(NAMED).enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}'{}', which {}", name(*parent), in_words(*phase))?;
                }
                match open.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, ", and {more} more"),
                }
            }
            Obstacle::Resting { seconds, attempt } => {
                write!(f, "it failed, and waits {seconds:.1} s before attempt {attempt}")
            }
            Obstacle::Failed(task) => write!(f, "it never runs, because '{}' failed", name(*task)),
            Obstacle::GivenUp => f.write_str("it never runs, because the job was given up"),
            Obstacle::Held => f.write_str("the run was stopped before it; go on with --resume"),
            Obstacle::Unplaced => f.write_str("the policy has not placed it on any node"),
            Obstacle::NodesLost => f.write_str("all nodes that could run it are lost"),
            Obstacle::Behind { node, tasks: 1 } => {
                write!(f, "on '{}' one task that was placed earlier comes first", node_name(*node))
            }
            Obstacle::Behind { node, tasks: State::COUNTED.. } => {
                let (name, many) = (node_name(*node), State::COUNTED);
                write!(f, "on '{name}' {many} or more tasks that were placed earlier come first")
            }
            Obstacle::Behind { node, tasks } => {
                write!(f, "on '{}' {tasks} tasks that were placed earlier come first", node_name(*node))
            }
            Obstacle::Full { node, short: None } => {
                write!(f, "'{}' is busy with another task", node_name(*node))
            }
            Obstacle::Full { node, short: Some((dimension, wants, free)) } => {
                let resources: &Resources = self.instance.resources();
                let (wants, free) = (resources.show(*dimension, *wants), resources.show(*dimension, *free));
                write!(f, "it wants {wants}, and on '{}' {free} are free", node_name(*node))
            }
        }
    }
}

fn in_words(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waits itself",
        Phase::Ready => "is ready but has not started",
        Phase::Running => "is running",
        Phase::Done => "is done",
        Phase::Failed => "failed",
        Phase::Blocked => "never runs",
    }
}
