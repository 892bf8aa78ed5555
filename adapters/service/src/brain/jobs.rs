//! Jobs: submitted, extended, asked for, cancelled, forgotten.

use std::sync::Arc;

use mdts_core::engine::{Event, JobId, Phase, TaskRun, Terms};
use mdts_core::{Instance, NodeId};
use mdts_dag::{FlatGraph, JobGraph, TaskId};
use mdts_policies::predict::Features;
use rustc_hash::{FxHashMap, FxHashSet};

use super::grants::Granting;
use super::graphs::{Graph, read_graph, unknown};
use super::{Brain, Change, NewJob, Outcome};
use crate::api::{Place, Problem};

/// Most tasks that one answer about placements tells of, unless they are named.
const MOST_ANSWERS: usize = 10_000;
/// Most jobs that are open at a time.
const MOST_JOBS: usize = 100_000;

/// A job and what was granted to it.
#[derive(Debug, Clone)]
pub(super) struct JobEntry {
    pub(super) client: Option<String>,
    pub(super) priority: i32,
    pub(super) share: f64,
    pub(super) lease_seconds: f64,
    pub(super) graph: Arc<JobGraph>,
    pub(super) flat: Arc<FlatGraph>,
    /// What the graph takes, about.
    pub(super) bytes: usize,
    pub(super) grants: Granting,
    /// When its client spoke last.
    pub(super) heard: f64,
    pub(super) lapsed: bool,
    pub(super) submitted: f64,
    /// When it came to its end, and whether all succeeded.
    pub(super) ended: Option<(f64, bool)>,
    pub(super) cancelled: bool,
    /// Attempts that were reported as started.
    pub(super) started: FxHashMap<TaskId, u32>,
    pub(super) failures: FxHashMap<TaskId, String>,
}

impl JobEntry {
    fn whole_graph(&self) -> Graph {
        Graph { job: self.graph.clone(), flat: self.flat.clone(), bytes: self.bytes }
    }
}

impl Brain {
    pub(super) fn submit(&mut self, new: &NewJob) -> Result<Outcome, Problem> {
        let open = self.engine()?.state().open_jobs().len();
        if open >= MOST_JOBS {
            return Err(Problem::busy(format!("{MOST_JOBS} jobs are open; wait until some have ended")));
        }
        let graph = match &new.parsed {
            Some(graph) => graph.clone(),
            None => read_graph(&new.text, &new.format, &new.name, usize::MAX)?,
        };
        let Graph { job: graph, flat, bytes } = graph.with_predictions(0, &new.predicted)?;
        let rows = flat.per_node_times().len();
        self.has_room(bytes, rows)?;
        let instance = Arc::new(self.instance(flat.clone())?);
        let client = self.client(new.client.as_deref());
        let engine = self.engine.as_mut().ok_or_else(|| Problem::internal("no engine"))?;
        let id = JobId::new(engine.state().job_count());
        engine.state_mut().announce(Terms { priority: new.priority, client, share: new.share });
        self.jobs.insert(
            id,
            JobEntry {
                client: new.client.clone(),
                priority: new.priority,
                share: new.share,
                lease_seconds: new.lease_seconds,
                graph,
                flat,
                bytes,
                grants: Granting::default(),
                heard: self.now,
                lapsed: false,
                submitted: self.now,
                ended: None,
                cancelled: false,
                started: FxHashMap::default(),
                failures: FxHashMap::default(),
            },
        );
        self.bytes += bytes;
        self.rows += rows;
        self.totals.jobs += 1;
        self.totals.tasks += instance.tasks() as u64;
        self.advance(vec![Event::Submitted(instance)])?;
        Ok(Outcome::Submitted(id))
    }

    /// The number of a client; jobs without one are clients of their own.
    fn client(&mut self, name: Option<&str>) -> u32 {
        if let Some(known) = name.and_then(|name| self.clients.get(name)) {
            return *known;
        }
        self.next_client = self.next_client.wrapping_add(1);
        if let Some(name) = name {
            self.clients.insert(name.to_owned(), self.next_client);
        }
        self.next_client
    }

    /// Forgets clients without jobs when there are many.
    fn forget_clients(&mut self) {
        if self.clients.len() > 2 * self.jobs.len() + 100 {
            let known: FxHashSet<&str> = self.jobs.values().filter_map(|job| job.client.as_deref()).collect();
            self.clients.retain(|name, _| known.contains(name.as_str()));
        }
    }

