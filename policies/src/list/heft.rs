//! HEFT: heterogeneous earliest finish time.
//!
//! Tasks by falling upward rank (mean run times, mean transfers); each goes where it finishes first, gaps between
//! tasks placed before included. Source: Topcuoglu, Hariri, Wu: Performance-effective and low-complexity task
//! scheduling for heterogeneous computing, IEEE TPDS 13(3), 2002. O(tasks x nodes) searches for a slot and, over a
//! uniform network, O(dependencies) for the data, otherwise O(dependencies x nodes); tasks log tasks for the order. A
//! search is O(log tasks) where few free stretches are too short for the task, at worst O(tasks).

use mdts_core::{Instance, PartialSchedule, Planner, Result, Rng, Schedule};

use super::rank;

/// So many tasks are read ahead: what they need fits into the first cache.
const AHEAD: usize = 64;

/// Heterogeneous earliest finish time, with insertion.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heft;

impl Planner for Heft {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let mut partial = PartialSchedule::new(instance)?;
        for tasks in rank::by_falling_rank(instance, &rank::upward(instance)).chunks(AHEAD) {
            partial.prefetch(tasks);
            for &task in tasks {
                if partial.is_open(task) {
                    let slot = partial.best_insertion(task);
                    partial.place(task, slot);
                }
            }
        }
        Ok(partial.finish())
    }
}
