//! From `WfFormat` text to a job graph. Linear in the text.

use std::fmt::Display;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::schema::{Command, Document, Extension, FileText, TaskText, Tasks};
use crate::format::{Format, place};
use crate::task::default_kind;
use crate::{Error, FileId, JobGraph, JobGraphBuilder, Result, Task, TaskId, Work};

pub(in crate::format) fn read(text: &str, default_name: &str) -> Result<JobGraph> {
    let document: Document = serde_json::from_str(text).map_err(|e| place::json(Format::WfFormat, &e))?;
    let builder = JobGraph::builder(document.name.as_deref().unwrap_or(default_name));
    let workflow = document.workflow;
    if let Some(specification) = workflow.specification {
        let executed = workflow.execution.and_then(|e| e.tasks).unwrap_or_default().0;
        let tasks =
            Section { path: "workflow.specification.tasks", by_name: false, tasks: specification.tasks.0 };
        Reader { builder, tasks }.read(&specification.files.unwrap_or_default(), &executed)
    } else if let Some(Tasks(tasks)) = workflow.tasks {
        let by_name = names_are_unique(&tasks);
        Reader { builder, tasks: Section { path: "workflow.tasks", by_name, tasks } }.read(&[], &[])
    } else {
        let message =
            "neither 'specification' (version 1.5) nor 'tasks' (version 1.4) is there; expected one";
        Err(place::error(Format::WfFormat, "workflow", message))
    }
}

fn names_are_unique(tasks: &[TaskText]) -> bool {
    let mut seen = HashSet::with_capacity(tasks.len());
    tasks.iter().all(|task| task.name.as_deref().is_some_and(|name| seen.insert(name)))
}

/// The list of tasks and how they are named.
struct Section<'a> {
    path: &'static str,
    /// Tasks go by their name rather than by their id.
    by_name: bool,
    tasks: Vec<TaskText<'a>>,
}

impl Section<'_> {
    fn error(&self, index: usize, message: impl Display) -> Error {
        place::error(Format::WfFormat, format!("{}[{index}]", self.path), message)
    }

    /// What the task is called, and what else may refer to it.
    fn names(&self, index: usize) -> Result<(&str, Option<&str>)> {
        let task = &self.tasks[index];
        let (name, id) = (task.name.as_deref(), task.id.as_deref());
        let (first, second) = if self.by_name { (name, id) } else { (id, name) };
        let name = first.or(second).ok_or_else(|| self.error(index, "expected an 'id' or a 'name'"))?;
        Ok((name, second.filter(|other| *other != name)))
    }
}

struct Reader<'a> {
    builder: JobGraphBuilder,
    tasks: Section<'a>,
}

