//! Who comes first where jobs share nodes: higher priority, then start-time fair queueing between clients.
//!
//! A placed task gets a tag: the later of the virtual time and the end of its client's last tag; the client's next tag is
//! later by the task's core-seconds over the client's share. Small tags are served first, and the virtual time is the
//! largest tag served. So clients with work get node time in proportion to their shares, and one that was idle has no claim on
//! the past. Source: Goyal, Vin, Cheng, SIGCOMM 1996. O(log clients) per placement.
//!
//! Where tasks are placed on demand, every node is a queue of its own, priorities apart, and clients pay for what they get:
//! tasks that leave the queue before they start are paid back, and attempts are charged for as long as they held their node,
//! whatever was expected. One more queue, of all nodes, tells which job decides first.

use std::collections::BTreeMap;

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

use super::{JobId, State};
use crate::NodeId;

/// Most core-seconds that a task is charged with beforehand: beyond, tags would lose their last digits.
const MOST: f64 = 1e6;
/// The queue of all nodes.
const ALL: u32 = u32::MAX;
/// Accounts are looked through for those without claim or debt when they are this many more than twice those left last time.
const MANY: usize = 1000;

/// What a job may claim. Jobs of equal terms are served in the order of placement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Jobs of higher priority come first, wherever they wait.
    pub priority: i32,
    /// Jobs of one client have one share.
    pub client: u32,
    /// The client's weight against others, above 0.
    pub share: f64,
}

impl Default for Terms {
    fn default() -> Self {
        Self { priority: 0, client: 0, share: 1.0 }
    }
}

impl Terms {
    fn level(&self) -> i32 {
        self.priority.saturating_neg()
    }
}

/// The accounts of all clients, by queue and level.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Accounts {
    lines: BTreeMap<(u32, i32), Line>,
    entries: usize,
    left: usize,
}

/// One queue at one level.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Line {
    virtual_time: f64,
    next: BTreeMap<u32, f64>,
}

/// A place in a queue: what comes first is smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub(super) struct Turn {
    /// Higher priority is smaller.
    level: i32,
    /// The bits of the tag, which is never negative.
    tag: u64,
}

impl Accounts {
    /// The turn of a task of this cost, which its client is charged with.
    fn charge(&mut self, queue: u32, terms: &Terms, core_seconds: f64) -> Turn {
        let line = self.lines.entry((queue, terms.level())).or_default();
        let known = line.next.len();
        let next = line.next.entry(terms.client).or_default();
        let tag = next.max(line.virtual_time);
        *next = tag + core_seconds / terms.share;
        self.entries += line.next.len() - known;
        Turn { level: terms.level(), tag: tag.to_bits() }
    }

    /// Changes what a client is charged with. It gets nothing back beyond its debt.
    fn correct(&mut self, queue: u32, terms: &Terms, core_seconds: f64) {
        let Some(line) = self.lines.get_mut(&(queue, terms.level())) else { return };
        let virtual_time = line.virtual_time;
        if let Some(next) = line.next.get_mut(&terms.client) {
            *next = (*next + core_seconds / terms.share).max(virtual_time);
        }
    }

    /// A task is served.
    fn serve(&mut self, queue: u32, turn: Turn) {
        if let Some(line) = self.lines.get_mut(&(queue, turn.level)) {
            line.virtual_time = line.virtual_time.max(f64::from_bits(turn.tag));
        }
    }

    /// Forgets a queue in which nothing waits and from which nothing runs.
    fn forget(&mut self, queue: u32) {
        while let Some((key, line)) = self.lines.range((queue, i32::MIN)..=(queue, i32::MAX)).next() {
            let key = *key;
            self.entries -= line.next.len();
            self.lines.remove(&key);
        }
    }

