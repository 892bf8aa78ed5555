//! Who comes first where jobs share nodes: higher priority, then start-time fair queueing between clients.
//!
//! A placed task gets a tag: the later of the virtual time and the end of its client's last tag; the client's next tag is
//! later by the task's core-seconds over the client's share. Nodes serve small tags first, and the virtual time is the
//! largest tag served. So clients with work get node time in proportion to their shares, and one that was idle has no claim on
//! the past. Source: Goyal, Vin, Cheng, SIGCOMM 1996. O(log clients) per placement.

use std::collections::BTreeMap;

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

use super::{JobId, State};
use crate::NodeId;

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

/// The account of every client.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Accounts {
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
    pub(super) fn charge(&mut self, terms: &Terms, core_seconds: f64) -> Turn {
        let next = self.next.entry(terms.client).or_default();
        let tag = next.max(self.virtual_time);
        *next = tag + core_seconds / terms.share;
        Turn { level: terms.priority.saturating_neg(), tag: tag.to_bits() }
    }

    /// A task is served.
    pub(super) fn serve(&mut self, turn: Turn) {
        self.virtual_time = self.virtual_time.max(f64::from_bits(turn.tag));
    }

    /// Forgets clients that have no claim and no debt.
    pub(super) fn settle(&mut self) {
        self.next.retain(|_, next| *next > self.virtual_time);
    }

    /// The turn that a task of these terms would get now.
    fn turn(&self, terms: &Terms) -> Turn {
        let next = self.next.get(&terms.client).copied().unwrap_or(0.0);
        Turn { level: terms.priority.saturating_neg(), tag: next.max(self.virtual_time).to_bits() }
    }
}

impl State {
    /// Sets what the job that is submitted next may claim.
    pub fn announce(&mut self, terms: Terms) {
        self.next_terms = terms;
    }

    /// The turn of a task that is placed on a node. Its client pays once, however often it is moved before it starts; where
    /// tasks are placed on demand it keeps its turn, otherwise it goes to the end.
    pub(super) fn turn(&mut self, job: JobId, task: TaskId, node: NodeId) -> Turn {
        let (_, weight, exec) = self.load(job, task, node);
        let terms = self.jobs[job.index()].terms;
        let on_demand = self.on_demand;
        let t = &mut self.jobs[job.index()].tasks[task.index()];
        let was_charged = std::mem::replace(&mut t.charged, true);
        match (was_charged, on_demand) {
            (false, _) => self.accounts.charge(&terms, exec * weight),
            (true, true) => t.turn,
            (true, false) => self.accounts.turn(&terms),
        }
    }

    /// Puts the jobs that need a decision step in the order of their turns.
    pub(super) fn sort_attention(&mut self) {
        if self.attention.len() > 1 {
            let (jobs, accounts) = (&self.jobs, &self.accounts);
            self.attention
                .make_contiguous()
                .sort_by_cached_key(|job| accounts.turn(&jobs[job.index()].terms));
        }
    }
}
