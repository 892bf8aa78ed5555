//! Moving inputs to nodes under contention: which transfer begins when, and when a task has all it needs.
//!
//! Every step costs O(1) per dependency or transfer that it concerns, beside the flows; the loss of a node, and a
//! task that moves away from it, cost O(transfers on their way to the node).

use mdts_dag::{DataModel, EdgeId, FileId, TaskId};
use rustc_hash::FxHashMap;

use super::flows::Flows;
use crate::engine::{JobId, Phase, State};
use crate::{Cluster, Instance, NodeId};

/// A file of one producer.
type Copy = (JobId, TaskId, FileId);

/// A task that waits for a transfer; void when the task has been moved since.
#[derive(Debug, Clone, Copy)]
struct Consumer {
    job: JobId,
    task: TaskId,
    move_number: u32,
}

#[derive(Debug)]
struct Transfer {
    from: NodeId,
    to: NodeId,
    bytes: f64,
    bandwidth: f64,
    consumer: Consumer,
    /// Others that wait for the same file.
    others: Vec<Consumer>,
    copy: Option<Copy>,
    /// Whether the latency is over.
    flows: bool,
    /// Position in the list of its destination.
    at: usize,
}

/// What a task still lacks on the node that it was placed on.
#[derive(Debug, Clone, Default)]
struct Need {
    node: Option<NodeId>,
    open: u32,
    move_number: u32,
    /// How often the node had been lost.
    losses: u32,
    /// Earlier nodes to which something has not begun to flow.
    left: Vec<NodeId>,
}

/// What is on its way to, or on, one node.
#[derive(Debug, Clone, Default)]
struct Destination {
    transfers: Vec<usize>,
    /// Copies under way (by transfer) or there (`None`).
    copies: FxHashMap<Copy, Option<usize>>,
    losses: u32,
}

/// Something that the simulator has to do later.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Later {
    /// Call [`Transfers::begin`] with this number after the seconds of latency.
    Begin(usize, f64),
    /// All inputs of a task are on the node.
    Staged(JobId, TaskId, NodeId),
}

/// All transfers of a simulation.
#[derive(Debug)]
pub(super) struct Transfers {
    needs: Vec<Vec<Need>>,
    /// By number. The number of one that was given up during its latency is reused only after its beginning.
    transfers: Vec<Option<Transfer>>,
    free: Vec<usize>,
    destinations: Vec<Destination>,
    flows: Flows,
    pub(super) moved_bytes: f64,
    ended: Vec<usize>,
}

