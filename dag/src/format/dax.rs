//! Pegasus DAX (abstract workflow in XML), versions 2.1 to 3.6.
//!
//! Source: the Pegasus DAX schema. `<job id name runtime>` is a task named by its id whose kind is the job's name;
//! `<uses file|name link size>` in it are its files; `<child ref><parent ref/></child>` are the dependencies. A
//! `runtime` (and `cores`, `gpus`, `memory` in megabytes) may also come as `<profile key="...">` or `<metadata>`, a
//! file's `size` as `<metadata>` in its `<uses>`. All other elements are skipped. Prefixes of namespaces do not
//! matter. Negative run times and sizes count as 0, with a warning: the generator that most DAX files in circulation
//! come from draws them from normal distributions and cuts off nothing. Documents that declare a document type or
//! use entities of their own are refused.
//!
//! One pass over the text; linear.

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader as XmlReader, XmlVersion};

use super::{Format, place};
use crate::{Error, JobGraph, JobGraphBuilder, Result, Task};

/// Deeper nesting than any DAX has.
const DEPTH: usize = 64;

/// Longer than any tag of a DAX: attributes are compared in pairs, which may not take for ever.
const ELEMENT: usize = 1 << 16;

pub(super) fn read(text: &str, name: &str) -> Result<JobGraph> {
    let mut reader = Reader {
        text,
        xml: XmlReader::from_str(text),
        at: 0,
        job: JobGraph::builder(name),
        open: Vec::new(),
        seen_root: false,
        task: None,
        uses: None,
        child: None,
        key: None,
        value: String::new(),
        children: Vec::new(),
        negative: 0,
    };
    while reader.step()? {}
    reader.finish()
}

struct Reader<'a> {
    text: &'a str,
    xml: XmlReader<&'a [u8]>,
    /// Where the current event begins.
    at: usize,
    job: JobGraphBuilder,
    /// Local names of the open elements.
    open: Vec<String>,
    seen_root: bool,
    /// The open `<job>`.
    task: Option<Task>,
    /// The open `<uses>` in it.
    uses: Option<Uses>,
    /// The open `<child>`.
    child: Option<Child>,
    /// The `key` of the open `<profile>` or `<metadata>`, whose text is collected in `value`.
    key: Option<String>,
    value: String,
    /// Those with a parent, resolved when all jobs are known.
    children: Vec<Child>,
    /// How many negative run times and sizes were found.
    negative: usize,
}

/// A `<child ref>` with the offset of its first parent.
struct Child {
    at: usize,
    name: String,
    parents: Vec<String>,
}

struct Uses {
    name: Option<String>,
    link: Option<String>,
    bytes: Option<f64>,
}

