//! From a job graph to YAML, JSON or TOML text.

use std::io::{self, Write};

use hashbrown::HashSet;

use super::schema::{TaskText, WorkflowText};
use super::values::{Bytes, Command, Failures, Memory, Names, Seconds, Text};
use crate::format::pairs::Pairs;
use crate::task::default_kind;
use crate::{Demand, Failing, FileId, JobGraph, Task, TaskId, Work};

pub(in crate::format) fn write_json(job: &JobGraph, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &workflow(job))?;
    out.write_all(b"\n")
}

pub(in crate::format) fn write_yaml(job: &JobGraph, out: &mut impl Write) -> io::Result<()> {
    serde_saphyr::to_io_writer(out, &workflow(job)).map_err(io::Error::other)
}

pub(in crate::format) fn write_toml(job: &JobGraph, out: &mut impl Write) -> io::Result<()> {
    let text = toml::to_string(&workflow(job)).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}

fn workflow(job: &JobGraph) -> WorkflowText {
    let files = job.files().iter().map(|file| (file.name.to_string(), Bytes(file.bytes))).collect();
    let mut tasks: Vec<_> = job.tasks().map(|task| task_text(job, task)).collect();
    for (parent, child, data) in job.dependencies() {
        let parent = job.task(parent).name.to_string();
        let child = &mut tasks[child.index()];
        if data.direct > 0.0 {
            child.needs.get_or_insert_default().0.push((parent, Bytes(data.direct)));
        } else {
            child.after.get_or_insert_default().0.push(parent);
        }
    }
    WorkflowText {
        name: Some(job.name().into()),
        infer_parents: files_imply_more(job).then_some(false),
        files: Some(Pairs(files)).filter(|files| !files.is_empty()),
        tasks: Some(tasks),
    }
}

/// Whether a task reads what another one writes without depending on it.
fn files_imply_more(job: &JobGraph) -> bool {
    let edges: HashSet<(TaskId, TaskId)> =
        job.dependencies().map(|(parent, child, _)| (parent, child)).collect();
    let mut writers: Vec<Vec<TaskId>> = vec![Vec::new(); job.files().len()];
    for (id, task) in job.task_ids().zip(job.tasks()) {
        for file in &task.outputs {
            writers[file.index()].push(id);
        }
    }
    let independent = |reader: TaskId, file: &FileId| {
        writers[file.index()].iter().any(|writer| *writer != reader && !edges.contains(&(*writer, reader)))
    };
    job.task_ids().zip(job.tasks()).any(|(id, task)| task.inputs.iter().any(|file| independent(id, file)))
}

fn task_text(job: &JobGraph, task: &Task) -> TaskText {
    let mut text = TaskText {
        name: Some(task.name.to_string()),
        kind: (*task.kind != *default_kind(&task.name)).then(|| task.kind.to_string()),
        inputs: names(job, &task.inputs),
        outputs: names(job, &task.outputs),
        ..TaskText::default()
    };
    match &task.work {
        Work::Unknown => {}
        Work::Seconds(seconds) => text.work = Some(Seconds(*seconds)),
        Work::PerNode(times) => {
            text.times =
                Some(Pairs(times.iter().map(|(node, time)| (node.to_string(), Seconds(*time))).collect()));
        }
    }
    if let Some(demand) = task.demand.as_deref() {
        set_demand(&mut text, demand);
    }
    if let Some(run) = task.run.as_deref() {
        text.command = Some(Command(run.command.clone())).filter(|command| !command.0.is_empty());
        let env: Vec<_> = run.env.iter().map(|(name, value)| (name.clone(), Text(value.clone()))).collect();
        text.env = Some(Pairs(env)).filter(|env| !env.is_empty());
        text.directory.clone_from(&run.directory);
        let failures = |list: &[Failing]| (!list.is_empty()).then(|| Failures(list.to_vec()));
        (text.retry_on, text.never_retry_on) = (failures(&run.retry.on), failures(&run.retry.never_on));
        text.retries = run.retries;
        text.retry_delay = run.retry_delay.map(Seconds);
        text.timeout = run.timeout.map(Seconds);
    }
    text
}

fn set_demand(text: &mut TaskText, demand: &Demand) {
    let default = Demand::default();
    text.cores = Some(demand.cores).filter(|cores| *cores != default.cores);
    text.memory = Some(Memory(demand.memory)).filter(|memory| memory.0 != default.memory);
    text.gpus = Some(demand.gpus).filter(|gpus| *gpus != default.gpus);
    text.gang = Some(demand.gang).filter(|gang| *gang != default.gang);
    let resources = demand.other.iter().map(|(name, amount)| (name.clone(), *amount)).collect();
    text.resources = Some(Pairs(resources)).filter(|resources| !resources.is_empty());
}

fn names(job: &JobGraph, files: &[FileId]) -> Option<Names> {
    (!files.is_empty()).then(|| Names(files.iter().map(|file| job.file(*file).name.to_string()).collect()))
}
