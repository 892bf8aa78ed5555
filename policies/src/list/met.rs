//! MET: minimum execution time.
//!
//! Every task, in topological order, goes to the node that runs it fastest, whatever the load; between equals to
//! the lowest id. Sources: Armstrong, Hensgen, Kidd, HCW 1998; Maheswaran et al., J. Parallel Distrib. Comput.
//! 59(2), 1999. O(tasks x nodes + dependencies).

use mdts_core::{Arrival, Instance, PartialSchedule, Planner, Result, Rng, Schedule};

/// Minimum execution time: each task on its fastest node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Met;

impl Planner for Met {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let mut partial = PartialSchedule::new(instance)?;
        let mut arrival = Arrival::default();
        for &task in instance.graph().topological_order() {
            if !partial.is_open(task) {
                continue;
            }
            let exec = |node| partial.exec(task, node);
            let nodes = instance.cluster().node_ids();
            let node = nodes.min_by(|a, b| exec(*a).total_cmp(&exec(*b))).unwrap_or_default();
            partial.gather(task, &mut arrival);
            let slot = partial.append(task, node, &arrival);
            partial.place(task, slot.expect("a partial schedule has a node for every open task"));
        }
        Ok(partial.finish())
    }
}
