//! MCT: minimum completion time.
//!
//! Every task, in topological order, goes where it finishes first behind all tasks there. Sources: Armstrong,
//! Hensgen, Kidd: The relative performance of various mapping algorithms is independent of sizable variances in
//! run-time predictions, HCW 1998; Maheswaran et al., J. Parallel Distrib. Comput. 59(2), 1999. O(tasks x nodes +
//! dependencies) over a uniform network.

use mdts_core::{Instance, PartialSchedule, Planner, Result, Rng, Schedule};

/// Minimum completion time, without insertion.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mct;

impl Planner for Mct {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let mut partial = PartialSchedule::new(instance)?;
        for &task in instance.graph().topological_order() {
            if partial.is_open(task) {
                let slot = partial.best_append(task);
                partial.place(task, slot);
            }
        }
        Ok(partial.finish())
    }
}
