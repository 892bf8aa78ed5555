//! OLB: opportunistic load balancing.
//!
//! Every task, in topological order, goes to the node that is free first, whatever its run time there. Sources:
//! Armstrong, Hensgen, Kidd, HCW 1998; Maheswaran et al., J. Parallel Distrib. Comput. 59(2), 1999. O(tasks x nodes
//! + dependencies).

use mdts_core::{Arrival, Instance, PartialSchedule, Planner, Result, Rng, Schedule};

/// Opportunistic load balancing: the next free node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Olb;

impl Planner for Olb {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let mut partial = PartialSchedule::new(instance)?;
        let (no_data, mut arrival) = (Arrival::default(), Arrival::default());
        for &task in instance.graph().topological_order() {
            if !partial.is_open(task) {
                continue;
            }
            // A node is free when it could take the task if its data were there.
            let free = partial.append_all(task, &no_data);
            let first = free.reduce(|best, slot| if slot.start < best.start { slot } else { best });
            let node = first.expect("a partial schedule has a node for every open task").node;
            partial.gather(task, &mut arrival);
            let slot = partial.append(task, node, &arrival).expect("the node can run it");
            partial.place(task, slot);
        }
        Ok(partial.finish())
    }
}
