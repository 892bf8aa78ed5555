//! Lower bounds on the makespan: no schedule can be shorter.

use mdts_dag::TaskId;
use mdts_dag::analysis::{downward_rank, upward_rank};
use serde::Serialize;

use super::Instance;
use super::energy::{self, Window, energetic};
use crate::NodeId;
use crate::cluster::SlotModel;

/// What is known about the shortest possible makespan, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Bounds {
    /// Longest path with every task on its fastest node and no transfers. Schedule length ratios divide by this.
    pub critical_path: f64,
    /// Longest path with every task on the node that is best for the path, and transfers where the node changes.
    pub transfer_path: f64,
    /// Work over capacity, for the resource that is shortest.
    pub work: f64,
    /// Work over capacity between the earliest start and the latest end of a set of tasks.
    pub interval: f64,
    /// The same with the parts of tasks that an interval holds at least; no less than the others, but 0 for more than 128
    /// tasks.
    pub energy: f64,
}

impl Bounds {
    /// The best of all.
    pub fn best(&self) -> f64 {
        self.critical_path.max(self.transfer_path).max(self.work).max(self.interval).max(self.energy)
    }
}

/// Largest graph for which `interval` looks at all pairs of earliest start and latest end.
const ALL_PAIRS: usize = 512;
/// Tasks x nodes up to which `transfer_path` is computed; it takes so many numbers of memory.
const TRANSFERS: usize = 1 << 22;

/// Computes all bounds. O(tasks x (nodes + resources + log tasks) + dependencies), tasks^2 for up to 512 tasks and
/// tasks^2 log tasks for up to 128;
/// O((tasks + dependencies) x nodes) for `transfer_path`, which is `critical_path` beyond 4 million tasks x
/// nodes.
///
/// `work` weighs every node with its speed: if the nodes' weights sum to 1 over the capacity, no schedule is
/// shorter than the weighted work of tasks that each choose their cheapest node (duality). `interval` uses it
/// for tasks that cannot start before time `a` (longest path to them) or end in the last `b` seconds (longest
/// path behind them): their work must fit between. Source of the idea: Fernandez, Bussell: Bounds on the number
/// of processors and time for multiprocessor optimal schedules, IEEE Trans. Computers 22(8), 1973.
pub fn lower_bounds(instance: &Instance) -> Bounds {
    let graph = instance.graph();
    let exec = |t| instance.min_exec(t);
    let up = upward_rank(graph, instance.data(), exec, |_| 0.0);
    let heads: Vec<f64> = downward_rank(graph, instance.data(), exec, |_| 0.0);
    let tails: Vec<f64> = graph.tasks().map(|t| up[t.index()] - exec(t)).collect();
    let mut bounds = Bounds { critical_path: longest(&up), ..Bounds::default() };
    bounds.transfer_path = transfer_path(instance).max(bounds.critical_path);
    let areas = areas(instance);
    for Area { work, .. } in &areas {
        bounds.work = bounds.work.max(work.iter().copied().collect::<Sum>().value());
        bounds.interval = bounds.interval.max(after(work, &heads)).max(after(work, &tails));
        if work.len() <= ALL_PAIRS {
            bounds.interval = bounds.interval.max(between(work, &heads, &tails));
        }
    }
    if instance.tasks() <= energy::MOST_TASKS {
        let window = |t: TaskId| Window { head: heads[t.index()], exec: exec(t), tail: tails[t.index()] };
        let windows: Vec<Window> = graph.tasks().map(window).collect();
        let energetic = |best: f64, area: &Area| energetic(area, &windows, best);
        bounds.energy = areas.iter().fold(bounds.best(), energetic);
    }
    bounds
}

/// [`Bounds::critical_path`] alone. O(tasks + dependencies).
pub(super) fn critical_path(instance: &Instance) -> f64 {
    longest(&upward_rank(instance.graph(), instance.data(), |t| instance.min_exec(t), |_| 0.0))
}

fn longest(paths: &[f64]) -> f64 {
    paths.iter().copied().fold(0.0, f64::max)
}

fn transfer_path(instance: &Instance) -> f64 {
    let nodes = instance.nodes();
    let same = instance.cluster().network().fastest().seconds(f64::MAX) == 0.0;
    if same || instance.tasks().saturating_mul(nodes) > TRANSFERS {
        return 0.0;
    }
    let behind = remaining_paths(instance);
    let mut exec = vec![0.0; nodes];
    let best = |task: TaskId| {
        instance.exec_all(task, &mut exec);
        let row = &behind[task.index() * nodes..];
        exec.iter().zip(row).map(|(exec, behind)| exec + behind).fold(f64::INFINITY, f64::min)
    };
    instance.graph().tasks().map(best).fold(0.0, f64::max)
}

