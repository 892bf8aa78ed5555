//! From a job graph to `WfFormat` 1.5.
//!
//! Bytes of a dependency that are in no file get a file of their own, named `PARENT->CHILD`. The schema wants a
//! makespan and a date of execution: written are the run time on one core and the epoch, since nothing ran.

use std::io::{self, Write};

use hashbrown::HashSet;
use serde::Serialize;
use serde_json::Number;

use super::schema::Extension;
use crate::format::pairs::Pairs;
use crate::task::default_kind;
use crate::{Demand, Failing, FileId, JobGraph, Task, TaskId, Work};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    name: &'a str,
    schema_version: &'a str,
    workflow: Workflow<'a>,
}

#[derive(Serialize)]
struct Workflow<'a> {
    specification: Specification<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<Execution<'a>>,
}

#[derive(Serialize)]
struct Specification<'a> {
    tasks: Vec<TaskText<'a>>,
    files: Vec<FileText<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskText<'a> {
    name: &'a str,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'a str>,
    parents: Vec<&'a str>,
    children: Vec<&'a str>,
    input_files: Vec<&'a str>,
    output_files: Vec<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileText<'a> {
    id: &'a str,
    size_in_bytes: Number,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Execution<'a> {
    makespan_in_seconds: f64,
    executed_at: &'static str,
    tasks: Vec<Executed<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Executed<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime_in_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Command<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    core_count: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_in_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mdts: Option<Extension>,
}

#[derive(Serialize)]
struct Command<'a> {
    program: &'a str,
    arguments: &'a [String],
}

pub(in crate::format) fn write(job: &JobGraph, out: &mut impl Write) -> io::Result<()> {
    let added = AddedFiles::new(job);
    let executed: Vec<_> = job.tasks().filter_map(executed).collect();
    let makespan_in_seconds = executed.iter().filter_map(|task| task.runtime_in_seconds).sum();
    let execution = Execution { makespan_in_seconds, executed_at: "1970-01-01T00:00:00Z", tasks: executed };
    let document = Document {
        name: job.name(),
        schema_version: "1.5",
        workflow: Workflow {
            specification: Specification { tasks: tasks(job, &added), files: files(job, &added) },
            execution: Some(execution).filter(|e| !e.tasks.is_empty()),
        },
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

/// One file for every dependency that has bytes of its own.
struct AddedFiles(Vec<(TaskId, TaskId, String, f64)>);

impl AddedFiles {
    fn new(job: &JobGraph) -> Self {
        let mut taken: HashSet<String> = HashSet::new();
        let with_bytes = job.dependencies().filter(|(_, _, data)| data.direct > 0.0);
        let mut added = Vec::new();
        for (parent, child, data) in with_bytes {
            if taken.is_empty() {
                taken.extend(job.files().iter().map(|f| f.name.to_string()));
            }
            let mut name = format!("{}->{}", job.task(parent).name, job.task(child).name);
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            added.push((parent, child, name, data.direct));
        }
        Self(added)
    }
}

fn tasks<'a>(job: &'a JobGraph, added: &'a AddedFiles) -> Vec<TaskText<'a>> {
    let names = |files: &[FileId]| files.iter().map(|f| &*job.file(*f).name).collect();
    let mut tasks: Vec<_> = job
        .tasks()
        .map(|task| TaskText {
            name: &task.name,
            id: &task.name,
            category: Some(&*task.kind).filter(|kind| *kind != default_kind(&task.name)),
            parents: Vec::new(),
            children: Vec::new(),
            input_files: names(&task.inputs),
            output_files: names(&task.outputs),
        })
        .collect();
    for (parent, child, _) in job.dependencies() {
        tasks[parent.index()].children.push(&job.task(child).name);
        tasks[child.index()].parents.push(&job.task(parent).name);
    }
    for (parent, child, name, _) in &added.0 {
        tasks[parent.index()].output_files.push(name);
        tasks[child.index()].input_files.push(name);
    }
    tasks
}

fn files<'a>(job: &'a JobGraph, added: &'a AddedFiles) -> Vec<FileText<'a>> {
    let files = job.files().iter().map(|file| (&*file.name, file.bytes));
    let added = added.0.iter().map(|(_, _, name, bytes)| (&**name, *bytes));
    files.chain(added).map(|(id, bytes)| FileText { id, size_in_bytes: number(bytes) }).collect()
}

/// What the execution section says of a task, if anything.
fn executed(task: &Task) -> Option<Executed<'_>> {
    let demand = task.demand.as_deref();
    let run = task.run.as_deref();
    let executed = Executed {
        id: &task.name,
        runtime_in_seconds: match task.work {
            Work::Seconds(seconds) => Some(seconds),
            _ => None,
        },
        command: run
            .and_then(|run| run.command.split_first())
            .map(|(program, arguments)| Command { program, arguments }),
        core_count: demand.map(|d| number(d.cores)),
        memory_in_bytes: demand.map(|d| d.memory).filter(|m| *m > 0),
        mdts: Some(extension(task)).filter(|e| *e != Extension::default()),
    };
    let empty = executed.runtime_in_seconds.is_none()
        && executed.command.is_none()
        && executed.core_count.is_none()
        && executed.mdts.is_none();
    (!empty).then_some(executed)
}

fn extension(task: &Task) -> Extension {
    let default = Demand::default();
    let demand = task.demand.as_deref().unwrap_or(&default);
    let run = task.run.as_deref();
    Extension {
        times: match &task.work {
            Work::PerNode(times) => Pairs(times.iter().map(|(n, t)| (n.to_string(), *t)).collect()),
            _ => Pairs::default(),
        },
        gpus: Some(demand.gpus).filter(|g| *g > 0.0),
        resources: Pairs(demand.other.iter().map(|(n, a)| (n.clone(), *a)).collect()),
        gang: Some(demand.gang).filter(|g| *g != 1),
        retry_on: run.map(|r| words(&r.retry.on)).unwrap_or_default(),
        never_retry_on: run.map(|r| words(&r.retry.never_on)).unwrap_or_default(),
        env: Pairs(run.map(|r| r.env.clone()).unwrap_or_default()),
        directory: run.and_then(|r| r.directory.clone()),
        retries: run.and_then(|r| r.retries),
        retry_delay: run.and_then(|r| r.retry_delay),
        timeout: run.and_then(|r| r.timeout),
    }
}

fn words(failures: &[Failing]) -> Vec<String> {
    failures.iter().map(ToString::to_string).collect()
}

/// A whole number without a decimal point where possible: the schema wants integers.
fn number(value: f64) -> Number {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
    if value.fract() == 0.0 && (0.0..=EXACT).contains(&value) {
        return Number::from(value as u64);
    }
    Number::from_f64(value).unwrap_or_else(|| Number::from(0)) // validated graphs hold no NaN
}
