//! The checks that every job graph has passed.

use petgraph::graph::{DiGraph, NodeIndex};

use crate::builder::Settled;
use crate::{Dependency, Error, JobGraph, Result, Task, Work};

/// Checks numbers, then cycles, of all that is not settled: no settled task depends on one that is not. O(tasks + dependencies)
/// that are not settled, and a byte per task.
pub(crate) fn validate(job: &JobGraph, settled: Settled) -> Result<()> {
    if job.petgraph().node_count() == 0 {
        return Err(Error::Empty);
    }
    for task in job.tasks().skip(settled.tasks) {
        check_task(task)?;
    }
    for file in &job.files()[settled.files..] {
        at_least_zero(file.bytes, "size in bytes", || format!("file '{}'", file.name))?;
    }
    for (parent, child, dependency) in job.dependencies().skip(settled.dependencies) {
        at_least_zero(dependency.direct, "bytes", || {
            format!("dependency '{}' -> '{}'", job.task(parent).name, job.task(child).name)
        })?;
    }
    match find_cycle(job.petgraph(), settled.tasks) {
        None => Ok(()),
        Some(cycle) => {
            let tasks = cycle.into_iter().map(|n| job.petgraph()[n].name.to_string()).collect();
            Err(Error::Cycle { tasks })
        }
    }
}

pub(crate) fn check_task(task: &Task) -> Result<()> {
    let place = || format!("task '{}'", task.name);
    match &task.work {
        Work::Unknown => {}
        Work::Seconds(seconds) => at_least_zero(*seconds, "work in seconds", place)?,
        Work::PerNode(times) => {
            for (node, time) in times {
                at_least_zero(*time, "time in seconds", || format!("task '{}' on '{node}'", task.name))?;
            }
        }
    }
    if let Some(demand) = task.demand.as_deref() {
        at_least_zero(demand.cores, "cores", place)?;
        at_least_zero(demand.gpus, "gpus", place)?;
        for (name, amount) in &demand.other {
            at_least_zero(*amount, "resource", || format!("task '{}', resource '{name}'", task.name))?;
        }
        if demand.gang == 0 {
            let expected = "a number of nodes, at least 1";
            return Err(Error::BadNumber { place: place(), what: "gang", value: 0.0, expected });
        }
    }
    if let Some(delay) = task.run.as_deref().and_then(|run| run.retry_delay) {
        at_least_zero(delay, "retry_delay", place)?;
    }
    if let Some(timeout) = task.run.as_deref().and_then(|run| run.timeout)
        && (timeout.is_nan() || timeout <= 0.0)
    {
        let expected = "a positive number of seconds";
        return Err(Error::BadNumber { place: place(), what: "timeout", value: timeout, expected });
    }
    Ok(())
}

/// The largest number of seconds, bytes or units accepted; sums of a million of them stay exact enough.
const LARGEST: f64 = 1e18;

fn at_least_zero(value: f64, what: &'static str, place: impl FnOnce() -> String) -> Result<()> {
    if (0.0..=LARGEST).contains(&value) {
        return Ok(());
    }
    Err(Error::BadNumber { place: place(), what, value, expected: "a number from 0 to 1e18" })
}

/// A cycle in the order of its edges, found by an iterative depth-first search with three colours.
fn find_cycle(graph: &DiGraph<Task, Dependency, u32>, settled: usize) -> Option<Vec<NodeIndex<u32>>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Colour {
        White,
        OnPath,
        Done,
    }
    let mut colour = vec![Colour::White; graph.node_count()];
    let mut path = Vec::new();
    for root in graph.node_indices().skip(settled) {
        if colour[root.index()] != Colour::White {
            continue;
        }
        colour[root.index()] = Colour::OnPath;
        path.push((root, graph.neighbors(root).detach()));
        while let Some((node, walker)) = path.last_mut() {
            let Some(child) = walker.next_node(graph) else {
                colour[node.index()] = Colour::Done;
                path.pop();
                continue;
            };
            match colour[child.index()] {
                Colour::Done => {}
                Colour::White => {
                    colour[child.index()] = Colour::OnPath;
                    path.push((child, graph.neighbors(child).detach()));
                }
                Colour::OnPath => {
                    let from = path.iter().position(|(n, _)| *n == child).unwrap_or(0);
                    return Some(path[from..].iter().map(|(n, _)| *n).collect());
                }
            }
        }
    }
    None
}
