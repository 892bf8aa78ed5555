//! Sufferage: the ready task that loses most if it does not get its best node gets it.
//!
//! Sufferage is the earliest finish on the second best node minus that on the best; a task that only one node can
//! run suffers without bound. Tasks compete as soon as they are ready. Source: Maheswaran, Ali, Siegel, Hensgen,
//! Freund, J. Parallel Distrib. Comput. 59(2), 1999; here without its passes over a fixed set of tasks: the
//! sufferage of every ready task is up to date whenever one is chosen, as in Casanova, Legrand, Zagorodnov, Berman:
//! Heuristics for scheduling parameter sweep applications in grid environments, HCW 2000.
//! Cost: see the [pool](super::pool); only tasks with equal run times share a group.

use mdts_core::{Arrival, Instance, PartialSchedule, Planner, Result, Rng, Schedule};
use mdts_dag::TaskId;

use super::pool::{self, Intake, Kin, Offer, Rule};

/// Largest difference between second best and best finish first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sufferage;

impl Planner for Sufferage {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        pool::plan(instance, self, Intake::AtOnce)
    }
}

impl Rule for Sufferage {
    fn kin(&self, instance: &Instance, task: TaskId) -> Kin {
        Kin::alike(instance, task, 0.0)
    }

    fn offer(&self, partial: &PartialSchedule<'_>, task: TaskId, arrival: &Arrival) -> Offer {
        let mut slots = partial.append_all(task, arrival);
        let mut best = slots.next().expect("a partial schedule has a node for every open task");
        let mut second = None;
        for slot in slots {
            if slot.finish < best.finish {
                (best, second) = (slot, Some(best));
            } else if second.is_none_or(|s| slot.finish < s.finish) {
                second = Some(slot);
            }
        }
        let sufferage = second.map_or(f64::INFINITY, |second| second.finish - best.finish);
        Offer { rival: second.map(|second| second.node), ..Offer::new(best, sufferage) }
    }
}