impl Reader<'_> {
    fn read(mut self, files: &[FileText], executed: &[TaskText]) -> Result<JobGraph> {
        for (i, file) in files.iter().enumerate() {
            let Some(name) = file.id.as_deref().or(file.name.as_deref()) else {
                let place = format!("workflow.specification.files[{i}]");
                return Err(place::error(Format::WfFormat, place, "expected an 'id'"));
            };
            self.builder.file(name, file.size_in_bytes.or(file.size).unwrap_or(0.0))?;
        }
        self.add_tasks(executed)?;
        self.add_dependencies()?;
        self.builder.build()
    }

    fn add_tasks(&mut self, executed: &[TaskText]) -> Result<()> {
        let by_id: HashMap<&str, &TaskText> =
            executed.iter().filter_map(|task| Some((task.id.as_deref()?, task))).collect();
        for index in 0..self.tasks.tasks.len() {
            let text = &self.tasks.tasks[index];
            let (name, _) = self.tasks.names(index)?;
            let mut task = Task::new(name);
            if let Some(kind) = &text.category {
                task.kind = Arc::from(&**kind);
            } else if let Some(name) = &text.name {
                task.kind = Arc::from(default_kind(name));
            }
            for measured in [Some(text), by_id.get(name).copied()].into_iter().flatten() {
                task =
                    with_measurements(task, measured).map_err(|message| self.tasks.error(index, message))?;
            }
            task.inputs = add_files(&mut self.builder, text.input_files.as_deref().unwrap_or_default())?;
            task.outputs = add_files(&mut self.builder, text.output_files.as_deref().unwrap_or_default())?;
            self.add_linked_files(index, &mut task)?;
            self.builder.task(task)?;
        }
        Ok(())
    }

    /// Files as versions up to 1.4 name them, inside the task.
    fn add_linked_files(&mut self, index: usize, task: &mut Task) -> Result<()> {
        for file in self.tasks.tasks[index].files.iter().flatten() {
            let Some(name) = file.name.as_deref().or(file.id.as_deref()) else {
                return Err(self.tasks.error(index, "a file has no 'name'"));
            };
            let list = match file.link.as_deref() {
                Some("input") => &mut task.inputs,
                Some("output") => &mut task.outputs,
                other => {
                    let found = other.unwrap_or_default();
                    let message = format!("link of file '{name}' is '{found}'; expected 'input' or 'output'");
                    return Err(self.tasks.error(index, message));
                }
            };
            list.push(self.builder.file(name, file.size_in_bytes.or(file.size).unwrap_or(0.0))?);
        }
        Ok(())
    }

    fn add_dependencies(&mut self) -> Result<()> {
        let mut others: HashMap<&str, Option<TaskId>> = HashMap::new();
        for index in 0..self.tasks.tasks.len() {
            if let (_, Some(other)) = self.tasks.names(index)? {
                // A second name that two tasks share refers to neither.
                others.entry(other).and_modify(|id| *id = None).or_insert(Some(TaskId::new(index)));
            }
        }
        let find = |builder: &JobGraphBuilder, name: &str| {
            builder.find(name).or_else(|| others.get(name).copied().flatten())
        };
        for (index, task) in self.tasks.tasks.iter().enumerate() {
            let this = TaskId::new(index);
            for name in task.parents.iter().flatten() {
                match find(&self.builder, name) {
                    Some(parent) => self.builder.depend(this, parent, 0.0),
                    // Fails when the graph is built, with the nearest name.
                    None => self.builder.depend_on(this, name, 0.0),
                }
            }
            for name in task.children.iter().flatten() {
                let child = find(&self.builder, name).ok_or_else(|| {
                    let message = format!("children: '{}' is not a task of this workflow", &**name);
                    self.tasks.error(index, message)
                })?;
                self.builder.depend(child, this, 0.0);
            }
        }
        Ok(())
    }
}

fn add_files(builder: &mut JobGraphBuilder, names: &[super::schema::Text]) -> Result<Vec<FileId>> {
    names.iter().map(|name| builder.file(name, 0.0)).collect()
}

/// The task with what one section tells of its run time, demand and command.
fn with_measurements(mut task: Task, text: &TaskText) -> Result<Task, String> {
    if let Some(seconds) = text.runtime_in_seconds.or(text.runtime) {
        task.work = Work::Seconds(seconds);
    }
    if let Some(cores) = text.core_count.or(text.cores) {
        task = task.cores(cores);
    }
    if let Some(bytes) = text.memory_in_bytes.or(text.memory.map(|kilobytes| kilobytes * 1000.0)) {
        if !(0.0..1e18).contains(&bytes) {
            return Err(format!("memory is {bytes}; expected a number of bytes from 0 to 1e18"));
        }
        task = task.memory(bytes as u64);
    }
    if let Some(command) = text.command.as_ref().and_then(command_line) {
        task = task.command(command);
    }
    Ok(match &text.mdts {
        Some(extension) => with_extension(task, extension),
        None => task,
    })
}

/// Program and arguments, if there is any.
fn command_line(command: &Command) -> Option<Vec<String>> {
    let program = command.program.as_deref().unwrap_or_default();
    let arguments = command.arguments.as_deref().unwrap_or_default();
    if program.is_empty() && arguments.is_empty() {
        return None;
    }
    Some(std::iter::once(program).chain(arguments.iter().map(|a| &**a)).map(String::from).collect())
}

fn with_extension(mut task: Task, extension: &Extension) -> Task {
    if !extension.times.is_empty() {
        task = task.times(extension.times.0.iter().map(|(node, time)| (&**node, *time)));
    }
    if let Some(gpus) = extension.gpus {
        task = task.gpus(gpus);
    }
    if !extension.resources.is_empty() {
        task = task.with_demand(|d| d.other = extension.resources.0.iter().cloned().collect());
    }
    if let Some(gang) = extension.gang {
        task = task.with_demand(|d| d.gang = gang);
    }
    if let Some(retries) = extension.retries {
        task = task.retries(retries);
    }
    if let Some(timeout) = extension.timeout {
        task = task.timeout(timeout);
    }
    task
}
