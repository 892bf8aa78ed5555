//! `mdts inspect DAG`: what a workflow is made of, and the shortest makespan that it may have.

use std::fmt::Write as _;
use std::path::PathBuf;

use mdts_core::{Bounds, Instance, lower_bounds};
use mdts_dag::analysis::{Shape, shape};
use serde::Serialize;

use crate::choice::Choice;
use crate::error::Result;
use crate::input;
use crate::output;
use crate::settings::{ModelFlags, OtherFlags, Settings};
use crate::text::{bytes, count, number};

/// Arguments of `mdts inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Inspect {
    /// Workflow file, folder of batch scripts, log (.swf) or slurm:queue; default: a built-in example
    dag: Option<PathBuf>,
    #[command(flatten)]
    model: ModelFlags,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A superset of the stable keys.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    shape: Shape,
    nodes: usize,
    slots: &'static str,
    data: &'static str,
    /// Null if the workflow does not fit this machine and no cluster was named.
    lower_bound: Option<f64>,
    lower_bounds: Option<Bounds>,
    /// Mean seconds of all transfers over those of all tasks.
    communication_to_computation: Option<f64>,
}

impl Inspect {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<()> {
        let settings = Settings::load(&self.model, OtherFlags::default())?;
        let job = input::job(self.dag.as_deref())?;
        let machines = input::machines_for(&settings, self.dag.as_deref())?;
        let instance = match input::instance(&job, &machines, settings.data_model) {
            Err(error) if machines.is_default => {
                tracing::info!(%error, "no lower bounds");
                None
            }
            instance => Some(instance?),
        };
        let bounds = instance.as_deref().map(lower_bounds);
        let report = Report {
            shape: shape(&job.graph, &job.graph.freeze()),
            nodes: machines.cluster.len(),
            slots: machines.cluster.slots().word(),
            data: settings.data_model.word(),
            lower_bound: bounds.map(|b| b.best()),
            lower_bounds: bounds,
            communication_to_computation: instance.as_deref().and_then(communication),
        };
        match (self.json, quiet) {
            (true, _) => output::print_json(&report),
            (false, true) => Ok(()),
            (false, false) => output::print(&show(&report, &machines.label)),
        }
    }
}

fn communication(instance: &Instance) -> Option<f64> {
    let graph = instance.graph();
    let exec: f64 = graph.tasks().map(|t| instance.mean_exec(t)).sum();
    let bytes = graph.tasks().flat_map(|t| instance.parent_bytes(t));
    let transfer = bytes.fold(0.0, |sum, b| sum + instance.mean_transfer(*b)); // the sum of no floats is -0
    (exec > 0.0).then(|| transfer / exec)
}

fn show(report: &Report, cluster: &str) -> String {
    let shape = &report.shape;
    let mut text = format!("{}\n", shape.name);
    let mut line = |what: &str, value: String| _ = writeln!(text, "  {what:<22}{value}");
    line("tasks", format!("{} of {}", shape.tasks, count(shape.kinds, "kind")));
    line("edges", shape.edges.to_string());
    line("depth", format!("{} tasks on the longest path", shape.depth));
    line("width", format!("{} tasks on the widest level", shape.width));
    line("work", format!("{} s on a node of speed 1", number(shape.work_seconds)));
    line("critical path", format!("{} s on nodes of speed 1", number(shape.critical_path_seconds)));
    line("data", format!("{} over dependencies, {}", bytes(shape.data_bytes), count(shape.files, "file")));
    if shape.unknown_work > 0 {
        line("unknown run times", format!("{} tasks, counted as 0 s above", shape.unknown_work));
    }
    line("cluster", format!("{cluster}: {}, {} slots", count(report.nodes, "node"), report.slots));
    match report.lower_bounds {
        None => {
            line("lower bound", "none: the workflow does not fit this machine; use --cluster FILE".into());
        }
        Some(b) => line(
            "lower bound",
            format!(
                "{} s (critical path {} s, with transfers {} s, work {} s, intervals {} s)",
                number(b.best()),
                number(b.critical_path),
                number(b.transfer_path),
                number(b.work),
                number(b.interval)
            ),
        ),
    }
    if let Some(ratio) = report.communication_to_computation {
        line(
            "transfers to work",
            format!("{} (mean seconds of all transfers over those of all tasks)", number(ratio)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mdts_core::{Cluster, SlotModel};
    use mdts_dag::{DataModel, JobGraph, Task};

    use super::*;

    #[test]
    fn no_transfers_are_a_positive_zero() {
        let mut job = JobGraph::builder("one");
        job.task(Task::new("only").seconds(1.0)).unwrap();
        let graph = Arc::new(job.build().unwrap().freeze());
        let cluster = Arc::new(Cluster::identical(2, SlotModel::Exclusive).unwrap());
        let ratio = communication(&Instance::new(graph, cluster, DataModel::Edges).unwrap());
        assert!(ratio.is_some_and(|r| r == 0.0 && r.is_sign_positive()), "{ratio:?}");
    }
}
