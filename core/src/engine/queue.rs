//! From decisions to starts: the queues of the nodes.
//!
//! A decision costs O(log of the queue), a start as much; dispatching looks only at nodes where something changed.

use mdts_dag::TaskId;

use super::fair::Queue;
use super::state::{Job, Phase, State};
use super::{Command, JobId, TaskRun};
use crate::policy::{Decision, Order};
use crate::{Error, NodeId, Result};

impl State {
    /// Carries out what the policy decided for one job.
    ///
    /// # Errors
    /// [`Error::BadDecision`] if a task cannot be placed so; the state must then be discarded.
    pub(super) fn decide(
        &mut self,
        job: JobId,
        decisions: &[Decision],
        out: &mut Vec<Command>,
    ) -> Result<()> {
        for decision in decisions {
            self.check_decision(job, decision)?;
            if self.resting.contains(job, decision.task) {
                continue; // it is asked for when it is ready
            }
            if self.task(job, decision.task).node == Some(decision.node) {
                self.requeue(job, decision); // its data stays where it is
            } else {
                self.unplace(job, decision.task);
                self.place(job, decision, out);
            }
        }
        if !decisions.is_empty() {
            let Job { ready, tasks, .. } = &mut self.jobs[job.index()];
            ready.retain(|t| tasks[t.index()].node.is_none());
            if ready.is_empty() {
                self.unplaced.remove(&job);
            }
        }
        Ok(())
    }

    fn check_decision(&self, job: JobId, decision: &Decision) -> Result<()> {
        let Decision { task, node, .. } = *decision;
        let of = &self.jobs[job.index()];
        let reason = match of.tasks.get(task.index()) {
            None => "there is no such task".to_owned(),
            Some(t) if !matches!(t.phase, Phase::Waiting | Phase::Ready) => {
                format!("the task is {:?} already", t.phase)
            }
            _ if !self.nodes.get(node.index()).is_some_and(|n| n.alive) => "the node is not there".to_owned(),
            _ if !of.instance.can_run(task, node) => "the node cannot run it".to_owned(),
            _ => return Ok(()),
        };
        Err(Error::BadDecision { task: format!("{task:?}"), node: format!("{node:?}"), reason })
    }

    /// Gives a task a new place in the queue of the node that it is on. Where tasks are placed on demand it keeps its place.
    fn requeue(&mut self, job: JobId, decision: &Decision) {
        let Decision { task, node, .. } = *decision;
        if !self.on_demand {
            let (line, old) = (self.line(job), self.task(job, task).ticket);
            self.nodes[node.index()].queue.remove(self.now, line, (old, job, task));
            self.take_ticket(job, decision);
            self.enqueue(job, task);
        }
        self.touch(node);
    }

    /// Gives a task the next place in the order that it waits in; a plan's order holds only where all tasks come by
    /// themselves.
    fn take_ticket(&mut self, job: JobId, decision: &Decision) {
        let Decision { task, node, .. } = *decision;
        let order = if self.on_demand { Order::Arrival } else { decision.order };
        self.tickets += 1;
        let ticket = self.tickets;
        let t = self.task(job, task);
        (t.order, t.ticket) = (order, ticket);
        if order == Order::Strict {
            self.nodes[node.index()].strict.push_back((ticket, job, task));
        }
    }

    fn place(&mut self, job: JobId, decision: &Decision, out: &mut Vec<Command>) {
        let Decision { task, node, .. } = *decision;
        let (staging, on_demand) = (self.staging, self.on_demand);
        let (_, weight, exec) = self.load(job, task, node);
        let t = self.task(job, task);
        t.node = Some(node);
        t.staged = !staging && t.phase == Phase::Ready;
        // On demand, what is placed again keeps its place among its client's tasks.
        if !on_demand || t.ticket == 0 {
            self.take_ticket(job, decision);
        }
        let state = &mut self.nodes[node.index()];
        state.add_waiting(exec * weight);
        state.here.insert((job, task));
        if staging {
            out.push(Command::Stage { job, task, node });
        }
        self.enqueue(job, task);
        self.touch(node);
    }

