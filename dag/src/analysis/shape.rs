//! Size and shape of a graph.

use serde::Serialize;

use crate::{DataModel, FlatGraph, JobGraph};

/// Number of tasks on every level, first to last. O(tasks).
pub fn level_widths(flat: &FlatGraph) -> Vec<usize> {
    let mut widths = vec![0; flat.depth()];
    for task in flat.tasks() {
        widths[flat.level(task) as usize] += 1;
    }
    widths
}

/// What `mdts inspect` shows of a graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shape {
    /// Name of the job.
    pub name: String,
    /// Number of tasks.
    pub tasks: usize,
    /// Number of dependencies.
    pub edges: usize,
    /// Tasks on the longest path.
    pub depth: usize,
    /// Tasks on the widest level.
    pub width: usize,
    /// Sum of all known work: seconds on a node of speed 1; tasks with times per node count their mean.
    pub work_seconds: f64,
    /// Longest path in seconds on nodes of speed 1, transfers not counted.
    pub critical_path_seconds: f64,
    /// Bytes of all dependencies.
    pub data_bytes: f64,
    /// Tasks whose run time is not known (counted as 0 seconds above).
    pub unknown_work: usize,
    /// Number of distinct kinds.
    pub kinds: usize,
    /// Number of files.
    pub files: usize,
}

/// Measures a graph. O(tasks + dependencies).
pub fn shape(job: &JobGraph, flat: &FlatGraph) -> Shape {
    let mut work: Vec<f64> = flat.tasks().map(|t| flat.work(t)).collect();
    for (task, times) in flat.per_node_times() {
        let sum: f64 = times.iter().map(|(_, seconds)| seconds).sum();
        work[task.index()] = if times.is_empty() { f64::NAN } else { sum / times.len() as f64 };
    }
    let unknown_work = work.iter().filter(|w| w.is_nan()).count();
    for seconds in &mut work {
        *seconds = if seconds.is_nan() { 0.0 } else { *seconds };
    }
    let path = super::critical_path(flat, DataModel::Edges, |t| work[t.index()], |_| 0.0);
    Shape {
        name: job.name().to_owned(),
        tasks: flat.len(),
        edges: flat.edge_count(),
        depth: flat.depth(),
        width: level_widths(flat).into_iter().max().unwrap_or(0),
        work_seconds: work.iter().fold(0.0, |sum, w| sum + w),
        critical_path_seconds: path.seconds,
        // The sum of no floats is -0.
        data_bytes: job.dependencies().fold(0.0, |sum, (_, _, d)| sum + d.bytes),
        unknown_work,
        kinds: flat.kinds().len(),
        files: job.files().len(),
    }
}
