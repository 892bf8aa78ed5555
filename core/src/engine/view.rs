//! What can be seen of a state from outside.

use mdts_dag::TaskId;

use super::fair::Ticket;
use super::{JobId, Phase, State, Step, TaskRun, Trigger};
use crate::NodeId;

impl State {
    /// As many tasks are counted in a queue.
    pub const COUNTED: usize = 100;

    /// What a policy would see of a job now.
    pub fn step(&self, job: JobId) -> Step<'_> {
        Step::new(self, job, Trigger::Ready)
    }

    /// Time of the latest event.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Number of jobs submitted.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Where a task is in its life.
    pub fn phase(&self, job: JobId, task: TaskId) -> Phase {
        self.jobs[job.index()].tasks[task.index()].phase
    }

    /// Node that a task is placed on, runs on or ran on; of two attempts, that of the first.
    pub fn node_of(&self, job: JobId, task: TaskId) -> Option<NodeId> {
        self.jobs[job.index()].tasks[task.index()].node
    }

    /// Start and finish of a task: real when done, expected while running.
    pub fn times(&self, job: JobId, task: TaskId) -> Option<(f64, f64)> {
        let t = &self.jobs[job.index()].tasks[task.index()];
        matches!(t.phase, Phase::Running | Phase::Done).then_some((t.start, t.finish))
    }

    /// Attempts of a task begun so far.
    pub fn attempts(&self, job: JobId, task: TaskId) -> u32 {
        self.jobs[job.index()].tasks[task.index()].attempts
    }

    /// Whether this attempt runs.
    pub fn is_running(&self, run: TaskRun) -> bool {
        let Some(job) = self.jobs.get(run.job.index()) else { return false };
        let is_second = || job.second.get(&run.task).is_some_and(|second| second.number == run.attempt);
        let of = job.tasks.get(run.task.index()).filter(|t| t.phase == Phase::Running);
        of.is_some_and(|t| t.number == run.attempt || is_second())
    }

    /// The second attempt of a task beside the one that [`State::node_of`] and [`State::times`] tell of, and its node.
    pub fn second_attempt(&self, job: JobId, task: TaskId) -> Option<(TaskRun, NodeId)> {
        let second = self.jobs[job.index()].second.get(&task)?;
        Some((TaskRun { job, task, attempt: second.number }, second.node))
    }

    /// Whether a failure of this attempt would be the last: the task has no retries left and no other attempt runs.
    pub fn is_last_chance(&self, run: TaskRun) -> bool {
        let job = &self.jobs[run.job.index()];
        let failures = job.tasks[run.task.index()].failures;
        self.other(run).is_none() && failures >= job.instance.graph().retries(run.task)
    }

    /// Whether a node is there.
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.nodes[node.index()].alive
    }

    /// Whether nothing is started until [`Event::Resumed`](super::Event::Resumed).
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Tasks of a job that have not come to their end.
    pub fn remaining(&self, job: JobId) -> usize {
        self.jobs[job.index()].remaining
    }

    /// Whether every job has come to its end.
    pub fn is_finished(&self) -> bool {
        self.open.is_empty()
    }

    /// What is free on a node, one number per dimension of [`crate::Instance::resources`]. Exclusive nodes are not
    /// counted.
    pub fn free(&self, node: NodeId) -> &[u64] {
        &self.nodes[node.index()].free
    }

    /// Tasks of all jobs that run on a node.
    pub fn running_on(&self, node: NodeId) -> usize {
        self.nodes[node.index()].running as usize
    }

    /// Number of ready tasks of the same client and priority that come before a placed task on its node, whether or not they
    /// could start now; counted up to [`State::COUNTED`], so that all tasks of a long queue can be asked about.
    pub fn waits_behind(&self, job: JobId, task: TaskId) -> usize {
        let t = &self.jobs[job.index()].tasks[task.index()];
        let Some(node) = t.node.map(|node| &self.nodes[node.index()]) else { return 0 };
        let own = t.ticket;
        // Tickets that are out of date are looked at, too, but not for long.
        let earlier = node.strict.iter().take(10 * Self::COUNTED).take_while(|(ticket, ..)| *ticket < own);
        let is_ready = |(ticket, job, task): &&Ticket| {
            let of_job = self.jobs.get(job.index());
            let other = of_job.and_then(|job| job.tasks.get(task.index()));
            other.is_some_and(|other| other.ticket == *ticket && other.phase == Phase::Ready)
        };
        let strict = earlier.filter(is_ready).count();
        let in_line = node.queue.before(self.line(job), (own, job, task), Self::COUNTED);
        (strict + in_line).min(Self::COUNTED)
    }
}