    /// Forgets clients that have no claim and no debt, now and then.
    pub(super) fn settle(&mut self) {
        if self.entries < 2 * self.left + MANY {
            return;
        }
        for line in self.lines.values_mut() {
            line.next.retain(|_, next| *next > line.virtual_time);
        }
        self.entries = self.lines.values().map(|line| line.next.len()).sum();
        self.left = self.entries;
    }

    /// The turn that a task of these terms would get now.
    fn turn(&self, queue: u32, terms: &Terms) -> Turn {
        let line = self.lines.get(&(queue, terms.level()));
        let tag = line
            .map_or(0.0, |line| line.next.get(&terms.client).copied().unwrap_or(0.0).max(line.virtual_time));
        Turn { level: terms.level(), tag: tag.to_bits() }
    }
}

impl State {
    /// Sets what the job that is submitted next may claim.
    pub fn announce(&mut self, terms: Terms) {
        self.next_terms = terms;
    }

    /// The turn of a task that is placed on a node. Where tasks are not placed on demand its client pays once, however often
    /// it is moved before it starts, and it goes to the end.
    pub(super) fn turn(&mut self, job: JobId, task: TaskId, node: NodeId) -> Turn {
        let cost = self.cost(job, task, node);
        let terms = self.jobs[job.index()].terms;
        if self.on_demand {
            return self.accounts.charge(node.get(), &terms, cost);
        }
        let t = &mut self.jobs[job.index()].tasks[task.index()];
        if std::mem::replace(&mut t.charged, true) {
            self.accounts.turn(ALL, &terms)
        } else {
            self.accounts.charge(ALL, &terms, cost)
        }
    }

    /// A task leaves the queue of a node before it has started.
    pub(super) fn pay_back(&mut self, job: JobId, task: TaskId, node: NodeId) {
        if self.on_demand {
            let (cost, terms) = (self.cost(job, task, node), self.jobs[job.index()].terms);
            self.accounts.correct(node.get(), &terms, -cost);
            self.forget_idle(node);
        }
    }

    /// A task that was placed starts.
    pub(super) fn served(&mut self, job: JobId, task: TaskId, node: NodeId, turn: Turn) {
        if self.on_demand {
            let (cost, terms) = (self.cost(job, task, node), self.jobs[job.index()].terms);
            self.accounts.serve(node.get(), turn);
            let among_all = self.accounts.charge(ALL, &terms, cost);
            self.accounts.serve(ALL, among_all);
            self.granted.insert((job, task), self.now);
        } else {
            self.accounts.serve(ALL, turn);
        }
    }

    /// An attempt has left its node: it is charged for the time that it was there instead of what was expected.
    pub(super) fn settle_up(&mut self, job: JobId, task: TaskId, node: NodeId) {
        let Some(since) = self.granted.remove(&(job, task)) else { return };
        let (_, weight, _) = self.load(job, task, node);
        let more = (self.now - since) * weight - self.cost(job, task, node);
        let terms = self.jobs[job.index()].terms;
        self.accounts.correct(node.get(), &terms, more);
        self.accounts.correct(ALL, &terms, more);
        self.forget_idle(node);
    }

    /// Nothing that waits or runs on the node any more: nobody there has a claim on the past.
    pub(super) fn forget_idle(&mut self, node: NodeId) {
        let state = &self.nodes[node.index()];
        if state.running == 0 && state.waiting == 0 {
            self.accounts.forget(node.get());
        }
    }

    fn cost(&self, job: JobId, task: TaskId, node: NodeId) -> f64 {
        let (_, weight, exec) = self.load(job, task, node);
        (exec * weight).min(MOST)
    }

    /// Puts the jobs that need a decision step in the order of their turns.
    pub(super) fn sort_attention(&mut self) {
        if self.attention.len() > 1 {
            let (jobs, accounts) = (&self.jobs, &self.accounts);
            self.attention
                .make_contiguous()
                .sort_by_cached_key(|job| jobs.get(job.index()).map(|job| accounts.turn(ALL, &job.terms)));
        }
    }
}
