//! EFT: each ready task goes where it is expected to finish first.
//!
//! The ready tasks of a step are placed by falling upward rank, each behind the work that its node has by then and
//! after its data has arrived: HEFT's choice of nodes without a plan. Source for the rank: Topcuoglu, Hariri, Wu,
//! IEEE TPDS 13(3), 2002. O(ready tasks x nodes + their dependencies) per step; O(tasks + dependencies) once per job, and after
//! nodes or the job have changed, when two tasks are ready at once.

use mdts_core::engine::{JobId, Phase, Step, Trigger};
use mdts_core::{Arrival, Decisions, Instance, NodeId, Placer, Result, SlotModel};
use mdts_dag::TaskId;
use rustc_hash::FxHashMap;

use crate::list::rank;

/// Online earliest finish time.
#[derive(Debug, Default)]
pub struct Eft {
    ranks: FxHashMap<JobId, Ranks>,
    ready: Vec<TaskId>,
    /// Seconds of work placed on every node in this step.
    added: Vec<f64>,
    arrival: Arrival,
}

/// Upward ranks of a job, kept until as many tasks are placed as it has; made again should it need them later.
#[derive(Debug)]
struct Ranks {
    of_task: Vec<f64>,
    unplaced: usize,
}

impl Placer for Eft {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        self.sort_ready(step);
        self.added.clear();
        self.added.resize(step.instance().nodes(), 0.0);
        for &task in &self.ready {
            step.gather(task, &mut self.arrival);
            if let Some(node) = earliest(step, task, &self.arrival, &self.added) {
                self.added[node.index()] += occupied_seconds(step.instance(), task, node);
                decisions.place(task, node);
            }
        }
        Ok(())
    }
}

impl Eft {
    /// The ready tasks by falling rank; between equals as the engine reports them.
    fn sort_ready(&mut self, step: &Step<'_>) {
        self.ready.clear();
        self.ready.extend(step.ready());
        if step.trigger() >= Trigger::NodesChanged {
            self.ranks.remove(&step.job()); // the job may have grown, too
        }
        if self.ready.len() < 2 && !self.ranks.contains_key(&step.job()) {
            return; // there is nothing to sort
        }
        let ranks = self.ranks.entry(step.job()).or_insert_with(|| Ranks {
            of_task: rank::upward(step.instance()),
            unplaced: step.instance().graph().tasks().filter(|t| is_open(step.phase(*t))).count(),
        });
        let rank = &ranks.of_task;
        self.ready.sort_by(|a, b| rank[b.index()].total_cmp(&rank[a.index()]));
        ranks.unplaced = ranks.unplaced.saturating_sub(self.ready.len());
        if ranks.unplaced == 0 {
            self.ranks.remove(&step.job());
        }
    }
}

fn is_open(phase: Phase) -> bool {
    matches!(phase, Phase::Waiting | Phase::Ready)
}

/// The node where the task is expected to finish first; among equals the lowest id.
fn earliest(step: &Step<'_>, task: TaskId, arrival: &Arrival, added: &[f64]) -> Option<NodeId> {
    let instance = step.instance();
    let finish = |node: NodeId| {
        let free = step.available(task, node) + added[node.index()];
        free.max(arrival.at(node)) + instance.exec(task, node)
    };
    let nodes = instance.cluster().node_ids().filter(|node| step.can_run(task, *node));
    nodes.map(|node| (node, finish(node))).min_by(|a, b| a.1.total_cmp(&b.1)).map(|(node, _)| node)
}

/// By how much the task delays others on the node: its run time, over its share of the cores if they are shared.
fn occupied_seconds(instance: &Instance, task: TaskId, node: NodeId) -> f64 {
    let exec = instance.exec(task, node);
    match instance.slots() {
        SlotModel::Exclusive => exec,
        SlotModel::Resources => {
            exec * instance.demand(task)[0] as f64 / (instance.capacity(node)[0].max(1)) as f64
        }
    }
}