impl Reader<'_> {
    fn error(&self, message: impl std::fmt::Display) -> Error {
        place::error_at(Format::Dax, self.text, self.at, message)
    }

    /// Handles one event; `false` at the end of the text.
    fn step(&mut self) -> Result<bool> {
        self.at = self.xml.buffer_position() as usize;
        let event = self.xml.read_event().map_err(|e| {
            self.at = self.xml.error_position() as usize;
            self.error(e)
        })?;
        match event {
            Event::Start(element) => self.start(&element)?,
            Event::Empty(element) => {
                self.start(&element)?;
                self.end()?;
            }
            Event::End(_) => self.end()?,
            Event::Text(text) => self.collect(&text),
            Event::CData(text) => self.collect(&text),
            Event::GeneralRef(reference) => {
                let text = format!("&{};", &*reference);
                let value = quick_xml::escape::unescape(&text).map_err(|e| self.error(e))?;
                self.collect(&value);
            }
            Event::DocType(_) => {
                return Err(self.error(
                    "a document type is declared; remove the <!DOCTYPE ...>, entities of a document's own are refused",
                ));
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof => return Ok(false),
        }
        Ok(true)
    }

    fn collect(&mut self, text: &str) {
        if self.key.is_some() {
            self.value += text;
        }
    }

    fn start(&mut self, element: &BytesStart<'_>) -> Result<()> {
        let name = element.local_name().as_ref().to_owned();
        if self.open.is_empty() && (self.seen_root || name != "adag") {
            return Err(self.error(format!("element <{name}>; expected one <adag> that holds the workflow")));
        }
        if self.open.len() >= DEPTH {
            return Err(self.error(format!("elements are nested deeper than {DEPTH}")));
        }
        match (&*name, self.open.len()) {
            ("adag", 0) => {
                self.seen_root = true;
                if let Some(name) = self.attribute(element, "name")? {
                    self.job.rename(name);
                }
            }
            ("job" | "dax" | "dag", 1) => self.start_job(element)?,
            ("child", 1) => {
                let name = self.required(element, "ref")?;
                self.child = Some(Child { at: 0, name, parents: Vec::new() });
            }
            ("parent", 2) if self.child.is_some() => self.start_parent(element)?,
            ("uses", 2) if self.task.is_some() => self.start_uses(element)?,
            ("file", 3) => self.start_nested_file(element)?,
            ("profile" | "metadata", _) if self.task.is_some() => {
                self.key = self.attribute(element, "key")?;
                self.value.clear();
            }
            _ => {}
        }
        self.open.push(name);
        Ok(())
    }

    fn start_job(&mut self, element: &BytesStart<'_>) -> Result<()> {
        let mut task = Task::new(self.required(element, "id")?);
        if let Some(kind) = self.attribute(element, "name")? {
            task = task.kind(kind);
        }
        if let Some(runtime) = self.attribute(element, "runtime")? {
            task = task.seconds(self.amount(&runtime, "runtime")?);
        }
        self.task = Some(task);
        Ok(())
    }

    fn start_parent(&mut self, element: &BytesStart<'_>) -> Result<()> {
        let parent = self.required(element, "ref")?;
        if let Some(child) = &mut self.child {
            if child.parents.is_empty() {
                child.at = self.at;
            }
            child.parents.push(parent);
        }
        Ok(())
    }

    fn start_uses(&mut self, element: &BytesStart<'_>) -> Result<()> {
        let name = match self.attribute(element, "file")? {
            Some(name) => Some(name),
            None => self.attribute(element, "name")?,
        };
        let link = self.attribute(element, "link")?;
        let size = self.attribute(element, "size")?;
        let bytes = size.map(|size| self.amount(&size, "size")).transpose()?;
        self.uses = Some(Uses { name, link, bytes });
        Ok(())
    }

    /// A `<file>` in a `<uses>`.
    fn start_nested_file(&mut self, element: &BytesStart<'_>) -> Result<()> {
        let name = self.attribute(element, "name")?;
        let size = self.attribute(element, "size")?;
        let bytes = size.map(|size| self.amount(&size, "size")).transpose()?;
        if let Some(uses) = &mut self.uses {
            uses.name = name.or(uses.name.take());
            uses.bytes = bytes.or(uses.bytes);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let Some(name) = self.open.pop() else {
            return Ok(()); // the XML reader has checked that ends match starts
        };
        match (&*name, self.open.len()) {
            ("job" | "dax" | "dag", 1) => {
                if let Some(task) = self.task.take() {
                    self.job.task(task)?;
                }
            }
            ("uses", 2) => self.end_uses()?,
            ("profile" | "metadata", _) => self.end_value()?,
            ("child", 1) => self.children.extend(self.child.take().filter(|child| !child.parents.is_empty())),
            _ => {}
        }
        Ok(())
    }

    fn end_uses(&mut self) -> Result<()> {
        let (Some(uses), Some(task)) = (self.uses.take(), self.task.as_mut()) else {
            return Ok(());
        };
        let Some(name) = uses.name else {
            return Err(self.error("<uses> names no file; expected an attribute 'file' or 'name'"));
        };
        let file = self.job.file(&name, uses.bytes.unwrap_or(0.0))?;
        match uses.link.as_deref() {
            Some("input") => task.inputs.push(file),
            Some("output") => task.outputs.push(file),
            Some("inout") => {
                task.inputs.push(file);
                task.outputs.push(file);
            }
            // Executables and checkpoints are not data of the graph.
            _ => {}
        }
        Ok(())
    }

    /// The text of a `<profile>` or `<metadata>` is complete.
    fn end_value(&mut self) -> Result<()> {
        let (Some(key), Some(task)) = (self.key.take(), self.task.take()) else {
            return Ok(());
        };
        let text = std::mem::take(&mut self.value);
        let value = text.trim();
        let task = match (&*key, &mut self.uses) {
            ("size", Some(_)) => {
                let bytes = self.amount(value, "size")?;
                if let Some(uses) = &mut self.uses {
                    uses.bytes = Some(bytes);
                }
                task
            }
            ("runtime", None) if task.work == crate::Work::Unknown => {
                task.seconds(self.amount(value, "runtime")?)
            }
            ("cores", None) => task.cores(self.number(value, "cores")?),
            ("gpus", None) => task.gpus(self.number(value, "gpus")?),
            ("memory", None) => {
                let megabytes = self.number(value, "memory")?;
                if !(0.0..=1e12).contains(&megabytes) {
                    return Err(self.error(format!("memory is {value}; expected megabytes from 0 to 1e12")));
                }
                task.memory((megabytes * 1e6) as u64)
            }
            _ => task,
        };
        self.task = Some(task);
        Ok(())
    }

    fn finish(mut self) -> Result<JobGraph> {
        self.at = self.text.len();
        if let Some(open) = self.open.last() {
            return Err(self.error(format!("the text ends inside <{open}>; expected </{open}>")));
        }
        if !self.seen_root {
            return Err(self.error("there is no element <adag>"));
        }
        if self.negative > 0 {
            tracing::warn!(count = self.negative, "negative run times or sizes in a DAX file taken as 0");
        }
        for child in std::mem::take(&mut self.children) {
            let Some(id) = self.job.find(&child.name) else {
                self.at = child.at;
                return Err(self.error(format!("<child ref=\"{}\"> is not the id of a job", child.name)));
            };
            for parent in child.parents {
                self.job.depend_on(id, &parent, 0.0);
            }
        }
        self.job.build()
    }

    fn required(&self, element: &BytesStart<'_>, name: &str) -> Result<String> {
        self.attribute(element, name)?.ok_or_else(|| {
            let element = element.local_name();
            self.error(format!("<{}> has no attribute '{name}'", element.as_ref()))
        })
    }

    /// The attribute of this local name, with its predefined entities resolved.
    fn attribute(&self, element: &BytesStart<'_>, name: &str) -> Result<Option<String>> {
        if element.len() > ELEMENT {
            return Err(self.error(format!("a tag is longer than {ELEMENT} bytes")));
        }
        for attribute in element.attributes() {
            let attribute = attribute.map_err(|e| self.error(e))?;
            if attribute.key.local_name().as_ref() == name {
                let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|e| self.error(e))?;
                return Ok(Some(value.into_owned()));
            }
        }
        Ok(None)
    }

    /// A number of which negative ones count as 0.
    fn amount(&mut self, text: &str, what: &str) -> Result<f64> {
        let amount = self.number(text, what)?;
        if amount < 0.0 {
            self.negative += 1;
            return Ok(0.0);
        }
        Ok(amount)
    }

    fn number(&self, text: &str, what: &str) -> Result<f64> {
        text.trim().parse().map_err(|_| self.error(format!("{what} is '{text}'; expected a number")))
    }
}
