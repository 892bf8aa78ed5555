//! The pool of ready tasks for policies that pick the best pair of task and node again and again.
//!
//! ```text
//! group: data arrives alike everywhere, same demand, run times in proportion   offer (of its first task)
//!   t4 < t9 < t1 < ...                                                          t4 -> n2, score
//!   t7                                                                          t7 -> n0, score
//! ```
//! Tasks that differ only in a way that the rule can sort stand in one group, and only the first of them makes
//! an offer. Placing a task worsens offers on its node alone, so an offer is made anew only if it stands on that
//! node (or, for sufferage, if its second choice does). With `g` groups at a time, `n` tasks and `p` nodes this
//! costs O(n (log n + p + g)) and O(p) per renewed offer: about n g in all where the groups spread over the nodes, and
//! O(n (log n + p)) for independent tasks, where the naive search needs n^2 p.

use std::collections::BinaryHeap;
use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use mdts_core::{Arrival, Instance, NodeId, PartialSchedule, Result, Schedule, Slot};
use mdts_dag::{DemandId, TaskId};
use rustc_hash::FxHasher;

use super::rank;
use super::ready::Frontier;

/// What a policy has to say about ready tasks.
pub(super) trait Rule {
    /// Which tasks share a group, besides those whose data or demand differ, and their order in it.
    fn kin(&self, instance: &Instance, task: TaskId) -> Kin;

    /// The best that can be done for the task now. It may only get worse as nodes fill up.
    fn offer(&self, partial: &PartialSchedule<'_>, task: TaskId, arrival: &Arrival) -> Offer;
}

/// Tasks of equal `family` may share a group; there the smallest `order` comes first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kin {
    family: (u64, u64),
    order: f64,
}

impl Kin {
    /// All tasks whose run times are in proportion.
    pub(super) fn proportional(instance: &Instance, task: TaskId, order: f64) -> Self {
        let alone = (1 << 32) + u64::from(task.get());
        Self { family: (instance.speed_class(task).map_or(alone, u64::from), 0), order }
    }

    /// All tasks with the same run times.
    pub(super) fn alike(instance: &Instance, task: TaskId, order: f64) -> Self {
        let mut kin = Self::proportional(instance, task, order);
        kin.family.1 = instance.min_exec(task).to_bits();
        kin
    }
}

/// A slot for a task. The highest score wins; then the highest `tie`; then the first task in topological order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    pub(super) slot: Slot,
    pub(super) score: f64,
    pub(super) tie: f64,
    /// Another node that the score depends on.
    pub(super) rival: Option<NodeId>,
}

impl Offer {
    /// An offer that depends on its own node only.
    pub(super) fn new(slot: Slot, score: f64) -> Self {
        Self { slot, score, tie: 0.0, rival: None }
    }
}

/// When tasks that become ready may compete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intake {
    /// At once.
    AtOnce,
    /// When all tasks that were ready before are placed.
    InWaves,
}

/// Places all open tasks by a rule.
pub(super) fn plan(instance: &Instance, rule: &impl Rule, intake: Intake) -> Result<Schedule> {
    let mut partial = PartialSchedule::new(instance)?;
    let (mut frontier, mut ready) = Frontier::new(&partial);
    let mut pool = Pool::new(instance, rule);
    loop {
        if intake == Intake::AtOnce || pool.groups.is_empty() {
            ready.drain(..).for_each(|task| pool.add(&partial, task));
        }
        let Some((task, slot)) = pool.take_best() else { break };
        partial.place(task, slot);
        pool.refresh(&partial, slot.node);
        frontier.placed(instance, task, |child| ready.push(child));
    }
    Ok(partial.finish())
}

/// The slot behind all others with the earliest finish; among equals the lowest node id.
pub(super) fn earliest_finish(partial: &PartialSchedule<'_>, task: TaskId, arrival: &Arrival) -> Slot {
    let slots = partial.append_all(task, arrival);
    let best = slots.reduce(|best, slot| if slot.finish < best.finish { slot } else { best });
    best.expect("a partial schedule has a node for every open task")
}

struct Pool<'a, R> {
    instance: &'a Instance,
    rule: &'a R,
    position: Vec<u32>,
    groups: Vec<Group>,
    /// One per group; apart from them because every step reads them all.
    offers: Vec<Standing>,
    index: HashTable<usize>,
    arrival: Arrival,
}

