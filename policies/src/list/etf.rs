//! ETF: earliest task first.
//!
//! The pair of ready task and node that can start first comes next; between tasks that start alike, the one with
//! the higher static level (longest path to the end by mean run times, without transfers); between nodes, the one
//! where the task finishes first. Source: Hwang, Chow, Anger, Lee: Scheduling precedence graphs in systems with
//! interprocessor communication times, SIAM J. Comput. 18(2), 1989, who assume equal processors (hence no word on
//! the choice between nodes). Cost: see the [pool](super::pool).

use mdts_core::{Arrival, Instance, PartialSchedule, Planner, Result, Rng, Schedule};
use mdts_dag::TaskId;

use super::pool::{self, Intake, Kin, Offer, Rule};
use super::rank;

/// Earliest start first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Etf;

impl Planner for Etf {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let level = rank::static_level(instance, |task| instance.mean_exec(task));
        pool::plan(instance, &Starts { level }, Intake::AtOnce)
    }
}

struct Starts {
    level: Vec<f64>,
}

impl Rule for Starts {
    /// Between tasks alike, the static level decides.
    fn kin(&self, instance: &Instance, task: TaskId) -> Kin {
        Kin::alike(instance, task, -self.level[task.index()])
    }

    fn offer(&self, partial: &PartialSchedule<'_>, task: TaskId, arrival: &Arrival) -> Offer {
        let slots = partial.append_all(task, arrival);
        let best =
            slots.reduce(
                |best, slot| {
                    if (slot.start, slot.finish) < (best.start, best.finish) { slot } else { best }
                },
            );
        let slot = best.expect("a partial schedule has a node for every open task");
        Offer { tie: self.level[task.index()], ..Offer::new(slot, -slot.start) }
    }
}
