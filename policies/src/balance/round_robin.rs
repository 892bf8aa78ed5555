//! Round robin: the nodes take turns, over all jobs; a node that cannot run the task is passed over.
//! O(ready tasks) per step where all nodes can run all tasks, at worst O(ready tasks x nodes).

use mdts_core::engine::Step;
use mdts_core::{Decisions, NodeId, Placer, Result};

/// The next node in turn.
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: usize,
}

impl Placer for RoundRobin {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        let count = step.instance().nodes();
        for &task in step.ready() {
            let mut turns = (0..count).map(|i| NodeId::new((self.next + i) % count));
            if let Some(node) = turns.find(|node| step.can_run(task, *node)) {
                decisions.place(task, node);
                self.next = (node.index() + 1) % count;
            }
        }
        Ok(())
    }
}
