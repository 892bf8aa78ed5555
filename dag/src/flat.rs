//! The flat form of a job graph: compressed sparse rows in both directions, no strings in the way.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::sharing::SharedFiles;
use crate::{Demand, DemandId, FileId, JobGraph, KindId, Task, TaskId, Work, typed_id};

typed_id!(
    /// A dependency of a flat graph; ids are grouped by child, in the order of [`FlatGraph::parents`].
    EdgeId, "e"
);

/// Which data a dependency moves when parent and child run on different nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataModel {
    /// Every dependency moves its own bytes, one after the other: the model of the literature.
    #[default]
    Edges,
    /// Every file is a transfer of its own, side by side with others, and a file that has reached a node stays
    /// there. A dependency then takes as long as its largest file.
    Files,
}

/// Run times in seconds by node name.
pub type TimesByNode = Box<[(Arc<str>, f64)]>;

/// A job graph as arrays, for everything that is called often. Task ids are those of the [`JobGraph`].
#[derive(Debug, Clone)]
pub struct FlatGraph {
    name: Arc<str>,
    names: Vec<Arc<str>>,
    work: Vec<f64>,
    per_node: Vec<(TaskId, TimesByNode)>,
    kind: Vec<KindId>,
    kinds: Vec<Arc<str>>,
    demand: Vec<DemandId>,
    demands: Vec<Demand>,
    /// Empty when no task is ever repeated.
    retries: Vec<u32>,
    /// NaN where a task says nothing; empty when none does.
    retry_delays: Vec<f64>,
    topological: Vec<TaskId>,
    level: Vec<u32>,
    depth: u32,
    parents: Links,
    children: Links,
    /// Per position in `children`: the same dependency's id.
    child_edge: Vec<EdgeId>,
    edge_direct: Vec<f64>,
    edge_files: Rows<FileId>,
    file_bytes: Vec<f64>,
}

/// Neighbours of every task with the bytes of each data model.
#[derive(Debug, Clone, Default)]
struct Links {
    tasks: Rows<TaskId>,
    bytes: Vec<f64>,
    /// Bytes of the largest single transfer; empty when equal to `bytes` everywhere.
    largest: Vec<f64>,
}

impl Links {
    #[inline]
    fn bytes(&self, task: TaskId, model: DataModel) -> &[f64] {
        let range = self.tasks.range(task.index());
        match model {
            DataModel::Files if !self.largest.is_empty() => &self.largest[range],
            _ => &self.bytes[range],
        }
    }
}

/// Rows of different lengths in one array.
#[derive(Debug, Clone)]
struct Rows<T> {
    start: Vec<u32>,
    items: Vec<T>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { start: vec![0], items: Vec::new() }
    }
}

impl<T> Rows<T> {
    #[inline]
    fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.start[row] as usize..self.start[row + 1] as usize
    }

    #[inline]
    fn row(&self, row: usize) -> &[T] {
        &self.items[self.range(row)]
    }
}

impl FlatGraph {
    pub(crate) fn new(job: &JobGraph) -> Self {
        let mut flat = Self {
            names: Vec::with_capacity(job.len()),
            work: Vec::with_capacity(job.len()),
            kind: Vec::with_capacity(job.len()),
            demand: Vec::with_capacity(job.len()),
            ..Self::empty(job.name().into())
        };
        flat.add(job);
        flat
    }

    /// The flat form of a job that this one has grown to: its first tasks are these, as they are, see
    /// [`JobGraph::into_builder`]. The same as [`JobGraph::freeze`] gives, but no text of these tasks is looked at.
    /// O(tasks + dependencies + file references).
    ///
    /// ```
    /// use mdts_dag::{JobGraph, Task};
    /// let mut job = JobGraph::builder("job");
    /// job.task(Task::new("split"))?;
    /// let job = job.build()?;
    /// let flat = job.freeze();
    /// let mut more = job.into_builder();
    /// more.task(Task::new("part"))?;
    /// assert_eq!(flat.extended(&more.build()?).len(), 2);
    /// # Ok::<(), mdts_dag::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the job has fewer tasks.
    #[must_use]
    pub fn extended(&self, job: &JobGraph) -> Self {
        assert!(job.len() >= self.len(), "the job has grown");
        let mut flat = Self {
            names: self.names.clone(),
            work: self.work.clone(),
            per_node: self.per_node.clone(),
            kind: self.kind.clone(),
            kinds: self.kinds.clone(),
            demand: self.demand.clone(),
            demands: self.demands.clone(),
            retries: self.retries.clone(),
            retry_delays: self.retry_delays.clone(),
            ..Self::empty(self.name.clone())
        };
        flat.add(job);
        flat
    }

