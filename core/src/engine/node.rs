//! One node as the engine sees it: free capacity, queues and the estimated backlog.

use std::collections::VecDeque;

use mdts_dag::TaskId;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::JobId;
use super::fair::{Queue, Ticket};
use crate::cluster::SlotModel;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct NodeState {
    pub(super) alive: bool,
    /// Not alive, but what runs there goes on.
    pub(super) draining: bool,
    /// Free capacity, one number per dimension of the cluster's resources.
    pub(super) free: Vec<u64>,
    pub(super) running: u32,
    /// Placed and not started.
    pub(super) waiting: u32,
    /// Ready tasks with their data here that start as soon as it is their turn.
    pub(super) queue: Queue,
    /// All tasks that are placed here and have not ended.
    #[serde(skip)]
    pub(super) here: FxHashSet<(JobId, TaskId)>,
    /// Tasks that start strictly in this order; tickets that are out of date are skipped.
    #[serde(with = "tickets")]
    pub(super) strict: VecDeque<Ticket>,
    backlog: Backlog,
}

/// Sums from which the end of all present work is estimated, in core-seconds and cores.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Backlog {
    waiting: f64,
    running_finish: f64,
    running_weight: f64,
}

impl NodeState {
    pub(super) fn new(capacity: &[u64]) -> Self {
        Self {
            alive: true,
            draining: false,
            free: capacity.to_vec(),
            running: 0,
            waiting: 0,
            queue: Queue::default(),
            here: FxHashSet::default(),
            strict: VecDeque::new(),
            backlog: Backlog::default(),
        }
    }

    /// Forgets all work, as after a loss.
    pub(super) fn reset(&mut self, capacity: &[u64]) {
        *self = Self { alive: self.alive, ..Self::new(capacity) };
    }

    /// All tasks that are placed here and have not ended, in order.
    pub(super) fn tasks(&self) -> Vec<(JobId, TaskId)> {
        let mut tasks: Vec<_> = self.here.iter().copied().collect();
        tasks.sort_unstable();
        tasks
    }

    /// Whether a task fits now.
    pub(super) fn has_room(&self, slots: SlotModel, demand: &[u64]) -> bool {
        match slots {
            SlotModel::Exclusive => self.running == 0,
            SlotModel::Resources => demand.iter().zip(&self.free).all(|(d, f)| d <= f),
        }
    }

    pub(super) fn occupy(&mut self, slots: SlotModel, demand: &[u64], finish: f64, weight: f64) {
        self.running += 1;
        self.backlog.running_finish += finish * weight;
        self.backlog.running_weight += weight;
        if slots == SlotModel::Resources {
            for (free, taken) in self.free.iter_mut().zip(demand) {
                *free -= taken;
            }
        }
    }

    pub(super) fn release(&mut self, slots: SlotModel, demand: &[u64], finish: f64, weight: f64) {
        self.running -= 1;
        self.backlog.running_finish -= finish * weight;
        self.backlog.running_weight -= weight;
        if self.running == 0 {
            (self.backlog.running_finish, self.backlog.running_weight) = (0.0, 0.0); // no drift
        }
        if slots == SlotModel::Resources {
            for (free, returned) in self.free.iter_mut().zip(demand) {
                *free += returned;
            }
        }
    }

    pub(super) fn add_waiting(&mut self, core_seconds: f64) {
        self.waiting += 1;
        self.backlog.waiting += core_seconds;
    }

    pub(super) fn remove_waiting(&mut self, core_seconds: f64) {
        self.waiting -= 1;
        self.backlog.waiting -= core_seconds;
        if self.waiting == 0 {
            self.backlog.waiting = 0.0;
        }
    }

    /// When the node could begin another task of this demand: exact for exclusive nodes whose estimates hold,
    /// else all remaining work spread over all cores.
    pub(super) fn available(&self, now: f64, slots: SlotModel, demand: &[u64], cores: f64) -> f64 {
        let running = (self.backlog.running_finish - now * self.backlog.running_weight).max(0.0);
        let waiting = self.backlog.waiting.max(0.0);
        match slots {
            SlotModel::Exclusive => now + running + waiting,
            SlotModel::Resources if self.waiting == 0 && self.has_room(slots, demand) => now,
            SlotModel::Resources => now + (running + waiting) / cores,
        }
    }
}

/// Queues as lists of plain numbers.
mod tickets {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Ticket;

    pub(super) fn serialize<'a, S: Serializer, Q>(queue: &'a Q, serializer: S) -> Result<S::Ok, S::Error>
    where
        &'a Q: IntoIterator<Item = &'a Ticket>,
    {
        let plain: Vec<(u64, u32, u32)> =
            queue.into_iter().map(|(number, job, task)| (*number, job.get(), task.get())).collect();
        serializer.collect_seq(plain)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, Q: FromIterator<Ticket>>(
        deserializer: D,
    ) -> Result<Q, D::Error> {
        let plain = Vec::<(u64, u32, u32)>::deserialize(deserializer)?;
        Ok(plain.into_iter().map(|(number, job, task)| (number, job.into(), task.into())).collect())
    }
}
