//! Building a job graph step by step, by ids or by names that come later.

use std::sync::Arc;

use petgraph::graph::{DiGraph, NodeIndex};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{NameIndex, too_large};
use crate::sharing::{SharedFiles, Writers};
use crate::{DataFile, Demand, Dependency, Error, FileId, JobGraph, Result, Task, TaskId};

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
    tasks: Vec<Task>,
    task_names: NameIndex,
    files: Vec<DataFile>,
    file_names: NameIndex,
    edges: Vec<(TaskId, TaskId, f64)>,
    by_name: Vec<(TaskId, Box<str>, f64)>,
    shared_text: FxHashSet<Arc<str>>,
    shared_demands: Vec<Arc<Demand>>,
    parents_from_files: bool,
}

impl std::fmt::Debug for JobGraphBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobGraphBuilder")
            .field("name", &self.name)
            .field("tasks", &self.tasks.len())
            .finish_non_exhaustive()
    }
}

impl JobGraphBuilder {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tasks: Vec::new(),
            task_names: NameIndex::default(),
            files: Vec::new(),
            file_names: NameIndex::default(),
            edges: Vec::new(),
            by_name: Vec::new(),
            shared_text: FxHashSet::default(),
            shared_demands: Vec::new(),
            parents_from_files: false,
        }
    }

    /// Changes the name of the job.
    pub fn rename(&mut self, name: impl Into<String>) {
        self.name = name.into();
    }

    /// Number of tasks so far.
    pub fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// Adds a task.
    ///
    /// # Errors
    /// [`Error::DuplicateTask`] if the name is taken.
    pub fn task(&mut self, mut task: Task) -> Result<TaskId> {
        if self.find(&task.name).is_some() {
            return Err(Error::DuplicateTask { name: task.name.to_string() });
        }
        if self.tasks.len() >= u32::MAX as usize - 1 {
            return Err(too_large("tasks"));
        }
        task.kind = self.share(task.kind);
        task.demand = task.demand.filter(|d| **d != Demand::default()).map(|d| self.share_demand(d));
        let index = self.tasks.len() as u32;
        let tasks = &self.tasks;
        self.task_names.insert(&task.name, index, |i| &tasks[i as usize].name);
        self.tasks.push(task);
        Ok(TaskId::from(index))
    }

    /// The task of this name, if it was added already.
    pub fn find(&self, name: &str) -> Option<TaskId> {
        self.task_names.find(name, |id: TaskId| &self.tasks[id.index()].name)
    }

    /// The task, to change it. Its name must stay.
    pub fn task_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.tasks[id.index()]
    }

    /// Makes `child` wait for `parent` and for `bytes` of its data (besides shared files).
    pub fn depend(&mut self, child: TaskId, parent: TaskId, bytes: f64) {
        self.edges.push((parent, child, bytes));
    }

    /// Makes `child` wait for the task named `parent`, which may be added later.
    pub fn depend_on(&mut self, child: TaskId, parent: &str, bytes: f64) {
        match self.find(parent) {
            Some(parent) => self.edges.push((parent, child, bytes)),
            None => self.by_name.push((child, parent.into(), bytes)),
        }
    }

    /// The file of this name; the first call adds it. A later, larger size replaces a smaller one.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond 2^32 files.
    pub fn file(&mut self, name: &str, bytes: f64) -> Result<FileId> {
        if let Some(id) = self.file_names.find(name, |id: FileId| &self.files[id.index()].name) {
            let known = &mut self.files[id.index()].bytes;
            if bytes.is_nan() || bytes > *known {
                *known = bytes; // validation reports NaN
            }
            return Ok(id);
        }
        if self.files.len() >= u32::MAX as usize - 1 {
            return Err(too_large("files"));
        }
        let index = self.files.len() as u32;
        let files = &self.files;
        self.file_names.insert(name, index, |i| &files[i as usize].name);
        self.files.push(DataFile { name: name.into(), bytes });
        Ok(FileId::from(index))
    }

    /// Adds a dependency wherever one task reads a file that another writes.
    pub fn infer_parents_from_files(&mut self) {
        self.parents_from_files = true;
    }

    /// Validates and finishes the graph. O(tasks + dependencies + file references).
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::UnknownTask`], [`Error::BadNumber`], [`Error::Cycle`], [`Error::TooLarge`].
    pub fn build(mut self) -> Result<JobGraph> {
        self.resolve_names()?;
        if self.parents_from_files {
            self.add_parents_from_files();
        }
        let edges = self.merged_edges()?;
        let mut graph = DiGraph::with_capacity(self.tasks.len(), edges.len());
        for task in self.tasks {
            graph.add_node(task);
        }
        for (parent, child, dependency) in edges {
            graph.add_edge(NodeIndex::new(parent.index()), NodeIndex::new(child.index()), dependency);
        }
        JobGraph::from_parts(self.name, graph, self.files, self.task_names)
    }

    fn resolve_names(&mut self) -> Result<()> {
        for (child, parent, bytes) in std::mem::take(&mut self.by_name) {
            let Some(id) = self.find(&parent) else {
                let hint = nearest(&parent, self.tasks.iter().map(|t| &*t.name))
                    .map_or(String::new(), |name| format!("; did you mean '{name}'?"));
                let task = self.tasks[child.index()].name.to_string();
                return Err(Error::UnknownTask { task, parent: parent.into(), hint });
            };
            self.edges.push((id, child, bytes));
        }
        Ok(())
    }

    fn add_parents_from_files(&mut self) {
        let writers = Writers::new(self.files.len(), self.tasks.iter());
        for (i, task) in self.tasks.iter().enumerate() {
            let reader = TaskId::new(i);
            for file in &task.inputs {
                let parents = writers.of(*file).iter().filter(|w| **w != reader);
                self.edges.extend(parents.map(|&writer| (writer, reader, 0.0)));
            }
        }
    }

    /// Parallel edges become one, in the order of their first appearance; shared files add their bytes.
    fn merged_edges(&mut self) -> Result<Vec<(TaskId, TaskId, Dependency)>> {
        let mut merged: Vec<(TaskId, TaskId, Dependency)> = Vec::with_capacity(self.edges.len());
        let mut seen: FxHashMap<(TaskId, TaskId), u32> = FxHashMap::default();
        seen.reserve(self.edges.len());
        for (parent, child, bytes) in std::mem::take(&mut self.edges) {
            let at = *seen.entry((parent, child)).or_insert(merged.len() as u32);
            match merged.get_mut(at as usize) {
                Some((_, _, dependency)) => dependency.direct += bytes,
                None => merged.push((parent, child, Dependency { bytes: 0.0, direct: bytes })),
            }
        }
        if merged.len() >= u32::MAX as usize - 1 {
            return Err(too_large("dependencies"));
        }
        self.add_file_bytes(&mut merged);
        Ok(merged)
    }

    /// Sets the bytes of every edge: its own and those of its files.
    fn add_file_bytes(&self, edges: &mut [(TaskId, TaskId, Dependency)]) {
        for (_, _, dependency) in &mut *edges {
            dependency.bytes = dependency.direct;
        }
        if self.files.is_empty() {
            return;
        }
        let mut shared = SharedFiles::new(self.files.len(), self.tasks.iter());
        let mut order: Vec<(TaskId, u32)> = (0..).zip(&*edges).map(|(i, edge)| (edge.1, i)).collect();
        order.sort_unstable();
        let mut parents = Vec::new();
        for same_child in order.chunk_by(|a, b| a.0 == b.0) {
            let child = same_child[0].0;
            parents.clear();
            parents.extend(same_child.iter().map(|&(_, edge)| edges[edge as usize].0));
            shared.of_child(child, &self.tasks[child.index()].inputs, &parents, |at, file| {
                edges[same_child[at].1 as usize].2.bytes += self.files[file.index()].bytes;
            });
        }
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
        if let Some(known) = self.shared_demands.iter().find(|d| ***d == *demand) {
            return known.clone();
        }
        if self.shared_demands.len() < KEPT {
            self.shared_demands.push(demand.clone());
        }
        demand
    }
}

/// The candidate with the smallest edit distance to `name`, if it is near enough to be a typing error.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LOOKED_AT: usize = 10_000;
    candidates
        .take(LOOKED_AT)
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= 1 + name.len().min(candidate.len()) / 4)
        .map(|(_, candidate)| candidate)
}
