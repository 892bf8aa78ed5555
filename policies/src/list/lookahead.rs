//! Lookahead: HEFT that tries every node for a task and looks how its children would fare.
//!
//! Tasks by falling upward rank. For each node, place the task there for a moment, let each child finish as early
//! as it can on any node (parents not placed yet are left out), and keep the node for which the last child is
//! earliest; between equals the earlier finish of the task itself, then the lower node id. Tasks without children
//! go where they finish first. Source: Bittencourt, Sakellariou, Madeira: DAG scheduling using a lookahead
//! variant of the heterogeneous earliest finish time algorithm, PDP 2010.
//! O(dependencies x nodes^2) slot searches at worst; nodes that cannot win any more are skipped.

use mdts_core::{Arrival, Instance, NodeId, PartialSchedule, Planner, Result, Rng, Schedule, Slot};
use mdts_dag::TaskId;

use super::rank;

/// HEFT with a lookahead of one level over all children, with insertion.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lookahead;

impl Planner for Lookahead {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let mut partial = PartialSchedule::new(instance)?;
        let mut search = Search::default();
        for task in rank::by_falling_rank(instance, &rank::upward(instance)) {
            if partial.is_open(task) {
                let slot = search.best_slot(&mut partial, task);
                partial.place(task, slot);
            }
        }
        Ok(partial.finish())
    }
}

/// Buffers that are used again for every task.
#[derive(Default)]
struct Search {
    arrival: Arrival,
    slots: Vec<Slot>,
    children: Vec<Child>,
    arrivals: Vec<Arrival>,
}

struct Child {
    task: TaskId,
    bytes: f64,
}

impl Search {
    fn best_slot(&mut self, partial: &mut PartialSchedule<'_>, task: TaskId) -> Slot {
        self.find_children(partial, task);
        if self.children.is_empty() {
            return partial.best_insertion(task);
        }
        self.find_slots(partial, task);
        let mut best = (f64::INFINITY, self.slots[0]);
        for &slot in &self.slots {
            // A child never finishes before the task and its own run time.
            let at_least = |child: &Child| slot.finish + partial.instance().min_exec(child.task);
            if self.children.iter().any(|child| at_least(child) >= best.0) {
                break; // the other slots finish later still
            }
            if let Some(latest) = self.latest_child(partial, slot, best.0) {
                best = (latest, slot);
            }
        }
        best.1
    }

    /// The open children with the arrival of what comes from their other parents.
    fn find_children(&mut self, partial: &PartialSchedule<'_>, task: TaskId) {
        let instance = partial.instance();
        self.children.clear();
        for (&child, bytes) in instance.graph().children(task).iter().zip(instance.child_bytes(task)) {
            if !partial.is_open(child) {
                continue;
            }
            let at = self.children.len();
            self.children.push(Child { task: child, bytes: *bytes });
            if at == self.arrivals.len() {
                self.arrivals.push(Arrival::default());
            }
            partial.gather_placed(child, &mut self.arrivals[at]);
        }
    }

    /// The task's slots on all nodes by finish.
    fn find_slots(&mut self, partial: &PartialSchedule<'_>, task: TaskId) {
        partial.gather(task, &mut self.arrival);
        let nodes = partial.instance().cluster().node_ids();
        self.slots.clear();
        self.slots.extend(nodes.filter_map(|node| partial.insertion(task, node, &self.arrival)));
        self.slots.sort_by(|a, b| a.finish.total_cmp(&b.finish)); // stable: lower ids first
    }

    /// When the last child finishes if the task takes `slot`; `None` if not before `limit`.
    fn latest_child(&self, partial: &PartialSchedule<'_>, slot: Slot, limit: f64) -> Option<f64> {
        let mut latest = slot.finish;
        for (child, arrival) in self.children.iter().zip(&self.arrivals) {
            let finish = earliest_child(partial, child, arrival, slot);
            if finish >= limit {
                return None;
            }
            latest = latest.max(finish);
        }
        Some(latest)
    }
}

/// The earliest finish of a child over all nodes. It starts behind the task, whose slot is thus never in its way.
fn earliest_child(partial: &PartialSchedule<'_>, child: &Child, others: &Arrival, slot: Slot) -> f64 {
    let instance = partial.instance();
    let on = |node: NodeId, limit: f64| {
        let exec = partial.exec(child.task, node);
        let arrival = slot.finish + instance.transfer(child.bytes, slot.node, node);
        let ready = others.at(node).max(arrival);
        if ready + exec >= limit {
            return limit;
        }
        limit.min(partial.earliest(child.task, node, ready) + exec)
    };
    let here = on(slot.node, f64::INFINITY);
    instance.cluster().node_ids().fold(here, |best, node| on(node, best))
}
