//! ETF: earliest task first.
//!
//! The pair of ready task and node that can start first comes next; between tasks that start alike, the one with
//! the higher static level (longest path to the end by mean run times, without transfers); between nodes, the one
//! where the task finishes first. Source: Hwang, Chow, Anger, Lee: Scheduling precedence graphs in systems with
//! interprocessor communication times, SIAM J. Comput. 18(2), 1989, who assume equal processors (hence no word on
//! the choice between nodes). Cost: see the [pool](super::pool).

use mdts_core::{Instance, Planner, Result, Rng, Schedule, Slot, SlotModel};
use mdts_dag::TaskId;

use super::pool::{self, Intake, Kin, Rule};
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
    const BY_START: bool = true;

    /// Behind all others on an exclusive node, the start does not depend on the run time.
    fn kin(&self, instance: &Instance, task: TaskId) -> Kin {
        let order = -self.level[task.index()];
        match instance.slots() {
            SlotModel::Exclusive => Kin::proportional(instance, task, order),
            SlotModel::Resources => Kin::alike(instance, task, order),
        }
    }

    fn score(&self, task: TaskId, best: Slot, _: f64) -> (f64, f64) {
        (-best.start, self.level[task.index()])
    }
}
