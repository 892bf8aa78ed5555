//! `CPoP`: critical path on a processor.
//!
//! A task's priority is upward plus downward rank; the tasks of one critical path all go to the node that runs the
//! whole path fastest, every other task where it finishes first. The ready task of highest priority comes next.
//! Source: Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002.
//! O(tasks x nodes) searches for a slot, O(dependencies x nodes + tasks log tasks) besides.

use mdts_core::{Arrival, Instance, NodeId, PartialSchedule, Planner, Result, Rng, Schedule};
use mdts_dag::{TaskId, analysis};

use super::{rank, ready};

/// Critical path on a processor, with insertion.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpop;

impl Planner for Cpop {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let mut partial = PartialSchedule::new(instance)?;
        let mut priority = rank::upward(instance);
        for (up, down) in priority.iter_mut().zip(rank::downward(instance)) {
            *up += down;
        }
        let path = critical_tasks(instance);
        let path_node = fastest_for(&partial, &path);
        let mut on_path = vec![false; instance.tasks()];
        for task in &path {
            on_path[task.index()] = true;
        }
        let mut arrival = Arrival::default();
        ready::by_rank_when_ready(&mut partial, &priority, |partial, task| {
            let mut slot = None;
            if on_path[task.index()] {
                partial.gather(task, &mut arrival);
                slot = partial.insertion(task, path_node, &arrival);
            }
            // Tasks off the path, and those of the path that its node cannot run.
            let slot = slot.unwrap_or_else(|| partial.best_insertion(task));
            partial.place(task, slot);
        });
        Ok(partial.finish())
    }
}

/// The tasks of one critical path by mean run times and mean transfers.
fn critical_tasks(instance: &Instance) -> Vec<TaskId> {
    let mean = |task| instance.mean_exec(task);
    let transfer = |bytes| instance.mean_transfer(bytes);
    analysis::critical_path(instance.graph(), instance.data(), mean, transfer).tasks
}

/// The node that runs most of the open tasks of `path`, and those fastest.
fn fastest_for(partial: &PartialSchedule<'_>, path: &[TaskId]) -> NodeId {
    let cost = |node: NodeId| {
        let times = path.iter().filter(|t| partial.is_open(**t)).map(|t| partial.exec(*t, node));
        times.fold(
            (0, 0.0),
            |(cannot, sum), time| {
                if time.is_finite() { (cannot, sum + time) } else { (cannot + 1, sum) }
            },
        )
    };
    let cheaper = |a: (u32, f64), b: (u32, f64)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
    let nodes = partial.instance().cluster().node_ids();
    let best = nodes.map(|node| (node, cost(node))).min_by(|a, b| cheaper(a.1, b.1));
    best.map_or(NodeId::default(), |(node, _)| node)
}
