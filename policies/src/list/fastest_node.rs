//! Fastest node: everything on the one node that would run the whole job fastest, the serial baseline.
//!
//! A task that this node cannot run goes to the next best node that can. Under the resources model the node runs
//! as many tasks side by side as fit. O(tasks x nodes + dependencies).

use mdts_core::{Arrival, Instance, NodeId, PartialSchedule, Planner, Result, Rng, Schedule};

/// All tasks on the fastest node.
#[derive(Debug, Clone, Copy, Default)]
pub struct FastestNode;

impl Planner for FastestNode {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let mut partial = PartialSchedule::new(instance)?;
        let nodes = by_whole_job(&partial);
        let mut arrival = Arrival::default();
        for &task in instance.graph().topological_order() {
            if partial.is_open(task) {
                partial.gather(task, &mut arrival);
                let slot = nodes.iter().find_map(|node| partial.append(task, *node, &arrival));
                partial.place(task, slot.expect("a partial schedule has a node for every open task"));
            }
        }
        Ok(partial.finish())
    }
}

/// The nodes by number of open tasks that they cannot run, then by run time of all others.
fn by_whole_job(partial: &PartialSchedule<'_>) -> Vec<NodeId> {
    let instance = partial.instance();
    let mut costs = vec![(0u32, 0.0); instance.nodes()];
    for task in instance.graph().tasks().filter(|t| partial.is_open(*t)) {
        for (node, (cannot, seconds)) in instance.cluster().node_ids().zip(&mut costs) {
            match partial.exec(task, node) {
                exec if exec.is_finite() => *seconds += exec,
                _ => *cannot += 1,
            }
        }
    }
    let mut nodes: Vec<NodeId> = instance.cluster().node_ids().collect();
    nodes.sort_by(|a, b| {
        let (a, b) = (costs[a.index()], costs[b.index()]);
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    nodes
}
