//! Moving inputs to nodes under contention: which transfer begins when, and when a task has all it needs.

use mdts_dag::{DataModel, EdgeId, FileId, TaskId};
use rustc_hash::FxHashMap;

use super::flows::{FlowId, Flows};
use crate::engine::{JobId, Phase, State};
use crate::{Cluster, Instance, NodeId};

/// A file of one producer on its way to, or on, one node.
type Copy = (JobId, TaskId, FileId, NodeId);

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
    consumers: Vec<Consumer>,
    copy: Option<Copy>,
}

/// What a task still lacks on the node that it was placed on.
#[derive(Debug, Clone, Default)]
struct Need {
    node: Option<NodeId>,
    open: u32,
    move_number: u32,
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
    transfers: Vec<Option<Transfer>>,
    flows: Flows,
    of_flow: FxHashMap<FlowId, usize>,
    /// Copies under way (by transfer) or there (`None`).
    copies: FxHashMap<Copy, Option<usize>>,
    pub(super) moved_bytes: f64,
    ended: Vec<FlowId>,
}

impl Transfers {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            needs: Vec::new(),
            transfers: Vec::new(),
            flows: Flows::new(cluster),
            of_flow: FxHashMap::default(),
            copies: FxHashMap::default(),
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
        now: f64,
        state: &State,
        instance: &Instance,
        (job, task, node): (JobId, TaskId, NodeId),
        later: &mut Vec<Later>,
    ) {
        if self.needs[job.index()][task.index()].move_number > 0 {
            self.give_up(now, |consumer| consumer.job == job && consumer.task == task);
        }
        let parents = instance.graph().parents(task);
        let need = &mut self.needs[job.index()][task.index()];
        need.node = Some(node);
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
            if need.node.is_some() && need.node == state.node_of(job, child) {
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
            this.needs[job.index()][task.index()].open += 1;
            match copy.and_then(|copy| this.copies.get(&copy)).copied() {
                Some(Some(under_way)) => {
                    this.transfers[under_way].iter_mut().for_each(|t| t.consumers.push(consumer));
                }
                Some(None) => this.needs[job.index()][task.index()].open -= 1, // there already
                None => {
                    let number = this.transfers.len();
                    let bandwidth = link.bandwidth;
                    let consumers = vec![consumer];
                    this.transfers.push(Some(Transfer { from, to, bytes, bandwidth, consumers, copy }));
                    if let Some(copy) = copy {
                        this.copies.insert(copy, Some(number));
                    }
                    later.push(Later::Begin(number, link.latency));
                }
            }
        };
        match instance.data() {
            DataModel::Edges => send(self, graph.edge_bytes(edge), None),
            DataModel::Files => {
                let files = graph.edge_files(edge);
                for &file in files {
                    send(self, graph.file_bytes(file), Some((job, parent, file, to)));
                }
                let direct = graph.edge_direct_bytes(edge);
                if direct > 0.0 || files.is_empty() {
                    send(self, direct, None);
                }
            }
        }
    }

    /// The latency of a transfer is over: its bytes begin to flow.
    pub(super) fn begin(&mut self, now: f64, number: usize, later: &mut Vec<Later>) {
        let Some(transfer) = &self.transfers[number] else { return };
        self.moved_bytes += transfer.bytes;
        if transfer.bytes <= 0.0 || transfer.bandwidth.is_infinite() {
            self.arrived(number, later);
            return;
        }
        let flow = self.flows.begin(now, transfer.from, transfer.to, transfer.bytes, transfer.bandwidth);
        self.of_flow.insert(flow, number);
    }

    /// If transfers have begun or ended since the last call: when the next one ends.
    pub(super) fn reschedule(&mut self) -> Option<f64> {
        self.flows.reschedule()
    }

    /// Ends the transfers that are due.
    pub(super) fn end_until(&mut self, now: f64, later: &mut Vec<Later>) {
        let mut ended = std::mem::take(&mut self.ended);
        ended.clear();
        self.flows.end_until(now, &mut ended);
        for flow in &ended {
            if let Some(number) = self.of_flow.remove(flow) {
                self.arrived(number, later);
            }
        }
        self.ended = ended;
    }

    fn arrived(&mut self, number: usize, later: &mut Vec<Later>) {
        let Some(transfer) = self.transfers[number].take() else { return };
        if let Some(copy) = transfer.copy {
            self.copies.insert(copy, None);
        }
        for Consumer { job, task, move_number } in transfer.consumers {
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

    /// Ends transfers for consumers that do not want them any more. Files go on: they are of use to others.
    fn give_up(&mut self, now: f64, is_void: impl Fn(&Consumer) -> bool) {
        for flow in self.flows.active().to_vec() {
            let Some(&number) = self.of_flow.get(&flow) else { continue };
            let Some(transfer) = &mut self.transfers[number] else { continue };
            let wanted = transfer.consumers.len();
            transfer.consumers.retain(|consumer| !is_void(consumer));
            if transfer.copy.is_none() && wanted > 0 && transfer.consumers.is_empty() {
                self.end(now, flow, number);
            }
        }
    }

    fn end(&mut self, now: f64, flow: FlowId, number: usize) {
        self.flows.abort(now, flow);
        self.of_flow.remove(&flow);
        self.transfers[number] = None;
    }

    /// A node is lost, with all that was there or on its way there.
    pub(super) fn lost(&mut self, now: f64, node: NodeId) {
        for flow in self.flows.active().to_vec() {
            if let Some(&number) = self.of_flow.get(&flow)
                && self.transfers[number].as_ref().is_some_and(|t| t.to == node)
            {
                self.end(now, flow, number);
            }
        }
        // Those that wait for their latency.
        for transfer in &mut self.transfers {
            transfer.take_if(|t| t.to == node);
        }
        self.copies.retain(|copy, _| copy.3 != node);
        for need in self.needs.iter_mut().flatten() {
            if need.node == Some(node) {
                need.node = None;
                need.move_number += 1;
            }
        }
    }
}
