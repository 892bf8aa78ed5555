//! Speculation: a task that runs far beyond what was expected gets a second attempt on another node.
//!
//! The driver tells that an attempt is [overdue](super::Event::Overdue). As soon as some node is idle for the task and
//! should run it, data included, in less time than the first attempt has taken so far, a second attempt begins there: on
//! the node that should need the least time. The first success counts, and the other attempt is cancelled; while one
//! attempt runs, the end of the other is no failure of the task. The policy is not asked: a task that runs is no choice
//! of its, and every policy gains alike.
//!
//! The idea is that of backup tasks (Dean and Ghemawat, "`MapReduce`: Simplified Data Processing on Large Clusters", OSDI
//! 2004, section 3.6). A step costs O(overdue attempts x nodes that became idle), nothing if there are none.

use std::collections::BTreeSet;

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

use super::fair::Hold;
use super::state::{Phase, State};
use super::{Command, JobId, TaskRun, Trigger};
use crate::{Error, NodeId, Result};

/// When an attempt counts as overdue. The default is twice the expected time and at least ten seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speculation {
    /// Multiple of the expected run time, at least 1.
    pub factor: f64,
    /// Seconds that every attempt has.
    pub least: f64,
}

impl Default for Speculation {
    fn default() -> Self {
        Self { factor: 2.0, least: 10.0 }
    }
}

impl Speculation {
    /// Seconds after which an attempt that should take `expected` seconds is overdue.
    ///
    /// ```
    /// use mdts_core::engine::Speculation;
    /// assert_eq!(Speculation::default().patience(60.0), 120.0);
    /// assert_eq!(Speculation::default().patience(0.5), 10.0);
    /// ```
    pub fn patience(&self, expected: f64) -> f64 {
        (self.factor * expected).max(self.least)
    }

    /// Checks both numbers.
    ///
    /// # Errors
    /// [`Error::BadSetting`].
    pub fn check(&self) -> Result<()> {
        let bad =
            |what, value: f64, expected| Err(Error::BadSetting { what, value: value.to_string(), expected });
        if !(self.factor >= 1.0 && self.factor.is_finite()) {
            return bad("factor of speculation", self.factor, "a number of at least 1");
        }
        if !(self.least >= 0.0 && self.least.is_finite()) {
            return bad("least time before speculation", self.least, "seconds, at least 0");
        }
        Ok(())
    }
}

/// The second of two attempts of one task that run at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Second {
    pub(super) number: u32,
    pub(super) node: NodeId,
    pub(super) start: f64,
    /// Expected.
    pub(super) finish: f64,
    pub(super) hold: Hold,
}

impl State {
    /// Notes that an attempt is overdue, unless the task has two already. A policy that watches progress may want to
    /// decide anew what waits for it.
    pub(super) fn overdue(&mut self, run: TaskRun, watched: bool) {
        if self.held || !self.is_running(run) || self.other(run).is_some() {
            return;
        }
        if watched {
            self.call_step(run.job, Trigger::Finished);
        }
        self.overdue.insert(run);
        self.dirty.extend((0..self.nodes.len()).map(NodeId::new));
    }

    /// The attempt of the same task that runs besides this one, and its node.
    pub(super) fn other(&self, run: TaskRun) -> Option<(TaskRun, NodeId)> {
        let job = &self.jobs[run.job.index()];
        let second = job.second.get(&run.task)?;
        let first = &job.tasks[run.task.index()];
        let (number, node) = if second.number == run.attempt {
            (first.number, first.node?)
        } else {
            (second.number, second.node)
        };
        Some((TaskRun { attempt: number, ..run }, node))
    }

    /// Begins second attempts on those of `nodes` that are idle; everything else that can start has been started.
    pub(super) fn speculate(&mut self, nodes: &[NodeId], out: &mut Vec<Command>) {
        if self.overdue.is_empty() {
            return;
        }
        let idle: Vec<NodeId> = nodes.iter().copied().filter(|node| self.is_idle(*node)).collect();
        if idle.is_empty() {
            return;
        }
        let overdue = std::mem::take(&mut self.overdue);
        let mut left = BTreeSet::new();
        for run in overdue {
            if !self.is_running(run) || self.other(run).is_some() {
                continue;
            }
            match self.choose(run, &idle) {
                Some((node, seconds)) => self.start_second(run, node, seconds, out),
                None => _ = left.insert(run),
            }
        }
        self.overdue = left;
    }

