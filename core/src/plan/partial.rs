//! A schedule in the making: what list-scheduling planners build on.

use mdts_dag::TaskId;

use super::{Arrival, Instance, Placement, Schedule, Timeline};
use crate::cluster::SlotModel;
use crate::{Error, NodeId, Result};

/// A place in time on a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// The node.
    pub node: NodeId,
    /// Seconds.
    pub start: f64,
    /// Seconds.
    pub finish: f64,
}

/// Tasks placed so far, with the time of every node. Tasks are placed after their parents.
///
/// ```
/// # use mdts_core::{Cluster, Instance, PartialSchedule, SlotModel};
/// # use mdts_dag::{DataModel, JobGraph, Task};
/// # let mut job = JobGraph::builder("one");
/// # job.task(Task::new("a").seconds(2.0))?;
/// # let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
/// # let instance = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
/// // Earliest finish time in topological order: a whole planner.
/// let mut partial = PartialSchedule::new(&instance)?;
/// for &task in instance.graph().topological_order() {
///     if partial.is_open(task) {
///         let slot = partial.best_insertion(task);
///         partial.place(task, slot);
///     }
/// }
/// let schedule = partial.finish();
/// schedule.verify(&instance)?;
/// # Ok::<(), mdts_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PartialSchedule<'a> {
    instance: &'a Instance,
    /// Per task. Finish NaN: not placed yet; infinite: left out.
    slots: Vec<Slot>,
    timelines: Vec<Timeline>,
    lost: Vec<bool>,
    now: f64,
    arrival: Arrival,
    exec: Vec<f64>,
}

impl<'a> PartialSchedule<'a> {
    /// An empty schedule; with [`Instance::progress`], one that holds the tasks started already.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a task wants several nodes at once, [`Error::Infeasible`] if only lost nodes
    /// could run a task that has not started.
    pub fn new(instance: &'a Instance) -> Result<Self> {
        require_single_nodes(instance)?;
        let nodes = instance.nodes();
        let timeline = |node| match instance.slots() {
            SlotModel::Exclusive => Timeline::exclusive(),
            SlotModel::Resources => Timeline::shared(instance.capacity(node)),
        };
        let open = Slot { node: NodeId::default(), start: 0.0, finish: f64::NAN };
        let mut partial = Self {
            instance,
            slots: vec![open; instance.tasks()],
            timelines: (0..nodes).map(|n| timeline(NodeId::new(n))).collect(),
            lost: vec![false; nodes],
            now: 0.0,
            arrival: Arrival::default(),
            exec: vec![0.0; nodes],
        };
        if let Some(progress) = instance.progress() {
            partial.now = progress.now;
            for node in &progress.lost {
                partial.lost[node.index()] = true;
            }
            for task in &progress.dropped {
                partial.slots[task.index()].finish = f64::INFINITY;
            }
            let mut started = progress.started.clone();
            started.sort_by(|a, b| a.start.total_cmp(&b.start));
            for p in started {
                partial.place(p.task, Slot { node: p.node, start: p.start, finish: p.finish });
            }
            partial.require_nodes()?;
        }
        Ok(partial)
    }

    /// Every open task needs a node that is not lost. O(tasks x nodes) if nodes are lost.
    fn require_nodes(&self) -> Result<()> {
        if !self.lost.contains(&true) {
            return Ok(());
        }
        let nodes = self.instance.cluster().node_ids();
        let stranded = |t: &TaskId| self.is_open(*t) && nodes.clone().all(|n| self.exec(*t, n).is_infinite());
        match self.instance.graph().tasks().find(stranded) {
            None => Ok(()),
            Some(task) => Err(Error::Infeasible {
                task: self.instance.graph().task_name(task).to_owned(),
                reason: "all nodes that could run it are lost".into(),
            }),
        }
    }

