//! The own workflow as text holds it.

use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::keys::{Key, KeySet};
use super::values::{Bytes, Command, Failures, Memory, Names, Seconds, Text};
use crate::format::pairs::Pairs;

/// The whole file.
#[derive(Default, Serialize)]
pub(super) struct WorkflowText {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) infer_parents: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files: Option<Pairs<Bytes>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tasks: Option<Vec<TaskText>>,
}

/// One task.
#[derive(Default, Serialize)]
pub(super) struct TaskText {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) work: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) times: Option<Pairs<Seconds>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cores: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Memory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resources: Option<Pairs<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gang: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<Names>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) needs: Option<Pairs<Bytes>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<Command>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inputs: Option<Names>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outputs: Option<Names>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) env: Option<Pairs<Text>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_on: Option<Failures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) never_retry_on: Option<Failures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_delay: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<Seconds>,
}

/// Reads a map into the optional fields of a struct; every key at most once.
macro_rules! read_fields {
    ($text:ident, $owner:literal, [$($field:ident),+]) => {
        impl KeySet for $text {
            const OWNER: &'static str = $owner;
            const KEYS: &'static [&'static str] = &[$(stringify!($field)),+];
        }

        impl<'de> Deserialize<'de> for $text {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;

                impl<'de> Visitor<'de> for Fields {
                    type Value = $text;

                    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                        write!(f, "a {} with keys such as {}", $owner, <$text>::KEYS[..3].join(", "))
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$text, A::Error> {
                        let mut text = $text::default();
                        while let Some(Key::<$text> { name, .. }) = map.next_key()? {
                            match name {
                                $(stringify!($field) => read_once(&mut text.$field, name, &mut map)?,)+
                                _ => return Err(A::Error::unknown_field(name, <$text>::KEYS)),
                            }
                        }
                        Ok(text)
                    }
                }

                deserializer.deserialize_map(Fields)
            }
        }
    };
}

fn read_once<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    field: &mut Option<T>,
    name: &'static str,
    map: &mut A,
) -> Result<(), A::Error> {
    if field.is_some() {
        return Err(A::Error::custom(format_args!("key '{name}' is given twice")));
    }
    *field = map.next_value()?;
    Ok(())
}

read_fields!(WorkflowText, "workflow", [tasks, name, files, infer_parents]);
read_fields!(
    TaskText,
    "task",
    [
        name,
        kind,
        work,
        times,
        cores,
        memory,
        gpus,
        resources,
        gang,
        after,
        needs,
        command,
        inputs,
        outputs,
        env,
        directory,
        retries,
        retry_on,
        never_retry_on,
        retry_delay,
        timeout
    ]
);
