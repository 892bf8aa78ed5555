//! The job graph: tasks and the dependencies between them, validated once, on petgraph.

use std::fmt;
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use std::hash::BuildHasher;

use crate::builder::Settled;
use crate::{Error, Execution, FileId, FlatGraph, JobGraphBuilder, Result, Task, TaskId, Work, validate};

/// An edge of a job graph: the child starts after the parent has finished and its data has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Dependency {
    /// Bytes that move from parent to child if they run on different nodes: `direct` and all shared files.
    pub bytes: f64,
    /// The part of `bytes` that is not in a named file.
    pub direct: f64,
}

/// A file that tasks read or write.
#[derive(Debug, Clone, PartialEq)]
pub struct DataFile {
    /// Unique in the graph.
    pub name: Arc<str>,
    /// Size in bytes; 0 when unknown.
    pub bytes: f64,
}

/// A job: a directed acyclic graph of [`Task`]s and [`Dependency`]s with at least one task.
///
/// Every value of this type has been validated: names are unique, numbers are in range, there is no cycle.
/// It is the form for reading, writing and inspecting; schedulers work on [`JobGraph::freeze`]'s flat form.
///
/// ```
/// use mdts_dag::{JobGraph, Task};
/// let mut job = JobGraph::builder("diamond");
/// let a = job.task(Task::new("a").seconds(1.0))?;
/// let b = job.task(Task::new("b").seconds(2.0))?;
/// let c = job.task(Task::new("c").seconds(3.0))?;
/// let d = job.task(Task::new("d").seconds(1.0))?;
/// for (parent, child) in [(a, b), (a, c), (b, d), (c, d)] {
///     job.depend(child, parent, 1e6);
/// }
/// let job = job.build()?;
/// assert_eq!((job.len(), job.dependency_count()), (4, 4));
/// # Ok::<(), mdts_dag::Error>(())
/// ```
#[derive(Clone)]
pub struct JobGraph {
    name: String,
    graph: DiGraph<Task, Dependency, u32>,
    files: Vec<DataFile>,
    names: NameIndex,
}

impl JobGraph {
    /// Starts an empty graph.
    pub fn builder(name: impl Into<String>) -> JobGraphBuilder {
        JobGraphBuilder::new(name)
    }

    /// Validates a petgraph graph. Parallel edges become one whose bytes are their sum; the `bytes` of each weight
    /// count as direct bytes, its `direct` is not read.
    ///
    /// # Errors
    /// Those of [`JobGraphBuilder::build`].
    pub fn from_petgraph(name: impl Into<String>, graph: DiGraph<Task, Dependency, u32>) -> Result<Self> {
        let mut builder = Self::builder(name);
        let (nodes, edges) = graph.into_nodes_edges();
        for node in nodes {
            builder.task(node.weight)?;
        }
        for edge in edges {
            builder.depend(
                TaskId::new(edge.target().index()),
                TaskId::new(edge.source().index()),
                edge.weight.bytes,
            );
        }
        builder.build()
    }

    /// A graph whose first parts have been validated already.
    pub(crate) fn from_parts(
        name: String,
        graph: DiGraph<Task, Dependency, u32>,
        files: Vec<DataFile>,
        names: NameIndex,
        settled: Settled,
    ) -> Result<Self> {
        let job = Self { name, graph, files, names };
        validate::validate(&job, settled)?;
        Ok(job)
    }

    /// Goes on with this graph: what is added comes behind it, and its own tasks, files and dependencies stay as they are. New
    /// tasks may depend on those that are there, not the other way round.
    ///
    /// ```
    /// use mdts_dag::{JobGraph, Task};
    /// let mut job = JobGraph::builder("job");
    /// job.task(Task::new("split"))?;
    /// let mut more = job.build()?.into_builder();
    /// let part = more.task(Task::new("part_1"))?;
    /// more.depend_on(part, "split", 0.0);
    /// assert_eq!(more.build()?.dependency_count(), 1);
    /// # Ok::<(), mdts_dag::Error>(())
    /// ```
    pub fn into_builder(self) -> JobGraphBuilder {
        JobGraphBuilder::beyond(self.name, self.graph, self.files, self.names)
    }

    /// Changes the run time of one task. O(1).
    ///
    /// # Errors
    /// [`Error::BadNumber`] if a time is out of range; nothing is changed then.
    ///
    /// # Panics
    /// If the id is not one of this graph's.
    pub fn set_work(&mut self, id: TaskId, work: Work) -> Result<()> {
        let task = &mut self.graph[NodeIndex::new(id.index())];
        let old = std::mem::replace(&mut task.work, work);
        validate::check_task(task).inspect_err(|_| task.work = old)
    }

    /// The same job with other run times, in the order of the tasks' ids. O(tasks + dependencies + files).
    ///
    /// ```
    /// use mdts_dag::{JobGraph, Task, Work};
    /// let mut job = JobGraph::builder("one");
    /// let task = job.task(Task::new("a"))?;
    /// let timed = job.build()?.with_work([Work::Seconds(2.0)])?;
    /// assert_eq!(timed.task(task).work, Work::Seconds(2.0));
    /// # Ok::<(), mdts_dag::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadNumber`] if a time is out of range. Tasks for which there is no time keep theirs.
    pub fn with_work(&self, work: impl IntoIterator<Item = Work>) -> Result<Self> {
        let mut job = self.clone();
        for (task, work) in job.graph.node_weights_mut().zip(work) {
            task.work = work;
        }
        validate::validate(&job, Settled::default())?;
        Ok(job)
    }

