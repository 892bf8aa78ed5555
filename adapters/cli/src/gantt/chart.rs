//! What a Gantt chart shows, before it is drawn: rows of nodes, each with lanes for tasks that run side by side.

use mdts_core::{Instance, NodeId, Placement};
use mdts_dag::{KindId, TaskId};

/// One attempt of a task on a node, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bar {
    pub(crate) task: TaskId,
    pub(crate) kind: KindId,
    pub(crate) node: NodeId,
    pub(crate) start: f64,
    pub(crate) finish: f64,
    pub(crate) failed: bool,
    /// Number of the line within its node.
    pub(crate) lane: usize,
}

/// Names and times of a chart.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Names of the nodes.
    pub(crate) nodes: Vec<String>,
    /// Lanes of every node, at least 1.
    pub(crate) lanes: Vec<usize>,
    /// Names of the tasks, by id.
    pub(crate) tasks: Vec<String>,
    /// Names of the kinds, by id.
    pub(crate) kinds: Vec<String>,
    pub(crate) bars: Vec<Bar>,
    /// Seconds before which no schedule can end.
    pub(crate) bound: f64,
}

impl Chart {
    /// An empty chart of a job on its cluster.
    pub(crate) fn new(instance: &Instance, title: String, subtitle: String, bound: f64) -> Self {
        let graph = instance.graph();
        Self {
            title,
            subtitle,
            nodes: instance.cluster().nodes().iter().map(|n| n.name.clone()).collect(),
            lanes: vec![1; instance.nodes()],
            tasks: graph.tasks().map(|t| graph.task_name(t).to_owned()).collect(),
            kinds: graph.kinds().iter().map(ToString::to_string).collect(),
            bars: Vec::new(),
            bound,
        }
    }

    /// Adds bars and gives each a lane: the first that is free when it starts. O(bars x lanes).
    pub(crate) fn add(
        &mut self,
        instance: &Instance,
        placements: impl IntoIterator<Item = (Placement, bool)>,
    ) {
        let bars = placements.into_iter().map(|(p, failed)| Bar {
            task: p.task,
            kind: instance.graph().kind(p.task),
            node: p.node,
            start: p.start,
            finish: p.finish,
            failed,
            lane: 0,
        });
        self.bars.extend(bars);
        self.bars.sort_by(|a, b| {
            a.node.cmp(&b.node).then(a.start.total_cmp(&b.start)).then(a.finish.total_cmp(&b.finish))
        });
        for row in self.bars.chunk_by_mut(|a, b| a.node == b.node) {
            let mut ends: Vec<f64> = Vec::new();
            for bar in row.iter_mut() {
                let slack = 1e-9 * bar.start.abs().max(1.0);
                bar.lane = ends.iter().position(|end| *end <= bar.start + slack).unwrap_or(ends.len());
                ends.resize(ends.len().max(bar.lane + 1), 0.0);
                ends[bar.lane] = bar.finish;
            }
            self.lanes[row[0].node.index()] = ends.len();
        }
    }

    /// Latest finish.
    pub(crate) fn makespan(&self) -> f64 {
        self.bars.iter().fold(0.0, |latest, bar| latest.max(bar.finish))
    }
}
