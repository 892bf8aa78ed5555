//! Ranks over a whole cluster, and orders by them that keep parents before children.

use mdts_core::Instance;
use mdts_dag::{TaskId, analysis};

/// Longest path from the start of every task to the end, with mean run and transfer times. O(tasks + dependencies).
pub(crate) fn upward(instance: &Instance) -> Vec<f64> {
    let mean = |task| instance.mean_exec(task);
    analysis::upward_rank(instance.graph(), instance.data(), mean, |bytes| instance.mean_transfer(bytes))
}

/// Longest path from the beginning to the start of every task, with mean run and transfer times.
pub(super) fn downward(instance: &Instance) -> Vec<f64> {
    let mean = |task| instance.mean_exec(task);
    analysis::downward_rank(instance.graph(), instance.data(), mean, |bytes| instance.mean_transfer(bytes))
}

/// Static level: the longest path to the end without transfers, under these run times.
pub(super) fn static_level(instance: &Instance, exec: impl Fn(TaskId) -> f64) -> Vec<f64> {
    analysis::upward_rank(instance.graph(), instance.data(), exec, |_| 0.0)
}

/// Position of every task in topological order: the last word between equals.
pub(crate) fn positions(instance: &Instance) -> Vec<u32> {
    let mut position = vec![0; instance.tasks()];
    for (at, task) in instance.graph().topological_order().iter().enumerate() {
        position[task.index()] = at as u32;
    }
    position
}

/// All tasks by falling rank. Tasks without work tie with their children; topological order then decides.
///
/// A rank that never rises from parent to child, such as [`upward`], gives an order that keeps parents first.
pub(crate) fn by_falling_rank(instance: &Instance, rank: &[f64]) -> Vec<TaskId> {
    let mut order = instance.graph().topological_order().to_vec();
    order.sort_by(|a, b| rank[b.index()].total_cmp(&rank[a.index()])); // stable
    order
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mdts_core::{Cluster, SlotModel};
    use mdts_dag::{DataModel, JobGraph, Task};

    use super::*;

    #[test]
    fn tasks_without_work_stay_behind_their_parents() {
        let mut job = JobGraph::builder("zeros");
        let ids: Vec<TaskId> =
            (0..6).map(|i| job.task(Task::new(format!("t{i}")).seconds(0.0)).unwrap()).collect();
        for pair in ids.windows(2) {
            job.depend(pair[0], pair[1], 0.0); // t5 -> t4 -> ... -> t0
        }
        let cluster = Cluster::identical(2, SlotModel::Exclusive).unwrap();
        let graph = Arc::new(job.build().unwrap().freeze());
        let instance = Instance::new(graph, cluster.into(), DataModel::Edges).unwrap();
        let order = by_falling_rank(&instance, &upward(&instance));
        assert_eq!(order, ids.into_iter().rev().collect::<Vec<_>>());
    }
}
