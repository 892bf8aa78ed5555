//! From YAML, JSON or TOML text to a job graph.

use crate::format::{Format, pairs::Pairs, place};
use crate::{Error, FileId, JobGraph, JobGraphBuilder, Result, RetryRule, Task, TaskId};

use super::schema::{TaskText, WorkflowText};
use super::values::{Bytes, Names};

pub(in crate::format) fn read_json(text: &str, name: &str) -> Result<JobGraph> {
    let workflow = serde_json::from_str(text).map_err(|e| place::json(Format::Json, &e))?;
    build(workflow, Format::Json, name)
}

/// The tasks of the text behind those of a graph.
pub(in crate::format) fn extend_json(job: JobGraph, text: &str) -> Result<JobGraph> {
    let workflow = serde_json::from_str(text).map_err(|e| place::json(Format::Json, &e))?;
    build_behind(job.into_builder(), workflow, Format::Json)
}

pub(in crate::format) fn read_toml(text: &str, name: &str) -> Result<JobGraph> {
    let workflow = toml::from_str(text).map_err(|e: toml::de::Error| {
        let offset = e.span().map_or(0, |span| span.start);
        place::error_at(Format::Toml, text, offset, e.message())
    })?;
    build(workflow, Format::Toml, name)
}

pub(in crate::format) fn read_yaml(text: &str, name: &str) -> Result<JobGraph> {
    let workflow = serde_saphyr::from_str_with_options(text, yaml_options(text.len())).map_err(|e| {
        let place = match e.location() {
            Some(at) => format!("line {}, column {}", at.line(), at.column()),
            None => "document".into(),
        };
        place::error(Format::Yaml, place, yaml_message(&e))
    })?;
    build(workflow, Format::Yaml, name)
}

/// The message without the place, which is said before it.
fn yaml_message(error: &serde_saphyr::Error) -> String {
    let message = error.to_string();
    let message = message.lines().next().unwrap_or_default();
    message.rsplit_once(" at line ").map_or(message, |(message, _)| message).to_owned()
}

/// Limits that grow with the text, so that any file that is honestly large reads, and that still stop aliases
/// which stand for far more than the text holds.
fn yaml_options(length: usize) -> serde_saphyr::Options {
    const REPLAYED: usize = 4_000_000;
    serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: length + REPLAYED,
            max_nodes: length + REPLAYED,
            max_total_scalar_bytes: length + 64 * 1024 * 1024,
            max_aliases: 1_000_000,
            max_merge_keys: 1_000_000,
            enforce_alias_anchor_ratio: false, // one anchor of defaults may serve all tasks
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPLAYED,
        },
    }
}

fn build(workflow: WorkflowText, format: Format, default_name: &str) -> Result<JobGraph> {
    let job = JobGraph::builder(workflow.name.as_deref().unwrap_or(default_name));
    build_behind(job, workflow, format)
}

/// Adds what the text says to what the builder holds.
fn build_behind(mut job: JobGraphBuilder, workflow: WorkflowText, format: Format) -> Result<JobGraph> {
    let Some(tasks) = workflow.tasks else {
        return Err(place::error(format, "document", "the key 'tasks' is missing; expected a list of tasks"));
    };
    for (name, bytes) in workflow.files.unwrap_or_default().0 {
        job.file(&name, bytes.0)?;
    }
    let mut dependencies = Vec::with_capacity(tasks.len());
    for (index, text) in tasks.into_iter().enumerate() {
        let place = text.name.as_ref().map_or(format!("tasks[{index}]"), |name| format!("task '{name}'"));
        let (task, links) = read_task(text, &mut job, |message| place::error(format, place, message))?;
        dependencies.push((job.task(task)?, links));
    }
    for (id, links) in dependencies {
        depend(&mut job, id, &links);
    }
    if workflow.infer_parents != Some(false) {
        job.infer_parents_from_files();
    }
    job.build()
}

/// The names of a task's parents, with the bytes that they send.
struct Links {
    after: Names,
    needs: Pairs<Bytes>,
}

fn read_task(
    text: TaskText,
    job: &mut JobGraphBuilder,
    error: impl FnOnce(&str) -> Error,
) -> Result<(Task, Links)> {
    let Some(name) = text.name else {
        return Err(error("the key 'name' is missing"));
    };
    let mut task = Task::new(name);
    if let Some(kind) = text.kind {
        task = task.kind(kind);
    }
    match (text.work, text.times) {
        (Some(_), Some(_)) => return Err(error("has both 'work' and 'times'; give one of them")),
        (Some(seconds), None) => task = task.seconds(seconds.0),
        (None, Some(times)) => task = task.times(times.0.into_iter().map(|(node, time)| (node, time.0))),
        (None, None) => {}
    }
    if let Some(cores) = text.cores {
        task = task.cores(cores);
    }
    if let Some(memory) = text.memory {
        task = task.memory(memory.0);
    }
    if let Some(gpus) = text.gpus {
        task = task.gpus(gpus);
    }
    if let Some(resources) = text.resources {
        task = task.with_demand(|d| d.other = resources.0.into_iter().collect());
    }
    if let Some(gang) = text.gang {
        task = task.with_demand(|d| d.gang = gang);
    }
    if let Some(command) = text.command {
        task = task.command(command.0);
    }
    if let Some(timeout) = text.timeout {
        task = task.timeout(timeout.0);
    }
    if let Some(directory) = text.directory {
        task = task.with_execution(|run| run.directory = Some(directory));
    }
    if let Some(env) = text.env {
        if let Some((name, _)) = env.0.iter().find(|(name, _)| name.is_empty() || name.contains(['=', '\0']))
        {
            return Err(error(&format!("env: '{}' cannot be the name of a variable", name.escape_debug())));
        }
        let env = env.0.into_iter().map(|(name, value)| (name, value.0)).collect();
        task = task.with_execution(|run| run.env = env);
    }
    if let Some(retries) = text.retries {
        task = task.retries(retries);
    }
    if text.retry_on.is_some() || text.never_retry_on.is_some() {
        let [on, never_on] = [text.retry_on, text.never_retry_on].map(|list| list.unwrap_or_default().0);
        task = task.with_execution(|run| run.retry = RetryRule { on, never_on });
    }
    if let Some(delay) = text.retry_delay {
        task = task.retry_delay(delay.0);
    }
    task.inputs = files(job, text.inputs)?;
    task.outputs = files(job, text.outputs)?;
    Ok((task, Links { after: text.after.unwrap_or_default(), needs: text.needs.unwrap_or_default() }))
}

fn files(job: &mut JobGraphBuilder, names: Option<Names>) -> Result<Vec<FileId>> {
    names.unwrap_or_default().0.iter().map(|name| job.file(name, 0.0)).collect()
}

fn depend(job: &mut JobGraphBuilder, id: TaskId, links: &Links) {
    for parent in &links.after.0 {
        job.depend_on(id, parent, 0.0);
    }
    for (parent, bytes) in &links.needs.0 {
        job.depend_on(id, parent, bytes.0);
    }
}
