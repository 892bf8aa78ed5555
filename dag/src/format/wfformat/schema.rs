//! The parts of a `WfFormat` document that say something about the graph; all else is skipped.

use std::fmt::Display;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::names::{Name, Names};
use crate::format::json::Json;
use crate::format::pairs::Pairs;
use crate::format::{Format, place};
use crate::{Error, FileId, JobGraphBuilder, Result};

/// A list of tasks and how they are named.
pub(super) struct Section {
    pub(super) path: &'static str,
    pub(super) tasks: Vec<TaskText>,
    /// Parents and children of all tasks.
    pub(super) links: Vec<Name>,
    /// What tasks say of their run time, demand and command, of those that do.
    pub(super) measured: Vec<(usize, Measured)>,
}

/// A task of any section and version.
#[derive(Default)]
pub(super) struct TaskText {
    pub(super) name: Option<Name>,
    pub(super) id: Option<Name>,
    pub(super) category: Option<Name>,
    /// Among the links of the section. As many as bytes of a text at most, fewer than 2^32.
    pub(super) parents: Range<u32>,
    pub(super) children: Range<u32>,
    pub(super) inputs: Vec<FileId>,
    pub(super) outputs: Vec<FileId>,
}

/// What one section tells of a task's run time, demand and command.
#[derive(Default, PartialEq)]
pub(super) struct Measured {
    pub(super) seconds: Option<f64>,
    pub(super) cores: Option<f64>,
    pub(super) memory: Option<f64>,
    pub(super) command: Vec<String>,
    pub(super) mdts: Option<Box<Extension>>,
}

/// Members of a task; those of old versions last.
const TASK: [&str; 16] = [
    "name",
    "id",
    "category",
    "parents",
    "children",
    "inputFiles",
    "outputFiles",
    "runtimeInSeconds",
    "coreCount",
    "memoryInBytes",
    "command",
    "mdts",
    "files",
    "runtime",
    "cores",
    "memory",
];

/// Members of a task that was executed and is described in another section.
const EXECUTED: [&str; 10] = [
    "name",
    "id",
    "runtimeInSeconds",
    "coreCount",
    "memoryInBytes",
    "command",
    "mdts",
    "runtime",
    "cores",
    "memory",
];

/// Takes the parts of a document as they come.
pub(super) struct PartReader<'a> {
    builder: &'a mut JobGraphBuilder,
    names: &'a mut Names,
    /// Files of the list at hand.
    files: Vec<FileId>,
}

impl<'a> PartReader<'a> {
    pub(super) fn new(builder: &'a mut JobGraphBuilder, names: &'a mut Names) -> Self {
        Self { builder, names, files: Vec::new() }
    }

    /// Tasks with all that is said of them; null is none.
    pub(super) fn tasks(&mut self, json: &mut Json, path: &'static str) -> Result<Option<Section>> {
        if json.null()? {
            return Ok(None);
        }
        let mut section = Section { path, tasks: Vec::new(), links: Vec::new(), measured: Vec::new() };
        json.list(|json| {
            let index = section.tasks.len();
            let at = Place { path, index };
            // Neighbours often share a name or a category.
            let (task, measured) = self.task(json, &TASK, at, section.tasks.last(), &mut section.links)?;
            section.tasks.push(task);
            if measured != Measured::default() {
                section.measured.push((index, measured));
            }
            Ok(())
        })?;
        Ok(Some(section))
    }

    /// Ids and measurements only, of tasks of which some may be `described` already.
    pub(super) fn executed(
        &mut self,
        json: &mut Json,
        described: &[TaskText],
    ) -> Result<Vec<(Name, Measured)>> {
        let (mut executed, mut index) = (Vec::with_capacity(described.len()), 0);
        if json.null()? {
            return Ok(executed);
        }
        json.list(|json| {
            let at = Place { path: "workflow.execution.tasks", index };
            let like = described.get(index);
            let (task, measured) = self.task(json, &EXECUTED, at, like, &mut Vec::new())?;
            executed.extend(task.id.map(|id| (id, measured)));
            index += 1;
            Ok(())
        })?;
        Ok(executed)
    }