    fn empty(name: Arc<str>) -> Self {
        Self {
            name,
            names: Vec::new(),
            work: Vec::new(),
            per_node: Vec::new(),
            kind: Vec::new(),
            kinds: Vec::new(),
            demand: Vec::new(),
            demands: vec![Demand::default()],
            retries: Vec::new(),
            retry_delays: Vec::new(),
            topological: Vec::new(),
            level: Vec::new(),
            depth: 0,
            parents: Links::default(),
            children: Links::default(),
            child_edge: Vec::new(),
            edge_direct: Vec::new(),
            edge_files: Rows::default(),
            file_bytes: Vec::new(),
        }
    }

    /// Adds the tasks that are not there yet, and all links.
    fn add(&mut self, job: &JobGraph) {
        self.file_bytes = job.files().iter().map(|f| f.bytes).collect();
        self.add_tasks(job);
        self.add_links(job);
        self.add_files(job);
        self.sort();
    }

    fn add_tasks(&mut self, job: &JobGraph) {
        let old = self.len();
        let known = self.kinds.clone();
        let mut kinds: FxHashMap<&str, KindId> =
            known.iter().enumerate().map(|(i, kind)| (&**kind, KindId::new(i))).collect();
        let shared =
            job.tasks().zip(&self.demand).filter_map(|(task, id)| Some((task.demand.as_ref()?, *id)));
        let mut demands: FxHashMap<*const Demand, DemandId> =
            shared.map(|(demand, id)| (Arc::as_ptr(demand), id)).collect();
        let new = || job.tasks().skip(old);
        let retries = |task: &Task| task.run.as_deref().and_then(|run| run.retries).unwrap_or(0);
        if !self.retries.is_empty() || new().any(|t| retries(t) > 0) {
            self.retries.resize(old, 0);
            self.retries.extend(new().map(retries));
        }
        let delay = |task: &Task| task.run.as_deref().and_then(|run| run.retry_delay);
        if !self.retry_delays.is_empty() || new().any(|task| delay(task).is_some()) {
            self.retry_delays.resize(old, f64::NAN);
            self.retry_delays.extend(new().map(|task| delay(task).unwrap_or(f64::NAN)));
        }
        for (i, task) in job.tasks().enumerate().skip(old) {
            self.names.push(task.name.clone());
            self.work.push(match &task.work {
                Work::Seconds(seconds) => *seconds,
                Work::Unknown => f64::NAN,
                Work::PerNode(times) => {
                    self.per_node.push((TaskId::new(i), times.clone()));
                    f64::NAN
                }
            });
            self.kind.push(*kinds.entry(&task.kind).or_insert_with(|| {
                self.kinds.push(task.kind.clone());
                KindId::new(self.kinds.len() - 1)
            }));
            self.demand.push(match &task.demand {
                None => DemandId::new(0),
                Some(demand) => *demands.entry(Arc::as_ptr(demand)).or_insert_with(|| {
                    self.demands.push((**demand).clone());
                    DemandId::new(self.demands.len() - 1)
                }),
            });
        }
    }

