//! Random: each ready task goes to any node that can run it, all equally likely. The baseline for all others.
//! O(ready tasks x nodes) per step.

use mdts_core::engine::Step;
use mdts_core::{Decisions, Placer, Result, Rng};
use rand::Rng as _;

/// A uniformly random node.
#[derive(Debug)]
pub struct Random {
    rng: Rng,
}

impl Random {
    /// A policy that draws from this generator.
    pub fn new(rng: Rng) -> Self {
        Self { rng }
    }
}

impl Placer for Random {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        let nodes = step.instance().cluster().node_ids();
        for &task in step.ready() {
            let mut able = nodes.clone().filter(|node| step.can_run(task, *node));
            let count = able.clone().count();
            if count > 0
                && let Some(node) = able.nth(self.rng.random_range(0..count))
            {
                decisions.place(task, node);
            }
        }
        Ok(())
    }
}
