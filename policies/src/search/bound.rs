//! The lower bound that a search is measured by.

use mdts_core::lower_bounds;
use mdts_dag::TaskId;

use super::model::Model;

/// The best bound of core, rounded up if every makespan is a whole number.
pub(super) fn lower_bound(model: &Model<'_>) -> f64 {
    let bound = lower_bounds(model.instance).best();
    let whole = |t: usize| model.exec_row(t).iter().all(|e| e.is_infinite() || e.fract() == 0.0);
    let fresh = model.instance.progress().is_none();
    if fresh && bound < 1e9 && model.is_instant() && (0..model.tasks).all(whole) {
        // Rounding may have made it larger by some units of its last place; adding 0 makes -0 a 0.
        return (bound * (1.0 - 1e-14) - 1e-9).ceil() + 0.0;
    }
    bound
}

/// Whether a makespan meets a bound, but for rounding.
pub(super) fn meets(makespan: f64, bound: f64) -> bool {
    makespan <= bound * (1.0 + 1e-12) + 1e-12
}

/// Ways to weigh nodes for the work bound: equally, and by the speed at which they run one task.
pub(super) fn weights(model: &Model<'_>) -> Vec<Vec<f64>> {
    let equal = vec![1.0; model.nodes];
    let probe = (0..model.tasks).find(|&t| {
        model.instance.min_exec(TaskId::new(t)) > 0.0 && model.exec_row(t).iter().all(|e| e.is_finite())
    });
    let by_speed = probe.map(|t| model.exec_row(t).iter().map(|e| 1.0 / e).collect());
    [Some(equal), by_speed].into_iter().flatten().collect()
}
