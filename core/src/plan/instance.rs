//! An instance: one graph on one cluster under one data model, with the cost of everything.

use std::sync::Arc;

use mdts_dag::{DataModel, FlatGraph, TaskId};
use rustc_hash::FxHashMap;

use super::Placement;
use super::resources::{Resources, fits};
use crate::{Cluster, Error, Link, NodeId, Result, SlotModel};

/// What a planner is asked to schedule.
///
/// `exec(task, node)` is `work / speed` or the time given for the node, infinite where the node cannot run the
/// task. `transfer(bytes, a, b)` is 0 on one node, else `latency + bytes / bandwidth`. A task whose work is not
/// known counts with the mean of its kind, or of all tasks, or 1 second. Cloning is cheap.
///
/// ```
/// use mdts_core::{Cluster, Instance, SlotModel};
/// use mdts_dag::{DataModel, JobGraph, Task};
/// let mut job = JobGraph::builder("one");
/// job.task(Task::new("a").seconds(2.0))?;
/// let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
/// let instance = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
/// assert_eq!(instance.exec(0.into(), 1.into()), 2.0);
/// # Ok::<(), mdts_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Instance {
    shared: Arc<Shared>,
    progress: Option<Arc<Progress>>,
}

#[derive(Debug)]
struct Shared {
    graph: Arc<FlatGraph>,
    cluster: Arc<Cluster>,
    data: DataModel,
    resources: Resources,
    /// Seconds at speed 1 per task, unknown work estimated.
    work: Vec<f64>,
    row: Vec<Row>,
    /// Rows of node speeds (0: the node cannot run the task), and of given times (infinite likewise).
    speeds: Vec<f64>,
    times: Vec<f64>,
    mean_exec: Vec<f64>,
    min_exec: Vec<f64>,
    mean_link: Link,
}

/// Where a task's times come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Row {
    Speeds(u32),
    Times(u32),
}

/// What has happened already when a job is planned anew.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The present, in seconds; nothing new starts earlier.
    pub now: f64,
    /// Tasks that have started, with their (expected) finish. Planners leave them as they are.
    pub started: Vec<Placement>,
    /// Nodes that are lost.
    pub lost: Vec<NodeId>,
    /// Tasks that planners leave out: they failed for good, depend on one that did, or wait for a lost node.
    pub dropped: Vec<TaskId>,
}

impl Progress {
    /// Whether anything is different from a job that has not begun, apart from the time.
    pub fn has_begun(&self) -> bool {
        !(self.started.is_empty() && self.lost.is_empty() && self.dropped.is_empty())
    }
}

impl Instance {
    /// Computes the costs of a graph on a cluster. O(tasks x nodes).
    ///
    /// # Errors
    /// [`Error::Infeasible`] if some task fits no node, [`Error::Cluster`] if a time is given for a node that
    /// does not exist.
    pub fn new(graph: Arc<FlatGraph>, cluster: Arc<Cluster>, data: DataModel) -> Result<Self> {
        let resources = Resources::new(graph.demands(), &cluster);
        let mut shared = Shared {
            work: known_work(&graph),
            mean_link: cluster.network().mean(cluster.len()),
            resources,
            data,
            row: Vec::new(),
            speeds: Vec::new(),
            times: Vec::new(),
            mean_exec: Vec::new(),
            min_exec: Vec::new(),
            graph,
            cluster,
        };
        shared.add_rows()?;
        shared.add_means()?;
        Ok(Self { shared: Arc::new(shared), progress: None })
    }

    /// The same instance with some tasks started already and some nodes lost.
    #[must_use]
    pub fn with_progress(&self, progress: Progress) -> Self {
        Self { shared: self.shared.clone(), progress: Some(Arc::new(progress)) }
    }

    /// What has happened already, if anything.
    pub fn progress(&self) -> Option<&Progress> {
        self.progress.as_deref()
    }

    /// The graph.
    #[inline]
    pub fn graph(&self) -> &FlatGraph {
        &self.shared.graph
    }

    /// The cluster.
    #[inline]
    pub fn cluster(&self) -> &Cluster {
        &self.shared.cluster
    }

