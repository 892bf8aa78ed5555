//! The pool of ready tasks for policies that pick the best pair of task and node again and again.
//!
//! ```text
//! group (data arrives alike everywhere, same demand, run times in proportion)      finish on n0   n1   n2
//!   t4 < t9 < t1 < ...                                      offer: t4 -> n2, score             8    9    7
//!   t7                                                      offer: t7 -> n0, score             5    6    9
//! ```
//! Tasks that differ only in a way that the rule can sort stand in one group, and only the first of them makes
//! an offer. Placing a task changes one column, and then only the offers that stand on it. With `g` groups at a
//! time, `n` tasks and `p` nodes: O(n (p + log n)) slot searches for new rows, O(n g) for the changed columns, and
//! O(p) comparisons per renewed offer. Independent tasks that the rule can sort are one group. Memory O(g p).

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
    /// Whether the best node is that of the earliest start (then the earliest finish) and not of the earliest
    /// finish. The lowest id decides between equals.
    const BY_START: bool = false;
    /// Whether the score depends on the second best node.
    const BY_RIVAL: bool = false;

    /// Which tasks share a group, besides those whose data or demand differ, and their order in it.
    fn kin(&self, instance: &Instance, task: TaskId) -> Kin;

    /// Score of the task's best slot, and what decides between equal scores; the highest wins. `second` is the
    /// finish on the second best node (0 unless [`Rule::BY_RIVAL`], infinite if there is none).
    fn score(&self, task: TaskId, best: Slot, second: f64) -> (f64, f64);
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
        let Some((task, node)) = pool.take_best() else { break };
        let slot = pool.slot(&partial, task, node);
        partial.place(task, slot);
        pool.refresh(&partial, slot.node);
        frontier.placed(instance, task, |child| ready.push(child));
    }
    Ok(partial.finish())
}

struct Pool<'a, R> {
    instance: &'a Instance,
    rule: &'a R,
    position: Vec<u32>,
    groups: Vec<Group>,
    /// One per group; apart from them because every step reads them all.
    offers: Vec<Offer>,
    /// One row per group: start or finish of its first task on every node, infinite where it cannot run.
    times: Vec<f64>,
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

/// What the first task of a group can get. The highest score wins; between equals the first in topological order.
#[derive(Debug, Clone, Copy)]
struct Offer {
    score: (f64, f64),
    position: u32,
    node: NodeId,
    /// Second best node, if the score depends on it.
    rival: Option<NodeId>,
    /// The first task is new.
    stale: bool,
}

impl Offer {
    /// Before anything is known.
    fn stale() -> Self {
        Self { score: (0.0, 0.0), position: 0, node: NodeId::default(), rival: None, stale: true }
    }

    fn beats(&self, other: &Self) -> bool {
        self.score > other.score || self.score == other.score && self.position < other.position
    }
}

