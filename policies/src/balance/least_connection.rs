//! Least connection: each ready task goes to the node with the fewest unfinished tasks, those placed in this step
//! included; among equals to the lowest id. Source: the load balancers of network services (Zhang: Linux virtual
//! server for scalable network services, Ottawa Linux Symposium 2000). O(ready tasks x nodes) per step.

use mdts_core::engine::Step;
use mdts_core::{Decisions, NodeId, Placer, Result};

/// The node with the fewest unfinished tasks.
#[derive(Debug, Default)]
pub struct LeastConnection {
    /// Unfinished tasks per node.
    unfinished: Vec<usize>,
}

impl Placer for LeastConnection {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        let nodes = step.instance().cluster().node_ids();
        let unfinished = |node: NodeId| step.running(node) + step.waiting(node);
        self.unfinished.clear();
        self.unfinished.extend(nodes.clone().map(unfinished));
        for &task in step.ready() {
            let able = nodes.clone().filter(|node| step.can_run(task, *node));
            if let Some(node) = able.min_by_key(|node| self.unfinished[node.index()]) {
                self.unfinished[node.index()] += 1;
                decisions.place(task, node);
            }
        }
        Ok(())
    }
}
