//! Tasks placed on demand: a driver that does not run jobs itself asks for the tasks that it wants placed.
//!
//! A state that works [on demand](State::on_demand) places and starts only tasks that were asked for. A task that was
//! asked for before its parents are done is placed as soon as they are. What failed must be asked for again; what was
//! lost with its node need not. The plan's order on a node is not enforced, since nobody knows when a task that was not
//! asked for will be.

use mdts_dag::TaskId;

use super::{Command, JobId, Phase, State, TaskRun, Trigger};
use crate::NodeId;

impl State {
    /// Makes jobs that are submitted from now on wait until their tasks are asked for.
    #[must_use]
    pub fn on_demand(mut self) -> Self {
        self.on_demand = true;
        self
    }

    /// Whether a task was asked for.
    pub fn is_asked(&self, job: JobId, task: TaskId) -> bool {
        self.jobs[job.index()].tasks[task.index()].asked
    }

    /// A task is to be placed, now or when it becomes ready.
    pub(super) fn asked(&mut self, job: JobId, task: TaskId) {
        let known = self.jobs.get_mut(job.index()).and_then(|j| j.tasks.get_mut(task.index()));
        let Some(t) = known.filter(|t| !t.asked) else { return };
        t.asked = true;
        if t.phase == Phase::Ready {
            self.make_ready(job, task);
        }
    }

    /// Nobody asks for the tasks of a job any more: what runs is stopped, what waits leaves its node.
    pub(super) fn withdrawn(&mut self, job: JobId, watched: bool, out: &mut Vec<Command>) {
        let Some(instance) = self.jobs.get(job.index()).map(|j| j.instance.clone()) else { return };
        for task in instance.graph().tasks() {
            let Some(t) = self.jobs[job.index()].tasks.get_mut(task.index()) else { break };
            t.asked = false;
            match (t.phase, t.node) {
                (Phase::Waiting | Phase::Ready, Some(_)) => self.unplace(job, task),
                (Phase::Running, Some(node)) => {
                    let run = TaskRun { job, task, attempt: t.number };
                    out.push(Command::Cancel { run, node });
                    if let Some((second, node)) = self.other(run) {
                        out.push(Command::Cancel { run: second, node });
                        self.leave(second);
                    }
                    self.leave(run);
                    let t = self.task(job, task);
                    (t.phase, t.node, t.staged) = (Phase::Ready, None, false);
                    self.note_ready(job, task);
                }
                _ => {}
            }
            self.task(job, task).ticket = 0;
        }
        self.jobs[job.index()].ready.clear();
        self.unplaced.remove(&job);
        if watched {
            self.call_waiting(job);
        }
    }

    /// Nothing more is placed on a node; what runs there goes on, what waits there moves.
    pub(super) fn drained(&mut self, node: NodeId) {
        let Some(state) = self.nodes.get_mut(node.index()).filter(|n| n.alive) else { return };
        (state.alive, state.draining) = (false, true);
        for (job, task) in self.nodes[node.index()].tasks() {
            let phase = self.task(job, task).phase;
            if matches!(phase, Phase::Waiting | Phase::Ready) {
                self.unplace(job, task);
            }
            if phase == Phase::Ready {
                self.make_ready(job, task);
            }
        }
        self.call_all_steps(Trigger::NodesChanged);
    }

    /// Whether a node is there only until what runs on it has ended.
    pub fn is_draining(&self, node: NodeId) -> bool {
        self.nodes[node.index()].draining
    }

    /// Takes note of how long an attempt that is about to be reported as finished really ran.
    pub fn observe(&mut self, now: f64, run: TaskRun, seconds: f64) {
        if self.is_running(run) && self.other(run).is_none() {
            self.task(run.job, run.task).start = now - seconds.max(0.0);
        }
    }
}
