//! Building a job graph step by step, by ids or by names that come later.

use std::sync::Arc;

use petgraph::graph::{DiGraph, NodeIndex};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{IMPLIED, NameIndex, too_large};
use crate::sharing::{SharedFiles, Writers};
use crate::text::nearest;
use crate::{DataFile, Demand, Dependency, Error, FileId, JobGraph, Result, Task, TaskId};

/// Parent, child and data.
type Edge = (TaskId, TaskId, Dependency);

/// Collects tasks, files and dependencies; [`JobGraphBuilder::build`] validates them.
///
/// Dependencies may be added twice: their direct bytes add up. Names of parents may be given before the parent.
///
/// ```
/// use mdts_dag::{JobGraph, Task};
/// let mut job = JobGraph::builder("names");
/// let join = job.task(Task::new("join").seconds(1.0))?;
/// job.depend_on(join, "split", 0.0); // not there yet
/// job.task(Task::new("split").seconds(1.0))?;
/// assert_eq!(job.build()?.dependency_count(), 1);
/// # Ok::<(), mdts_dag::Error>(())
/// ```
pub struct JobGraphBuilder {
    name: String,
    /// The tasks; dependencies come when it is built.
    graph: DiGraph<Task, Dependency>,
    task_names: NameIndex,
    files: Vec<DataFile>,
    file_names: NameIndex,
    /// The file that was known when last asked for.
    last_file: Option<FileId>,
    edges: Vec<Edge>,
    by_name: Vec<(TaskId, Box<str>, f64)>,
    shared_text: FxHashSet<Arc<str>>,
    shared_demands: Vec<Arc<Demand>>,
    parents_from_files: bool,
    settled: Settled,
    /// Files of a graph that is gone on with are found by name once one is asked for.
    knows_settled_files: bool,
}

/// How much of a graph was there before it is gone on with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settled {
    pub(crate) tasks: usize,
    pub(crate) files: usize,
    pub(crate) dependencies: usize,
}

impl std::fmt::Debug for JobGraphBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobGraphBuilder")
            .field("name", &self.name)
            .field("tasks", &self.task_count())
            .finish_non_exhaustive()
    }
}