    /// The data model.
    #[inline]
    pub fn data(&self) -> DataModel {
        self.shared.data
    }

    /// The slot model.
    #[inline]
    pub fn slots(&self) -> SlotModel {
        self.shared.cluster.slots()
    }

    /// Number of tasks.
    #[inline]
    pub fn tasks(&self) -> usize {
        self.shared.row.len()
    }

    /// Number of nodes.
    #[inline]
    pub fn nodes(&self) -> usize {
        self.shared.cluster.len()
    }

    /// Seconds that `task` runs on `node`; infinite if it cannot.
    #[inline]
    pub fn exec(&self, task: TaskId, node: NodeId) -> f64 {
        let s = &*self.shared;
        let n = s.cluster.len();
        match s.row[task.index()] {
            Row::Speeds(row) => seconds(s.work[task.index()], s.speeds[row as usize * n + node.index()]),
            Row::Times(row) => s.times[row as usize * n + node.index()],
        }
    }

    /// Writes the run time of `task` on every node into `times` (length: nodes).
    pub fn exec_all(&self, task: TaskId, times: &mut [f64]) {
        let s = &*self.shared;
        let n = s.cluster.len();
        match s.row[task.index()] {
            Row::Speeds(row) => {
                let (work, row) = (s.work[task.index()], row as usize);
                for (time, speed) in times.iter_mut().zip(&s.speeds[row * n..(row + 1) * n]) {
                    *time = seconds(work, *speed);
                }
            }
            Row::Times(row) => times.copy_from_slice(&s.times[row as usize * n..(row as usize + 1) * n]),
        }
    }

    /// Whether `node` can run `task`.
    #[inline]
    pub fn can_run(&self, task: TaskId, node: NodeId) -> bool {
        self.exec(task, node).is_finite()
    }

    /// Tasks of one class have run times in the same proportion on all nodes; `None` if times are given per node.
    #[inline]
    pub fn speed_class(&self, task: TaskId) -> Option<u32> {
        match self.shared.row[task.index()] {
            Row::Speeds(row) => Some(row),
            Row::Times(_) => None,
        }
    }

    /// Mean run time of `task` over the nodes that can run it.
    #[inline]
    pub fn mean_exec(&self, task: TaskId) -> f64 {
        self.shared.mean_exec[task.index()]
    }

    /// Run time of `task` on its fastest node.
    #[inline]
    pub fn min_exec(&self, task: TaskId) -> f64 {
        self.shared.min_exec[task.index()]
    }

    /// Seconds to move `bytes` from `a` to `b`; 0 on the same node.
    #[inline]
    pub fn transfer(&self, bytes: f64, a: NodeId, b: NodeId) -> f64 {
        self.shared.cluster.network().seconds(bytes, a, b)
    }

    /// Seconds to move `bytes` over the mean link; 0 if there is one node only.
    #[inline]
    pub fn mean_transfer(&self, bytes: f64) -> f64 {
        if self.nodes() == 1 { 0.0 } else { self.shared.mean_link.seconds(bytes) }
    }

    /// Bytes from each parent of `task` under the data model, in the order of [`FlatGraph::parents`].
    #[inline]
    pub fn parent_bytes(&self, task: TaskId) -> &[f64] {
        self.shared.graph.parent_bytes(task, self.shared.data)
    }

    /// Bytes to each child of `task` under the data model, in the order of [`FlatGraph::children`].
    #[inline]
    pub fn child_bytes(&self, task: TaskId) -> &[f64] {
        self.shared.graph.child_bytes(task, self.shared.data)
    }

    /// The resource dimensions with all capacities.
    pub fn resources(&self) -> &Resources {
        &self.shared.resources
    }

    /// What `task` occupies, one number per dimension of [`Instance::resources`].
    #[inline]
    pub fn demand(&self, task: TaskId) -> &[u64] {
        self.shared.resources.demand(self.shared.graph.demand(task).index())
    }

    /// What `node` offers, one number per dimension of [`Instance::resources`].
    #[inline]
    pub fn capacity(&self, node: NodeId) -> &[u64] {
        self.shared.resources.capacity(node.index())
    }
}

