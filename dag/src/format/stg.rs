//! The standard task graph set: identical machines, no data, whole-number times.
//!
//! Source: T. Tobita, H. Kasahara, "A standard task graph set for fair evaluation of multiprocessor scheduling
//! algorithms", J. Scheduling 5(5), 2002. The first number is the number of tasks n; each row then holds a task's
//! number, its time, its number of predecessors and these. Files of the set have two dummy tasks of time 0 besides,
//! 0 (entry) and n + 1 (exit), which are dropped together with their edges; files with exactly n rows have none.
//! `#` begins a comment. Tasks are named by their numbers and have the kind `task`. Times may have fractions.

use std::io::{self, Write};
use std::str::FromStr;

use rustc_hash::FxHashMap;

use super::{Format, place};
use crate::{Error, JobGraph, Result, Task, TaskId, Work};

struct Row {
    line: usize,
    number: u32,
    time: f64,
    parents: Vec<u32>,
}

/// Linear in the text.
pub(super) fn read(text: &str, name: &str) -> Result<JobGraph> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.split('#').next().unwrap_or_default()))
        .filter(|(_, line)| !line.trim().is_empty());
    let (line, first) = lines.next().ok_or(Error::Empty)?;
    let mut first = first.split_ascii_whitespace();
    let count: u32 = number(first.next(), line, "the number of tasks")?;
    if let Some(extra) = first.next() {
        return Err(error(
            line,
            format!("'{extra}' follows the number of tasks; expected the first row on a new line"),
        ));
    }
    let rows = lines.map(|(line, text)| row(line, text)).collect::<Result<Vec<_>>>()?;
    let dummies = has_dummies(count, &rows)?;
    build(name, &rows, |number| dummies && (number == 0 || number == count + 1))
}

fn row(line: usize, text: &str) -> Result<Row> {
    let mut words = text.split_ascii_whitespace();
    let task = number(words.next(), line, "a task number")?;
    let time = number(words.next(), line, "a processing time")?;
    let expected: usize = number(words.next(), line, "the number of predecessors")?;
    let parents = words.map(|word| number(Some(word), line, "a predecessor")).collect::<Result<Vec<_>>>()?;
    if parents.len() != expected {
        let message = format!("task {task} has {} predecessors; its row announces {expected}", parents.len());
        return Err(error(line, message));
    }
    Ok(Row { line, number: task, time, parents })
}

/// Whether entry and exit dummies are among the rows, of which there must be n or n + 2.
fn has_dummies(count: u32, rows: &[Row]) -> Result<bool> {
    let found = rows.len() as u64;
    if found == u64::from(count) {
        return Ok(false);
    }
    if found != u64::from(count) + 2 {
        let line = rows.last().map_or(1, |row| row.line);
        let message = format!(
            "the file ends after {found} rows; expected {count}, or {} with the two dummy tasks",
            u64::from(count) + 2
        );
        return Err(error(line, message));
    }
    match rows.iter().find(|row| (row.number == 0 || row.number == count + 1) && row.time != 0.0) {
        None => Ok(true),
        Some(row) => {
            let message = format!("dummy task {} has time {}; expected 0", row.number, row.time);
            Err(error(row.line, message))
        }
    }
}

fn build(name: &str, rows: &[Row], is_dummy: impl Fn(u32) -> bool) -> Result<JobGraph> {
    let mut job = JobGraph::builder(name);
    let mut ids: FxHashMap<u32, TaskId> = FxHashMap::default();
    for row in rows.iter().filter(|row| !is_dummy(row.number)) {
        let id = job.task(Task::new(row.number.to_string()).kind("task").seconds(row.time))?;
        ids.insert(row.number, id);
    }
    for row in rows.iter().filter(|row| !is_dummy(row.number)) {
        for parent in row.parents.iter().filter(|parent| !is_dummy(**parent)) {
            let Some(parent) = ids.get(parent) else {
                let message =
                    format!("predecessor {parent} of task {} is not a task of this file", row.number);
                return Err(error(row.line, message));
            };
            job.depend(ids[&row.number], *parent, 0.0);
        }
    }
    job.build()
}

fn number<T: FromStr>(word: Option<&str>, line: usize, what: &str) -> Result<T> {
    let Some(word) = word else {
        return Err(error(line, format!("the line ends where {what} was expected")));
    };
    word.parse().map_err(|_| error(line, format!("'{word}' where {what} was expected")))
}

fn error(line: usize, message: String) -> Error {
    place::error(Format::Stg, format!("line {line}"), message)
}

/// The run times of all tasks, which STG demands.
pub(super) fn times(job: &JobGraph) -> Result<Vec<f64>> {
    let seconds = |task: &Task| {
        if let Work::Seconds(seconds) = task.work {
            return Ok(seconds);
        }
        let message = "has no single run time; STG needs one, the own format (.yaml) does not";
        Err(place::error(Format::Stg, format!("task '{}'", task.name), message))
    };
    job.tasks().map(seconds).collect()
}

/// Writes times and dependencies with the two dummy tasks; names, bytes, files and demands are lost.
///
/// Tasks are numbered from 1 in the order of their ids.
pub(super) fn write(job: &JobGraph, times: &[f64], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", job.len())?;
    writeln!(out, "0 0 0")?;
    for (id, time) in job.task_ids().zip(times) {
        let parents: Vec<_> = job.parents(id).map(|p| p.index() + 1).collect();
        write!(out, "{} {time}", id.index() + 1)?;
        write_parents(if parents.is_empty() { &[0] } else { &parents }, out)?;
    }
    let last: Vec<_> =
        job.task_ids().filter(|id| job.children(*id).next().is_none()).map(|id| id.index() + 1).collect();
    write!(out, "{} 0", job.len() + 1)?;
    write_parents(&last, out)
}

fn write_parents(parents: &[usize], out: &mut impl Write) -> io::Result<()> {
    write!(out, " {}", parents.len())?;
    for parent in parents {
        write!(out, " {parent}")?;
    }
    writeln!(out)
}
