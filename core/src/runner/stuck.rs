//! Why a run goes nowhere.

use crate::engine::{JobId, Phase, State};
use crate::{Error, Instance, NodeId};

/// How many tasks are named.
const NAMED: usize = 3;

/// The error for a run in which nothing runs though tasks are left; names the first tasks that could run.
pub(super) fn explain(state: &State, instance: &Instance, is_lost: impl Fn(NodeId) -> bool) -> Error {
    let (job, graph) = (JobId::default(), instance.graph());
    let node_name = |node: NodeId| instance.cluster().node(node).name.as_str();
    let ready = graph.tasks().filter(|t| state.phase(job, *t) == Phase::Ready);
    let named: Vec<String> = ready
        .take(NAMED)
        .map(|task| {
            let name = graph.task_name(task);
            let mut fitting =
                instance.cluster().node_ids().filter(|n| instance.can_run(task, *n) && !is_lost(*n));
            match state.node_of(job, task) {
                Some(node) => {
                    format!("'{name}' waits on '{}' behind tasks that never start", node_name(node))
                }
                None => match fitting.next() {
                    Some(node) => {
                        format!(
                            "'{name}' could run on '{}', but the policy places it nowhere",
                            node_name(node)
                        )
                    }
                    None => format!("'{name}' can run on lost nodes only"),
                },
            }
        })
        .collect();
    let left = state.remaining(job);
    Error::Stuck(format!("nothing runs, and {left} tasks are left; {}", named.join("; ")))
}