struct Group {
    hash: u64,
    family: (u64, u64),
    demand: DemandId,
    arrival: Arrival,
    first: Waiting,
    others: BinaryHeap<Waiting>,
}

struct Standing {
    offer: Offer,
    position: u32,
    stale: bool,
}

impl<'a, R: Rule> Pool<'a, R> {
    fn new(instance: &'a Instance, rule: &'a R) -> Self {
        Self {
            instance,
            rule,
            position: rank::positions(instance),
            groups: Vec::new(),
            offers: Vec::new(),
            index: HashTable::new(),
            arrival: Arrival::default(),
        }
    }

    fn add(&mut self, partial: &PartialSchedule<'_>, task: TaskId) {
        partial.gather(task, &mut self.arrival);
        let Kin { family, order } = self.rule.kin(self.instance, task);
        let demand = self.instance.graph().demand(task);
        let waiting = Waiting { order, position: self.position[task.index()], task };
        let hash = hash(family, demand, &self.arrival);
        let same = |g: &Group| g.family == family && g.demand == demand && g.arrival == self.arrival;
        if let Some(&at) = self.index.find(hash, |&i| same(&self.groups[i])) {
            if self.groups[at].join(waiting) {
                self.renew(partial, at);
            }
            return;
        }
        let offer = self.rule.offer(partial, task, &self.arrival);
        self.offers.push(Standing { offer, position: waiting.position, stale: false });
        self.index.insert_unique(hash, self.groups.len(), |&i| self.groups[i].hash);
        let (arrival, others) = (self.arrival.clone(), BinaryHeap::new());
        self.groups.push(Group { hash, family, demand, arrival, first: waiting, others });
    }

    /// Takes the task with the best offer out of the pool. O(groups).
    fn take_best(&mut self) -> Option<(TaskId, Slot)> {
        let better = |a: &Standing, b: &Standing| {
            (a.offer.score, a.offer.tie) > (b.offer.score, b.offer.tie)
                || (a.offer.score, a.offer.tie) == (b.offer.score, b.offer.tie) && a.position < b.position
        };
        let all = 0..self.offers.len();
        let at = all.reduce(|best, i| if better(&self.offers[i], &self.offers[best]) { i } else { best })?;
        let (task, slot) = (self.groups[at].first.task, self.offers[at].offer.slot);
        match self.groups[at].others.pop() {
            Some(next) => {
                self.groups[at].first = next;
                self.offers[at].stale = true;
            }
            None => self.remove(at),
        }
        Some((task, slot))
    }

    fn remove(&mut self, at: usize) {
        let last = self.groups.len() - 1;
        if let Ok(entry) = self.index.find_entry(self.groups[at].hash, |&i| i == at) {
            entry.remove();
        }
        if at != last
            && let Some(moved) = self.index.find_mut(self.groups[last].hash, |&i| i == last)
        {
            *moved = at;
        }
        self.groups.swap_remove(at);
        self.offers.swap_remove(at);
    }

    /// Renews the offers that a placement on `node` may have changed.
    fn refresh(&mut self, partial: &PartialSchedule<'_>, node: NodeId) {
        for at in 0..self.offers.len() {
            let Standing { offer, stale, .. } = &self.offers[at];
            if *stale || offer.slot.node == node || offer.rival == Some(node) {
                self.renew(partial, at);
            }
        }
    }

    fn renew(&mut self, partial: &PartialSchedule<'_>, at: usize) {
        let group = &self.groups[at];
        let offer = self.rule.offer(partial, group.first.task, &group.arrival);
        self.offers[at] = Standing { offer, position: group.first.position, stale: false };
    }
}

impl Group {
    /// Adds a task; whether it is the first now.
    fn join(&mut self, task: Waiting) -> bool {
        let is_first = task > self.first;
        self.others.push(if is_first { std::mem::replace(&mut self.first, task) } else { task });
        is_first
    }
}

fn hash(family: (u64, u64), demand: DemandId, arrival: &Arrival) -> u64 {
    let mut hasher = FxHasher::default();
    (family, demand).hash(&mut hasher);
    arrival.hash_into(&mut hasher);
    hasher.finish()
}

/// A task in its group; the greatest comes first.
#[derive(Debug, PartialEq)]
struct Waiting {
    order: f64,
    position: u32,
    task: TaskId,
}

impl Eq for Waiting {}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.order.total_cmp(&self.order).then(other.position.cmp(&self.position))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
