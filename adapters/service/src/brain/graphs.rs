//! Graphs of jobs: read from strangers' texts within limits, extended, and given predicted run times.

use std::collections::BTreeSet;
use std::sync::Arc;

use mdts_dag::format::{self, Format};
use mdts_dag::{FlatGraph, JobGraph, Task, TaskId, Work};
use serde_json::Value;

use crate::api::{Extension, Problem};

/// Most tasks and dependencies that one job may have.
const MOST_TASKS: usize = 2_000_000;
const MOST_DEPENDENCIES: usize = 5_000_000;
/// Longest name of a task or a kind of task, in bytes.
const LONGEST_NAME: usize = 1000;
/// Most names of resources that the tasks of a job may want.
const MOST_RESOURCES: usize = 64;
/// What a task and a dependency take in all tables, about.
const TASK_BYTES: usize = 600;
const DEPENDENCY_BYTES: usize = 80;

/// A graph that has passed all checks that need no other jobs and no nodes.
#[derive(Debug, Clone)]
pub(crate) struct Graph {
    pub(super) job: Arc<JobGraph>,
    pub(super) flat: Arc<FlatGraph>,
    /// What it takes in memory, about.
    pub(super) bytes: usize,
}

impl Graph {
    /// Checks a graph. O(tasks + dependencies).
    pub(super) fn new(job: JobGraph) -> Result<Self, Problem> {
        let bytes = check(&job, Size::default())?;
        let flat = Arc::new(job.freeze());
        Ok(Self { job: Arc::new(job), flat, bytes })
    }

    /// The graph with more tasks behind its own. Only what is new is read and checked; tables of numbers are copied.
    pub(super) fn extended(&self, extension: &str) -> Result<Self, Problem> {
        let old = Size::of(&self.job);
        let job = format::extend((*self.job).clone(), extension).map_err(|error| wrong(&error))?;
        let bytes = self.bytes + check(&job, old)?;
        let flat = Arc::new(self.flat.extended(&job));
        Ok(Self { job: Arc::new(job), flat, bytes })
    }

    /// The same with predicted seconds for the tasks from `first` on whose run times are not stated, in order; those that are
    /// not a number remain unknown.
    pub(super) fn with_predictions(mut self, first: usize, predicted: &[f64]) -> Result<Self, Problem> {
        if predicted.is_empty() {
            return Ok(self);
        }
        let job = Arc::make_mut(&mut self.job);
        let unknown: Vec<TaskId> = unknown(job, first).collect();
        let known = unknown.into_iter().zip(predicted).filter(|(_, seconds)| seconds.is_finite());
        for (task, seconds) in known {
            let set = job.set_work(task, Work::Seconds(*seconds));
            set.map_err(|error| Problem::internal(error.to_string()))?;
        }
        self.flat = Arc::new(self.job.freeze());
        Ok(self)
    }
}

/// The tasks from `first` on whose run times are not stated.
pub(super) fn unknown(job: &JobGraph, first: usize) -> impl Iterator<Item = TaskId> + '_ {
    job.task_ids().skip(first).filter(|task| matches!(job.task(*task).work, Work::Unknown))
}

/// What there is in a graph.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    tasks: usize,
    dependencies: usize,
    files: usize,
}

impl Size {
    fn of(job: &JobGraph) -> Self {
        Self { tasks: job.len(), dependencies: job.dependency_count(), files: job.files().len() }
    }
}

/// Checks what a graph has beyond what was checked before, and says how much memory that takes, about. O(what is new), and a look
/// at the demand of every task.
fn check(job: &JobGraph, before: Size) -> Result<usize, Problem> {
    let now = Size::of(job);
    if now.tasks > MOST_TASKS {
        return Err(Problem::too_large(format!("more than {MOST_TASKS} tasks")));
    }
    if now.dependencies > MOST_DEPENDENCIES {
        return Err(Problem::too_large(format!("more than {MOST_DEPENDENCIES} dependencies")));
    }
    let mut resources = BTreeSet::new();
    for demand in job.tasks().filter_map(|task| task.demand.as_ref()) {
        resources.extend(demand.other.keys());
        if resources.len() > MOST_RESOURCES {
            return Err(Problem::unusable(format!("the tasks want more than {MOST_RESOURCES} resources")));
        }
    }
    let mut bytes = 0;
    for task in job.tasks().skip(before.tasks) {
        check_task(task)?;
        bytes += TASK_BYTES + texts(task);
    }
    let files: usize = job.files()[before.files..].iter().map(|file| 80 + file.name.len()).sum();
    Ok(bytes + files + (now.dependencies - before.dependencies) * DEPENDENCY_BYTES)
}

fn check_task(task: &Task) -> Result<(), Problem> {
    if task.name.len().max(task.kind.len()) > LONGEST_NAME {
        let begin: String = task.name.chars().take(40).collect();
        return Err(Problem::unusable(format!(
            "the name or the kind of task '{}...' has more than {LONGEST_NAME} bytes",
            begin.escape_debug()
        )));
    }
    match &task.demand {
        Some(demand) if demand.gang > 1 => Err(Problem::unusable(format!(
            "task '{}' wants {} nodes at once (gang), and the service gives each task one node; submit one task per node",
            task.name, demand.gang
        ))),
        _ => Ok(()),
    }
}