    /// The same job, executed in another way: `change` sees every task that is executed. O(tasks + dependencies + files).
    ///
    /// ```
    /// use mdts_dag::{JobGraph, Task};
    /// let mut job = JobGraph::builder("one");
    /// let task = job.task(Task::new("a").command(["true"]))?;
    /// let job = job.build()?.with_executions(|run| run.retries = run.retries.or(Some(3)))?;
    /// assert_eq!(job.task(task).run.as_ref().and_then(|run| run.retries), Some(3));
    /// # Ok::<(), mdts_dag::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadNumber`] if a number is out of range.
    pub fn with_executions(&self, mut change: impl FnMut(&mut Execution)) -> Result<Self> {
        let mut job = self.clone();
        job.graph.node_weights_mut().filter_map(|task| task.run.as_deref_mut()).for_each(&mut change);
        validate::validate(&job, Settled::default())?;
        Ok(job)
    }

    /// Name of the job.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of tasks, at least 1.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.graph.node_count()
    }

    /// Number of dependencies.
    pub fn dependency_count(&self) -> usize {
        self.graph.edge_count()
    }

    /// The task with this id.
    ///
    /// # Panics
    /// If the id is not one of this graph's.
    pub fn task(&self, id: TaskId) -> &Task {
        &self.graph[NodeIndex::new(id.index())]
    }

    /// All tasks in the order of their ids.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = &Task> + Clone {
        self.graph.raw_nodes().iter().map(|node| &node.weight)
    }

    /// The ids of all tasks.
    pub fn task_ids(&self) -> impl ExactSizeIterator<Item = TaskId> + use<> {
        (0..self.len()).map(TaskId::new)
    }

    /// The task of this name. O(1).
    pub fn find(&self, name: &str) -> Option<TaskId> {
        self.names.find(name, |id: TaskId| &self.graph[NodeIndex::new(id.index())].name)
    }

    /// All dependencies as (parent, child, data), in the order they were added.
    pub fn dependencies(&self) -> impl ExactSizeIterator<Item = (TaskId, TaskId, Dependency)> + '_ {
        self.graph
            .raw_edges()
            .iter()
            .map(|e| (TaskId::new(e.source().index()), TaskId::new(e.target().index()), e.weight))
    }

    /// The tasks that `id` waits for.
    pub fn parents(&self, id: TaskId) -> impl Iterator<Item = TaskId> + '_ {
        self.neighbours(id, Direction::Incoming)
    }

    /// The tasks that wait for `id`.
    pub fn children(&self, id: TaskId) -> impl Iterator<Item = TaskId> + '_ {
        self.neighbours(id, Direction::Outgoing)
    }

    fn neighbours(&self, id: TaskId, direction: Direction) -> impl Iterator<Item = TaskId> + '_ {
        self.graph.neighbors_directed(NodeIndex::new(id.index()), direction).map(|n| TaskId::new(n.index()))
    }

    /// All files in the order of their ids.
    pub fn files(&self) -> &[DataFile] {
        &self.files
    }

    /// The file with this id.
    ///
    /// # Panics
    /// If the id is not one of this graph's.
    pub fn file(&self, id: FileId) -> &DataFile {
        &self.files[id.index()]
    }

    /// The graph as petgraph sees it; node indices are task ids.
    pub fn petgraph(&self) -> &DiGraph<Task, Dependency, u32> {
        &self.graph
    }

    /// The flat form that schedulers read. O(tasks + dependencies + file references) time and memory.
    pub fn freeze(&self) -> FlatGraph {
        FlatGraph::new(self)
    }
}

impl fmt::Debug for JobGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobGraph")
            .field("name", &self.name)
            .field("tasks", &self.len())
            .field("dependencies", &self.dependency_count())
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}

/// Finds items by name without a second copy of the names.
#[derive(Clone, Default)]
pub(crate) struct NameIndex {
    hasher: DefaultHashBuilder,
    /// What the names hash to, and whose they are: a table that grows needs no look at the names.
    table: HashTable<(u32, u32)>,
}

impl NameIndex {
    pub(crate) fn find<'a, I: From<u32> + Copy>(
        &self,
        name: &str,
        name_of: impl Fn(I) -> &'a Arc<str>,
    ) -> Option<I> {
        let hash = self.hash(name);
        let is_it = |known: &(u32, u32)| known.0 == hash && **name_of(I::from(known.1)) == *name;
        self.table.find(spread(hash), is_it).map(|known| I::from(known.1))
    }

    /// The item of this name; if there is none, adds it as item `index`, for which `None` stands. The names of all
    /// items before it must be known to `name_of`.
    pub(crate) fn find_or_insert<'a, I: From<u32> + Copy>(
        &mut self,
        name: &str,
        index: u32,
        name_of: impl Fn(I) -> &'a Arc<str>,
    ) -> Option<I> {
        let hash = self.hash(name);
        let is_it = |known: &(u32, u32)| known.0 == hash && **name_of(I::from(known.1)) == *name;
        match self.table.entry(spread(hash), is_it, |known| spread(known.0)) {
            Entry::Occupied(known) => Some(I::from(known.get().1)),
            Entry::Vacant(free) => {
                free.insert((hash, index));
                None
            }
        }
    }

    fn hash(&self, name: &str) -> u32 {
        self.hasher.hash_one(name) as u32
    }
}

/// The table looks at both ends of a hash: both get bits of it (Fibonacci hashing).
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The most dependencies that a text may imply without naming each: about a gigabyte while the graph is built.
pub(crate) const IMPLIED: usize = 1 << 24;

pub(crate) fn too_large(what: &'static str) -> Error {
    Error::TooLarge { what, limit: u64::from(u32::MAX) - 1 }
}