impl Transfers {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            needs: Vec::new(),
            transfers: Vec::new(),
            free: Vec::new(),
            destinations: vec![Destination::default(); cluster.len()],
            flows: Flows::new(cluster),
            moved_bytes: 0.0,
            ended: Vec::new(),
        }
    }

    pub(super) fn submit(&mut self, instance: &Instance) {
        self.needs.push(vec![Need::default(); instance.tasks()]);
    }

    /// A task was placed on a node: fetch what its finished parents have left elsewhere.
    pub(super) fn stage(
        &mut self,
        state: &State,
        instance: &Instance,
        (job, task, node): (JobId, TaskId, NodeId),
        later: &mut Vec<Later>,
    ) {
        self.give_up(job, task);
        let parents = instance.graph().parents(task);
        let need = &mut self.needs[job.index()][task.index()];
        (need.node, need.losses) = (Some(node), self.destinations[node.index()].losses);
        need.move_number += 1;
        need.open = parents.len() as u32;
        for (edge, parent) in instance.graph().parent_edges(task).zip(parents) {
            if state.phase(job, *parent) == Phase::Done {
                self.fetch(state, instance, job, (edge, *parent, task), later);
            }
        }
        self.report(job, task, later);
    }

    /// A task has finished: send its results to the children that have been placed.
    pub(super) fn finished(
        &mut self,
        state: &State,
        instance: &Instance,
        (job, task): (JobId, TaskId),
        later: &mut Vec<Later>,
    ) {
        let graph = instance.graph();
        for (edge, &child) in graph.child_edges(task).iter().zip(graph.children(task)) {
            let need = &self.needs[job.index()][child.index()];
            let is_placed = |node: NodeId| self.destinations[node.index()].losses == need.losses;
            if need.node == state.node_of(job, child) && need.node.is_some_and(is_placed) {
                self.fetch(state, instance, job, (*edge, task, child), later);
                self.report(job, child, later);
            }
        }
    }

    /// Begins the transfers that one dependency needs, and crosses the parent off.
    fn fetch(
        &mut self,
        state: &State,
        instance: &Instance,
        job: JobId,
        (edge, parent, task): (EdgeId, TaskId, TaskId),
        later: &mut Vec<Later>,
    ) {
        let graph = instance.graph();
        let need = &mut self.needs[job.index()][task.index()];
        need.open -= 1;
        let (Some(from), Some(to)) = (state.node_of(job, parent), need.node) else { return };
        if from == to {
            return;
        }
        let consumer = Consumer { job, task, move_number: need.move_number };
        let link = instance.cluster().network().link(from, to);
        let mut send = |this: &mut Self, bytes: f64, copy: Option<Copy>| {
            let known = copy.and_then(|copy| this.destinations[to.index()].copies.get(&copy)).copied();
            if known == Some(None) {
                return; // there already
            }
            this.needs[job.index()][task.index()].open += 1;
            if let Some(under_way) = known.flatten() {
                this.transfers[under_way].iter_mut().for_each(|t| t.others.push(consumer));
                return;
            }
            let (bandwidth, others, at) = (link.bandwidth, Vec::new(), 0);
            let number =
                this.add(Transfer { from, to, bytes, bandwidth, consumer, others, copy, flows: false, at });
            later.push(Later::Begin(number, link.latency));
        };
        match instance.data() {
            DataModel::Edges => send(self, graph.edge_bytes(edge), None),
            DataModel::Files => {
                let files = graph.edge_files(edge);
                for &file in files {
                    send(self, graph.file_bytes(file), Some((job, parent, file)));
                }
                let direct = graph.edge_direct_bytes(edge);
                if direct > 0.0 || files.is_empty() {
                    send(self, direct, None);
                }
            }
        }
    }

    fn add(&mut self, mut transfer: Transfer) -> usize {
        let number = self.free.pop().unwrap_or(self.transfers.len());
        let destination = &mut self.destinations[transfer.to.index()];
        transfer.at = destination.transfers.len();
        destination.transfers.push(number);
        if let Some(copy) = transfer.copy {
            destination.copies.insert(copy, Some(number));
        }
        if number == self.transfers.len() {
            self.transfers.push(Some(transfer));
        } else {
            self.transfers[number] = Some(transfer);
        }
        number
    }

    /// Takes a transfer off all lists.
    fn remove(&mut self, number: usize) -> Option<Transfer> {
        let transfer = self.transfers[number].take()?;
        let list = &mut self.destinations[transfer.to.index()].transfers;
        list.swap_remove(transfer.at);
        if let Some(moved) = list.get(transfer.at).and_then(|moved| self.transfers[*moved].as_mut()) {
            moved.at = transfer.at;
        }
        Some(transfer)
    }

    /// The latency of a transfer is over: its bytes begin to flow.
    pub(super) fn begin(&mut self, now: f64, number: usize, later: &mut Vec<Later>) {
        let Some(transfer) = &mut self.transfers[number] else {
            self.free.push(number);
            return;
        };
        self.moved_bytes += transfer.bytes;
        if transfer.bytes <= 0.0 || transfer.bandwidth.is_infinite() {
            self.arrived(number, later);
            return;
        }
        transfer.flows = true;
        let ends = (transfer.from, transfer.to);
        self.flows.begin(now, number, ends, transfer.bytes, transfer.bandwidth);
    }

    /// When the next transfer ends, if none begins before.
    pub(super) fn next_end(&mut self, now: f64) -> Option<f64> {
        self.flows.next_end(now)
    }

    /// Ends the transfers that are due.
    pub(super) fn end_until(&mut self, now: f64, later: &mut Vec<Later>) {
        let mut ended = std::mem::take(&mut self.ended);
        self.flows.end_until(now, &mut ended);
        for number in ended.drain(..) {
            self.arrived(number, later);
        }
        self.ended = ended;
    }

    fn arrived(&mut self, number: usize, later: &mut Vec<Later>) {
        let Some(transfer) = self.remove(number) else { return };
        self.free.push(number);
        if let Some(copy) = transfer.copy {
            self.destinations[transfer.to.index()].copies.insert(copy, None);
        }
        for Consumer { job, task, move_number } in std::iter::once(transfer.consumer).chain(transfer.others) {
            let need = &mut self.needs[job.index()][task.index()];
            if need.move_number == move_number {
                need.open -= 1;
                self.report(job, task, later);
            }
        }
    }

    fn report(&self, job: JobId, task: TaskId, later: &mut Vec<Later>) {
        let need = &self.needs[job.index()][task.index()];
        if let (0, Some(node)) = (need.open, need.node) {
            later.push(Later::Staged(job, task, node));
        }
    }

    /// Ends what flows to a task that is placed anew. Files go on: they are of use to others. So do transfers in
    /// their latency, until the task moves again.
    fn give_up(&mut self, job: JobId, task: TaskId) {
        let need = &mut self.needs[job.index()][task.index()];
        let Some(node) = need.node else { return };
        let mut nodes = std::mem::take(&mut need.left);
        nodes.push(node);
        nodes.retain(|node| self.end_direct(job, task, *node));
        self.needs[job.index()][task.index()].left = nodes;
    }

    /// Ends what flows to a task on this node and is no file; returns whether some of it has not begun to flow.
    fn end_direct(&mut self, job: JobId, task: TaskId, node: NodeId) -> bool {
        let of_task = |t: &Transfer| t.copy.is_none() && (t.consumer.job, t.consumer.task) == (job, task);
        let find = |number: &usize| Some((*number, self.transfers[*number].as_ref()?));
        let direct = self.destinations[node.index()].transfers.iter().filter_map(find);
        let (flowing, begin_later): (Vec<_>, Vec<_>) = direct
            .filter(|(_, transfer)| of_task(transfer))
            .map(|(number, transfer)| (number, transfer.flows))
            .partition(|(_, flows)| *flows);
        for (number, _) in flowing {
            self.end(number);
        }
        !begin_later.is_empty()
    }

    /// Ends a transfer before its time.
    fn end(&mut self, number: usize) {
        if let Some(Transfer { from, to, flows: true, .. }) = self.remove(number) {
            self.flows.abort(number, (from, to));
            self.free.push(number);
        }
    }

    /// A node is lost, with all that was there or on its way there.
    pub(super) fn lost(&mut self, node: NodeId) {
        while let Some(&number) = self.destinations[node.index()].transfers.last() {
            self.end(number);
        }
        let destination = &mut self.destinations[node.index()];
        destination.copies.clear();
        destination.losses += 1;
    }
}
