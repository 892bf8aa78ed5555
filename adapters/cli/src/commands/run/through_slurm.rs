//! A run through Slurm, beside what all runs do: the whole graph is submitted before it, if it is to be, and what is left in
//! the queue is cancelled after it.

use std::process::ExitCode;

use mdts_core::engine::Step;
use mdts_core::runner::{RunEnd, RunReport};
use mdts_core::{Decisions, NodeId, Placer};
use mdts_slurm::SlurmHandle;

use super::ready::Ready;
use crate::error::{Error, Result};
use crate::output;
use crate::text::count;

/// Places tasks where they were submitted to; if that node is lost, on the one with the fewest tasks.
#[derive(Debug)]
pub(super) struct AsSubmitted {
    nodes: Vec<Option<NodeId>>,
}

impl AsSubmitted {
    /// With the nodes by task.
    pub(super) fn new(nodes: Vec<Option<NodeId>>) -> Self {
        Self { nodes }
    }
}

impl Placer for AsSubmitted {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> mdts_core::Result<()> {
        for &task in step.ready() {
            let here =
                self.nodes.get(task.index()).copied().flatten().filter(|node| step.can_run(task, *node));
            let others = step.instance().cluster().node_ids().filter(|node| step.can_run(task, *node));
            let emptiest = || others.min_by_key(|node| step.running(*node) + step.waiting(*node));
            if let Some(node) = here.or_else(emptiest) {
                decisions.place(task, node);
            }
        }
        Ok(())
    }
}

/// Submits the whole graph; the nodes by task.
///
/// # Errors
/// [`Error::Core`] if Slurm refuses it or cannot be reached.
pub(super) async fn submit_graph(ready: &Ready, slurm: &SlurmHandle) -> Result<Vec<Option<NodeId>>> {
    let work = &ready.work;
    Ok(slurm.submit_graph(&work.job.graph, &work.instance, &ready.plan.schedule).await?)
}

/// What is said of a run that is left to Slurm.
pub(super) fn say_detached(ready: &Ready, slurm: &SlurmHandle, is_silent: bool) -> Result<ExitCode> {
    let journal = ready.journal.as_deref().map(|journal| journal.display().to_string()).unwrap_or_default();
    if !is_silent {
        let summary = slurm.summary();
        output::print(&format!(
            "submitted: {} in {} as run {}; squeue shows it, and mdts run --resume --journal {journal} tells what became of it\n",
            count(ready.work.job.graph.len(), "task"),
            count(summary.submissions as usize, "submission"),
            slurm.run_id(),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// After a run that has come to its end: what it has left in the queue will not run.
pub(super) async fn tidy(slurm: &SlurmHandle, report: &RunReport) {
    if report.end == RunEnd::Complete && report.is_success() {
        return; // nothing is left
    }
    if let Err(error) = slurm.cancel_all().await {
        output::complain_of(&Error::from(error));
    }
}