    pub(super) fn unplace(&mut self, job: JobId, task: TaskId) {
        let Some(node) = self.task(job, task).node else { return };
        let (_, weight, exec) = self.load(job, task, node);
        let line = self.line(job);
        let ticket = (self.task(job, task).ticket, job, task);
        self.off_node(job, task);
        let state = &mut self.nodes[node.index()];
        state.remove_waiting(exec * weight);
        state.queue.remove(self.now, line, ticket);
        state.here.remove(&(job, task));
        self.touch(node);
    }

    /// A task is on no node any more.
    pub(super) fn off_node(&mut self, job: JobId, task: TaskId) {
        let on_demand = self.on_demand;
        let t = self.task(job, task);
        (t.node, t.staged) = (None, false);
        if !on_demand {
            t.ticket = 0;
        }
    }

    /// Puts a ready, placed and staged task in arrival order into its node's queue.
    pub(super) fn enqueue(&mut self, job: JobId, task: TaskId) {
        let line = self.line(job);
        let t = self.task(job, task);
        let can_start = t.staged && t.asked;
        if let (Phase::Ready, Some(node), true, Order::Arrival) = (t.phase, t.node, can_start, t.order) {
            let ticket = (t.ticket, job, task);
            self.nodes[node.index()].queue.insert(self.now, line, ticket);
        }
    }

    /// Starts all that can start on nodes where something changed.
    pub(super) fn dispatch(&mut self, out: &mut Vec<Command>) {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for &node in &dirty {
            if self.nodes[node.index()].alive && self.dispatch_strict(node, out) {
                self.dispatch_arrivals(node, out);
            }
        }
        self.speculate(&dirty, out);
        for &node in &dirty {
            let node = &mut self.nodes[node.index()];
            if node.running == 0 && node.waiting == 0 {
                node.queue = Queue::default(); // it has shared out all that it had
            }
        }
        dirty.clear();
        self.dirty = dirty;
    }

    /// Returns false if the first task waits for room: others must not take it.
    fn dispatch_strict(&mut self, node: NodeId, out: &mut Vec<Command>) -> bool {
        while let Some(&(ticket, job, task)) = self.nodes[node.index()].strict.front() {
            let t = &self.jobs[job.index()].tasks[task.index()];
            if t.ticket == ticket && t.node == Some(node) && t.phase != Phase::Running {
                if !t.staged || t.phase != Phase::Ready {
                    return true;
                }
                if !self.has_room(node, job, task) {
                    return false;
                }
                self.start(node, job, task, out);
            }
            self.nodes[node.index()].strict.pop_front();
        }
        true
    }

    fn dispatch_arrivals(&mut self, node: NodeId, out: &mut Vec<Command>) {
        while let Some((_, job, task)) = self.nodes[node.index()].queue.next() {
            if !self.has_room(node, job, task) {
                return;
            }
            self.start(node, job, task, out);
        }
    }

    fn has_room(&self, node: NodeId, job: JobId, task: TaskId) -> bool {
        let demand = self.jobs[job.index()].instance.demand(task);
        self.nodes[node.index()].has_room(self.slots, demand)
    }

    fn start(&mut self, node: NodeId, job: JobId, task: TaskId, out: &mut Vec<Command>) {
        let (now, slots) = (self.now, self.slots);
        let (_, weight, exec) = self.load(job, task, node);
        let instance = self.jobs[job.index()].instance.clone();
        let hold = self.hold_node(job, task, node);
        let t = self.task(job, task);
        t.phase = Phase::Running;
        t.attempts += 1;
        t.number = t.attempts;
        (t.start, t.finish, t.hold) = (now, now + exec, hold);
        let run = TaskRun { job, task, attempt: t.number };
        let state = &mut self.nodes[node.index()];
        state.remove_waiting(exec * weight);
        state.occupy(slots, instance.demand(task), now + exec, weight);
        out.push(Command::Start { run, node });
    }

    /// Estimated time at which `node` could begin another task with the demand of `task`.
    pub(super) fn available(&self, job: JobId, task: TaskId, node: NodeId) -> f64 {
        let demand = self.jobs[job.index()].instance.demand(task);
        self.nodes[node.index()].available(self.now, self.slots, demand, self.cores[node.index()])
    }
}