/// Bytes of the texts of a task.
fn texts(task: &Task) -> usize {
    let run = task.run.as_ref().map_or(0, |run| {
        let command: usize = run.command.iter().map(|word| word.len() + 24).sum();
        let env: usize = run.env.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
        command + env + run.directory.as_ref().map_or(0, String::len)
    });
    let times = if let Work::PerNode(times) = &task.work { times.len() * 40 } else { 0 };
    task.name.len() + task.kind.len() + run + times
}

fn wrong(error: &dyn std::fmt::Display) -> Problem {
    Problem::unusable(format!("the extension: {error}"))
}

/// Reads the graph of a job; its text may have `limit` bytes, packed or not.
pub(crate) fn read_graph(text: &[u8], format: &str, name: &str, limit: usize) -> Result<Graph, Problem> {
    read(text, named(format)?, name, limit).and_then(Graph::new)
}

fn read(text: &[u8], format: Option<Format>, name: &str, limit: usize) -> Result<JobGraph, Problem> {
    format::read_within(text, format, name, limit as u64).map_err(|error| match error {
        mdts_dag::Error::UnknownFormat { .. } => Problem::unsupported_format(error.to_string()),
        mdts_dag::Error::TooLarge { .. } => Problem::too_large(error.to_string()),
        mdts_dag::Error::InFile { source, .. } if matches!(*source, mdts_dag::Error::TooLarge { .. }) => {
            Problem::too_large(source.to_string())
        }
        other => Problem::unusable(other.to_string()),
    })
}

/// Reads what is to be added to a job, as an [`Extension`] in JSON. In the own format that is a list of tasks; graphs of other
/// formats, and packed ones, are laid over the job's: what has the name of a task that it has stands for that task.
pub(crate) fn read_extension(
    old: &JobGraph,
    text: &[u8],
    format: &str,
    limit: usize,
) -> Result<String, Problem> {
    let format = match named(format)? {
        None if text.starts_with(b"\x1f\x8b") => None,
        None => {
            Some(Format::detect("extension", text).map_err(|e| Problem::unsupported_format(e.to_string()))?)
        }
        known => known,
    };
    let unreadable = |error: &dyn std::fmt::Display| Problem::bad_request(format!("the body: {error}"));
    let own = || {
        let text = std::str::from_utf8(text).map_err(|error| unreadable(&error))?;
        let checked = format.map_or(Ok(()), |format| format::check_within(text, format, limit as u64));
        checked.map(|()| text).map_err(|error| Problem::too_large(error.to_string()))
    };
    let extension = match format {
        Some(Format::Json) => serde_json::from_str(own()?).map_err(|error| unreadable(&error))?,
        Some(Format::Yaml) => serde_saphyr::from_str(own()?).map_err(|error| unreadable(&error))?,
        Some(Format::Toml) => toml::from_str(own()?).map_err(|error| unreadable(&error))?,
        other => laid_over(old, &read(text, other, old.name(), limit)?)?,
    };
    serde_json::to_string(&extension).map_err(|error| Problem::internal(error.to_string()))
}

/// The tasks of another graph that a job does not have yet, with their dependencies.
fn laid_over(old: &JobGraph, new: &JobGraph) -> Result<Extension, Problem> {
    let mut text = Vec::new();
    format::write(new, Format::Json, &mut text).map_err(|error| wrong(&error))?;
    let mut all: Value = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
    let mut take = |key: &str| all.get_mut(key).map(Value::take);
    let (tasks, files) = (take("tasks"), take("files"));
    let Some(Value::Array(mut tasks)) = tasks else { return Err(wrong(&"it has no tasks")) };
    tasks.retain(|task| task["name"].as_str().is_some_and(|name| old.find(name).is_none()));
    if tasks.is_empty() {
        return Err(wrong(&"the job has all its tasks already"));
    }
    let files = match files {
        Some(Value::Object(files)) => files,
        _ => serde_json::Map::new(),
    };
    let known = |id| old.find(&new.task(id).name);
    // Files tie tasks together as well; the job must say the same of them.
    for (parent, child, _) in new.dependencies() {
        let Some(of_job) = known(parent).filter(|_| known(child).is_none()) else { continue };
        let written = &old.task(of_job).outputs;
        let by_file = new.task(parent).outputs.iter().find(|file| new.task(child).inputs.contains(file));
        let is_known = |file| written.iter().any(|own| old.file(*own).name == new.file(file).name);
        if let Some(file) = by_file.filter(|file| !is_known(**file)) {
            return Err(wrong(&format_args!(
                "'{}' reads the file '{}' of '{}', which does not write it in the job",
                new.task(child).name,
                new.file(*file).name,
                new.task(parent).name
            )));
        }
    }
    Ok(Extension { tasks, files })
}

/// The format of this name; none for no name.
pub(crate) fn named(name: &str) -> Result<Option<Format>, Problem> {
    Ok(Some(match name {
        "" => return Ok(None),
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
                other.chars().take(40).collect::<String>().escape_debug()
            )));
        }
    }))
}
