//! Who comes first where jobs share a node: higher priority, then start-time fair queueing between clients.
//!
//! Every node has a queue with one line per client at each priority. The tag of a client there is the core-seconds that its
//! attempts have held and, of those that run, are expected to hold, over its share. The first task of the line with the
//! smallest tag is served. A client that comes to a node begins at the virtual time: what the client served last had really
//! held by then, or the smallest tag that waits if that is smaller. So clients with work get the time of a node in
//! proportion to their shares; one that was idle has no claim on the past; wrong estimates are forgotten when the attempt
//! ends, however it does; and work that never ran, or that other priorities or nodes ran, costs nothing. When a node has
//! nothing left to do, it forgets who had how much. Tags belong to lines and not to tasks: a task that is withdrawn or moved
//! leaves no trace.
//!
//! Where the policy keeps tasks back until a node is free, the jobs decide in the order of the tags on the nodes that have
//! changed. Source: Goyal, Vin, Cheng, SIGCOMM 1996; for nodes that run several tasks at once: Jin, Chase, Kaur, "Interposed
//! proportional sharing for a storage service utility", SIGMETRICS 2004. O(log clients + log tasks) per task.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

use super::state::Job;
use super::{JobId, State};
use crate::NodeId;

/// Most core-seconds that are charged before an attempt has ended: tags must not lose their last digits.
const MOST: f64 = 1e6;
/// Tags are counted from anew beyond this, for the same reason.
const FAR: f64 = 1e9;
/// Clients on a node that are looked through for those without a task or a debt when they are more than twice those left last
/// time and this many.
const MANY: usize = 64;
/// Changed nodes that are looked at to put jobs in order.
const LOOKED_AT: usize = 64;

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
    pub(super) fn line(&self) -> Line {
        Line { level: self.priority.saturating_neg(), client: self.client }
    }
}

/// The tasks of one client at one priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    /// Higher priority is smaller.
    level: i32,
    client: u32,
}

/// A place in a line: number of the placement, then the task.
pub(super) type Ticket = (u64, JobId, TaskId);

/// Since when an attempt has held its node, and what its client was charged for it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Hold {
    since: f64,
    charge: f64,
}

