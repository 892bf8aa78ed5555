//! Sufferage: the ready task that loses most if it does not get its best node gets it.
//!
//! Sufferage is the earliest finish on the second best node minus that on the best; a task that only one node can
//! run suffers without bound. Tasks compete as soon as they are ready. Source: Maheswaran, Ali, Siegel, Hensgen,
//! Freund, J. Parallel Distrib. Comput. 59(2), 1999; here without its passes over a fixed set of tasks: the
//! sufferage of every ready task is up to date whenever one is chosen, as in Casanova, Legrand, Zagorodnov, Berman:
//! Heuristics for scheduling parameter sweep applications in grid environments, HCW 2000.
//! Cost: see the [pool](super::pool); only tasks with equal run times share a group.

use mdts_core::{Instance, Planner, Result, Rng, Schedule, Slot};
use mdts_dag::TaskId;

use super::pool::{self, Intake, Kin, Rule};

/// Largest difference between second best and best finish first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sufferage;

impl Planner for Sufferage {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        pool::plan(instance, self, Intake::AtOnce)
    }
}

impl Rule for Sufferage {
    const BY_RIVAL: bool = true;

    fn kin(&self, instance: &Instance, task: TaskId) -> Kin {
        Kin::alike(instance, task, 0.0)
    }

    fn score(&self, _: TaskId, best: Slot, second: f64) -> (f64, f64) {
        (second - best.finish, 0.0)
    }
}