    /// A task with a name or an id. One without either ends the reading at once, so that a list of empty objects
    /// does not become far larger in memory than its text. Its names may be those of the task `like`.
    fn task(
        &mut self,
        json: &mut Json,
        members: &[&'static str],
        at: Place,
        like: Option<&TaskText>,
        links: &mut Vec<Name>,
    ) -> Result<(TaskText, Measured)> {
        let (mut task, mut measured) = (TaskText::default(), Measured::default());
        let (mut seconds, mut cores, mut kilobytes) = (None, None, None); // as old versions say them
        json.object(members, |json, member| {
            if json.null()? {
                return Ok(());
            }
            let mut named = |guess: Option<Name>| Ok(Some(self.names.like(&json.text()?, guess)));
            match member {
                "name" => task.name = named(like.and_then(|task| task.name))?,
                "id" => task.id = named(like.and_then(|task| task.id))?,
                "category" => task.category = named(like.and_then(|task| task.category))?,
                "parents" => task.parents = self.links(json, links)?,
                "children" => task.children = self.links(json, links)?,
                "inputFiles" => self.files_by_name(json, &mut task.inputs)?,
                "outputFiles" => self.files_by_name(json, &mut task.outputs)?,
                "files" => self.linked_files(json, at, &mut task)?,
                "runtimeInSeconds" => measured.seconds = Some(json.number()?),
                "coreCount" => measured.cores = Some(json.number()?),
                "memoryInBytes" => measured.memory = Some(json.number()?),
                "runtime" => seconds = Some(json.number()?),
                "cores" => cores = Some(json.number()?),
                "memory" => kilobytes = Some(json.number()?),
                "command" => measured.command = command(json)?,
                _ => measured.mdts = Some(Box::new(json.parsed()?)),
            }
            Ok(())
        })?;
        if task.name.or(task.id).is_none() {
            return Err(at.error("expected an 'id' or a 'name'"));
        }
        measured.seconds = measured.seconds.or(seconds);
        measured.cores = measured.cores.or(cores);
        measured.memory = measured.memory.or(kilobytes.map(|kilobytes: f64| kilobytes * 1000.0));
        task.inputs.shrink_to_fit();
        task.outputs.shrink_to_fit();
        Ok((task, measured))
    }

    fn links(&mut self, json: &mut Json, links: &mut Vec<Name>) -> Result<Range<u32>> {
        let begin = links.len() as u32;
        json.list(|json| {
            links.push(self.names.of(&json.text()?));
            Ok(())
        })?;
        Ok(begin..links.len() as u32)
    }

    fn files_by_name(&mut self, json: &mut Json, files: &mut Vec<FileId>) -> Result<()> {
        self.files.clear();
        json.list(|json| {
            self.files.push(self.builder.file(&json.text()?, 0.0)?);
            Ok(())
        })?;
        files.reserve_exact(self.files.len());
        files.extend(&self.files);
        Ok(())
    }

    /// Files as versions up to 1.4 name them, inside the task.
    fn linked_files(&mut self, json: &mut Json, at: Place, task: &mut TaskText) -> Result<()> {
        let mut text = String::new();
        json.list(|json| {
            let file = FileText::read(json, &mut text)?;
            let Some(name) = file.name.or(file.id) else {
                return Err(at.error("a file has no 'name'"));
            };
            let list = match file.link {
                Some("input") => &mut task.inputs,
                Some("output") => &mut task.outputs,
                other => {
                    let found = other.unwrap_or_default();
                    let message = format!("link of file '{name}' is '{found}'; expected 'input' or 'output'");
                    return Err(at.error(message));
                }
            };
            list.push(self.builder.file(name, file.bytes)?);
            Ok(())
        })
    }

    /// The files of a specification; null is none.
    pub(super) fn files(&mut self, json: &mut Json) -> Result<()> {
        if json.null()? {
            return Ok(());
        }
        let (mut index, mut text) = (0, String::new());
        json.list(|json| {
            let file = FileText::read(json, &mut text)?;
            let Some(name) = file.id.or(file.name) else {
                return Err(Place { path: "workflow.specification.files", index }.error("expected an 'id'"));
            };
            index += 1;
            self.builder.file(name, file.bytes).map(drop)
        })
    }
}

struct FileText<'a> {
    id: Option<&'a str>,
    /// Versions up to 1.4.
    name: Option<&'a str>,
    link: Option<&'a str>,
    /// 0 when unknown.
    bytes: f64,
}

impl<'a> FileText<'a> {
    /// Keeps its texts in `text`.
    fn read(json: &mut Json, text: &'a mut String) -> Result<Self> {
        let (mut id, mut name, mut link) = (None, None, None);
        let (mut bytes, mut old_bytes) = (None, None); // versions up to 1.3 say 'size'
        text.clear();
        json.object(&["id", "sizeInBytes", "name", "link", "size"], |json, member| {
            if json.null()? {
                return Ok(());
            }
            let place = match member {
                "id" => &mut id,
                "name" => &mut name,
                "link" => &mut link,
                "sizeInBytes" => return json.number().map(|number| bytes = Some(number)),
                _ => return json.number().map(|number| old_bytes = Some(number)),
            };
            let begin = text.len();
            text.push_str(&json.text()?);
            *place = Some(begin..text.len());
            Ok(())
        })?;
        let of = |place: Option<Range<usize>>| place.map(|place| &text[place]);
        Ok(Self { id: of(id), name: of(name), link: of(link), bytes: bytes.or(old_bytes).unwrap_or(0.0) })
    }
}

/// Program and arguments; empty if there is neither.
fn command(json: &mut Json) -> Result<Vec<String>> {
    let (mut program, mut arguments) = (String::new(), Vec::new());
    json.object(&["program", "arguments"], |json, member| {
        if json.null()? {
            return Ok(());
        }
        if member == "program" {
            program = json.text()?.into_owned();
            return Ok(());
        }
        json.list(|json| {
            arguments.push(json.text()?.into_owned());
            Ok(())
        })
    })?;
    if program.is_empty() && arguments.is_empty() {
        return Ok(Vec::new());
    }
    arguments.reserve_exact(1);
    arguments.insert(0, program);
    arguments.shrink_to_fit();
    Ok(arguments)
}

/// A task or file in the document.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) path: &'static str,
    pub(super) index: usize,
}

impl Place {
    pub(super) fn error(self, message: impl Display) -> Error {
        place::error(Format::WfFormat, format!("{}[{}]", self.path, self.index), message)
    }
}

/// What `WfFormat` has no words for: an object `mdts` in a task's execution that other readers skip.
#[derive(Serialize, Deserialize, Default, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Extension {
    #[serde(skip_serializing_if = "Pairs::is_empty")]
    pub(super) times: Pairs<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gpus: Option<f64>,
    #[serde(skip_serializing_if = "Pairs::is_empty")]
    pub(super) resources: Pairs<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gang: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retries: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) retry_on: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) never_retry_on: Vec<String>,
    #[serde(skip_serializing_if = "Pairs::is_empty")]
    pub(super) env: Pairs<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<f64>,
}