impl JobGraphBuilder {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            graph: DiGraph::new(),
            task_names: NameIndex::default(),
            files: Vec::new(),
            file_names: NameIndex::default(),
            last_file: None,
            edges: Vec::new(),
            by_name: Vec::new(),
            shared_text: FxHashSet::default(),
            shared_demands: Vec::new(),
            parents_from_files: false,
            settled: Settled::default(),
            knows_settled_files: false,
        }
    }

    /// What [`JobGraph::into_builder`] says.
    pub(crate) fn beyond(
        name: String,
        graph: DiGraph<Task, Dependency>,
        files: Vec<DataFile>,
        task_names: NameIndex,
    ) -> Self {
        let settled =
            Settled { tasks: graph.node_count(), files: files.len(), dependencies: graph.edge_count() };
        Self { graph, task_names, files, settled, ..Self::new(name) }
    }

    /// Changes the name of the job.
    pub fn rename(&mut self, name: impl Into<String>) {
        self.name = name.into();
    }

    /// Number of tasks so far.
    pub fn task_count(&self) -> usize {
        self.graph.node_count()
    }

    /// Makes room for as many more.
    pub(crate) fn reserve(&mut self, tasks: usize, dependencies: usize) {
        self.graph.reserve_nodes(tasks);
        self.edges.reserve(dependencies);
    }

    /// Adds a task.
    ///
    /// # Errors
    /// [`Error::DuplicateTask`] if the name is taken.
    pub fn task(&mut self, mut task: Task) -> Result<TaskId> {
        if self.task_count() >= u32::MAX as usize - 1 {
            return Err(too_large("tasks"));
        }
        let index = self.task_count() as u32;
        let name_of = |id| &self.graph[node(id)].name;
        if self.task_names.find_or_insert(&task.name, index, name_of).is_some() {
            return Err(Error::DuplicateTask { name: task.name.to_string() });
        }
        task.kind = self.share(task.kind);
        task.demand = task.demand.filter(|d| **d != Demand::default()).map(|d| self.share_demand(d));
        self.graph.add_node(task);
        Ok(TaskId::from(index))
    }

    /// The task of this name, if it was added already.
    pub fn find(&self, name: &str) -> Option<TaskId> {
        self.task_names.find(name, |id| &self.graph[node(id)].name)
    }

    /// The task, to change it. Its name must stay, and so must tasks of a graph that is gone on with.
    pub fn task_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.graph[node(id)]
    }

    /// Makes `child` wait for `parent` and for `bytes` of its data (besides shared files).
    pub fn depend(&mut self, child: TaskId, parent: TaskId, bytes: f64) {
        self.edges.push((parent, child, direct(bytes)));
    }

    /// Makes `child` wait for the task named `parent`, which may be added later.
    pub fn depend_on(&mut self, child: TaskId, parent: &str, bytes: f64) {
        match self.find(parent) {
            Some(parent) => self.depend(child, parent, bytes),
            None => self.by_name.push((child, parent.into(), bytes)),
        }
    }

    /// The file of this name; the first call adds it. A later, larger size replaces a smaller one, but for files of a graph
    /// that is gone on with.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond 2^32 files.
    pub fn file(&mut self, name: &str, bytes: f64) -> Result<FileId> {
        let Some(id) = self.known_file(name)? else {
            let id = FileId::new(self.files.len());
            self.files.push(DataFile { name: name.into(), bytes });
            return Ok(id);
        };
        let is_settled = id.index() < self.settled.files;
        let known = &mut self.files[id.index()].bytes;
        // One out of range stays: validation reports it.
        if !is_settled && *known >= 0.0 && !(0.0..=*known).contains(&bytes) {
            *known = bytes;
        }
        Ok(id)
    }

    /// The file of this name; `None` when it is new, and its name is that of the file to be added next.
    fn known_file(&mut self, name: &str) -> Result<Option<FileId>> {
        if !std::mem::replace(&mut self.knows_settled_files, true) {
            self.index_settled_files();
        }
        // Who lists the files a second time often does so in the same order.
        let next = self.last_file.map_or(0, |last| last.index() + 1);
        let known = if self.files.get(next).is_some_and(|file| *file.name == *name) {
            Some(FileId::new(next))
        } else {
            let files = &self.files;
            let name_of = |id: FileId| &files[id.index()].name;
            if files.len() < u32::MAX as usize - 1 {
                self.file_names.find_or_insert(name, files.len() as u32, name_of)
            } else {
                Some(self.file_names.find(name, name_of).ok_or_else(|| too_large("files"))?)
            }
        };
        self.last_file = known;
        Ok(known)
    }

    /// Graphs do not keep an index of their files.
    fn index_settled_files(&mut self) {
        let files = &self.files[..self.settled.files];
        for (index, file) in (0..).zip(files) {
            self.file_names.find_or_insert(&file.name, index, |id: FileId| &files[id.index()].name);
        }
    }

    /// Adds a dependency wherever one task reads a file that another writes.
    ///
    /// A file of w writers and r readers makes w * r of them; [`JobGraphBuilder::build`] refuses more than 2^24.
    pub fn infer_parents_from_files(&mut self) {
        self.parents_from_files = true;
    }

    /// Validates and finishes the graph. O(tasks + dependencies + file references); of a graph that is gone on with, what
    /// was there counts only if new tasks name files, apart from a few bytes per task.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::UnknownTask`], [`Error::BadNumber`], [`Error::Cycle`], [`Error::TooLarge`];
    /// [`Error::Settled`] if a task of a graph that is gone on with would depend on another one than before.
    pub fn build(mut self) -> Result<JobGraph> {
        self.resolve_names()?;
        if self.parents_from_files {
            self.add_parents_from_files()?;
        }
        let edges = self.merged_edges()?;
        if let Some((parent, child, _)) = edges.iter().find(|(_, child, _)| !self.is_new(*child)) {
            return Err(self.settled(*parent, *child));
        }
        if self.settled.dependencies == 0 {
            self.graph.reserve_exact_edges(edges.len());
        }
        for (parent, child, dependency) in edges {
            self.graph.add_edge(node(parent), node(child), dependency);
        }
        JobGraph::from_parts(self.name, self.graph, self.files, self.task_names, self.settled)
    }

    fn is_new(&self, task: TaskId) -> bool {
        task.index() >= self.settled.tasks
    }

    fn settled(&self, parent: TaskId, child: TaskId) -> Error {
        let name = |task: TaskId| self.graph[node(task)].name.to_string();
        Error::Settled { task: name(child), parent: name(parent) }
    }

    /// Tasks that are not those of a graph that is gone on with.
    fn new_tasks(&self) -> impl Iterator<Item = (TaskId, &Task)> + Clone {
        let new = self.tasks().enumerate().skip(self.settled.tasks);
        new.map(|(i, task)| (TaskId::new(i), task))
    }

    fn tasks(&self) -> impl ExactSizeIterator<Item = &Task> + Clone {
        self.graph.raw_nodes().iter().map(|node| &node.weight)
    }

    fn resolve_names(&mut self) -> Result<()> {
        for (child, parent, bytes) in std::mem::take(&mut self.by_name) {
            let Some(id) = self.find(&parent) else {
                let hint = nearest(&parent, self.tasks().map(|t| &*t.name))
                    .map_or(String::new(), |name| format!("; did you mean '{name}'?"));
                let task = self.graph[node(child)].name.to_string();
                return Err(Error::UnknownTask { task, parent: parent.into(), hint });
            };
            self.depend(child, id, bytes);
        }
        Ok(())
    }

    /// Counts before it adds: few names may imply more dependencies than memory holds.
    fn add_parents_from_files(&mut self) -> Result<()> {
        self.check_settled_readers()?;
        if self.new_tasks().all(|(_, task)| task.inputs.is_empty()) {
            return Ok(());
        }
        let writers = Writers::new(self.files.len(), self.tasks());
        let reads = self.distinct_reads();
        let implied =
            reads.iter().fold(0_usize, |sum, (_, file)| sum.saturating_add(writers.of(*file).len()));
        if implied > IMPLIED {
            let what = "dependencies implied by tasks that read what others write; \
                        let one task join what many write, or set infer_parents: false";
            return Err(Error::TooLarge { what, limit: IMPLIED as u64 });
        }
        self.edges.reserve(implied);
        for (reader, file) in reads {
            let parents = writers.of(file).iter().filter(|writer| **writer != reader);
            self.edges.extend(parents.map(|&writer| (writer, reader, Dependency::default())));
        }
        Ok(())
    }

    /// A task of a graph that is gone on with does not read what a new one writes.
    fn check_settled_readers(&self) -> Result<()> {
        let written =
            self.new_tasks().flat_map(|(id, task)| task.outputs.iter().map(move |file| (*file, id)));
        let written: FxHashMap<FileId, TaskId> =
            written.filter(|(file, _)| file.index() < self.settled.files).collect();
        if written.is_empty() {
            return Ok(());
        }
        for (i, task) in self.tasks().enumerate().take(self.settled.tasks) {
            if let Some(writer) = task.inputs.iter().find_map(|file| written.get(file)) {
                return Err(self.settled(*writer, TaskId::new(i)));
            }
        }
        Ok(())
    }

    /// Every new task with every file that it reads, each pair once.
    fn distinct_reads(&self) -> Vec<(TaskId, FileId)> {
        let mut last_reader = vec![0; self.files.len()]; // 1 + its id
        let mut reads = Vec::new();
        for (id, task) in self.new_tasks() {
            let mark = id.get() + 1;
            let new = |file: &&FileId| std::mem::replace(&mut last_reader[file.index()], mark) != mark;
            reads.extend(task.inputs.iter().filter(new).map(|file| (id, *file)));
        }
        reads
    }

    /// Parallel edges become one, in the order of their first appearance; shared files add their bytes.
    fn merged_edges(&mut self) -> Result<Vec<Edge>> {
        let mut edges = std::mem::take(&mut self.edges);
        if edges.len() >= u32::MAX as usize - 1 {
            return Err(too_large("dependencies"));
        }
        merge_parallel(&mut edges, self.task_count());
        self.add_file_bytes(&mut edges)?;
        Ok(edges)
    }

    /// Sets the bytes of every edge: its own and those of its files.
    fn add_file_bytes(&self, edges: &mut [Edge]) -> Result<()> {
        for (_, _, dependency) in &mut *edges {
            dependency.bytes = dependency.direct;
        }
        if self.new_tasks().all(|(_, task)| task.inputs.is_empty()) {
            return Ok(());
        }
        let mut shared = SharedFiles::new(self.files.len(), self.tasks());
        let by_child = ByChild::new(edges, self.task_count());
        let mut parents = Vec::new();
        let mut transfers = 0_usize;
        for (id, task) in self.new_tasks() {
            let of_child = by_child.edges(id.index());
            parents.clear();
            parents.extend(of_child.iter().map(|&edge| edges[edge as usize].0));
            shared.of_child(id, &task.inputs, &parents, |at, file| {
                edges[of_child[at] as usize].2.bytes += self.files[file.index()].bytes;
                transfers += 1;
            });
            if transfers > TRANSFERS {
                let what = "files on dependencies, each counted once per dependency; \
                            let one task join what many write, or one file hold many parts";
                return Err(Error::TooLarge { what, limit: TRANSFERS as u64 });
            }
        }
        Ok(())
    }

    /// One copy of equal texts.
    fn share(&mut self, text: Arc<str>) -> Arc<str> {
        if let Some(known) = self.shared_text.get(&text) {
            return known.clone();
        }
        self.shared_text.insert(text.clone());
        text
    }

    /// One copy of equal demands, as long as there are few distinct ones.
    fn share_demand(&mut self, demand: Arc<Demand>) -> Arc<Demand> {
        const KEPT: usize = 64;
        if self.shared_demands.is_empty() {
            self.find_settled_demands(KEPT);
        }
        if let Some(known) = self.shared_demands.iter().find(|d| ***d == *demand) {
            return known.clone();
        }
        if self.shared_demands.len() < KEPT {
            self.shared_demands.push(demand.clone());
        }
        demand
    }

    /// The demands that tasks of a graph share which is gone on with.
    fn find_settled_demands(&mut self, most: usize) {
        let settled = self.graph.raw_nodes()[..self.settled.tasks].iter();
        for demand in settled.filter_map(|node| node.weight.demand.as_ref()) {
            if self.shared_demands.len() >= most {
                return;
            }
            if !self.shared_demands.iter().any(|known| Arc::ptr_eq(known, demand)) {
                self.shared_demands.push(demand.clone());
            }
        }
    }
}

