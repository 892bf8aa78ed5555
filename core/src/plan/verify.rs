//! The independent check of a schedule: it shares no code with the planners.

use mdts_dag::TaskId;

use super::{Instance, Placement, Schedule};
use crate::cluster::SlotModel;

/// The first rule that a schedule was found to break.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A task is missing, placed twice, or not of this graph.
    #[error("task '{task}' is placed {times} times; every task runs once")]
    Count {
        /// The task.
        task: String,
        /// How often it is placed.
        times: usize,
    },
    /// A task that wants several nodes at once is placed on one.
    #[error("task '{task}' wants {nodes} nodes at once, but is placed on one")]
    Gang {
        /// The task.
        task: String,
        /// How many nodes it wants.
        nodes: u32,
    },
    /// A node that the cluster does not have.
    #[error("task '{task}' is on node number {node}, which the cluster does not have")]
    UnknownNode {
        /// The task.
        task: String,
        /// The node's number.
        node: usize,
    },
    /// Start or finish is not a time, or the difference is not the task's run time on the node.
    #[error("task '{task}' runs from {start} to {finish} s, but takes {expected} s on '{node}'")]
    Duration {
        /// The task.
        task: String,
        /// The node.
        node: String,
        /// Seconds.
        start: f64,
        /// Seconds.
        finish: f64,
        /// Seconds; infinite if the node cannot run the task.
        expected: f64,
    },
    /// A task starts before data of a parent has arrived.
    #[error("task '{task}' starts at {start} s, before the data of '{parent}' arrives at {arrival} s")]
    Precedence {
        /// The task.
        task: String,
        /// The parent.
        parent: String,
        /// Seconds.
        start: f64,
        /// Seconds.
        arrival: f64,
    },
    /// A node runs more than it can at once.
    #[error("node '{node}' is overloaded at {at} s when '{task}' starts: {what}")]
    Overload {
        /// The node.
        node: String,
        /// The task whose start breaks the rule.
        task: String,
        /// Seconds.
        at: f64,
        /// What is exceeded.
        what: String,
    },
}

/// Times may differ by this much, relative to their size (at least one second).
const TOLERANCE: f64 = 1e-9;

fn slack(time: f64) -> f64 {
    TOLERANCE * time.abs().max(1.0)
}

impl Schedule {
    /// Checks that every task runs once, for its run time, after the data of all its parents has arrived, and
    /// that no node ever runs more than the slot model allows. O(tasks log tasks + dependencies).
    ///
    /// Times may be off by one part in 10^9.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn verify(&self, instance: &Instance) -> Result<(), Violation> {
        let placed = self.check_counts(instance)?;
        for placement in &placed {
            check_gang(instance, placement)?;
            check_duration(instance, placement)?;
            check_parents(instance, placement, &placed)?;
        }
        for row in self.by_node(instance.nodes()) {
            check_capacity(instance, &row)?;
        }
        Ok(())
    }

    fn check_counts(&self, instance: &Instance) -> Result<Vec<Placement>, Violation> {
        let graph = instance.graph();
        let mut times = vec![0usize; graph.len()];
        for placement in self.placements() {
            match times.get_mut(placement.task.index()) {
                Some(count) => *count += 1,
                None => return Err(Violation::Count { task: format!("{:?}", placement.task), times: 1 }),
            }
            if placement.node.index() >= instance.nodes() {
                let task = graph.task_name(placement.task).to_owned();
                return Err(Violation::UnknownNode { task, node: placement.node.index() });
            }
        }
        match times.iter().position(|count| *count != 1) {
            Some(i) => {
                let task = graph.task_name(TaskId::new(i)).to_owned();
                Err(Violation::Count { task, times: times[i] })
            }
            None => Ok(self.placements().to_vec()),
        }
    }
}

fn check_gang(instance: &Instance, p: &Placement) -> Result<(), Violation> {
    let nodes = instance.graph().demands()[instance.graph().demand(p.task).index()].gang;
    if nodes <= 1 {
        return Ok(());
    }
    Err(Violation::Gang { task: instance.graph().task_name(p.task).to_owned(), nodes })
}

fn check_duration(instance: &Instance, p: &Placement) -> Result<(), Violation> {
    let expected = instance.exec(p.task, p.node);
    let right = p.start >= -TOLERANCE
        && p.finish.is_finite()
        && expected.is_finite()
        && (p.finish - p.start - expected).abs() <= slack(p.finish);
    if right {
        return Ok(());
    }
    Err(Violation::Duration {
        task: instance.graph().task_name(p.task).to_owned(),
        node: instance.cluster().node(p.node).name.clone(),
        start: p.start,
        finish: p.finish,
        expected,
    })
}

fn check_parents(instance: &Instance, p: &Placement, placed: &[Placement]) -> Result<(), Violation> {
    let graph = instance.graph();
    for (parent, bytes) in graph.parents(p.task).iter().zip(instance.parent_bytes(p.task)) {
        let parent = &placed[parent.index()];
        let arrival = parent.finish + instance.transfer(*bytes, parent.node, p.node);
        if p.start < arrival - slack(arrival) {
            return Err(Violation::Precedence {
                task: graph.task_name(p.task).to_owned(),
                parent: graph.task_name(parent.task).to_owned(),
                start: p.start,
                arrival,
            });
        }
    }
    Ok(())
}

/// Sweeps over starts and finishes of one node. Tasks that take no time occupy nothing.
fn check_capacity(instance: &Instance, row: &[Placement]) -> Result<(), Violation> {
    let busy: Vec<&Placement> = row.iter().filter(|p| p.finish - p.start > slack(p.finish)).collect();
    let Some(node) = row.first().map(|p| p.node) else { return Ok(()) };
    let overload = |p: &Placement, what: String| Violation::Overload {
        node: instance.cluster().node(node).name.clone(),
        task: instance.graph().task_name(p.task).to_owned(),
        at: p.start,
        what,
    };
    if instance.slots() == SlotModel::Exclusive {
        for pair in busy.windows(2) {
            if pair[1].start < pair[0].finish - slack(pair[0].finish) {
                let other = instance.graph().task_name(pair[0].task);
                return Err(overload(pair[1], format!("'{other}' runs until {} s", pair[0].finish)));
            }
        }
        return Ok(());
    }
    let mut by_finish = busy.clone();
    by_finish.sort_by(|a, b| a.finish.total_cmp(&b.finish));
    let mut ended = by_finish.into_iter().peekable();
    let capacity = instance.capacity(node);
    let mut used = vec![0u64; capacity.len()];
    for p in busy {
        while let Some(done) = ended.next_if(|e| e.finish <= p.start + slack(p.start)) {
            for (amount, freed) in used.iter_mut().zip(instance.demand(done.task)) {
                *amount -= freed;
            }
        }
        for (d, needed) in instance.demand(p.task).iter().enumerate() {
            used[d] += needed;
            if used[d] > capacity[d] {
                let resources = instance.resources();
                let (use_, has) = (resources.show(d, used[d]), resources.show(d, capacity[d]));
                return Err(overload(p, format!("{use_} in use, it has {has}")));
            }
        }
    }
    Ok(())
}
