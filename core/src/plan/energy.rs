//! Energetic reasoning: what tasks must do in an interval even if it does not hold them whole.
//!
//! Between `a` and the makespan less `b`, a task that starts early may have done a part before `a`, and one that starts late
//! may do a part in the last `b` seconds; at least the smaller rest lies between. If all rests together take `w` seconds
//! of the whole cluster, the makespan is at least `a + w + b`. Source: Erschler, Lopez: Energy-based approach for task
//! scheduling under time and resources constraints, 2nd international workshop on project management and scheduling, 1990.

use super::bounds::{Area, Sum};

/// Tasks up to which this is worth its time.
pub(super) const MOST_TASKS: usize = 128;

/// What is known of a task without the others, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Its earliest start.
    pub(super) head: f64,
    /// Its shortest run time.
    pub(super) exec: f64,
    /// What follows it at least.
    pub(super) tail: f64,
}

impl Window {
    /// Seconds that it may have run before a moment.
    fn lost(self, moment: f64) -> f64 {
        (moment - self.head).clamp(0.0, self.exec)
    }

    /// With time running backward.
    fn turned(self) -> Self {
        Self { head: self.tail, tail: self.head, ..self }
    }
}

/// A change of what lies in the interval as its end moves forward.
#[derive(Debug, Clone, Copy)]
struct Change {
    at: f64,
    rate: f64,
}

/// The best bound for one way to weigh nodes; `known` is a lower bound. O(tasks^2 log tasks).
///
/// The interval begins at the earliest start of a task, or, with time running backward, ends at the latest end of one.
pub(super) fn energetic(area: &Area, windows: &[Window], known: f64) -> f64 {
    let turned: Vec<Window> = windows.iter().map(|window| window.turned()).collect();
    let mut changes = Vec::new();
    [windows, &turned].into_iter().fold(known, |best, windows| {
        let mut begins: Vec<f64> = windows.iter().map(|window| window.head).collect();
        begins.sort_by(f64::total_cmp);
        begins.dedup();
        begins.into_iter().fold(best, |best, begin| sweep(area, windows, begin, best, &mut changes))
    })
}

/// The best bound for intervals that begin at `begin`.
fn sweep(area: &Area, windows: &[Window], begin: f64, mut best: f64, changes: &mut Vec<Change>) -> f64 {
    changes.clear();
    let mut work = 0.0;
    for (task, window) in windows.iter().enumerate() {
        let (lost, rate) = (window.lost(begin), area.fastest * area.demand[task]);
        let energy = area.work[task] - rate * lost;
        if energy > 0.0 {
            work += energy;
            let at = window.tail + lost;
            changes.push(Change { at, rate });
            changes.push(Change { at: at + energy / rate, rate: -rate });
        }
    }
    changes.sort_unstable_by(|a, b| a.at.total_cmp(&b.at));
    let (mut rate, mut before) = (0.0, 0.0);
    for change in changes.iter() {
        // Of an interval that a schedule might not have nothing is known.
        let end = change.at.min(best - begin);
        work -= rate * (end - before);
        if begin + work + end > best {
            best = best.max(exactly(area, windows, begin, end));
        }
        if end < change.at {
            break;
        }
        (rate, before) = (rate + change.rate, end);
    }
    best
}

/// The bound for one interval, or 0 if some task might fill it whole.
fn exactly(area: &Area, windows: &[Window], begin: f64, end: f64) -> f64 {
    let energy = |(task, window): (usize, &Window)| {
        let lost = window.lost(begin).max(window.turned().lost(end));
        (area.work[task] - area.fastest * area.demand[task] * lost).max(0.0)
    };
    let all = || windows.iter().enumerate().map(energy);
    let work = all().collect::<Sum>().value();
    // The work of tasks that fill their share of the interval shrinks with it; rounding must not hide that.
    let is_part = |(energy, demand): (f64, &f64)| energy <= area.slowest * demand * work * (1.0 - 1e-9);
    if all().zip(&area.demand).all(is_part) { begin + work + end } else { 0.0 }
}