/// For every task and node (row by task) how long the rest takes at least once the task has ended on the node, in
/// seconds: the longest path that follows, with each task on the node that is best for the path and transfers, over
/// the fastest link, where the node changes.
///
/// The idea is that of the optimistic cost table (Arabnejad, Barbosa: List scheduling algorithm for heterogeneous
/// systems by an optimistic cost table, IEEE TPDS 25(3), 2014); no schedule does better. O((tasks + dependencies) x
/// nodes) time, O(tasks x nodes) memory.
pub fn remaining_paths(instance: &Instance) -> Vec<f64> {
    let (graph, nodes) = (instance.graph(), instance.nodes());
    let link = instance.cluster().network().fastest();
    let mut behind = vec![0.0_f64; instance.tasks() * nodes];
    let mut here = vec![0.0; nodes];
    for &task in graph.topological_order().iter().rev() {
        instance.exec_all(task, &mut here);
        let row = task.index() * nodes..(task.index() + 1) * nodes;
        here.iter_mut().zip(&behind[row]).for_each(|(exec, behind)| *exec += behind);
        let best = here.iter().copied().fold(f64::INFINITY, f64::min);
        for (parent, bytes) in graph.parents(task).iter().zip(instance.parent_bytes(task)) {
            let elsewhere = best + link.seconds(*bytes);
            let row = &mut behind[parent.index() * nodes..(parent.index() + 1) * nodes];
            for (behind, here) in row.iter_mut().zip(&here) {
                *behind = behind.max(here.min(elsewhere));
            }
        }
    }
    behind
}

/// What tasks take of the whole cluster's time, for one resource and one way to weigh nodes.
#[derive(Debug)]
pub(super) struct Area {
    /// What each task takes at least.
    pub(super) work: Vec<f64>,
    /// What each task takes in a second on a node of weight 1.
    pub(super) demand: Vec<f64>,
    /// The largest and the least weight of a node.
    pub(super) fastest: f64,
    pub(super) slowest: f64,
}

fn areas(instance: &Instance) -> Vec<Area> {
    let (n, graph) = (instance.nodes(), instance.graph());
    let capacity = |node: usize, d: Option<usize>| match d {
        None => 1.0,
        Some(d) => instance.capacity(NodeId::new(node))[d] as f64,
    };
    let dimensions: Vec<Option<usize>> = match instance.slots() {
        SlotModel::Exclusive => vec![None],
        SlotModel::Resources => (0..instance.resources().dimensions())
            .filter(|&d| {
                let all = (0..n).map(|node| instance.capacity(NodeId::new(node))[d]);
                all.clone().all(super::Resources::is_limited) && all.clone().any(|c| c > 0)
            })
            .map(Some)
            .collect(),
    };
    let mut exec = vec![0.0; n];
    let mut areas = Vec::new();
    for d in dimensions {
        for speeds in weights(instance) {
            let total = (0..n).map(|node| speeds[node] * capacity(node, d)).collect::<Sum>().value();
            let demand = |task| d.map_or(1.0, |d| instance.demand(task)[d] as f64);
            let work = graph.tasks().map(|task| {
                instance.exec_all(task, &mut exec);
                let cheapest = exec.iter().zip(&speeds).map(|(e, s)| e * s).fold(f64::INFINITY, f64::min);
                cheapest * demand(task) / total
            });
            areas.push(Area {
                work: work.collect(),
                demand: graph.tasks().map(|task| demand(task) / total).collect(),
                fastest: speeds.iter().copied().fold(0.0, f64::max),
                slowest: speeds.iter().copied().fold(f64::INFINITY, f64::min),
            });
        }
    }
    areas
}

/// Node weights to try: equal, and by speed where speeds differ.
fn weights(instance: &Instance) -> Vec<Vec<f64>> {
    let nodes = instance.cluster().nodes();
    let equal = vec![1.0; nodes.len()];
    let speeds: Vec<f64> = nodes.iter().map(|node| node.speed).collect();
    let same = speeds.iter().all(|s| *s == speeds[0]);
    if same { vec![equal] } else { vec![speeds, equal] }
}

/// The largest of `edge` + area of all tasks with at least this edge.
fn after(area: &[f64], edge: &[f64]) -> f64 {
    let mut order: Vec<usize> = (0..area.len()).collect();
    order.sort_by(|&a, &b| edge[b].total_cmp(&edge[a]));
    let mut sum = Sum::default();
    order.into_iter().fold(0.0, |best: f64, i| {
        sum.add(area[i]);
        best.max(edge[i] + sum.value())
    })
}

/// The largest of head + tail + area of all tasks with at least this head and at least this tail. O(tasks^2).
fn between(area: &[f64], heads: &[f64], tails: &[f64]) -> f64 {
    let falling = |edge: &[f64]| {
        let mut order: Vec<usize> = (0..area.len()).collect();
        order.sort_by(|&a, &b| edge[b].total_cmp(&edge[a]));
        order
    };
    let by_tail = falling(tails);
    let mut inside = vec![false; area.len()];
    let mut best = 0.0_f64;
    for first in falling(heads) {
        inside[first] = true;
        let mut sum = Sum::default();
        for &task in by_tail.iter().filter(|t| inside[**t]) {
            sum.add(area[task]);
            best = best.max(heads[first] + sum.value() + tails[task]);
        }
    }
    best
}

/// A sum of numbers of at least 0 whose error does not grow with their count: a bound must not rise by rounding. Source:
/// Neumaier, Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen, ZAMM 54, 1974.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let (large, small) = if self.sum >= value { (self.sum, value) } else { (value, self.sum) };
        self.lost += (large - sum) + small;
        self.sum = sum;
    }

    pub(super) fn value(self) -> f64 {
        if self.sum.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

impl FromIterator<f64> for Sum {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut sum = Self::default();
        values.into_iter().for_each(|value| sum.add(value));
        sum
    }
}
