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
        for (job, task) in self.nodes[node.index()].tasks() {
            self.take_away(job, task, node);
        }
        self.nodes[node.index()].reset(self.resources.capacity(node.index()));
        self.call_all_steps(Trigger::NodesChanged);
    }

    /// Takes a task from a node that is lost.
    fn take_away(&mut self, job: JobId, task: TaskId, node: NodeId) {
        let second = self.jobs[job.index()].second.get(&task).filter(|second| second.node == node);
        if let Some(attempt) = second.map(|second| second.number) {
            self.leave(TaskRun { job, task, attempt });
        }
        let t = self.task(job, task);
        if t.node != Some(node) || matches!(t.phase, Phase::Done | Phase::Failed | Phase::Blocked) {
            return;
        }
        let (was, run) = (t.phase, TaskRun { job, task, attempt: t.number });
        if was == Phase::Running && self.leave(run) {
            return;
        }
        self.off_node(job, task);
        if was != Phase::Waiting {
            self.make_ready(job, task);
        }
    }
}
