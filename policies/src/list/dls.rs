//! DLS: dynamic level scheduling.
//!
//! ```text
//! level(t, p) = static_level(t) - start(t, p) + (median exec(t) - exec(t, p))
//! ```
//! where the start is behind all tasks on `p` and after the data has arrived, and the static level is the longest
//! path to the end by median run times without transfers. The pair of ready task and node with the highest level
//! comes next. Source: Sih, Lee: A compile-time scheduling heuristic for interconnection-constrained
//! heterogeneous processor architectures, IEEE TPDS 4(2), 1993. Cost: see the [pool](super::pool).

use mdts_core::{Instance, Planner, Result, Rng, Schedule, Slot};
use mdts_dag::TaskId;

use super::pool::{self, Intake, Kin, Rule};
use super::rank;

/// Highest dynamic level first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dls;

impl Planner for Dls {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let median = median_exec(instance);
        let level = rank::static_level(instance, |task| median[task.index()]);
        pool::plan(instance, &Levels { median, level }, Intake::AtOnce)
    }
}

struct Levels {
    median: Vec<f64>,
    level: Vec<f64>,
}

impl Rule for Levels {
    /// Between tasks alike, the static level decides.
    fn kin(&self, instance: &Instance, task: TaskId) -> Kin {
        Kin::alike(instance, task, -self.level[task.index()])
    }

    /// Start and run time count alike against a node, so the best node is that of the earliest finish.
    fn score(&self, task: TaskId, best: Slot, _: f64) -> (f64, f64) {
        (self.level[task.index()] + self.median[task.index()] - best.finish, 0.0)
    }
}

/// Median run time of every task over the nodes that can run it.
fn median_exec(instance: &Instance) -> Vec<f64> {
    let mut times = vec![0.0; instance.nodes()];
    let median = |task: TaskId| {
        instance.exec_all(task, &mut times);
        times.sort_unstable_by(f64::total_cmp); // infinite ones last
        let count = times.partition_point(|t| t.is_finite());
        f64::midpoint(times[(count - 1) / 2], times[count / 2])
    };
    instance.graph().tasks().map(median).collect()
}
