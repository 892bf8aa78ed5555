//! Max-Min: of all ready tasks, the one whose earliest finish is latest goes where it finishes first.
//!
//! Long tasks start early and short ones fill up behind them. Tasks that become ready compete in the next wave.
//! Sources: Ibarra, Kim, J. ACM 24(2), 1977; Maheswaran, Ali, Siegel, Hensgen, Freund: Dynamic mapping of a class
//! of independent tasks onto heterogeneous computing systems, J. Parallel Distrib. Comput. 59(2), 1999.
//! Cost: see the [pool](super::pool).

use mdts_core::{Instance, Planner, Result, Rng, Schedule, Slot};
use mdts_dag::TaskId;

use super::pool::{self, Intake, Kin, Rule};

/// Largest earliest finish first.
#[derive(Debug, Clone, Copy, Default)]
pub struct MaxMin;

impl Planner for MaxMin {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        pool::plan(instance, self, Intake::InWaves)
    }
}

impl Rule for MaxMin {
    /// Less work in the same proportion never finishes later.
    fn kin(&self, instance: &Instance, task: TaskId) -> Kin {
        Kin::proportional(instance, task, -instance.min_exec(task))
    }

    fn score(&self, _: TaskId, best: Slot, _: f64) -> (f64, f64) {
        (best.finish, 0.0)
    }
}
