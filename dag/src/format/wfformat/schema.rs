//! The parts of a `WfFormat` document that say something about the graph; all else is skipped.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::format::pairs::Pairs;

/// A text that is borrowed from the document unless it holds escapes.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[derive(Deserialize)]
pub(super) struct Document<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) workflow: Workflow<'a>,
}

#[derive(Deserialize)]
pub(super) struct Workflow<'a> {
    #[serde(borrow)]
    pub(super) specification: Option<Specification<'a>>,
    #[serde(borrow)]
    pub(super) execution: Option<Execution<'a>>,
    /// Versions up to 1.4.
    #[serde(borrow, alias = "jobs")]
    pub(super) tasks: Option<Tasks<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Specification<'a> {
    #[serde(borrow)]
    pub(super) tasks: Tasks<'a>,
    #[serde(borrow)]
    pub(super) files: Option<Vec<FileText<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct Execution<'a> {
    #[serde(borrow)]
    pub(super) tasks: Option<Tasks<'a>>,
}

/// A list of tasks, each with a name or an id. One without either ends the reading at once, so that a list of
/// empty objects does not become far larger in memory than its text.
#[derive(Default)]
pub(super) struct Tasks<'a>(pub(super) Vec<TaskText<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Tasks<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Vec<TaskText<'de>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of tasks")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut tasks: Self::Value = Vec::new();
                while let Some(task) = items.next_element::<TaskText<'de>>()? {
                    if task.name.is_none() && task.id.is_none() {
                        let message = format!("tasks[{}]: expected an 'id' or a 'name'", tasks.len());
                        return Err(de::Error::custom(message));
                    }
                    tasks.push(task);
                }
                Ok(tasks)
            }
        }

        deserializer.deserialize_seq(List).map(Tasks)
    }
}

/// A task of any section and version: what one leaves out is `None`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskText<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) category: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) parents: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    pub(super) children: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    pub(super) input_files: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    pub(super) output_files: Option<Vec<Text<'a>>>,
    /// Versions up to 1.4.
    #[serde(borrow)]
    pub(super) files: Option<Vec<FileText<'a>>>,
    pub(super) runtime_in_seconds: Option<f64>,
    /// Seconds; versions up to 1.3.
    pub(super) runtime: Option<f64>,
    pub(super) core_count: Option<f64>,
    /// Versions up to 1.4.
    pub(super) cores: Option<f64>,
    pub(super) memory_in_bytes: Option<f64>,
    /// Thousands of bytes; versions up to 1.3.
    pub(super) memory: Option<f64>,
    #[serde(borrow)]
    pub(super) command: Option<Command<'a>>,
    pub(super) mdts: Option<Box<Extension>>,
}

#[derive(Deserialize)]
pub(super) struct Command<'a> {
    #[serde(borrow)]
    pub(super) program: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<Vec<Text<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileText<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    /// Versions up to 1.4.
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) link: Option<Text<'a>>,
    pub(super) size_in_bytes: Option<f64>,
    /// Bytes; versions up to 1.3.
    pub(super) size: Option<f64>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<f64>,
}