    /// Whether graphs may take so much more memory.
    fn has_room(&self, bytes: usize, rows: usize) -> Result<(), Problem> {
        // Times that are stated per node take a number for each node of the cluster.
        let nodes = self.cluster.as_ref().map_or(1, |cluster| cluster.len().max(1));
        let tables = (self.rows + rows).saturating_mul(nodes * size_of::<f64>());
        if self.repeats || self.bytes.saturating_add(bytes).saturating_add(tables) <= self.terms.most_bytes {
            return Ok(());
        }
        Err(Problem::busy("the graphs of all jobs take too much memory; wait until some have ended"))
    }

    fn instance(&self, flat: Arc<FlatGraph>) -> Result<Instance, Problem> {
        let none = || Problem::conflict("no node is registered yet; register nodes first");
        let cluster = self.cluster.clone().ok_or_else(none)?;
        let instance = Instance::new(flat, cluster, self.terms.data);
        instance.map_err(|error| Problem::unusable(error.to_string()))
    }

    /// Predicted seconds for the tasks from `first` on whose run times are not stated, in order; none if nothing was learnt yet.
    pub(crate) fn predict(&self, graph: &Graph, first: usize) -> Vec<f64> {
        if self.predictor.samples() == 0 {
            return Vec::new();
        }
        let seconds = |task: TaskId| {
            let features = Features::of_task(&graph.job, &graph.flat, task);
            let predicted = self.predictor.predict(&graph.job.task(task).kind, &features);
            predicted.map_or(f64::NAN, |predicted| predicted.seconds)
        };
        unknown(&graph.job, first).map(seconds).collect()
    }

    pub(super) fn extend(
        &mut self,
        job: JobId,
        tasks: &str,
        predicted: &[f64],
        parsed: Option<&Graph>,
    ) -> Result<Outcome, Problem> {
        let entry = self.job(job)?;
        let graph = match parsed {
            Some(graph) => graph.clone(),
            None => entry.whole_graph().extended(tasks)?.with_predictions(entry.graph.len(), predicted)?,
        };
        let Graph { job: graph, flat, bytes } = graph;
        if entry.cancelled || entry.ended.is_some_and(|(_, succeeded)| !succeeded) {
            return Err(Problem::conflict(format!("{job:?} has ended without success; submit a new job")));
        }
        let (added, more) = (graph.len() - entry.graph.len(), bytes.saturating_sub(entry.bytes));
        let open = if entry.ended.is_none() { entry.flat.per_node_times().len() } else { 0 };
        let rows = flat.per_node_times().len().saturating_sub(open);
        self.has_room(more, rows)?;
        let instance = Arc::new(self.instance(flat.clone())?);
        let engine = self.engine.as_mut().ok_or_else(|| Problem::internal("no engine"))?;
        let extended = engine.state_mut().extend(job, &instance);
        extended.map_err(|error| Problem::unusable(error.to_string()))?;
        if let Some(entry) = self.jobs.get_mut(&job) {
            (entry.graph, entry.flat) = (graph, flat);
            entry.bytes += more;
            if entry.ended.take().is_some() {
                self.ended.retain(|ended| *ended != job);
                self.ended_tasks -= self.jobs[&job].graph.len() - added;
            }
        }
        self.bytes += more;
        self.rows += rows;
        self.totals.tasks += added as u64;
        self.advance(vec![Event::Tick])?;
        Ok(Outcome::Done)
    }

    /// The graph of a job as it is now.
    pub(crate) fn graph(&self, job: JobId) -> Result<Arc<JobGraph>, Problem> {
        Ok(self.job(job)?.graph.clone())
    }

    /// The change that adds tasks to a job, which [`read_extension`](super::read_extension) has read.
    pub(crate) fn extension(&self, job: JobId, tasks: String) -> Result<Change, Problem> {
        let entry = self.job(job)?;
        let graph = entry.whole_graph().extended(&tasks)?;
        let predicted = self.predict(&graph, entry.graph.len());
        let graph = graph.with_predictions(entry.graph.len(), &predicted)?;
        Ok(Change::Extended { job: job.get(), tasks, predicted, parsed: Some(graph) })
    }

    pub(super) fn asked(&mut self, jobs: &[(u32, Vec<u32>)]) -> Result<Outcome, Problem> {
        let mut events = Vec::new();
        for (job, tasks) in jobs {
            let job = JobId::from(*job);
            let of_job = self.job(job)?.graph.len();
            if let Some(entry) = self.jobs.get_mut(&job) {
                entry.lapsed = false; // its client has spoken, which is recorded with this
            }
            let tasks = tasks.iter().map(|task| TaskId::from(*task)).filter(|task| task.index() < of_job);
            events.extend(tasks.map(|task| Event::Asked { job, task }));
        }
        self.advance(events)?;
        Ok(Outcome::Done)
    }