/// Files on dependencies, each counted once per dependency: the flat form lists them all.
const TRANSFERS: usize = 1 << 26;

fn node(task: TaskId) -> NodeIndex {
    NodeIndex::new(task.index())
}

fn direct(bytes: f64) -> Dependency {
    Dependency { bytes: 0.0, direct: bytes }
}

/// Adds the direct bytes of later edges between the same tasks to the first and removes them.
///
/// O(tasks + edges) time, 5 bytes per edge; a hash map of the pairs would take three to six times as much.
fn merge_parallel(edges: &mut Vec<Edge>, tasks: usize) {
    let by_child = ByChild::new(edges, tasks);
    let mut first = vec![(0, 0); tasks]; // per parent: 1 + the last child it was seen with, and that edge
    let mut repeated = vec![false; edges.len()];
    for child in 0..tasks {
        let mark = child as u32 + 1;
        for &at in by_child.edges(child) {
            let (parent, _, dependency) = edges[at as usize];
            let (seen, edge) = &mut first[parent.index()];
            if *seen == mark {
                edges[*edge as usize].2.direct += dependency.direct;
                repeated[at as usize] = true;
            } else {
                (*seen, *edge) = (mark, at);
            }
        }
    }
    let mut repeated = repeated.into_iter();
    edges.retain(|_| repeated.next() != Some(true));
}

/// Positions of edges, grouped by child and ascending within each.
struct ByChild {
    start: Vec<u32>,
    positions: Vec<u32>,
}

impl ByChild {
    /// A counting sort: O(tasks + edges).
    fn new(edges: &[Edge], tasks: usize) -> Self {
        let mut start = vec![0; tasks + 1];
        for (_, child, _) in edges {
            start[child.index() + 1] += 1;
        }
        for i in 0..tasks {
            start[i + 1] += start[i];
        }
        let mut next = start.clone();
        let mut positions = vec![0; edges.len()];
        for (at, (_, child, _)) in (0..).zip(edges) {
            let next = &mut next[child.index()];
            positions[*next as usize] = at;
            *next += 1;
        }
        Self { start, positions }
    }

    fn edges(&self, child: usize) -> &[u32] {
        &self.positions[self.start[child] as usize..self.start[child + 1] as usize]
    }
}
