//! Which tasks have run times in the same proportion on all nodes: those whose kinds have the same speeds and whose demands fit
//! the same nodes. Each such class has one row of speeds, so that memory is O(tasks + classes x nodes).
//!
//! Which class a task is in seldom changes when nodes come or go, and is taken over then: no task is looked at.

use std::sync::Arc;

use mdts_dag::FlatGraph;
use rustc_hash::FxHashMap;

use super::resources::{Resources, fits};
use crate::Cluster;

/// Where a task's times come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Row {
    Speeds(u32),
    Times(u32),
}

/// The class of every task of a graph.
#[derive(Debug, Clone)]
pub(super) struct Classes {
    pub(super) of_task: Arc<[Row]>,
    of_kind: Vec<u32>,
    of_demand: Vec<u32>,
    rows: Arc<[Class]>,
}

/// Tasks that share a row of speeds.
#[derive(Debug, Clone, Copy)]
struct Class {
    kinds: u32,
    demands: u32,
    /// The most work of any of them.
    heaviest: f64,
}

/// A row of speeds per class, one after the other.
#[derive(Debug, Default)]
pub(super) struct Speeds {
    /// 0: the node cannot run the tasks.
    pub(super) of_nodes: Vec<f64>,
    /// The highest of each row.
    pub(super) fastest: Vec<f64>,
}

/// What the nodes of a cluster make of kinds and demands.
pub(super) struct Sorted<'a> {
    cluster: &'a Cluster,
    kinds: KindClasses,
    fitting: Fitting,
}

impl<'a> Sorted<'a> {
    /// O(nodes x (demands + resources) + kinds + speeds given per kind).
    pub(super) fn new(graph: &FlatGraph, cluster: &'a Cluster, resources: &Resources) -> Self {
        let fitting = Fitting::new(graph.demands().len(), cluster.len(), resources);
        Self { cluster, kinds: KindClasses::new(graph, cluster), fitting }
    }

    /// The class of every task: those of the same graph on another cluster, if they are the same, else O(tasks).
    pub(super) fn classes(&self, graph: &FlatGraph, work: &[f64], known: Option<&Classes>) -> Classes {
        let is_same = |known: &&Classes| {
            known.of_kind == self.kinds.of_kind && known.of_demand == self.fitting.of_demand
        };
        if let Some(known) = known.filter(is_same) {
            return known.clone();
        }
        let mut rows: Vec<Class> = Vec::new();
        let mut known: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut given = graph.per_node_times().iter().map(|(task, _)| *task).peekable();
        let mut times = 0;
        let of_task = graph.tasks().map(|task| {
            if given.next_if_eq(&task).is_some() {
                times += 1;
                return Row::Times(times - 1);
            }
            let kinds = self.kinds.of_kind[graph.kind(task).index()];
            let demands = self.fitting.of_demand[graph.demand(task).index()];
            let row = *known.entry((kinds, demands)).or_insert_with(|| {
                rows.push(Class { kinds, demands, heaviest: 0.0 });
                rows.len() as u32 - 1
            });
            let heaviest = &mut rows[row as usize].heaviest;
            *heaviest = heaviest.max(work[task.index()]);
            Row::Speeds(row)
        });
        Classes {
            of_task: of_task.collect(),
            of_kind: self.kinds.of_kind.clone(),
            of_demand: self.fitting.of_demand.clone(),
            rows: rows.into(),
        }
    }

    /// The rows of all classes. O(classes x nodes).
    pub(super) fn speeds(&self, classes: &Classes) -> Speeds {
        let mut speeds = Speeds::default();
        for class in classes.rows.iter() {
            let at = speeds.of_nodes.len();
            speeds.of_nodes.extend(self.cluster.nodes().iter().map(|node| node.speed));
            let row = &mut speeds.of_nodes[at..];
            for (node, speed) in &self.kinds.own[class.kinds as usize] {
                row[*node] = *speed;
            }
            for (speed, _) in
                row.iter_mut().zip(self.fitting.of_class(class.demands)).filter(|(_, fits)| !**fits)
            {
                *speed = 0.0;
            }
            speeds.fastest.push(row.iter().copied().fold(0.0, f64::max));
        }
        speeds
    }

    /// The nodes that a demand fits on.
    pub(super) fn fit(&self, demand: usize) -> &[bool] {
        self.fitting.of_class(self.fitting.of_demand[demand])
    }
}

impl Classes {
    /// Whether every task of every class can run somewhere.
    pub(super) fn can_run(&self, speeds: &Speeds) -> bool {
        self.rows
            .iter()
            .zip(&speeds.fastest)
            .all(|(class, speed)| seconds(class.heaviest, *speed).is_finite())
    }
}

#[inline]
pub(super) fn seconds(work: f64, speed: f64) -> f64 {
    if speed > 0.0 { work / speed } else { f64::INFINITY }
}

/// For every demand, the nodes whose whole capacity holds it; equal sets are stored once.
struct Fitting {
    of_demand: Vec<u32>,
    patterns: Vec<Vec<bool>>,
}

impl Fitting {
    fn new(demands: usize, nodes: usize, resources: &Resources) -> Self {
        let mut known: FxHashMap<Vec<bool>, u32> = FxHashMap::default();
        let mut patterns = Vec::new();
        let of_demand = (0..demands).map(|demand| {
            let known_resources = resources.unknown(demand).is_none();
            let demand = resources.demand(demand);
            let fit_on = |node| known_resources && fits(demand, resources.capacity(node));
            let fit: Vec<bool> = (0..nodes).map(fit_on).collect();
            *known.entry(fit).or_insert_with_key(|fit| {
                patterns.push(fit.clone());
                patterns.len() as u32 - 1
            })
        });
        Self { of_demand: of_demand.collect(), patterns }
    }

    fn of_class(&self, class: u32) -> &[bool] {
        &self.patterns[class as usize]
    }
}

/// Kinds by the speeds that nodes have for them.
struct KindClasses {
    of_kind: Vec<u32>,
    /// Per class, ascending by node: the nodes with a speed other than their own. Most kinds have none.
    own: Vec<Vec<(usize, f64)>>,
}

impl KindClasses {
    /// O(kinds + speeds given per kind), whatever the number of nodes that give none.
    fn new(graph: &FlatGraph, cluster: &Cluster) -> Self {
        let kinds = graph.kinds().iter().enumerate();
        let ids: FxHashMap<&str, usize> = kinds.map(|(i, kind)| (&**kind, i)).collect();
        let mut own_of_kind = vec![Vec::new(); ids.len()];
        for (i, node) in cluster.nodes().iter().enumerate() {
            for (kind, speed) in node.speeds.iter().filter(|(_, speed)| **speed != node.speed) {
                if let Some(kind) = ids.get(kind.as_str()) {
                    own_of_kind[*kind].push((i, *speed));
                }
            }
        }
        let mut known: FxHashMap<Vec<(usize, u64)>, u32> = FxHashMap::default();
        let mut own = Vec::new();
        let of_kind = own_of_kind.into_iter().map(|speeds| {
            let bits = speeds.iter().map(|(node, speed)| (*node, speed.to_bits())).collect();
            *known.entry(bits).or_insert_with(|| {
                own.push(speeds);
                own.len() as u32 - 1
            })
        });
        Self { of_kind: of_kind.collect(), own }
    }
}