    fn add_links(&mut self, job: &JobGraph) {
        let (n, m) = (job.len(), job.dependency_count());
        let mut parent_start = vec![0u32; n + 1];
        let mut child_start = vec![0u32; n + 1];
        for (parent, child, _) in job.dependencies() {
            parent_start[child.index() + 1] += 1;
            child_start[parent.index() + 1] += 1;
        }
        for i in 0..n {
            parent_start[i + 1] += parent_start[i];
            child_start[i + 1] += child_start[i];
        }
        let (mut next_parent, mut next_child) = (parent_start.clone(), child_start.clone());
        let mut parents = vec![TaskId::default(); m];
        let mut children = vec![TaskId::default(); m];
        let (mut parent_bytes, mut child_bytes) = (vec![0.0; m], vec![0.0; m]);
        self.child_edge = vec![EdgeId::default(); m];
        self.edge_direct = vec![0.0; m];
        for (parent, child, dependency) in job.dependencies() {
            let edge = take(&mut next_parent[child.index()]);
            let at = take(&mut next_child[parent.index()]);
            parents[edge] = parent;
            parent_bytes[edge] = dependency.bytes;
            children[at] = child;
            child_bytes[at] = dependency.bytes;
            self.child_edge[at] = EdgeId::new(edge);
            self.edge_direct[edge] = dependency.direct;
        }
        let rows = |start, items| Rows { start, items };
        self.parents = Links { tasks: rows(parent_start, parents), bytes: parent_bytes, largest: Vec::new() };
        self.children = Links { tasks: rows(child_start, children), bytes: child_bytes, largest: Vec::new() };
    }

    /// Which files each dependency moves, and the largest transfer of each.
    fn add_files(&mut self, job: &JobGraph) {
        let m = self.edge_direct.len();
        if job.files().is_empty() {
            self.edge_files.start = vec![0; m + 1];
            return;
        }
        let mut shared = SharedFiles::new(job.files().len(), job.tasks());
        let mut lists: Vec<(EdgeId, FileId)> = Vec::new();
        for (i, task) in job.tasks().enumerate() {
            let first = self.parents.tasks.range(i).start;
            shared.of_child(TaskId::new(i), &task.inputs, self.parents.tasks.row(i), |at, file| {
                lists.push((EdgeId::new(first + at), file));
            });
        }
        self.edge_files.start = vec![0; m + 1];
        for (edge, _) in &lists {
            self.edge_files.start[edge.index() + 1] += 1;
        }
        for i in 0..m {
            self.edge_files.start[i + 1] += self.edge_files.start[i];
        }
        let mut next = self.edge_files.start.clone();
        self.edge_files.items = vec![FileId::default(); lists.len()];
        let mut largest = self.edge_direct.clone();
        for (edge, file) in lists {
            self.edge_files.items[take(&mut next[edge.index()])] = file;
            largest[edge.index()] = largest[edge.index()].max(self.file_bytes[file.index()]);
        }
        if largest != self.parents.bytes {
            self.children.largest = self.child_edge.iter().map(|e| largest[e.index()]).collect();
            self.parents.largest = largest;
        }
    }

    /// Kahn's algorithm, level by level, ids ascending inside the first level.
    fn sort(&mut self) {
        let n = self.len();
        let mut open: Vec<u32> = (0..n).map(|i| self.parents.tasks.range(i).len() as u32).collect();
        self.level = vec![0; n];
        let mut order: Vec<TaskId> = (0..n).filter(|&i| open[i] == 0).map(TaskId::new).collect();
        let mut at = 0;
        while let Some(&task) = order.get(at) {
            at += 1;
            let next = self.level[task.index()] + 1;
            for &child in self.children.tasks.row(task.index()) {
                let c = child.index();
                self.level[c] = self.level[c].max(next);
                open[c] -= 1;
                if open[c] == 0 {
                    order.push(child);
                }
            }
        }
        debug_assert_eq!(order.len(), n, "validated graphs have no cycle");
        self.depth = self.level.iter().max().map_or(0, |l| l + 1);
        self.topological = order;
    }

