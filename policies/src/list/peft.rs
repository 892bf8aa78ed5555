//! PEFT: predict earliest finish time.
//!
//! ```text
//! oct(t, p) = max over children c of min over nodes w of (oct(c, w) + exec(c, w) + [w != p] mean transfer)
//! ```
//! tells how long the rest takes at best if `t` runs on `p`. The ready task with the highest mean `oct` comes next
//! and goes where finish plus `oct` is smallest. Source: Arabnejad, Barbosa: List scheduling algorithm for
//! heterogeneous systems by an optimistic cost table, IEEE TPDS 25(3), 2014.
//! O(tasks x nodes) searches for a slot, O(dependencies x nodes + tasks log tasks) besides, O(tasks x nodes) memory.

use mdts_core::{Arrival, Instance, PartialSchedule, Planner, Result, Rng, Schedule, Slot};
use mdts_dag::TaskId;

use super::ready;

/// Predict earliest finish time, with insertion.
#[derive(Debug, Clone, Copy, Default)]
pub struct Peft;

impl Planner for Peft {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let mut partial = PartialSchedule::new(instance)?;
        let table = CostTable::new(&partial);
        let rank: Vec<f64> = instance.graph().tasks().map(|task| table.mean(&partial, task)).collect();
        let mut arrival = Arrival::default();
        ready::by_rank_when_ready(&mut partial, &rank, |partial, task| {
            partial.gather(task, &mut arrival);
            let slot = table.best_slot(partial, task, &arrival);
            partial.place(task, slot);
        });
        Ok(partial.finish())
    }
}

/// The optimistic cost table, one row of all nodes per task.
struct CostTable {
    rows: Vec<f64>,
    nodes: usize,
}

impl CostTable {
    fn new(partial: &PartialSchedule<'_>) -> Self {
        let instance = partial.instance();
        let nodes = instance.nodes();
        let mut table = Self { rows: vec![0.0; instance.tasks() * nodes], nodes };
        // Per task: oct + exec on its best node.
        let mut best_end = vec![0.0; instance.tasks()];
        for &task in instance.graph().topological_order().iter().rev() {
            let children = instance.graph().children(task);
            for (&child, bytes) in children.iter().zip(instance.child_bytes(task)) {
                let elsewhere = best_end[child.index()] + instance.mean_transfer(*bytes);
                for (i, node) in instance.cluster().node_ids().enumerate() {
                    let here = table.rows[child.index() * nodes + i] + partial.exec(child, node);
                    let cost = &mut table.rows[task.index() * nodes + i];
                    *cost = cost.max(here.min(elsewhere));
                }
            }
            let ends = instance.cluster().node_ids().zip(table.row(task));
            best_end[task.index()] =
                ends.map(|(node, cost)| cost + partial.exec(task, node)).fold(f64::INFINITY, f64::min);
            if !partial.is_open(task) {
                best_end[task.index()] = 0.0; // started already; it may be on a node that is lost now
            }
        }
        table
    }

    fn row(&self, task: TaskId) -> &[f64] {
        &self.rows[task.index() * self.nodes..(task.index() + 1) * self.nodes]
    }

    /// Mean over the nodes that can run the task.
    fn mean(&self, partial: &PartialSchedule<'_>, task: TaskId) -> f64 {
        let nodes = partial.instance().cluster().node_ids().zip(self.row(task));
        let costs = nodes.filter(|(node, _)| partial.exec(task, *node).is_finite()).map(|(_, cost)| *cost);
        let (sum, count) = costs.fold((0.0, 0.0), |(sum, count), cost| (sum + cost, count + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    }

    /// The slot with the smallest finish plus optimistic cost; among equals the lowest node id.
    fn best_slot(&self, partial: &PartialSchedule<'_>, task: TaskId, arrival: &Arrival) -> Slot {
        let nodes = partial.instance().cluster().node_ids().zip(self.row(task));
        let slots = nodes.filter_map(|(node, cost)| Some((partial.insertion(task, node, arrival)?, cost)));
        let best = slots.min_by(|(a, x), (b, y)| (a.finish + *x).total_cmp(&(b.finish + *y)));
        best.expect("a partial schedule has a node for every open task").0
    }
}