    /// Whether the node is there, and no task waits on it for room.
    fn is_idle(&self, node: NodeId) -> bool {
        let state = &self.nodes[node.index()];
        let waits = state.strict.front().is_some_and(|(ticket, job, task)| {
            let t = &self.jobs[job.index()].tasks[task.index()];
            t.ticket == *ticket && t.phase == Phase::Ready && t.staged
        });
        state.alive && state.queue.is_empty() && !waits
    }

    /// The node that would need the least time for a second attempt, and that time, if it is worth while.
    fn choose(&self, run: TaskRun, idle: &[NodeId]) -> Option<(NodeId, f64)> {
        let job = &self.jobs[run.job.index()];
        let first = &job.tasks[run.task.index()];
        let ran = self.now - first.start;
        let demand = job.instance.demand(run.task);
        let has_room = |n: NodeId| self.nodes[n.index()].has_room(self.slots, demand);
        let fitting = idle.iter().copied().filter(|n| Some(*n) != first.node && has_room(*n));
        let seconds = |node| {
            let exec = job.instance.exec(run.task, node);
            (node, self.fetch_seconds(run.job, run.task, node) + exec)
        };
        let best = fitting.map(seconds).min_by(|a, b| a.1.total_cmp(&b.1));
        best.filter(|(_, seconds)| *seconds <= ran)
    }

    /// Seconds that it takes to bring all inputs of a task to a node, side by side.
    pub(crate) fn fetch_seconds(&self, job: JobId, task: TaskId, node: NodeId) -> f64 {
        let of = &self.jobs[job.index()];
        let parents = of.instance.graph().parents(task).iter().zip(of.instance.parent_bytes(task));
        parents.fold(0.0, |longest, (parent, bytes)| {
            let from = of.tasks[parent.index()].node.unwrap_or(node);
            of.instance.transfer(*bytes, from, node).max(longest)
        })
    }

    fn start_second(&mut self, first: TaskRun, node: NodeId, seconds: f64, out: &mut Vec<Command>) {
        let (now, slots) = (self.now, self.slots);
        let (_, weight, _) = self.load(first.job, first.task, node);
        let hold = self.hold_node(first.job, first.task, node);
        let job = &mut self.jobs[first.job.index()];
        let t = &mut job.tasks[first.task.index()];
        t.attempts += 1;
        let second = Second { number: t.attempts, node, start: now, finish: now + seconds, hold };
        job.second.insert(first.task, second);
        let state = &mut self.nodes[node.index()];
        state.occupy(slots, job.instance.demand(first.task), second.finish, weight);
        state.here.insert((first.job, first.task));
        out.push(Command::Start { run: TaskRun { attempt: second.number, ..first }, node });
    }

    /// An attempt that runs leaves its node. Returns whether the task goes on in another one.
    pub(super) fn leave(&mut self, run: TaskRun) -> bool {
        let job = &mut self.jobs[run.job.index()];
        let t = &mut job.tasks[run.task.index()];
        let second = job.second.remove(&run.task);
        let (node, finish, hold, goes_on) = match second {
            Some(second) if second.number == run.attempt => {
                (Some(second.node), second.finish, second.hold, true)
            }
            Some(second) => {
                let left = (t.node, t.finish, t.hold, true);
                (t.node, t.number) = (Some(second.node), second.number);
                (t.start, t.finish, t.hold) = (second.start, second.finish, second.hold);
                left
            }
            None => (t.node, t.finish, t.hold, false),
        };
        self.overdue.remove(&run);
        if let Some(node) = node {
            self.vacate(run.job, run.task, node, finish, hold);
        }
        goes_on
    }

    /// Cancels all attempts of a task of which this one, on this node, is the first.
    pub(super) fn stop(&mut self, run: TaskRun, node: NodeId, out: &mut Vec<Command>) {
        out.push(Command::Cancel { run, node });
        if let Some((second, node)) = self.other(run) {
            out.push(Command::Cancel { run: second, node });
            self.leave(second);
        }
        self.leave(run);
    }

    /// Frees what an attempt occupies.
    fn vacate(&mut self, job: JobId, task: TaskId, node: NodeId, finish: f64, hold: Hold) {
        let (_, weight, _) = self.load(job, task, node);
        let demand = self.jobs[job.index()].instance.demand(task);
        let state = &mut self.nodes[node.index()];
        state.release(self.slots, demand, finish, weight);
        state.here.remove(&(job, task));
        self.settle(job, task, node, hold);
        self.touch(node);
    }
}
