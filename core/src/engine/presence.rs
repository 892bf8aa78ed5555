//! Nodes that come and go.

use mdts_dag::TaskId;

use super::state::{Phase, State};
use super::{JobId, TaskRun, Trigger};
use crate::NodeId;

impl State {
    pub(super) fn joined(&mut self, node: NodeId) {
        if let Some(state) = self.nodes.get_mut(node.index()).filter(|n| !n.alive) {
            (state.alive, state.draining) = (true, false);
            self.touch(node);
            self.call_all_steps(Trigger::NodesChanged);
        }
    }

    pub(super) fn lost(&mut self, node: NodeId) {
        if !self.nodes.get(node.index()).is_some_and(|n| n.alive || n.draining) {
            return;
        }
        self.nodes[node.index()].alive = false;
        let open: Vec<JobId> = self.open.iter().copied().collect();
        for job in open {
            self.take_away(job, node);
        }
        self.nodes[node.index()].reset(self.resources.capacity(node.index()));
        self.call_all_steps(Trigger::NodesChanged);
    }

    /// Takes all tasks of a job from a node that is lost.
    fn take_away(&mut self, job: JobId, node: NodeId) {
        let seconds = self.jobs[job.index()].second.iter().filter(|(_, second)| second.node == node);
        let seconds: Vec<TaskRun> =
            seconds.map(|(task, second)| TaskRun { job, task: *task, attempt: second.number }).collect();
        for run in seconds {
            self.leave(run);
        }
        for task in (0..self.jobs[job.index()].tasks.len()).map(TaskId::new) {
            let t = self.task(job, task);
            if t.node != Some(node) || matches!(t.phase, Phase::Done | Phase::Failed | Phase::Blocked) {
                continue;
            }
            let (was, run) = (t.phase, TaskRun { job, task, attempt: t.number });
            if was == Phase::Running && self.leave(run) {
                continue;
            }
            self.off_node(job, task);
            if was != Phase::Waiting {
                self.make_ready(job, task);
            }
        }
    }
}