    /// Name of the job.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of tasks, at least 1.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.work.len()
    }

    /// Number of dependencies.
    pub fn edge_count(&self) -> usize {
        self.edge_direct.len()
    }

    /// All task ids, ascending.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = TaskId> + DoubleEndedIterator + Clone + use<> {
        (0..self.len()).map(TaskId::new)
    }

    /// Name of a task, for messages.
    pub fn task_name(&self, task: TaskId) -> &str {
        &self.names[task.index()]
    }

    /// Seconds on a node of speed 1; NaN when unknown or given per node.
    #[inline]
    pub fn work(&self, task: TaskId) -> f64 {
        self.work[task.index()]
    }

    /// The tasks whose times are given per node, with those times by node name, ids ascending.
    pub fn per_node_times(&self) -> &[(TaskId, TimesByNode)] {
        &self.per_node
    }

    /// Kind of a task.
    #[inline]
    pub fn kind(&self, task: TaskId) -> KindId {
        self.kind[task.index()]
    }

    /// Names of all kinds by id.
    pub fn kinds(&self) -> &[Arc<str>] {
        &self.kinds
    }

    /// Demand of a task.
    #[inline]
    pub fn demand(&self, task: TaskId) -> DemandId {
        self.demand[task.index()]
    }

    /// All distinct demands by id; the first is the default of one core.
    pub fn demands(&self) -> &[Demand] {
        &self.demands
    }

    /// How often a failed attempt of `task` is repeated.
    #[inline]
    pub fn retries(&self, task: TaskId) -> u32 {
        self.retries.get(task.index()).copied().unwrap_or(0)
    }

    /// Seconds between the first failure of `task` and its next attempt, if it says so.
    #[inline]
    pub fn retry_delay(&self, task: TaskId) -> Option<f64> {
        self.retry_delays.get(task.index()).copied().filter(|delay| !delay.is_nan())
    }

    /// The tasks that `task` waits for.
    #[inline]
    pub fn parents(&self, task: TaskId) -> &[TaskId] {
        self.parents.tasks.row(task.index())
    }

    /// The tasks that wait for `task`.
    #[inline]
    pub fn children(&self, task: TaskId) -> &[TaskId] {
        self.children.tasks.row(task.index())
    }

    /// Bytes that decide how long each transfer from [`FlatGraph::parents`] takes, in their order.
    #[inline]
    pub fn parent_bytes(&self, task: TaskId, model: DataModel) -> &[f64] {
        self.parents.bytes(task, model)
    }

    /// Bytes that decide how long each transfer to [`FlatGraph::children`] takes, in their order.
    #[inline]
    pub fn child_bytes(&self, task: TaskId, model: DataModel) -> &[f64] {
        self.children.bytes(task, model)
    }

    /// Ids of the dependencies on [`FlatGraph::parents`], in their order.
    pub fn parent_edges(&self, task: TaskId) -> impl ExactSizeIterator<Item = EdgeId> + use<> {
        self.parents.tasks.range(task.index()).map(EdgeId::new)
    }

    /// Ids of the dependencies to [`FlatGraph::children`], in their order.
    pub fn child_edges(&self, task: TaskId) -> &[EdgeId] {
        &self.child_edge[self.children.tasks.range(task.index())]
    }

    /// The parent of a dependency.
    #[inline]
    pub fn edge_parent(&self, edge: EdgeId) -> TaskId {
        self.parents.tasks.items[edge.index()]
    }

    /// Files that a dependency moves.
    pub fn edge_files(&self, edge: EdgeId) -> &[FileId] {
        self.edge_files.row(edge.index())
    }

    /// Bytes that a dependency moves besides files.
    pub fn edge_direct_bytes(&self, edge: EdgeId) -> f64 {
        self.edge_direct[edge.index()]
    }

    /// All bytes that a dependency moves.
    pub fn edge_bytes(&self, edge: EdgeId) -> f64 {
        self.parents.bytes[edge.index()]
    }

    /// Size of a file in bytes.
    pub fn file_bytes(&self, file: FileId) -> f64 {
        self.file_bytes[file.index()]
    }

    /// Number of files.
    pub fn file_count(&self) -> usize {
        self.file_bytes.len()
    }

    /// All tasks, parents before children.
    #[inline]
    pub fn topological_order(&self) -> &[TaskId] {
        &self.topological
    }

    /// Longest number of dependencies on a path to `task`; 0 for tasks without parents.
    #[inline]
    pub fn level(&self, task: TaskId) -> u32 {
        self.level[task.index()]
    }

    /// Number of levels: tasks on the longest path.
    pub fn depth(&self) -> usize {
        self.depth as usize
    }
}

/// Returns the cursor's position and advances it.
fn take(cursor: &mut u32) -> usize {
    let at = *cursor as usize;
    *cursor += 1;
    at
}
