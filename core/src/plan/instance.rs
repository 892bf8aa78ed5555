//! An instance: one graph on one cluster under one data model, with the cost of everything.

use std::sync::{Arc, OnceLock};

use mdts_dag::{DataModel, FlatGraph, TaskId};
use rustc_hash::FxHashMap;

use super::Placement;
use super::resources::Resources;
use super::rows::{Classes, Row, Sorted, Speeds, seconds};
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
    work: Arc<[f64]>,
    classes: Classes,
    speeds: Speeds,
    /// Rows of given times (infinite: the node cannot run the task), and the least of each.
    times: Vec<f64>,
    least: Vec<f64>,
    /// Made when it is asked for: it takes a look at every task on every node.
    mean_exec: OnceLock<Vec<f64>>,
    mean_link: Link,
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
    /// Computes the costs of a graph on a cluster. O(tasks + nodes x classes of tasks that differ in where they run how fast).
    ///
    /// # Errors
    /// [`Error::Infeasible`] if some task fits no node, [`Error::Cluster`] if a time is given for a node that
    /// does not exist.
    pub fn new(graph: Arc<FlatGraph>, cluster: Arc<Cluster>, data: DataModel) -> Result<Self> {
        let work = known_work(&graph).into();
        Self::with_work(graph, cluster, data, work, None)
    }

    /// The same graph on another cluster, without what has happened. Where the nodes that were there before still do the same,
    /// as after another one joined, O(nodes x classes of tasks), whatever the number of tasks; else as [`Instance::new`].
    ///
    /// # Errors
    /// Those of [`Instance::new`].
    pub fn on(&self, cluster: Arc<Cluster>) -> Result<Self> {
        let Shared { graph, data, work, classes, .. } = &*self.shared;
        Self::with_work(graph.clone(), cluster, *data, work.clone(), Some(classes))
    }

    fn with_work(
        graph: Arc<FlatGraph>,
        cluster: Arc<Cluster>,
        data: DataModel,
        work: Arc<[f64]>,
        known: Option<&Classes>,
    ) -> Result<Self> {
        let resources = Resources::new(graph.demands(), &cluster);
        let sorted = Sorted::new(&graph, &cluster, &resources);
        let classes = sorted.classes(&graph, &work, known);
        let speeds = sorted.speeds(&classes);
        let (times, least) = given_times(&graph, &cluster, &sorted)?;
        let shared = Shared {
            mean_link: cluster.network().mean(cluster.len()),
            mean_exec: OnceLock::new(),
            graph,
            cluster,
            data,
            work,
            classes,
            speeds,
            times,
            least,
            resources,
        };
        shared.check_feasible()?;
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
        self.shared.work.len()
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
        match s.classes.of_task[task.index()] {
            Row::Speeds(row) => {
                seconds(s.work[task.index()], s.speeds.of_nodes[row as usize * n + node.index()])
            }
            Row::Times(row) => s.times[row as usize * n + node.index()],
        }
    }

    /// Writes the run time of `task` on every node into `times` (length: nodes).
    pub fn exec_all(&self, task: TaskId, times: &mut [f64]) {
        let s = &*self.shared;
        let n = s.cluster.len();
        match s.classes.of_task[task.index()] {
            Row::Speeds(row) => {
                let (work, row) = (s.work[task.index()], row as usize);
                for (time, speed) in times.iter_mut().zip(&s.speeds.of_nodes[row * n..(row + 1) * n]) {
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
        match self.shared.classes.of_task[task.index()] {
            Row::Speeds(row) => Some(row),
            Row::Times(_) => None,
        }
    }

    /// Mean run time of `task` over the nodes that can run it. The first call is O(tasks x nodes), all others O(1).
    #[inline]
    pub fn mean_exec(&self, task: TaskId) -> f64 {
        self.shared.mean_exec.get_or_init(|| self.shared.means())[task.index()]
    }

    /// Run time of `task` on its fastest node.
    #[inline]
    pub fn min_exec(&self, task: TaskId) -> f64 {
        self.shared.min_exec(task)
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
    #[inline]
    fn min_exec(&self, task: TaskId) -> f64 {
        match self.classes.of_task[task.index()] {
            Row::Speeds(row) => seconds(self.work[task.index()], self.speeds.fastest[row as usize]),
            Row::Times(row) => self.least[row as usize],
        }
    }

    fn check_feasible(&self) -> Result<()> {
        if self.classes.can_run(&self.speeds) && self.least.iter().all(|time| time.is_finite()) {
            return Ok(());
        }
        let stranded = self.graph.tasks().find(|task| !self.min_exec(*task).is_finite());
        stranded.map_or(Ok(()), |task| Err(self.infeasible(task)))
    }

    /// Mean run time per task.
    fn means(&self) -> Vec<f64> {
        let n = self.cluster.len();
        let of_task = |task: TaskId| match self.classes.of_task[task.index()] {
            Row::Speeds(row) => {
                let row = &self.speeds.of_nodes[row as usize * n..(row as usize + 1) * n];
                let work = self.work[task.index()];
                mean(row.iter().map(|speed| seconds(work, *speed)))
            }
            Row::Times(row) => mean(self.times[row as usize * n..(row as usize + 1) * n].iter().copied()),
        };
        self.graph.tasks().map(of_task).collect()
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

/// The mean of those that are finite.
fn mean(times: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for time in times.filter(|time| time.is_finite()) {
        sum += time;
        count += 1.0;
    }
    sum / count
}

/// The rows of the tasks whose times are given per node, and the least time of each.
fn given_times(graph: &FlatGraph, cluster: &Cluster, sorted: &Sorted<'_>) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut rows, mut least) = (Vec::new(), Vec::new());
    if graph.per_node_times().is_empty() {
        return Ok((rows, least));
    }
    let nodes = cluster.nodes().iter().enumerate();
    let ids: FxHashMap<&str, usize> = nodes.map(|(i, node)| (node.name.as_str(), i)).collect();
    for (task, times) in graph.per_node_times() {
        let at = rows.len();
        rows.resize(at + cluster.len(), f64::INFINITY);
        let fit = sorted.fit(graph.demand(*task).index());
        for (name, time) in times {
            let Some(&node) = ids.get(&**name) else {
                return Err(Error::Cluster {
                    place: format!("task '{}'", graph.task_name(*task)),
                    message: format!("a time is given for node '{name}', which the cluster does not have"),
                });
            };
            if fit[node] {
                rows[at + node] = *time;
            }
        }
        least.push(rows[at..].iter().copied().fold(f64::INFINITY, f64::min));
    }
    Ok((rows, least))
}