impl<'a, R: Rule> Pool<'a, R> {
    fn new(instance: &'a Instance, rule: &'a R) -> Self {
        Self {
            instance,
            rule,
            position: rank::positions(instance),
            groups: Vec::new(),
            offers: Vec::new(),
            times: Vec::new(),
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
                self.fill(partial, at);
            }
            return;
        }
        let at = self.groups.len();
        self.index.insert_unique(hash, at, |&i| self.groups[i].hash);
        let (arrival, others) = (self.arrival.clone(), BinaryHeap::new());
        self.groups.push(Group { hash, family, demand, arrival, first: waiting, others });
        self.offers.push(Offer::stale());
        self.times.resize(self.times.len() + self.instance.nodes(), f64::INFINITY);
        self.fill(partial, at);
    }

    /// Takes the task with the best offer out of the pool. O(groups).
    fn take_best(&mut self) -> Option<(TaskId, NodeId)> {
        let offers = &self.offers;
        let at = (0..offers.len()).reduce(|best, i| if offers[i].beats(&offers[best]) { i } else { best })?;
        let (task, node) = (self.groups[at].first.task, self.offers[at].node);
        std::mem::swap(&mut self.arrival, &mut self.groups[at].arrival);
        match self.groups[at].others.pop() {
            Some(next) => {
                self.groups[at].arrival.clone_from(&self.arrival);
                self.groups[at].first = next;
                self.offers[at].stale = true;
            }
            None => self.remove(at),
        }
        Some((task, node))
    }

    /// The slot of the task taken last.
    fn slot(&self, partial: &PartialSchedule<'_>, task: TaskId, node: NodeId) -> Slot {
        partial.append(task, node, &self.arrival).expect("offers stand on nodes that can run the task")
    }

    fn remove(&mut self, at: usize) {
        let (last, nodes) = (self.groups.len() - 1, self.instance.nodes());
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
        self.times.copy_within(last * nodes.., at * nodes);
        self.times.truncate(last * nodes);
    }

    /// Brings all offers up to date after a placement on `node`.
    fn refresh(&mut self, partial: &PartialSchedule<'_>, node: NodeId) {
        for at in 0..self.offers.len() {
            let offer = self.offers[at];
            if offer.stale {
                self.fill(partial, at);
                continue;
            }
            let time = &mut self.times[at * self.instance.nodes() + node.index()];
            if time.is_finite() {
                let group = &self.groups[at];
                let slot = partial.append(group.first.task, node, &group.arrival);
                *time = slot.map_or(f64::INFINITY, time_of::<R>);
            }
            // On other nodes nothing changed, and this one has only become worse.
            if offer.node == node || offer.rival == Some(node) {
                self.renew(partial, at);
            }
        }
    }

    /// Makes the row and the offer of a group whose first task is new.
    fn fill(&mut self, partial: &PartialSchedule<'_>, at: usize) {
        let (group, nodes) = (&self.groups[at], self.instance.nodes());
        let row = &mut self.times[at * nodes..(at + 1) * nodes];
        for (node, time) in self.instance.cluster().node_ids().zip(row) {
            let slot = partial.append(group.first.task, node, &group.arrival);
            *time = slot.map_or(f64::INFINITY, time_of::<R>);
        }
        self.renew(partial, at);
    }

    /// Makes an offer from a row that is up to date.
    fn renew(&mut self, partial: &PartialSchedule<'_>, at: usize) {
        let (group, nodes) = (&self.groups[at], self.instance.nodes());
        let row = &self.times[at * nodes..(at + 1) * nodes];
        let task = group.first.task;
        let least = row.iter().copied().fold(f64::INFINITY, f64::min);
        let mut ties = (0..nodes).filter(|&i| row[i] == least).map(NodeId::new);
        let node = if R::BY_START {
            ties.reduce(|a, b| if partial.exec(task, b) < partial.exec(task, a) { b } else { a })
        } else {
            ties.next()
        };
        let node = node.unwrap_or_default();
        let exec = partial.exec(task, node);
        let (start, finish) = if R::BY_START { (least, least + exec) } else { (least - exec, least) };
        let (second, rival) = if R::BY_RIVAL { second(row, node) } else { (0.0, None) };
        let score = self.rule.score(task, Slot { node, start, finish }, second);
        self.offers[at] = Offer { score, position: group.first.position, node, rival, stale: false };
    }
}

/// What the rule compares nodes by.
fn time_of<R: Rule>(slot: Slot) -> f64 {
    if R::BY_START { slot.start } else { slot.finish }
}

/// The least time on any node but `best`.
fn second(row: &[f64], best: NodeId) -> (f64, Option<NodeId>) {
    let (before, after) = (&row[..best.index()], &row[best.index() + 1..]);
    let least = |part: &[f64]| part.iter().copied().fold(f64::INFINITY, f64::min);
    let second = least(before).min(least(after));
    let rival = (0..row.len()).find(|&i| row[i] == second && i != best.index());
    (second, rival.filter(|_| second.is_finite()).map(NodeId::new))
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
