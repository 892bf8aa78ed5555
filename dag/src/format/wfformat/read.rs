//! From `WfFormat` text to a job graph. The text is read in pieces; linear in its length.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use super::names::{Name, Names};
use super::schema::{Extension, Measured, PartReader, Place, Section, TaskText};
use crate::format::json::Json;
use crate::format::{Format, place};
use crate::task::default_kind;
use crate::{Error, JobGraph, JobGraphBuilder, Result, RetryRule, Task, TaskId, Work};

pub(in crate::format) fn read(source: &mut dyn Read, default_name: &str) -> Result<JobGraph> {
    let mut json = Json::new(source, Format::WfFormat);
    let mut document = Document::new(default_name);
    document.read(&mut json)?;
    json.end()?;
    drop(json);
    document.graph()
}

/// What has been read so far.
struct Document {
    builder: JobGraphBuilder,
    names: Names,
    /// Versions from 1.5 on.
    specified: Option<Section>,
    executed: Vec<(Name, Measured)>,
    /// Versions up to 1.4.
    tasks: Option<Section>,
}

impl Document {
    fn new(default_name: &str) -> Self {
        Self {
            builder: JobGraph::builder(default_name),
            names: Names::default(),
            specified: None,
            executed: Vec::new(),
            tasks: None,
        }
    }

    fn parts(&mut self) -> PartReader<'_> {
        PartReader::new(&mut self.builder, &mut self.names)
    }

    fn read(&mut self, json: &mut Json) -> Result<()> {
        let mut has_workflow = false;
        json.object(&["name", "workflow"], |json, member| {
            if member == "workflow" {
                has_workflow = true;
                return self.workflow(json);
            }
            if !json.null()? {
                self.builder.rename(json.text()?);
            }
            Ok(())
        })?;
        if has_workflow { Ok(()) } else { Err(json.missing("workflow")) }
    }

    fn workflow(&mut self, json: &mut Json) -> Result<()> {
        json.object(&["specification", "execution", "tasks", "jobs"], |json, member| {
            if json.null()? {
                return Ok(());
            }
            match member {
                "specification" => self.specification(json)?,
                "execution" => json.object(&["tasks"], |json, _| {
                    let described = self.specified.as_ref().map_or(&[][..], |section| &section.tasks);
                    let mut parts = PartReader::new(&mut self.builder, &mut self.names);
                    self.executed = parts.executed(json, described)?;
                    Ok(())
                })?,
                // What a specification says goes before it.
                _ if self.specified.is_some() => json.skip()?,
                _ => self.tasks = self.parts().tasks(json, "workflow.tasks")?,
            }
            Ok(())
        })
    }

    fn specification(&mut self, json: &mut Json) -> Result<()> {
        json.object(&["tasks", "files"], |json, member| {
            if member == "files" {
                return self.parts().files(json);
            }
            self.specified = self.parts().tasks(json, "workflow.specification.tasks")?;
            Ok(())
        })?;
        if self.specified.is_some() { Ok(()) } else { Err(json.missing("tasks")) }
    }

    fn graph(self) -> Result<JobGraph> {
        let (section, by_name) = match (self.specified, self.tasks) {
            (Some(section), _) => (section, false),
            (None, Some(section)) => {
                let by_name = names_are_unique(&section.tasks, self.names.len());
                (section, by_name)
            }
            (None, None) => {
                let message =
                    "neither 'specification' (version 1.5) nor 'tasks' (version 1.4) is there; expected one";
                return Err(place::error(Format::WfFormat, "workflow", message));
            }
        };
        let graph = Graph { builder: self.builder, names: self.names, by_name, path: section.path };
        graph.build(section, self.executed)
    }
}

fn names_are_unique(tasks: &[TaskText], names: usize) -> bool {
    let mut seen = vec![false; names];
    let mut is_new = |name: Name| !std::mem::replace(&mut seen[name.index()], true);
    tasks.iter().all(|task| task.name.is_some_and(&mut is_new))
}

/// Which task a name means.
#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    Nothing,
    /// The task of this name.
    Named(TaskId),
    /// The only task of which this is the other name.
    Other(TaskId),
    /// A second name that two tasks share refers to neither.
    Unclear,
}

/// The graph in the making.
struct Graph {
    builder: JobGraphBuilder,
    names: Names,
    path: &'static str,
    /// Tasks go by their name rather than by their id.
    by_name: bool,
}

impl Graph {
    fn build(mut self, mut section: Section, mut executed: Vec<(Name, Measured)>) -> Result<JobGraph> {
        let meanings = self.meanings(&section.tasks);
        let mut execution = vec![usize::MAX; self.names.len()]; // of each name the last
        for (at, (name, _)) in executed.iter().enumerate() {
            execution[name.index()] = at;
        }
        self.builder.reserve(section.tasks.len(), section.links.len());
        let mut described = section.measured.into_iter().peekable();
        for (index, text) in section.tasks.iter_mut().enumerate() {
            let described = described.next_if(|(of, _)| *of == index);
            let at = self.names_of(text).0.map_or(usize::MAX, |name| execution[name.index()]);
            let executed = executed.get_mut(at).map(|(_, measured)| std::mem::take(measured));
            let measured = described.map(|(_, measured)| measured).into_iter().chain(executed);
            self.add_task(index, text, measured)?;
        }
        drop((execution, executed));
        for (index, text) in section.tasks.into_iter().enumerate() {
            let range = |links: Range<u32>| links.start as usize..links.end as usize;
            self.add_parents(index, &section.links[range(text.parents)], &meanings);
            self.add_children(index, &section.links[range(text.children)], &meanings)?;
        }
        drop((self.names, meanings, section.links));
        self.builder.build()
    }

