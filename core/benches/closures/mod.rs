//! Jobs of in-process closures that end at once, and a policy that a user would choose for them.

use std::sync::Arc;

use mdts_core::engine::Step;
use mdts_core::runner::{FnExecutor, Outcome, RunReport, Runner};
use mdts_core::{Cluster, Decisions, Instance, NodeId, Placer, Result, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task, TaskId};

/// Every ready task on the node that could finish it first.
#[derive(Debug, Default)]
struct EarliestFinish {
    /// When each node is free, by the decisions of this step.
    free: Vec<f64>,
}

impl Placer for EarliestFinish {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        let Some(&first) = step.ready().first() else { return Ok(()) };
        let nodes = step.instance().cluster().node_ids();
        self.free.clear();
        self.free.extend(nodes.map(|node| step.available(first, node)));
        for &task in step.ready() {
            let nodes = step.instance().cluster().node_ids().filter(|node| step.can_run(task, *node));
            let finish = |node: NodeId| self.free[node.index()] + step.instance().exec(task, node);
            if let Some(best) = nodes.min_by(|a, b| finish(*a).total_cmp(&finish(*b))) {
                self.free[best.index()] = finish(best);
                decisions.place(task, best);
            }
        }
        Ok(())
    }
}

/// How the tasks depend on one another.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// Not at all.
    Independent,
    /// In layers of a thousand, each task on two of the layer before.
    Layered,
    /// Each on the one before.
    Chain,
}

const LAYER: usize = 1000;

/// A job of so many tasks.
pub(crate) fn job(tasks: usize, shape: Shape) -> Result<Arc<JobGraph>> {
    let mut job = JobGraph::builder("closures");
    for i in 0..tasks {
        let task = job.task(Task::new(format!("t{i}")).seconds(1.0))?;
        let mut depend = |parent| job.depend(task, TaskId::new(parent), 0.0);
        match shape {
            Shape::Chain if i > 0 => depend(i - 1),
            Shape::Layered if i >= LAYER => {
                let layer = i / LAYER - 1;
                depend(layer * LAYER + i % LAYER);
                depend(layer * LAYER + (i + 1) % LAYER);
            }
            _ => {}
        }
    }
    Ok(Arc::new(job.build()?))
}

/// The job on so many nodes, each of which runs one task at a time.
pub(crate) fn instance(job: &JobGraph, nodes: usize) -> Result<Arc<Instance>> {
    let cluster = Arc::new(Cluster::identical(nodes, SlotModel::Exclusive)?);
    Ok(Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Edges)?))
}

/// A runner of the job.
pub(crate) fn runner(job: &Arc<JobGraph>, instance: &Arc<Instance>) -> Runner<impl Placer> {
    Runner::new(job.clone(), instance.clone(), EarliestFinish::default())
}

/// Runs it to its end.
pub(crate) async fn run(runner: Runner<impl Placer>) -> Result<RunReport> {
    runner.run(&mut FnExecutor::new(|_| async { Outcome::Success })).await
}