    /// The tasks that a request is about, and those of them that were not asked for yet. Of a request that names none, no
    /// more than [`MOST_ANSWERS`] are told, the new ones first.
    pub(crate) fn wanted(&self, job: JobId, place: &Place) -> Result<(Vec<TaskId>, Vec<TaskId>), Problem> {
        let (entry, state) = (self.job(job)?, self.state()?);
        let is_open = |task: &TaskId| matches!(state.phase(job, *task), Phase::Waiting | Phase::Ready);
        let is_new = |task: &TaskId| is_open(task) && !state.is_asked(job, *task);
        if let Some(names) = &place.tasks {
            let tasks: Vec<TaskId> =
                names.iter().map(|name| self.task(job, name)).collect::<Result<_, _>>()?;
            let mut seen = FxHashSet::default();
            if let Some(twice) = tasks.iter().find(|task| !seen.insert(**task)) {
                let name = &entry.graph.task(*twice).name;
                return Err(Problem::unusable(format!("task '{}' is named twice", name.escape_debug())));
            }
            let new = tasks.iter().copied().filter(is_new).collect();
            return Ok((tasks, new));
        }
        let meant: Vec<TaskId> =
            if place.ahead { entry.flat.tasks().filter(is_open).collect() } else { state.ready_tasks(job) };
        let (new, old): (Vec<TaskId>, Vec<TaskId>) = meant.into_iter().partition(is_new);
        let mut told: Vec<TaskId> = new.iter().chain(&old).copied().take(MOST_ANSWERS).collect();
        told.sort_unstable();
        Ok((told, new))
    }

    pub(super) fn cancelled(&mut self, job: JobId) -> Result<Outcome, Problem> {
        self.job(job)?;
        if let Some(entry) = self.jobs.get_mut(&job).filter(|entry| entry.ended.is_none()) {
            entry.cancelled = true;
        }
        self.advance(vec![Event::Cancelled(job)])?;
        Ok(Outcome::Done)
    }

    pub(super) fn forgotten(&mut self, jobs: &[u32]) -> Outcome {
        for job in jobs.iter().map(|job| JobId::from(*job)) {
            if self.jobs.get(&job).is_none_or(|entry| entry.ended.is_none()) {
                continue;
            }
            if let Some(entry) = self.jobs.remove(&job) {
                self.ended_tasks -= entry.graph.len();
                self.bytes -= entry.bytes;
            }
            if let Some(engine) = &mut self.engine {
                engine.state_mut().forget(job);
                engine.policy_mut().forget(job);
            }
        }
        let known = &self.jobs;
        self.ended.retain(|ended| known.contains_key(ended));
        self.forget_clients();
        Outcome::Done
    }

    /// Notes that an attempt may start, or has lost its node.
    pub(super) fn grant(&mut self, run: TaskRun, node: NodeId, start: bool) {
        if let Some(job) = self.jobs.get_mut(&run.job) {
            let (task, attempt, node) = (run.task.get(), run.attempt, node.get());
            job.grants.add(task, attempt, node, start);
            job.started.remove(&run.task);
            self.news.push(run.job);
            let count = if start { &mut self.totals.grants } else { &mut self.totals.revoked };
            *count += 1;
        }
    }

    pub(super) fn end(&mut self, job: JobId, succeeded: bool) {
        if let Some(entry) = self.jobs.get_mut(&job) {
            entry.ended = Some((self.now, succeeded));
            self.ended.push_back(job);
            self.ended_tasks += entry.graph.len();
            self.rows = self.rows.saturating_sub(entry.flat.per_node_times().len());
            self.news.push(job);
        }
        if let (Some(engine), Some(nothing)) = (&mut self.engine, &self.nothing) {
            engine.state_mut().retire(job, nothing);
        }
    }

    /// The job of this number, if it is known.
    pub(super) fn job(&self, job: JobId) -> Result<&JobEntry, Problem> {
        let unknown = || Problem::not_found(format!("there is no job {job:?}, or it ended long ago"));
        self.jobs.get(&job).ok_or_else(unknown)
    }

    /// The task of this name.
    pub(crate) fn task(&self, job: JobId, name: &str) -> Result<TaskId, Problem> {
        let unknown = || Problem::not_found(format!("{job:?} has no task '{}'", name.escape_debug()));
        self.job(job)?.graph.find(name).ok_or_else(unknown)
    }
}
