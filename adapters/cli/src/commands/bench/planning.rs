//! Planning measured on one graph and cluster.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use mdts_core::{Cluster, Instance, Link, Network, Node, SlotModel};
use mdts_dag::generate::{from_text, seeded};
use mdts_dag::{DataModel, JobGraph, format};
use serde::{Deserialize, Serialize};

use super::reading::{MIB, Timing};
use crate::choice::Choice;
use crate::error::{Error, Result};
use crate::policy;
use crate::usage::{self, Meter};

/// What is planned by which policy.
#[derive(Debug)]
pub(super) struct Plan {
    /// A file or a generator.
    pub(super) graph: String,
    pub(super) policy: String,
    pub(super) nodes: u32,
    /// Of each node, which is then shared.
    pub(super) cores: Option<u32>,
    /// Cores that tasks want, in turn; empty for what the graph says.
    pub(super) demands: Vec<u32>,
}

/// What was measured.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PlanRow {
    pub(super) graph: String,
    pub(super) policy: String,
    pub(super) tasks: usize,
    pub(super) edges: usize,
    pub(super) nodes: u32,
    pub(super) slots: String,
    pub(super) cores: Option<u32>,
    pub(super) demands: Vec<u32>,
    /// Generating or reading the graph and making its flat form.
    pub(super) graph_seconds: f64,
    /// Costs of the graph on the cluster.
    pub(super) instance_seconds: f64,
    /// Processor time of the first plan, when nothing is in the caches yet.
    pub(super) first_cpu_seconds: f64,
    /// Median wall time of the policy.
    pub(super) plan_seconds: f64,
    /// Median processor time of the policy.
    pub(super) plan_cpu_seconds: f64,
    /// Plans timed.
    pub(super) repeats: usize,
    /// Processor time over that for the same kind of graph with a tenth of the tasks.
    pub(super) of_a_tenth: Option<f64>,
    /// Resident memory that the flat graph and its costs take, per task.
    pub(super) graph_bytes_per_task: Option<f64>,
    /// Peak resident memory of planning above that, per task; the finished schedule is in it.
    pub(super) plan_bytes_per_task: Option<f64>,
    /// Of the whole process, from generating or reading on.
    pub(super) peak_memory_mib: Option<f64>,
}

impl Plan {
    /// Plans often enough for a median, and verifies the schedule.
    ///
    /// # Errors
    /// Those of the graph, the cluster and the policy.
    pub(super) fn measure(&self) -> Result<PlanRow> {
        let policy = policy::find(&self.policy)?;
        let empty = usage::resident_mib();
        let begin = Instant::now();
        let graph = Arc::new(self.job()?.freeze());
        let graph_seconds = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let instance = Instance::new(graph, self.cluster()?.into(), DataModel::Edges)?;
        let instance_seconds = begin.elapsed().as_secs_f64();

        let (before, built) = (usage::peak_mib(), usage::resident_mib());
        let is_reset = usage::forget_peak();
        let planner = policy.planner();
        let meter = Meter::begin();
        let schedule = planner.plan(&instance, &mut seeded(0))?;
        let first_cpu_seconds = meter.cpu_seconds();
        let peak = usage::peak_mib();
        schedule
            .verify(&instance)
            .map_err(|violation| Error::InvalidPlan { policy: policy.name, violation })?;
        drop(schedule);
        let timing = Timing::of(|| planner.plan(&instance, &mut seeded(0)))?;
        let per_task = |mib: f64| mib * MIB / instance.tasks() as f64;
        let peak_after = peak.filter(|_| is_reset);
        Ok(PlanRow {
            graph: self.graph.clone(),
            policy: policy.name.into(),
            tasks: instance.tasks(),
            edges: instance.graph().edge_count(),
            nodes: self.nodes,
            slots: instance.slots().word().into(),
            cores: self.cores,
            demands: self.demands.clone(),
            graph_seconds,
            instance_seconds,
            first_cpu_seconds,
            plan_seconds: timing.wall,
            plan_cpu_seconds: timing.cpu,
            repeats: timing.repeats,
            of_a_tenth: None,
            graph_bytes_per_task: built.zip(empty).map(|(built, empty)| per_task(built - empty)),
            plan_bytes_per_task: peak_after.zip(built).map(|(peak, built)| per_task(peak - built)),
            peak_memory_mib: peak.zip(before).map(|(peak, before)| peak.max(before)),
        })
    }

    fn job(&self) -> Result<JobGraph> {
        let path = Path::new(&self.graph);
        let job =
            if path.exists() { format::read_path(path)? } else { from_text(&self.graph, &mut seeded(0))? };
        if self.demands.is_empty() {
            return Ok(job);
        }
        let mut graph = job.petgraph().clone();
        for (task, cores) in graph.node_weights_mut().zip(self.demands.iter().cycle()) {
            *task = task.clone().cores(f64::from(*cores));
        }
        Ok(JobGraph::from_petgraph(job.name(), graph)?)
    }

    /// Nodes of eight different speeds, 100 MB/s between them.
    fn cluster(&self) -> Result<Cluster> {
        let node = |i: u32| {
            let node = Node::new(format!("m{i}")).speed(0.5 + 0.25 * f64::from(i % 8));
            self.cores.map_or(node.clone(), |cores| node.cores(f64::from(cores)))
        };
        let slots = if self.cores.is_some() { SlotModel::Resources } else { SlotModel::Exclusive };
        let network = Network::uniform(Link { latency: 0.0, bandwidth: 100e6 });
        Ok(Cluster::new((0..self.nodes).map(node).collect(), network, slots)?)
    }
}

/// Sets each row beside the one with a tenth of its tasks, if there is one.
pub(super) fn compare_sizes(rows: &mut [PlanRow]) {
    for at in 0..rows.len() {
        let row = &rows[at];
        let tenth = rows.iter().find(|other| other.tasks * 10 == row.tasks && other.is_like(row));
        rows[at].of_a_tenth = tenth.map(|tenth| row.plan_cpu_seconds / tenth.plan_cpu_seconds);
    }
}

impl PlanRow {
    /// Whether both are the same but for the size of the graph.
    fn is_like(&self, other: &Self) -> bool {
        let kind = |row: &Self| row.graph.split(':').next().map(str::to_owned);
        kind(self) == kind(other)
            && self.policy == other.policy
            && (self.nodes, self.cores, &self.demands) == (other.nodes, other.cores, &other.demands)
    }
}
