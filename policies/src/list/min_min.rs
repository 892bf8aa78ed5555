//! Min-Min: of all ready tasks, the one that can finish first goes where it does.
//!
//! Tasks that become ready compete in the next wave, when all ready before are placed. Sources: Ibarra, Kim:
//! Heuristic algorithms for scheduling independent tasks on nonidentical processors, J. ACM 24(2), 1977; for
//! workflows Blythe et al.: Task scheduling strategies for workflow-based applications in grids, `CCGrid` 2005.
//! Cost: see the [pool](super::pool).

use mdts_core::{Instance, Planner, Result, Rng, Schedule, Slot};
use mdts_dag::TaskId;

use super::pool::{self, Intake, Kin, Rule};

/// Smallest earliest finish first.
#[derive(Debug, Clone, Copy, Default)]
pub struct MinMin;

impl Planner for MinMin {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        pool::plan(instance, self, Intake::InWaves)
    }
}

impl Rule for MinMin {
    /// More work in the same proportion never finishes earlier.
    fn kin(&self, instance: &Instance, task: TaskId) -> Kin {
        Kin::proportional(instance, task, instance.min_exec(task))
    }

    fn score(&self, _: TaskId, best: Slot, _: f64) -> (f64, f64) {
        (-best.finish, 0.0)
    }
}
