//! From a job graph to DOT text.

use std::fmt::Display;
use std::io::{self, Write};

use crate::format::pairs::Pairs;
use crate::task::default_kind;
use crate::{Demand, JobGraph, Task, Work};

pub(in crate::format) fn write(job: &JobGraph, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "digraph {} {{", quoted(job.name()))?;
    for task in job.tasks() {
        write!(out, "  {}", quoted(&task.name))?;
        write_list(&attributes(task), out)?;
    }
    for (parent, child, data) in job.dependencies() {
        write!(out, "  {} -> {}", quoted(&job.task(parent).name), quoted(&job.task(child).name))?;
        let bytes = (data.bytes > 0.0).then(|| ("bytes", data.bytes.to_string()));
        write_list(bytes.as_slice(), out)?;
    }
    writeln!(out, "}}")
}

fn write_list(attributes: &[(&'static str, String)], out: &mut impl Write) -> io::Result<()> {
    for (i, (key, value)) in attributes.iter().enumerate() {
        write!(out, "{}{key}={}", if i == 0 { " [" } else { ", " }, quoted(value))?;
    }
    writeln!(out, "{};", if attributes.is_empty() { "" } else { "]" })
}

fn attributes(task: &Task) -> Vec<(&'static str, String)> {
    let mut list = Vec::new();
    match &task.work {
        Work::Unknown => {}
        Work::Seconds(seconds) => list.push(("work", seconds.to_string())),
        Work::PerNode(times) => list.push(("times", pairs(times.iter().map(|(n, t)| (&**n, *t))))),
    }
    if *task.kind != *default_kind(&task.name) {
        list.push(("kind", task.kind.to_string()));
    }
    if let Some(demand) = task.demand.as_deref() {
        add_demand(demand, &mut list);
    }
    if let Some(run) = task.run.as_deref() {
        if !run.command.is_empty() {
            // Texts always have a JSON form.
            list.push(("command", serde_json::to_string(&run.command).unwrap_or_default()));
        }
        if !run.env.is_empty() {
            list.push(("env", serde_json::to_string(&Pairs(run.env.clone())).unwrap_or_default()));
        }
        if let Some(directory) = &run.directory {
            list.push(("directory", directory.clone()));
        }
        if let Some(retries) = run.retries {
            list.push(("retries", retries.to_string()));
        }
        for (key, failures) in [("retry_on", &run.retry.on), ("never_retry_on", &run.retry.never_on)] {
            if !failures.is_empty() {
                list.push((key, failures.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")));
            }
        }
        if let Some(delay) = run.retry_delay {
            list.push(("retry_delay", delay.to_string()));
        }
        if let Some(timeout) = run.timeout {
            list.push(("timeout", timeout.to_string()));
        }
    }
    list
}

fn add_demand(demand: &Demand, list: &mut Vec<(&'static str, String)>) {
    let default = Demand::default();
    add(list, "cores", &demand.cores, &default.cores);
    add(list, "memory", &demand.memory, &default.memory);
    add(list, "gpus", &demand.gpus, &default.gpus);
    add(list, "gang", &demand.gang, &default.gang);
    if !demand.other.is_empty() {
        list.push(("resources", pairs(demand.other.iter().map(|(n, a)| (&**n, *a)))));
    }
}

fn add<T: PartialEq + Display>(
    list: &mut Vec<(&'static str, String)>,
    key: &'static str,
    value: &T,
    default: &T,
) {
    if value != default {
        list.push((key, value.to_string()));
    }
}

/// `a=1,b=2`, or a JSON object where names would not survive that.
fn pairs<'a>(pairs: impl Iterator<Item = (&'a str, f64)> + Clone) -> String {
    let plain = |name: &str| {
        !name.is_empty() && name.trim() == name && !name.contains([',', '=']) && !name.starts_with('{')
    };
    if pairs.clone().all(|(name, _)| plain(name)) && pairs.clone().next().is_some() {
        let parts: Vec<_> = pairs.map(|(name, value)| format!("{name}={value}")).collect();
        return parts.join(",");
    }
    let pairs = Pairs(pairs.map(|(name, value)| (name.to_owned(), value)).collect());
    // Texts and finite numbers always have a JSON form.
    serde_json::to_string(&pairs).unwrap_or_default()
}

/// The text in quotation marks, as the reader and Graphviz take it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}