#[inline]
fn seconds(work: f64, speed: f64) -> f64 {
    if speed > 0.0 { work / speed } else { f64::INFINITY }
}

/// Work per task; unknown work is the mean of the kind, of all, or 1 second.
fn known_work(graph: &FlatGraph) -> Vec<f64> {
    let mut work: Vec<f64> = graph.tasks().map(|t| graph.work(t)).collect();
    for (task, _) in graph.per_node_times() {
        work[task.index()] = 0.0;
    }
    if !work.iter().any(|w| w.is_nan()) {
        return work;
    }
    let mut sums = vec![(0.0, 0.0); graph.kinds().len()];
    let mut all = (0.0, 0.0);
    for task in graph.tasks().filter(|t| !graph.work(*t).is_nan()) {
        for (sum, count) in [&mut sums[graph.kind(task).index()], &mut all] {
            *sum += graph.work(task);
            *count += 1.0;
        }
    }
    let mean = |(sum, count): (f64, f64)| (count > 0.0).then(|| sum / count);
    let mut unknown = 0;
    for task in graph.tasks().filter(|t| work[t.index()].is_nan()).collect::<Vec<_>>() {
        work[task.index()] = mean(sums[graph.kind(task).index()]).or(mean(all)).unwrap_or(1.0);
        unknown += 1;
    }
    tracing::warn!(tasks = unknown, "run times are not known; the mean of the kind is assumed");
    work
}

impl Shared {
    /// One row of speeds per (kind with speeds of its own, set of nodes that fit); one of times per given task.
    fn add_rows(&mut self) -> Result<()> {
        let (graph, cluster) = (self.graph.clone(), self.cluster.clone());
        let n = cluster.len();
        let fitting = self.fitting_nodes();
        let classes = SpeedClasses::new(&graph, &cluster);
        let mut rows: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let node_ids = if graph.per_node_times().is_empty() { FxHashMap::default() } else { ids(&cluster) };
        let mut given = graph.per_node_times().iter().peekable();
        for task in graph.tasks() {
            let (kind, demand) = (graph.kind(task).index(), graph.demand(task).index());
            let fit = &fitting.patterns[fitting.of_demand[demand] as usize];
            if let Some((_, times)) = given.next_if(|(t, _)| *t == task) {
                self.row.push(Row::Times((self.times.len() / n) as u32));
                self.add_given_times(task, times, &node_ids, fit)?;
                continue;
            }
            let class = classes.of_kind[kind];
            let row = *rows.entry((class, fitting.of_demand[demand])).or_insert_with(|| {
                self.add_speeds(&classes.own[class as usize], fit);
                (self.speeds.len() / n - 1) as u32
            });
            self.row.push(Row::Speeds(row));
        }
        Ok(())
    }

    /// A row of every node's speed, `own` before that for all kinds.
    fn add_speeds(&mut self, own: &[(usize, f64)], fit: &[bool]) {
        let at = self.speeds.len();
        self.speeds.extend(self.cluster.nodes().iter().map(|node| node.speed));
        let row = &mut self.speeds[at..];
        for (node, speed) in own {
            row[*node] = *speed;
        }
        for (speed, _) in row.iter_mut().zip(fit).filter(|(_, fits)| !**fits) {
            *speed = 0.0;
        }
    }

    fn add_given_times(
        &mut self,
        task: TaskId,
        times: &[(Arc<str>, f64)],
        node_ids: &FxHashMap<&str, usize>,
        fit: &[bool],
    ) -> Result<()> {
        let at = self.times.len();
        self.times.resize(at + self.cluster.len(), f64::INFINITY);
        for (name, time) in times {
            let Some(&node) = node_ids.get(&**name) else {
                return Err(Error::Cluster {
                    place: format!("task '{}'", self.graph.task_name(task)),
                    message: format!("a time is given for node '{name}', which the cluster does not have"),
                });
            };
            if fit[node] {
                self.times[at + node] = *time;
            }
        }
        Ok(())
    }

