//! What people change in a job that has begun: a task is given up, or gets another chance.
//!
//! Both cost O(edges behind the task).

use mdts_dag::TaskId;

use super::{Command, JobId, Phase, State, TaskRun};

impl State {
    /// A task that has not come to its end fails for good, running or not. One that is blocked does so, too: it is not to
    /// run when what blocks it runs again.
    pub(super) fn dropped(&mut self, id: JobId, task: TaskId, watched: bool, out: &mut Vec<Command>) {
        let Some((phase, attempt, node)) = self.glance(id, task) else { return };
        match (phase, node) {
            (Phase::Running, Some(node)) => {
                let run = TaskRun { job: id, task, attempt };
                self.stop(run, node, out);
                self.off_node(id, task);
            }
            (Phase::Waiting | Phase::Ready, _) => {
                self.unplace(id, task);
                self.resting.remove(id, task);
                let ready = &mut self.jobs[id.index()].ready;
                ready.retain(|other| *other != task);
                if ready.is_empty() {
                    self.unplaced.remove(&id);
                }
            }
            (Phase::Blocked, _) => {
                self.task(id, task).phase = Phase::Failed;
                return;
            }
            _ => return,
        }
        self.task(id, task).phase = Phase::Failed;
        let job = &mut self.jobs[id.index()];
        job.remaining -= 1;
        job.lost += 1;
        self.block_descendants(id, task);
        self.close(id, out);
        if watched {
            self.call_waiting(id);
        }
    }

    /// A task that failed for good is as if it had never run, and so is what was blocked behind it alone.
    pub(super) fn retried(&mut self, id: JobId, task: TaskId) {
        if self.glance(id, task).is_none_or(|(phase, ..)| phase != Phase::Failed) {
            return;
        }
        let instance = self.jobs[id.index()].instance.clone();
        let graph = instance.graph();
        let mut open = vec![task];
        while let Some(task) = open.pop() {
            if !is_lost(self.phase(id, task)) {
                continue; // reached by another way
            }
            if graph.parents(task).iter().any(|parent| is_lost(self.phase(id, *parent))) {
                self.task(id, task).phase = Phase::Blocked;
                continue;
            }
            self.off_node(id, task);
            let t = self.task(id, task);
            (t.phase, t.failures) = (Phase::Waiting, 0);
            let is_ready = t.open_parents == 0;
            let job = &mut self.jobs[id.index()];
            job.remaining += 1;
            job.lost -= 1;
            job.closed = false;
            self.open.insert(id);
            if is_ready {
                self.make_ready(id, task);
            }
            open.extend(
                graph.children(task).iter().filter(|child| self.phase(id, **child) == Phase::Blocked),
            );
        }
    }

    fn glance(&self, job: JobId, task: TaskId) -> Option<(Phase, u32, Option<crate::NodeId>)> {
        let t = self.jobs.get(job.index())?.tasks.get(task.index())?;
        Some((t.phase, t.number, t.node))
    }
}

fn is_lost(phase: Phase) -> bool {
    matches!(phase, Phase::Failed | Phase::Blocked)
}