/// Ready tasks with their data on one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "Image", into = "Image")]
pub(super) struct Queue {
    levels: BTreeMap<i32, Level>,
    /// Clients, and how many were left when they were looked through last.
    known: usize,
    left: usize,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Level {
    /// What the client served last had held by then.
    served: f64,
    clients: BTreeMap<u32, Client>,
    /// Clients whose tasks wait.
    order: BTreeSet<(Tag, u32)>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Client {
    /// What its attempts have held, over its share.
    held: f64,
    /// What those that run are expected to hold.
    charged: f64,
    running: u32,
    tasks: BTreeSet<Ticket>,
    /// When it last had nothing here. Whoever comes back at the same moment was not idle: policies may keep tasks back until
    /// a node is free.
    left: f64,
}

/// A number of a total order.
#[derive(Debug, Clone, Copy)]
struct Tag(f64);

impl Ord for Tag {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Tag {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Tag {}

impl Client {
    fn is_active(&self) -> bool {
        self.running > 0 || !self.tasks.is_empty()
    }

    /// It has nothing here and had nothing a moment ago.
    fn is_idle(&self, now: f64) -> bool {
        !self.is_active() && self.left < now
    }

    fn tag(&self) -> f64 {
        self.held + self.charged
    }

    fn place(&self, client: u32) -> Option<(Tag, u32)> {
        (!self.tasks.is_empty()).then_some((Tag(self.tag()), client))
    }
}

impl Level {
    fn virtual_time(&self) -> f64 {
        self.order.first().map_or(self.served, |(tag, _)| tag.0.min(self.served))
    }

    /// Counts tags from the present on.
    fn rebase(&mut self) {
        let past = std::mem::take(&mut self.served);
        self.clients.values_mut().for_each(|client| client.held -= past);
        self.order = self.clients.iter().filter_map(|(id, client)| client.place(*id)).collect();
    }
}

impl Queue {
    /// The task that starts next.
    pub(super) fn next(&self) -> Option<Ticket> {
        self.levels.values().find_map(|level| {
            let (_, client) = level.order.first()?;
            level.clients.get(client)?.tasks.first().copied()
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next().is_none()
    }

    /// Tasks that come before this one in its line, counted up to a limit.
    pub(super) fn before(&self, line: Line, ticket: Ticket, limit: usize) -> usize {
        let client = self.levels.get(&line.level).and_then(|level| level.clients.get(&line.client));
        client.map_or(0, |client| client.tasks.range(..ticket).take(limit).count())
    }

    pub(super) fn insert(&mut self, now: f64, line: Line, ticket: Ticket) {
        self.change(now, line, |client, _| _ = client.tasks.insert(ticket));
    }

    pub(super) fn remove(&mut self, now: f64, line: Line, ticket: Ticket) {
        let client = self.levels.get(&line.level).and_then(|level| level.clients.get(&line.client));
        if client.is_some_and(|client| client.tasks.contains(&ticket)) {
            self.change(now, line, |client, _| _ = client.tasks.remove(&ticket));
        }
    }

    /// A task starts, whether or not it has waited in this queue.
    fn serve(&mut self, now: f64, line: Line, ticket: Ticket, charge: f64) {
        self.change(now, line, |client, served| {
            client.tasks.remove(&ticket);
            client.running += 1;
            client.charged += charge;
            *served = client.held;
        });
        if let Some(level) = self.levels.get_mut(&line.level).filter(|level| level.served > FAR) {
            level.rebase();
        }
    }

    /// An attempt has left the node, which its client was charged with and which has held so much.
    fn settle(&mut self, now: f64, line: Line, charge: f64, held: f64) {
        self.change(now, line, |client, _| {
            client.running = client.running.saturating_sub(1);
            client.charged = if client.running == 0 { 0.0 } else { client.charged - charge };
            client.held += held;
        });
    }

    /// How far a client is ahead of its share.
    fn lead(&self, now: f64, line: Line) -> f64 {
        let Some(level) = self.levels.get(&line.level) else { return 0.0 };
        let ahead = |client: &Client| {
            let lead = client.tag() - level.virtual_time();
            if client.is_idle(now) { lead.max(0.0) } else { lead }
        };
        level.clients.get(&line.client).map_or(0.0, ahead)
    }

    fn change(&mut self, now: f64, line: Line, change: impl FnOnce(&mut Client, &mut f64)) {
        let level = self.levels.entry(line.level).or_default();
        let virtual_time = level.virtual_time();
        let clients = level.clients.len();
        let new = || Client { held: virtual_time, left: now, ..Client::default() };
        let client = level.clients.entry(line.client).or_insert_with(new);
        let old = client.place(line.client);
        if client.is_idle(now) {
            client.held = client.held.max(virtual_time);
        }
        change(client, &mut level.served);
        if !client.is_active() {
            client.left = now;
        }
        let new = client.place(line.client);
        if old != new {
            if let Some(place) = old {
                level.order.remove(&place);
            }
            level.order.extend(new);
        }
        self.known += level.clients.len() - clients;
        if self.known > 2 * self.left + MANY {
            self.prune(now);
        }
    }

    /// Forgets clients that have no task here and no debt, and priorities that nobody has a task of.
    fn prune(&mut self, now: f64) {
        self.levels.retain(|_, level| {
            let virtual_time = level.virtual_time();
            level.clients.retain(|_, client| !client.is_idle(now) || client.held > virtual_time);
            level.clients.values().any(|client| !client.is_idle(now))
        });
        self.known = self.levels.values().map(|level| level.clients.len()).sum();
        self.left = self.known;
    }
}

/// A queue as plain numbers: levels of clients with their tasks.
#[derive(Debug, Serialize, Deserialize)]
struct Image {
    left: usize,
    levels: Vec<(i32, f64, Vec<ClientImage>)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ClientImage {
    id: u32,
    held: f64,
    charged: f64,
    running: u32,
    tasks: Vec<(u64, u32, u32)>,
    left: f64,
}

impl From<Queue> for Image {
    fn from(queue: Queue) -> Self {
        let ticket = |&(number, job, task): &Ticket| (number, job.get(), task.get());
        let client = |(id, client): (&u32, &Client)| ClientImage {
            id: *id,
            held: client.held,
            charged: client.charged,
            running: client.running,
            tasks: client.tasks.iter().map(ticket).collect(),
            left: client.left,
        };
        let level =
            |(id, level): (&i32, &Level)| (*id, level.served, level.clients.iter().map(client).collect());
        Self { left: queue.left, levels: queue.levels.iter().map(level).collect() }
    }
}

impl From<Image> for Queue {
    fn from(image: Image) -> Self {
        let ticket = |(number, job, task): (u64, u32, u32)| (number, job.into(), task.into());
        let client = |ClientImage { id, held, charged, running, tasks, left }| {
            (id, Client { held, charged, running, tasks: tasks.into_iter().map(ticket).collect(), left })
        };
        let level = |(id, served, clients): (i32, f64, Vec<ClientImage>)| {
            let clients: BTreeMap<u32, Client> = clients.into_iter().map(client).collect();
            let order = clients.iter().filter_map(|(id, client)| client.place(*id)).collect();
            (id, Level { served, clients, order })
        };
        let levels: BTreeMap<i32, Level> = image.levels.into_iter().map(level).collect();
        let known = levels.values().map(|level| level.clients.len()).sum();
        Self { levels, known, left: image.left }
    }
}

impl State {
    /// Sets what the job that is submitted next may claim.
    pub fn announce(&mut self, terms: Terms) {
        self.next_terms = terms;
    }

    pub(super) fn line(&self, job: JobId) -> Line {
        self.jobs[job.index()].terms.line()
    }

    /// An attempt begins to hold a node, and its client is charged with what it is expected to take.
    pub(super) fn hold_node(&mut self, job: JobId, task: TaskId, node: NodeId) -> Hold {
        let (_, weight, exec) = self.load(job, task, node);
        let Job { terms, tasks, .. } = &self.jobs[job.index()];
        let charge = (exec * weight).min(MOST) / terms.share;
        let (line, ticket) = (terms.line(), tasks[task.index()].ticket);
        self.nodes[node.index()].queue.serve(self.now, line, (ticket, job, task), charge);
        Hold { since: self.now, charge }
    }

    /// An attempt holds its node no longer: its client pays for the time that it did.
    pub(super) fn settle(&mut self, job: JobId, task: TaskId, node: NodeId, hold: Hold) {
        let (_, weight, _) = self.load(job, task, node);
        let terms = self.jobs[job.index()].terms;
        let held = (self.now - hold.since) * weight / terms.share;
        self.nodes[node.index()].queue.settle(self.now, terms.line(), hold.charge, held);
    }

    /// Puts the jobs that need a decision step in the order of their claims on the nodes that have changed.
    pub(super) fn sort_attention(&mut self) {
        if self.attention.len() < 2 {
            return;
        }
        self.dirty.sort_unstable();
        self.dirty.dedup();
        let (now, jobs, nodes, dirty) = (self.now, &self.jobs, &self.nodes, &self.dirty);
        let claim = |job: &JobId| {
            let line = jobs.get(job.index())?.terms.line();
            let leads = dirty.iter().take(LOOKED_AT).map(|node| nodes[node.index()].queue.lead(now, line));
            Some((line.level, Tag(leads.sum())))
        };
        self.attention.make_contiguous().sort_by_cached_key(claim);
    }
}