    /// For every demand, the nodes whose whole capacity holds it; equal sets are stored once.
    fn fitting_nodes(&self) -> Fitting {
        let mut known: FxHashMap<Vec<bool>, u32> = FxHashMap::default();
        let mut patterns = Vec::new();
        let of_demand = (0..self.graph.demands().len()).map(|demand| {
            let known_resources = self.resources.unknown(demand).is_none();
            let demand = self.resources.demand(demand);
            let fit_on = |node| known_resources && fits(demand, self.resources.capacity(node));
            let fit: Vec<bool> = (0..self.cluster.len()).map(fit_on).collect();
            *known.entry(fit).or_insert_with_key(|fit| {
                patterns.push(fit.clone());
                patterns.len() as u32 - 1
            })
        });
        Fitting { of_demand: of_demand.collect(), patterns }
    }

    fn add_means(&mut self) -> Result<()> {
        let n = self.cluster.len();
        for task in self.graph.clone().tasks() {
            let (mut sum, mut count, mut min) = (0.0, 0.0, f64::INFINITY);
            let row = match self.row[task.index()] {
                Row::Speeds(row) => &self.speeds[row as usize * n..(row as usize + 1) * n],
                Row::Times(row) => &self.times[row as usize * n..(row as usize + 1) * n],
            };
            let is_speed = matches!(self.row[task.index()], Row::Speeds(_));
            for &value in row {
                let time = if is_speed { seconds(self.work[task.index()], value) } else { value };
                if time.is_finite() {
                    sum += time;
                    count += 1.0;
                    min = min.min(time);
                }
            }
            if count == 0.0 {
                return Err(self.infeasible(task));
            }
            self.mean_exec.push(sum / count);
            self.min_exec.push(min);
        }
        Ok(())
    }

    fn infeasible(&self, task: TaskId) -> Error {
        let demand = self.graph.demand(task).index();
        let unknown = self.resources.unknown(demand);
        let demand = self.resources.demand(demand);
        let lacking = (0..self.resources.dimensions()).find_map(|d| {
            let most = (0..self.cluster.len()).map(|n| self.resources.capacity(n)[d]).max()?;
            (demand[d] > most).then(|| {
                let (needs, has) = (self.resources.show(d, demand[d]), self.resources.show(d, most));
                format!("it needs {needs}, the largest node has {has}")
            })
        });
        Error::Infeasible {
            task: self.graph.task_name(task).to_owned(),
            reason: unknown
                .map(|name| format!("no node has the resource '{name}'"))
                .or(lacking)
                .unwrap_or_else(|| {
                    "no single node has all that it needs (see its demand and its times per node)".into()
                }),
        }
    }
}

/// The index of every node by its name.
fn ids(cluster: &Cluster) -> FxHashMap<&str, usize> {
    cluster.nodes().iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect()
}

struct Fitting {
    of_demand: Vec<u32>,
    patterns: Vec<Vec<bool>>,
}

/// Kinds by the speeds that nodes have for them.
struct SpeedClasses {
    of_kind: Vec<u32>,
    /// Per class, ascending by node: the nodes with a speed other than their own. Most kinds have none.
    own: Vec<Vec<(usize, f64)>>,
}

impl SpeedClasses {
    /// O(kinds + speeds given per kind), whatever the number of nodes that give none.
    fn new(graph: &FlatGraph, cluster: &Cluster) -> Self {
        let kinds = graph.kinds().iter().enumerate();
        let ids: FxHashMap<&str, usize> = kinds.map(|(i, kind)| (&**kind, i)).collect();
        let mut own_of_kind = vec![Vec::new(); ids.len()];
        for (i, node) in cluster.nodes().iter().enumerate() {
            for (kind, speed) in node.speeds.iter().filter(|(_, speed)| **speed != node.speed) {
                if let Some(kind) = ids.get(kind.as_str()) {
                    own_of_kind[*kind].push((i, *speed));
                }
            }
        }
        let mut known: FxHashMap<Vec<(usize, u64)>, u32> = FxHashMap::default();
        let mut own = Vec::new();
        let of_kind = own_of_kind.into_iter().map(|speeds| {
            let bits = speeds.iter().map(|(node, speed)| (*node, speed.to_bits())).collect();
            *known.entry(bits).or_insert_with(|| {
                own.push(speeds);
                own.len() as u32 - 1
            })
        });
        Self { of_kind: of_kind.collect(), own }
    }
}