    fn error(&self, index: usize, message: impl std::fmt::Display) -> Error {
        Place { path: self.path, index }.error(message)
    }

    /// What the task is called, and what else may refer to it.
    fn names_of(&self, task: &TaskText) -> (Option<Name>, Option<Name>) {
        let (first, second) = if self.by_name { (task.name, task.id) } else { (task.id, task.name) };
        let name = first.or(second);
        (name, second.filter(|_| second != name))
    }

    fn meanings(&self, tasks: &[TaskText]) -> Vec<Meaning> {
        let mut meanings = vec![Meaning::Nothing; self.names.len()];
        for (index, task) in tasks.iter().enumerate() {
            let id = TaskId::new(index);
            let (name, other) = self.names_of(task);
            if let Some(name) = name {
                meanings[name.index()] = Meaning::Named(id);
            }
            if let Some(other) = other {
                let meaning = &mut meanings[other.index()];
                *meaning = match *meaning {
                    Meaning::Nothing => Meaning::Other(id),
                    Meaning::Other(_) => Meaning::Unclear,
                    known => known,
                };
            }
        }
        meanings
    }

    fn add_task(
        &mut self,
        index: usize,
        text: &mut TaskText,
        measured: impl Iterator<Item = Measured>,
    ) -> Result<()> {
        let (Some(name), _) = self.names_of(text) else {
            return Err(self.error(index, "expected an 'id' or a 'name'"));
        };
        let kind = match (text.category, text.name) {
            (Some(category), _) => self.names.text(category).clone(),
            (None, Some(name)) => self.kind(name),
            (None, None) => self.kind(name),
        };
        let mut task = Task {
            name: self.names.text(name).clone(),
            kind,
            work: Work::Unknown,
            demand: None,
            inputs: std::mem::take(&mut text.inputs),
            outputs: std::mem::take(&mut text.outputs),
            run: None,
        };
        for measured in measured {
            task = with_measurements(task, measured).map_err(|message| self.error(index, message))?;
        }
        self.builder.task(task).map(drop)
    }

    fn kind(&self, name: Name) -> Arc<str> {
        let text = self.names.text(name);
        let kind = default_kind(text);
        if kind.len() == text.len() { text.clone() } else { kind.into() }
    }

    fn add_parents(&mut self, index: usize, parents: &[Name], meanings: &[Meaning]) {
        let this = TaskId::new(index);
        for name in parents {
            match meanings[name.index()] {
                Meaning::Named(parent) | Meaning::Other(parent) => self.builder.depend(this, parent, 0.0),
                // Fails when the graph is built, with the nearest name.
                Meaning::Nothing | Meaning::Unclear => {
                    self.builder.depend_on(this, self.names.text(*name), 0.0);
                }
            }
        }
    }

    fn add_children(&mut self, index: usize, children: &[Name], meanings: &[Meaning]) -> Result<()> {
        for name in children {
            let (Meaning::Named(child) | Meaning::Other(child)) = meanings[name.index()] else {
                let text = self.names.text(*name);
                let message = format!("children: '{text}' is not a task of this workflow");
                return Err(self.error(index, message));
            };
            self.builder.depend(child, TaskId::new(index), 0.0);
        }
        Ok(())
    }
}

/// The task with what one section tells of its run time, demand and command.
fn with_measurements(mut task: Task, text: Measured) -> Result<Task, String> {
    if let Some(seconds) = text.seconds {
        task.work = Work::Seconds(seconds);
    }
    // One core is what a task without a demand of its own needs.
    if let Some(cores) = text.cores.filter(|cores| task.demand.is_some() || *cores != 1.0) {
        task = task.cores(cores);
    }
    if let Some(bytes) = text.memory {
        if !(0.0..1e18).contains(&bytes) {
            return Err(format!("memory is {bytes}; expected a number of bytes from 0 to 1e18"));
        }
        task = task.memory(bytes as u64);
    }
    if !text.command.is_empty() {
        task = task.with_execution(|run| run.command = text.command);
    }
    match text.mdts {
        Some(extension) => with_extension(task, *extension),
        None => Ok(task),
    }
}

fn with_extension(mut task: Task, extension: Extension) -> Result<Task, String> {
    if !extension.times.is_empty() {
        task = task.times(extension.times.0);
    }
    if let Some(gpus) = extension.gpus {
        task = task.gpus(gpus);
    }
    if !extension.resources.is_empty() {
        task = task.with_demand(|d| d.other = extension.resources.0.into_iter().collect());
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
    if let Some(directory) = extension.directory {
        task = task.with_execution(|run| run.directory = Some(directory));
    }
    if !extension.env.is_empty() {
        task = task.with_execution(|run| run.env = extension.env.0);
    }
    if !extension.retry_on.is_empty() || !extension.never_retry_on.is_empty() {
        let failures = |words: Vec<String>| words.iter().map(|word| word.parse()).collect::<Result<_, _>>();
        let (on, never_on) = (failures(extension.retry_on)?, failures(extension.never_retry_on)?);
        task = task.with_execution(|run| run.retry = RetryRule { on, never_on });
    }
    Ok(task)
}
