//! What the attributes of nodes and edges mean.

use std::sync::Arc;

use crate::format::pairs::Pairs;
use crate::units::{parse_bytes, parse_seconds};
use crate::{Demand, Execution, Failing, Task, Work};

/// Operations per second of a node of speed 1, for `size`.
const OPERATIONS: f64 = 1e9;

/// A number that several attributes may give; the one of the lowest rank counts.
#[derive(Debug, Clone, Copy, Default)]
struct Ranked(Option<(u8, f64)>);

impl Ranked {
    fn set(&mut self, rank: u8, value: f64) {
        if self.0.is_none_or(|(known, _)| rank <= known) {
            self.0 = Some((rank, value));
        }
    }

    fn value(self) -> Option<f64> {
        self.0.map(|(_, value)| value)
    }
}

/// What is known of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeAttributes {
    work: Ranked,
    times: Option<Vec<(String, f64)>>,
    kind: Option<(u8, Arc<str>)>,
    demand: Option<Arc<Demand>>,
    run: Option<Box<Execution>>,
}

impl NodeAttributes {
    /// Takes up one attribute; those without meaning are skipped.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "work" => self.work.set(0, parse_seconds(value)?),
            "runtime" => self.work.set(1, parse_seconds(value)?),
            "weight" => self.work.set(2, parse_seconds(value)?),
            "size" => self.work.set(3, number(value)? / OPERATIONS),
            "times" => self.times = Some(pairs(value)?),
            "kind" => self.kind = Some((0, value.into())),
            "category" if self.kind.as_ref().is_none_or(|(rank, _)| *rank > 0) => {
                self.kind = Some((1, value.into()));
            }
            "cores" => self.demand().cores = number(value)?,
            "memory" => self.demand().memory = memory(value)?,
            "gpus" => self.demand().gpus = number(value)?,
            "gang" => self.demand().gang = whole(value)?,
            "resources" => self.demand().other = pairs(value)?.into_iter().collect(),
            "command" => self.run().command = command(value),
            "retries" => self.run().retries = Some(whole(value)?),
            "retry_on" => self.run().retry.on = failures(value)?,
            "never_retry_on" => self.run().retry.never_on = failures(value)?,
            "env" => self.run().env = env(value)?,
            "directory" => self.run().directory = Some(value.to_owned()),
            "retry_delay" => self.run().retry_delay = Some(parse_seconds(value)?),
            "timeout" => self.run().timeout = Some(parse_seconds(value)?),
            _ => {}
        }
        Ok(())
    }

    /// As [`NodeAttributes::set`], for attributes that all later nodes get: long values are not to be multiplied.
    pub(super) fn set_default(&mut self, key: &str, value: &str) -> Result<(), String> {
        const LONGEST: usize = 256;
        let long = matches!(
            key,
            "times"
                | "resources"
                | "command"
                | "kind"
                | "category"
                | "env"
                | "directory"
                | "retry_on"
                | "never_retry_on"
        ) && value.len() > LONGEST;
        if long {
            return Err(format!("a default {key} may have {LONGEST} bytes at most; give it to each node"));
        }
        self.set(key, value)
    }

    fn demand(&mut self) -> &mut Demand {
        Arc::make_mut(self.demand.get_or_insert_default())
    }

    fn run(&mut self) -> &mut Execution {
        self.run.get_or_insert_default()
    }

    pub(super) fn into_task(self, name: &str) -> Task {
        let mut task = Task::new(name);
        task.work = match (self.times, self.work.value()) {
            (Some(times), _) => {
                Work::PerNode(times.into_iter().map(|(node, time)| (node.into(), time)).collect())
            }
            (None, Some(seconds)) => Work::Seconds(seconds),
            (None, None) => Work::Unknown,
        };
        if let Some((_, kind)) = self.kind {
            task.kind = kind;
        }
        task.demand = self.demand;
        task.run = self.run;
        task
    }
}

/// What is known of an edge.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EdgeAttributes {
    bytes: Ranked,
}

impl EdgeAttributes {
    /// Takes up one attribute; those without meaning are skipped.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let rank = match key {
            "bytes" => 0,
            "size" => 1,
            "data" => 2,
            "weight" => 3,
            _ => return Ok(()),
        };
        self.bytes.set(rank, parse_bytes(value)?);
        Ok(())
    }

    pub(super) fn bytes(self) -> f64 {
        self.bytes.value().unwrap_or(0.0)
    }
}

fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("'{text}' is not a number"))
}

fn whole(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("'{text}' is not a whole number"))
}

fn memory(text: &str) -> Result<u64, String> {
    if let Ok(bytes) = text.trim().parse() {
        return Ok(bytes);
    }
    let bytes = parse_bytes(text)?;
    if !(0.0..=1e18).contains(&bytes) {
        return Err(format!("'{text}' is out of range; expected 0 to 1e18 bytes"));
    }
    Ok(bytes as u64)
}

/// `a=1,b=2`, or a JSON object for names that hold other characters.
fn pairs(text: &str) -> Result<Vec<(String, f64)>, String> {
    if text.trim_start().starts_with('{') {
        let Pairs(pairs) = serde_json::from_str(text).map_err(|e| format!("'{text}': {e}"))?;
        return Ok(pairs);
    }
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    parts.map(|part| pair(part).ok_or_else(|| format!("'{part}' is not like name=1.5"))).collect()
}

/// Ways to fail, with commas between them.
fn failures(text: &str) -> Result<Vec<Failing>, String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::parse).collect()
}

/// A JSON object of texts.
fn env(text: &str) -> Result<Vec<(String, String)>, String> {
    let Pairs(variables) = serde_json::from_str(text).map_err(|e| format!("env: '{text}': {e}"))?;
    Ok(variables)
}

/// A JSON list of program and arguments, or a text for the shell.
fn command(text: &str) -> Vec<String> {
    // `[ -e file ] && ...` is for the shell.
    serde_json::from_str(text).unwrap_or_else(|_| ["sh", "-c", text].map(String::from).into())
}
