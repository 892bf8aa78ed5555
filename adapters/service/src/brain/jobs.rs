//! Jobs: submitted, extended, asked for, cancelled, forgotten.

use std::sync::Arc;

use mdts_core::engine::{Event, JobId, Phase, TaskRun, Terms};
use mdts_core::{Instance, NodeId};
use mdts_dag::format::{self, Format};
use mdts_dag::{FlatGraph, JobGraph, TaskId, Work};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Brain, NewJob, Outcome};
use crate::api::{Extension, Place, Problem};

/// Most tasks that one job may have.
const MOST_TASKS: usize = 2_000_000;
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
    pub(super) grants: Vec<Granted>,
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

/// An attempt was granted or has lost its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Granted {
    pub(super) task: u32,
    pub(super) attempt: u32,
    pub(super) node: u32,
    pub(super) start: bool,
}

impl Brain {
    pub(super) fn submit(&mut self, new: &NewJob) -> Result<Outcome, Problem> {
        let open = self.engine()?.state().open_jobs().len();
        if open >= MOST_JOBS {
            return Err(Problem::busy(format!("{MOST_JOBS} jobs are open; wait until some have ended")));
        }
        let graph = match &new.parsed {
            Some(graph) => graph.clone(),
            None => Arc::new(read_graph(new)?),
        };
        let graph = with_predictions(graph, &new.predicted)?;
        let flat = Arc::new(graph.freeze());
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
                grants: Vec::new(),
                heard: self.now,
                lapsed: false,
                submitted: self.now,
                ended: None,
                cancelled: false,
                started: FxHashMap::default(),
                failures: FxHashMap::default(),
            },
        );
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

    fn instance(&self, flat: Arc<FlatGraph>) -> Result<Instance, Problem> {
        let none = || Problem::conflict("no node is registered yet; register nodes first");
        let cluster = self.cluster.clone().ok_or_else(none)?;
        let instance = Instance::new(flat, cluster, self.terms.data);
        let instance = instance.map_err(|error| Problem::unusable(error.to_string()))?;
        match instance.graph().demands().iter().find(|demand| demand.gang > 1) {
            Some(_) => {
                Err(Problem::unusable("a task wants several nodes at once, which is not supported here"))
            }
            None => Ok(instance),
        }
    }

    /// Predicted seconds for the tasks whose run times are not stated, in order; none if nothing was learnt yet.
    pub(crate) fn predict(&self, graph: &JobGraph) -> Vec<f64> {
        let is_unknown = |work: &Work| matches!(work, Work::Unknown);
        if !graph.tasks().any(|task| is_unknown(&task.work)) {
            return Vec::new();
        }
        let Ok(filled) = self.predictor.fill(graph) else { return Vec::new() };
        let unknown = graph.tasks().zip(filled.job.tasks()).filter(|(task, _)| is_unknown(&task.work));
        let seconds = |work: &Work| match work {
            Work::Seconds(seconds) => *seconds,
            _ => f64::NAN,
        };
        unknown.map(|(_, filled)| seconds(&filled.work)).collect()
    }

    pub(super) fn extend(
        &mut self,
        job: JobId,
        tasks: &str,
        parsed: Option<&Arc<JobGraph>>,
    ) -> Result<Outcome, Problem> {
        let graph = match parsed {
            Some(graph) => graph.clone(),
            None => Arc::new(self.extended(job, tasks)?),
        };
        let entry = self.job(job)?;
        if entry.cancelled || entry.ended.is_some_and(|(_, succeeded)| !succeeded) {
            return Err(Problem::conflict(format!("{job:?} has ended without success; submit a new job")));
        }
        let added = graph.len() - entry.graph.len();
        let flat = Arc::new(graph.freeze());
        let instance = Arc::new(self.instance(flat.clone())?);
        let engine = self.engine.as_mut().ok_or_else(|| Problem::internal("no engine"))?;
        let extended = engine.state_mut().extend(job, &instance);
        extended.map_err(|error| Problem::unusable(error.to_string()))?;
        if let Some(entry) = self.jobs.get_mut(&job) {
            (entry.graph, entry.flat) = (graph, flat);
            if entry.ended.take().is_some() {
                self.ended.retain(|ended| *ended != job);
                self.ended_tasks -= self.jobs[&job].graph.len() - added;
            }
        }
        self.totals.tasks += added as u64;
        self.advance(vec![Event::Tick])?;
        Ok(Outcome::Done)
    }

    /// The graph of a job with more tasks. O(all its tasks).
    pub(crate) fn extended(&self, job: JobId, tasks: &str) -> Result<JobGraph, Problem> {
        let old = &self.job(job)?.graph;
        let fault = |error: &dyn std::fmt::Display| Problem::unusable(format!("the extension: {error}"));
        let added: Extension = serde_json::from_str(tasks).map_err(|error| fault(&error))?;
        let mut text = Vec::new();
        format::write(old, Format::Json, &mut text).map_err(|error| fault(&error))?;
        let mut all: Value = serde_json::from_slice(&text).map_err(|error| fault(&error))?;
        if let Some(list) = all.get_mut("tasks").and_then(Value::as_array_mut) {
            list.extend(added.tasks);
        }
        if let (Some(all), false) = (all.as_object_mut(), added.files.is_empty()) {
            let files = all.entry("files").or_insert_with(|| Value::Object(serde_json::Map::new()));
            if let Some(files) = files.as_object_mut() {
                files.extend(added.files);
            }
        }
        let text = serde_json::to_vec(&all).map_err(|error| fault(&error))?;
        let graph = format::read(&text, Format::Json, old.name()).map_err(|error| fault(&error))?;
        let same = |(a, b): (&mdts_dag::Task, &mdts_dag::Task)| a.name == b.name;
        if graph.len() < old.len() || !old.tasks().zip(graph.tasks()).all(same) {
            return Err(fault(&"the tasks that the job has must stay as they are"));
        }
        if old.task_ids().any(|task| graph.parents(task).count() != old.parents(task).count()) {
            return Err(fault(&"a task that the job has would wait for a new one"));
        }
        if graph.len() > MOST_TASKS {
            return Err(Problem::too_large(format!("more than {MOST_TASKS} tasks")));
        }
        Ok(graph)
    }

    pub(super) fn asked(&mut self, jobs: &[(u32, Vec<u32>)]) -> Result<Outcome, Problem> {
        let mut events = Vec::new();
        for (job, tasks) in jobs {
            let job = JobId::from(*job);
            let of_job = self.job(job)?.graph.len();
            let tasks = tasks.iter().map(|task| TaskId::from(*task)).filter(|task| task.index() < of_job);
            events.extend(tasks.map(|task| Event::Asked { job, task }));
        }
        self.advance(events)?;
        Ok(Outcome::Done)
    }

    /// The tasks that a request is about, and those of them that were not asked for yet.
    pub(crate) fn wanted(&self, job: JobId, place: &Place) -> Result<(Vec<TaskId>, Vec<TaskId>), Problem> {
        let (entry, state) = (self.job(job)?, self.state()?);
        let is_open = |task: &TaskId| matches!(state.phase(job, *task), Phase::Waiting | Phase::Ready);
        let tasks: Vec<TaskId> = match &place.tasks {
            Some(names) => names.iter().map(|name| self.task(job, name)).collect::<Result<_, _>>()?,
            None if place.ahead => entry.flat.tasks().filter(is_open).collect(),
            None => {
                let is_ready = |task: &TaskId| state.phase(job, *task) == Phase::Ready;
                entry.flat.tasks().filter(is_ready).collect()
            }
        };
        let new = tasks.iter().copied().filter(|t| is_open(t) && !state.is_asked(job, *t)).collect();
        Ok((tasks, new))
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
            }
            if let (Some(engine), Some(nothing)) = (&mut self.engine, &self.nothing) {
                engine.state_mut().forget(job, nothing);
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
            job.grants.push(Granted { task, attempt, node, start });
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
            self.news.push(job);
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

/// Reads the graph of a job.
pub(crate) fn read_graph(new: &NewJob) -> Result<JobGraph, Problem> {
    let format = match new.format.as_str() {
        "" => None,
        name => Some(format_of(name)?),
    };
    let graph = format::read(&new.text, format, &new.name).map_err(|error| match error {
        mdts_dag::Error::UnknownFormat { .. } => Problem::unsupported_format(error.to_string()),
        other => Problem::unusable(other.to_string()),
    })?;
    if graph.len() > MOST_TASKS {
        return Err(Problem::too_large(format!("more than {MOST_TASKS} tasks")));
    }
    Ok(graph)
}

/// The format of this name.
pub(crate) fn format_of(name: &str) -> Result<Format, Problem> {
    Ok(match name {
        "json" => Format::Json,
        "yaml" => Format::Yaml,
        "toml" => Format::Toml,
        "wfformat" => Format::WfFormat,
        "dax" => Format::Dax,
        "stg" => Format::Stg,
        "dot" => Format::Dot,
        other => {
            let known = "json, yaml, toml, wfformat, dax, stg or dot";
            return Err(Problem::unsupported_format(format!(
                "format '{}'; write {known}",
                other.escape_debug()
            )));
        }
    })
}

fn with_predictions(graph: Arc<JobGraph>, predicted: &[f64]) -> Result<Arc<JobGraph>, Problem> {
    if predicted.is_empty() {
        return Ok(graph);
    }
    let mut predicted = predicted.iter();
    let work: Vec<Work> = graph
        .tasks()
        .map(|task| match &task.work {
            Work::Unknown => predicted.next().map_or(Work::Unknown, |seconds| Work::Seconds(*seconds)),
            known => known.clone(),
        })
        .collect();
    graph.with_work(work).map(Arc::new).map_err(|error| Problem::internal(error.to_string()))
}
