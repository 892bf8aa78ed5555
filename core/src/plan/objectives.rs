//! What a schedule costs, by every measure that policies are compared with.

use serde::{Deserialize, Serialize};

use super::bounds::critical_path;
use super::{Instance, Schedule};
use crate::NodeId;
use crate::cluster::SlotModel;

/// Measures of one schedule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Objectives {
    /// Latest finish, in seconds.
    pub makespan: f64,
    /// Makespan over the critical path with every task on its fastest node and free transfers.
    pub slr: f64,
    /// Load imbalance value: population standard deviation over nodes of busy seconds. In the resources model a
    /// second counts with the share of the node's cores in use, so that half a node for 2 s is 1 busy second.
    pub imbalance: f64,
    /// Total cost: price of every node for the hours that it is busy.
    pub cost: f64,
    /// Joules over the makespan, by the nodes' power curves; nodes without a curve count 0.
    pub energy: f64,
    /// Bytes that move between nodes.
    pub moved_bytes: f64,
}

/// Measures a schedule that is complete and right. O(tasks log tasks + dependencies).
pub fn objectives(instance: &Instance, schedule: &Schedule) -> Objectives {
    let makespan = schedule.makespan();
    let (mut busy, mut energy, mut cost) = (vec![0.0; instance.nodes()], 0.0, 0.0);
    for (i, row) in schedule.by_node(instance.nodes()).iter().enumerate() {
        let node = NodeId::new(i);
        let loads = load_steps(instance, node, row, makespan);
        busy[i] = loads.iter().map(|(seconds, load)| seconds * load).sum();
        let in_use: f64 = loads.iter().filter(|(_, load)| *load > 0.0).map(|(seconds, _)| seconds).sum();
        cost += in_use / 3600.0 * instance.cluster().node(node).price;
        energy += loads
            .iter()
            .map(|(seconds, load)| seconds * instance.cluster().node(node).watts(*load))
            .sum::<f64>();
    }
    let critical_path = critical_path(instance);
    Objectives {
        makespan,
        slr: if critical_path > 0.0 { makespan / critical_path } else { 1.0 },
        imbalance: deviation(&busy),
        cost,
        energy,
        moved_bytes: moved_bytes(instance, schedule),
    }
}

/// How long a node was at which load (0 to 1), from 0 to the makespan.
fn load_steps(instance: &Instance, node: NodeId, row: &[super::Placement], makespan: f64) -> Vec<(f64, f64)> {
    let capacity = instance.capacity(node)[0] as f64;
    let load_of = |p: &super::Placement| match instance.slots() {
        SlotModel::Exclusive => 1.0,
        SlotModel::Resources => instance.demand(p.task)[0] as f64 / capacity,
    };
    let mut changes: Vec<(f64, f64)> =
        row.iter().flat_map(|p| [(p.start, load_of(p)), (p.finish, -load_of(p))]).collect();
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    changes.push((makespan, 0.0));
    let (mut at, mut load, mut steps) = (0.0, 0.0_f64, Vec::new());
    for (time, change) in changes {
        if time > at {
            steps.push((time - at, if load > 1e-9 { load.min(1.0) } else { 0.0 }));
            at = time;
        }
        load += change;
    }
    steps
}

fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()
}

/// Every dependency's own bytes, or every file once per node that it reaches, by the data model.
fn moved_bytes(instance: &Instance, schedule: &Schedule) -> f64 {
    use mdts_dag::DataModel;
    let graph = instance.graph();
    let node = |task: mdts_dag::TaskId| schedule.find(task).map(|p| p.node);
    let mut reached = rustc_hash::FxHashSet::default();
    let mut sum = 0.0;
    for task in graph.tasks() {
        for edge in graph.parent_edges(task) {
            let parent = graph.edge_parent(edge);
            if node(parent) == node(task) {
                continue;
            }
            match instance.data() {
                DataModel::Edges => sum += graph.edge_bytes(edge),
                DataModel::Files => {
                    sum += graph.edge_direct_bytes(edge);
                    let new = graph
                        .edge_files(edge)
                        .iter()
                        .filter(|&&file| reached.insert((parent, file, node(task))));
                    sum += new.map(|file| graph.file_bytes(*file)).sum::<f64>();
                }
            }
        }
    }
    sum
}
