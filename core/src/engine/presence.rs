//! Nodes that come and go.

use super::state::{Phase, State};
use super::{JobId, Trigger};
use crate::NodeId;

impl State {
    pub(super) fn joined(&mut self, node: NodeId) {
        if let Some(state) = self.nodes.get_mut(node.index()).filter(|n| !n.alive) {
            state.alive = true;
            self.touch(node);
            self.call_all_steps(Trigger::NodesChanged);
        }
    }

    pub(super) fn lost(&mut self, node: NodeId) {
        if !self.nodes.get(node.index()).is_some_and(|n| n.alive) {
            return;
        }
        self.nodes[node.index()].alive = false;
        for job in 0..self.jobs.len() {
            let job = JobId::new(job);
            for task in self.jobs[job.index()].instance.clone().graph().tasks() {
                let t = self.task(job, task);
                if t.node != Some(node) || matches!(t.phase, Phase::Done | Phase::Failed | Phase::Blocked) {
                    continue;
                }
                let was = t.phase;
                (t.node, t.staged, t.ticket) = (None, false, 0);
                if was != Phase::Waiting {
                    self.make_ready(job, task);
                }
            }
        }
        self.nodes[node.index()].reset(self.resources.capacity(node.index()));
        self.call_all_steps(Trigger::NodesChanged);
    }
}
