//! What a policy sees in one decision step.

use mdts_dag::TaskId;

use super::{JobId, Phase, State};
use crate::{Arrival, Instance, NodeId, Placement, Progress};

/// Why there is a decision step; if there are several reasons, the last of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// A task finished or is overdue, and the policy watches progress.
    Finished,
    /// Tasks became ready.
    Ready,
    /// A node was lost or has joined.
    NodesChanged,
    /// The job is new.
    Submitted,
}

/// One decision step: the child tasks of one job that are ready together, and a view of everything else.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    state: &'a State,
    job: JobId,
    trigger: Trigger,
}

impl<'a> Step<'a> {
    pub(super) fn new(state: &'a State, job: JobId, trigger: Trigger) -> Self {
        Self { state, job, trigger }
    }

    /// The present, in seconds.
    pub fn now(&self) -> f64 {
        self.state.now
    }

    /// The job.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// Why there is a step.
    pub fn trigger(&self) -> Trigger {
        self.trigger
    }

    /// Graph, cluster and costs of the job.
    pub fn instance(&self) -> &'a Instance {
        &self.state.jobs[self.job.index()].instance
    }

    /// Whether nothing is left to do of a job: all its tasks are done or will never run.
    pub fn is_over(&self, job: JobId) -> bool {
        self.state.jobs.get(job.index()).is_none_or(|job| job.remaining == 0)
    }

    /// The child tasks to place: ready and not placed yet.
    pub fn ready(&self) -> &'a [TaskId] {
        &self.state.jobs[self.job.index()].ready
    }

    /// Where a task of the job is in its life.
    pub fn phase(&self, task: TaskId) -> Phase {
        self.state.phase(self.job, task)
    }

    /// Whether a task of the job waits only until it is repeated. It is to be placed when it is ready again; earlier
    /// decisions about it are passed over.
    pub fn is_resting(&self, task: TaskId) -> bool {
        self.state.resting.contains(self.job, task)
    }

    /// Whether any task rests.
    pub fn has_resting(&self) -> bool {
        self.state.next_due().is_some()
    }

    /// Node that a task of the job is placed on, runs on or ran on.
    pub fn node_of(&self, task: TaskId) -> Option<NodeId> {
        self.state.node_of(self.job, task)
    }

    /// Start and finish of a task of the job: real when done, expected while running.
    pub fn times(&self, task: TaskId) -> Option<(f64, f64)> {
        self.state.times(self.job, task)
    }

    /// Whether the node is there.
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.state.nodes[node.index()].alive
    }

    /// Whether the node is there and can run the task.
    pub fn can_run(&self, task: TaskId, node: NodeId) -> bool {
        self.is_alive(node) && self.instance().can_run(task, node)
    }

    /// Tasks of all jobs that run on the node.
    pub fn running(&self, node: NodeId) -> usize {
        self.state.nodes[node.index()].running as usize
    }

    /// Tasks of all jobs that are placed on the node and have not started.
    pub fn waiting(&self, node: NodeId) -> usize {
        self.state.nodes[node.index()].waiting as usize
    }

    /// When the node could begin `task` behind all that is placed there now, by the instance's run times.
    pub fn available(&self, task: TaskId, node: NodeId) -> f64 {
        self.state.available(self.job, task, node)
    }

    /// When the data of `task`'s parents is where, by the instance's transfer times. All parents must be done.
    pub fn gather(&self, task: TaskId, arrival: &mut Arrival) {
        arrival.gather(self.instance(), task, |parent| {
            let node = self.node_of(parent).unwrap_or_default();
            (node, self.times(parent).map_or(self.now(), |(_, finish)| finish))
        });
    }

    /// What has happened so far, for planning the rest of the job anew. A task that should have finished is expected to
    /// take as long again as it is late by now.
    pub fn progress(&self) -> Progress {
        let tasks = &self.state.jobs[self.job.index()].tasks;
        let late = |finish: f64| finish.max(2.0 * self.now() - finish);
        let started = self.instance().graph().tasks().filter_map(|task| {
            let t = &tasks[task.index()];
            let finish = match t.phase {
                Phase::Running => match self.state.jobs[self.job.index()].second.get(&task) {
                    // The first has taken too long already: nobody knows for how long it will.
                    Some(second) => {
                        let finish = late(second.finish);
                        return Some(Placement { task, node: second.node, start: second.start, finish });
                    }
                    None => late(t.finish),
                },
                Phase::Done => t.finish,
                _ => return None,
            };
            Some(Placement { task, node: t.node?, start: t.start, finish })
        });
        let lost = self.instance().cluster().node_ids().filter(|n| !self.is_alive(*n));
        let over = |t: &TaskId| matches!(self.phase(*t), Phase::Failed | Phase::Blocked);
        let dropped = self.instance().graph().tasks().filter(over);
        Progress {
            now: self.now(),
            started: started.collect(),
            lost: lost.collect(),
            dropped: dropped.collect(),
        }
    }
}