    /// The instance.
    pub fn instance(&self) -> &'a Instance {
        self.instance
    }

    /// Whether the task still has to be placed.
    #[inline]
    pub fn is_open(&self, task: TaskId) -> bool {
        self.slots[task.index()].finish.is_nan()
    }

    /// Finish of a placed task; NaN otherwise.
    #[inline]
    pub fn finish_of(&self, task: TaskId) -> f64 {
        self.slots[task.index()].finish
    }

    /// Node of a placed task.
    #[inline]
    pub fn node_of(&self, task: TaskId) -> NodeId {
        self.slots[task.index()].node
    }

    /// From this time on nothing is reserved on `node`.
    #[inline]
    pub fn node_end(&self, node: NodeId) -> f64 {
        self.timelines[node.index()].end().max(self.now)
    }

    /// Run time of `task` on `node`; infinite if it cannot run there or the node is lost.
    #[inline]
    pub fn exec(&self, task: TaskId, node: NodeId) -> f64 {
        if self.lost[node.index()] { f64::INFINITY } else { self.instance.exec(task, node) }
    }

    /// Gathers when the data of `task`'s parents arrives where. All parents must be placed.
    pub fn gather(&self, task: TaskId, arrival: &mut Arrival) {
        arrival.gather(self.instance, task, |p| (self.node_of(p), self.finish_of(p)));
    }

    /// The same for those parents that are placed; the others count as if their data were there.
    pub fn gather_placed(&self, task: TaskId, arrival: &mut Arrival) {
        let finish = |p: TaskId| if self.is_open(p) { f64::NEG_INFINITY } else { self.finish_of(p) };
        arrival.gather(self.instance, task, |p| (self.node_of(p), finish(p)));
    }

    /// The earliest slot of `task` on `node`, gaps between other tasks included; `None` if it cannot run there.
    #[inline]
    pub fn insertion(&self, task: TaskId, node: NodeId, arrival: &Arrival) -> Option<Slot> {
        self.slot(task, node, arrival, Timeline::earliest)
    }

    /// The earliest slot of `task` on `node` behind all others; `None` if it cannot run there.
    #[inline]
    pub fn append(&self, task: TaskId, node: NodeId, arrival: &Arrival) -> Option<Slot> {
        self.slot(task, node, arrival, Timeline::append)
    }

    /// The earliest start, not before `ready`, of `task` on `node`, gaps included. It must be able to run there.
    #[inline]
    pub fn earliest(&self, task: TaskId, node: NodeId, ready: f64) -> f64 {
        let exec = self.instance.exec(task, node);
        self.timelines[node.index()].earliest(ready.max(self.now), exec, self.instance.demand(task))
    }

    /// [`PartialSchedule::append`] on every node that can run `task`, in the order of their ids.
    #[inline]
    pub fn append_all(&self, task: TaskId, arrival: &Arrival) -> impl Iterator<Item = Slot> {
        let nodes = self.instance.cluster().node_ids();
        nodes.filter_map(move |node| self.append(task, node, arrival))
    }

    #[inline]
    fn slot(
        &self,
        task: TaskId,
        node: NodeId,
        arrival: &Arrival,
        find: impl Fn(&Timeline, f64, f64, &[u64]) -> f64,
    ) -> Option<Slot> {
        let exec = self.exec(task, node);
        if exec.is_infinite() {
            return None;
        }
        let ready = arrival.at(node).max(self.now);
        let start = find(&self.timelines[node.index()], ready, exec, self.instance.demand(task));
        Some(Slot { node, start, finish: start + exec })
    }

    /// The slot with the earliest finish over all nodes, gaps included; among equals the lowest node id.
    ///
    /// A node is looked at only if data arrival plus run time could still win.
    ///
    /// # Panics
    /// If no node that is not lost can run the task.
    pub fn best_insertion(&mut self, task: TaskId) -> Slot {
        self.best(task, Timeline::earliest_before)
    }

    /// The slot with the earliest finish over all nodes, behind all others.
    ///
    /// # Panics
    /// If no node that is not lost can run the task.
    pub fn best_append(&mut self, task: TaskId) -> Slot {
        self.best(task, Timeline::append_before)
    }

    fn best(&mut self, task: TaskId, find: impl Fn(&Timeline, f64, f64, &[u64], f64) -> f64) -> Slot {
        let mut arrival = std::mem::take(&mut self.arrival);
        let mut exec = std::mem::take(&mut self.exec);
        self.gather(task, &mut arrival);
        self.instance.exec_all(task, &mut exec);
        let demand = self.instance.demand(task);
        let mut best = Slot { node: NodeId::default(), start: 0.0, finish: f64::INFINITY };
        for (i, &exec) in exec.iter().enumerate() {
            let node = NodeId::new(i);
            let ready = arrival.at(node).max(self.now);
            if ready + exec >= best.finish || self.lost[i] {
                continue;
            }
            let start = find(&self.timelines[i], ready, exec, demand, best.finish);
            if start + exec < best.finish {
                best = Slot { node, start, finish: start + exec };
            }
        }
        (self.arrival, self.exec) = (arrival, exec);
        assert!(best.finish.is_finite(), "no node is left that can run task {task:?}");
        best
    }

    /// Reads what placing these tasks will need, so that it is in the caches. Changes nothing.
    ///
    /// Each placement waits for the one before it, and so do its reads from memory; here they overlap. Worth while for some
    /// dozens of tasks at a time where the graph is larger than the caches.
    pub fn prefetch(&self, tasks: &[TaskId]) {
        let read = tasks.iter().map(|task| {
            let parent = self.instance.graph().parents(*task).first().map_or(0, |parent| parent.get());
            let bytes = self.instance.parent_bytes(*task).first().map_or(0, |bytes| bytes.to_bits());
            let exec = self.instance.exec(*task, NodeId::default()).to_bits();
            let demand = self.instance.demand(*task).len() as u64;
            u64::from(parent) ^ bytes ^ exec ^ demand ^ self.finish_of(*task).to_bits()
        });
        std::hint::black_box(read.fold(0, |all, one| all ^ one));
    }

    /// Puts `task` into a slot.
    pub fn place(&mut self, task: TaskId, slot: Slot) {
        debug_assert!(self.is_open(task), "task {task:?} is placed twice");
        self.slots[task.index()] = slot;
        self.timelines[slot.node.index()].reserve(slot.start, slot.finish, self.instance.demand(task));
    }

    /// The schedule of all tasks placed.
    pub fn finish(self) -> Schedule {
        let placed = |t: &TaskId| self.finish_of(*t).is_finite();
        let placements = self.instance.graph().tasks().filter(placed).map(|task| {
            let Slot { node, start, finish } = self.slots[task.index()];
            Placement { task, node, start, finish }
        });
        Schedule::new(placements.collect())
    }
}

/// No planner and no engine runs a task on several nodes at once.
pub(crate) fn require_single_nodes(instance: &Instance) -> Result<()> {
    let graph = instance.graph();
    if graph.demands().iter().all(|d| d.gang == 1) {
        return Ok(());
    }
    let task = graph.tasks().find(|t| graph.demands()[graph.demand(*t).index()].gang > 1);
    Err(Error::Unsupported {
        message: format!(
            "task '{}' wants several nodes at once (gang), which no policy can plan yet; split it into one task per node",
            task.map_or("?", |t| graph.task_name(t))
        ),
    })
}
