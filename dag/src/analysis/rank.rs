//! Upward rank, downward rank and the critical path.
//!
//! ```text
//! up(t)   = w(t) + max over children c of (x(t, c) + up(c))      longest way from t's start to the end
//! down(t) = max over parents p of (down(p) + w(p) + x(p, t))     longest way from the beginning to t's start
//! ```
//! with task weights `w` and transfer weights `x`. Source: Topcuoglu, Hariri, Wu: Performance-effective and
//! low-complexity task scheduling for heterogeneous computing, IEEE TPDS 13(3), 2002.

use crate::{DataModel, FlatGraph, TaskId};

/// Longest path from the start of every task to the end of the graph, the task itself included.
///
/// `weight` gives a task's time, `transfer` the time for a dependency's bytes. O(tasks + dependencies).
///
/// ```
/// # use mdts_dag::{DataModel, JobGraph, Task, analysis};
/// # let mut job = JobGraph::builder("chain");
/// # let a = job.task(Task::new("a").seconds(1.0))?;
/// # let b = job.task(Task::new("b").seconds(2.0))?;
/// # job.depend(b, a, 10.0);
/// let flat = job.build()?.freeze(); // a (1 s) -- 10 bytes --> b (2 s)
/// let rank = analysis::upward_rank(&flat, DataModel::Edges, |t| flat.work(t), |bytes| bytes / 5.0);
/// assert_eq!(rank, [1.0 + 2.0 + 2.0, 2.0]);
/// # Ok::<(), mdts_dag::Error>(())
/// ```
pub fn upward_rank(
    flat: &FlatGraph,
    model: DataModel,
    weight: impl Fn(TaskId) -> f64,
    transfer: impl Fn(f64) -> f64,
) -> Vec<f64> {
    let mut rank = vec![0.0; flat.len()];
    for &task in flat.topological_order().iter().rev() {
        let bytes = flat.child_bytes(task, model);
        let mut longest = 0.0_f64;
        for (child, bytes) in flat.children(task).iter().zip(bytes) {
            longest = longest.max(transfer(*bytes) + rank[child.index()]);
        }
        rank[task.index()] = weight(task) + longest;
    }
    rank
}

/// Longest path from the beginning of the graph to the start of every task. O(tasks + dependencies).
pub fn downward_rank(
    flat: &FlatGraph,
    model: DataModel,
    weight: impl Fn(TaskId) -> f64,
    transfer: impl Fn(f64) -> f64,
) -> Vec<f64> {
    let mut rank = vec![0.0; flat.len()];
    for &task in flat.topological_order() {
        let bytes = flat.parent_bytes(task, model);
        let mut longest = 0.0_f64;
        for (&parent, bytes) in flat.parents(task).iter().zip(bytes) {
            longest = longest.max(rank[parent.index()] + weight(parent) + transfer(*bytes));
        }
        rank[task.index()] = longest;
    }
    rank
}

/// A longest path through a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct CriticalPath {
    /// Its tasks, first to last.
    pub tasks: Vec<TaskId>,
    /// Its length in seconds, transfers included.
    pub seconds: f64,
}

/// A longest path; of equally long ways on, the one to the lowest task id is taken. O(tasks + dependencies).
pub fn critical_path(
    flat: &FlatGraph,
    model: DataModel,
    weight: impl Fn(TaskId) -> f64,
    transfer: impl Fn(f64) -> f64,
) -> CriticalPath {
    let rank = upward_rank(flat, model, weight, &transfer);
    let mut tasks = Vec::new();
    let mut next = farthest(flat.tasks().map(|t| (rank[t.index()], t)));
    let seconds = next.map_or(0.0, |t| rank[t.index()]);
    while let Some(task) = next {
        tasks.push(task);
        let ways = flat.children(task).iter().zip(flat.child_bytes(task, model));
        next = farthest(ways.map(|(&child, &bytes)| (transfer(bytes) + rank[child.index()], child)));
    }
    CriticalPath { tasks, seconds }
}

/// The task with the largest value, of several the one with the lowest id.
fn farthest(ways: impl Iterator<Item = (f64, TaskId)>) -> Option<TaskId> {
    ways.reduce(|a, b| if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) { b } else { a }).map(|(_, task)| task)
}
