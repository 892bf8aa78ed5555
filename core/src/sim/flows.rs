//! Flows that share the network by max-min fairness.
//!
//! Every node has an outgoing and an incoming port as fast as its fastest link, and a flow is never faster than
//! the link between its ends. Rates are max-min fair (progressive filling: Bertsekas, Gallager, Data Networks,
//! 2nd edition, section 6.5.2): all rates grow together until a port is full or a flow has its limit. One
//! recomputation costs O((flows + nodes) x distinct rates).

use crate::{Cluster, NodeId};

/// A flow's handle; numbers are reused after the flow has ended.
pub(super) type FlowId = usize;

#[derive(Debug, Clone)]
struct Flow {
    from: usize,
    to: usize,
    remaining: f64,
    /// Bandwidth of the link between the ends.
    limit: f64,
    rate: f64,
    /// When it ends if rates stay as they are.
    end: f64,
}

/// All flows under way.
#[derive(Debug, Clone)]
pub(super) struct Flows {
    ports: Vec<f64>,
    flows: Vec<Option<Flow>>,
    free: Vec<FlowId>,
    active: Vec<FlowId>,
    now: f64,
    changed: bool,
    // Scratch: capacity left and flows not fixed, per outgoing then incoming port.
    left: Vec<f64>,
    open: Vec<u32>,
    unfixed: Vec<FlowId>,
}

impl Flows {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let n = cluster.len();
        let network = cluster.network();
        let fastest = |a: usize| match network.as_uniform() {
            Some(link) => link.bandwidth,
            None => (0..n)
                .filter(|b| *b != a)
                .map(|b| network.link(NodeId::new(a), NodeId::new(b)).bandwidth)
                .fold(0.0, f64::max),
        };
        let ports: Vec<f64> = (0..n).map(fastest).collect();
        Self {
            ports: [ports.clone(), ports].concat(),
            flows: Vec::new(),
            free: Vec::new(),
            active: Vec::new(),
            now: 0.0,
            changed: false,
            left: vec![0.0; 2 * n],
            open: vec![0; 2 * n],
            unfixed: Vec::new(),
        }
    }

    /// Begins to move `bytes` at time `now`.
    pub(super) fn begin(&mut self, now: f64, from: NodeId, to: NodeId, bytes: f64, limit: f64) -> FlowId {
        self.advance(now);
        let (from, to) = (from.index(), to.index());
        let flow = Flow { from, to, remaining: bytes, limit, rate: 0.0, end: f64::INFINITY };
        let id = self.free.pop().unwrap_or(self.flows.len());
        if id == self.flows.len() {
            self.flows.push(None);
        }
        self.flows[id] = Some(flow);
        self.active.push(id);
        self.changed = true;
        id
    }

    /// Moves the flows that end by `now` into `ended`.
    pub(super) fn end_until(&mut self, now: f64, ended: &mut Vec<FlowId>) {
        self.advance(now);
        let flows = &mut self.flows;
        self.active.retain(|&id| {
            let over = flows[id].as_ref().is_none_or(|f| f.end <= now);
            if over {
                ended.push(id);
                flows[id] = None;
            }
            !over
        });
        self.free.extend_from_slice(ended);
        self.changed |= !ended.is_empty();
    }

    /// When the next flow ends; recomputes rates if flows have begun or ended.
    pub(super) fn next_end(&mut self) -> Option<f64> {
        if std::mem::take(&mut self.changed) {
            self.share();
        }
        let ends = self.active.iter().filter_map(|id| self.flows[*id].as_ref()).map(|f| f.end);
        ends.min_by(f64::total_cmp)
    }

    fn advance(&mut self, now: f64) {
        let seconds = now - self.now;
        if seconds <= 0.0 {
            return;
        }
        self.now = now;
        for id in &self.active {
            if let Some(flow) = &mut self.flows[*id] {
                flow.remaining = (flow.remaining - flow.rate * seconds).max(0.0);
            }
        }
    }

    /// Progressive filling.
    fn share(&mut self) {
        let incoming = self.ports.len() / 2;
        self.left.copy_from_slice(&self.ports);
        self.open.fill(0);
        self.unfixed.clone_from(&self.active);
        for flow in self.active.iter().filter_map(|id| self.flows[*id].as_ref()) {
            self.open[flow.from] += 1;
            self.open[incoming + flow.to] += 1;
        }
        while !self.unfixed.is_empty() {
            let fair = |port: usize| self.left[port].max(0.0) / f64::from(self.open[port]);
            let share_of = |f: &Flow| fair(f.from).min(fair(incoming + f.to)).min(f.limit);
            let flows = self.unfixed.iter().filter_map(|id| self.flows[*id].as_ref());
            let lowest = flows.map(share_of).fold(f64::INFINITY, f64::min);
            // Everything that cannot get more than the lowest share is fixed.
            let fixed: Vec<FlowId> = self
                .unfixed
                .iter()
                .copied()
                .filter(|id| self.flows[*id].as_ref().is_none_or(|f| share_of(f) <= lowest * (1.0 + 1e-12)))
                .collect();
            for id in &fixed {
                let Some(flow) = &mut self.flows[*id] else { continue };
                flow.rate = lowest;
                flow.end = if lowest.is_infinite() { self.now } else { self.now + flow.remaining / lowest };
                for port in [flow.from, incoming + flow.to] {
                    self.left[port] -= lowest;
                    self.open[port] -= 1;
                }
            }
            // `fixed` is a subsequence of `unfixed`.
            let mut fixed = fixed.into_iter().peekable();
            self.unfixed.retain(|id| fixed.next_if_eq(id).is_none());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, Network, Node, SlotModel};

    fn three_nodes() -> Flows {
        let nodes = (0..3).map(|i| Node::new(format!("m{i}"))).collect();
        let network = Network::uniform(Link { latency: 0.0, bandwidth: 10.0 });
        match Cluster::new(nodes, network, SlotModel::Exclusive) {
            Ok(cluster) => Flows::new(&cluster),
            Err(error) => unreachable!("{error}"),
        }
    }

    fn ends(flows: &mut Flows) -> Vec<(f64, FlowId)> {
        let (mut all, mut ended) = (Vec::new(), Vec::new());
        while let Some(at) = flows.next_end() {
            ended.clear();
            flows.end_until(at, &mut ended);
            all.extend(ended.iter().map(|id| (at, *id)));
        }
        all
    }

    #[test]
    fn one_flow_has_the_whole_link() {
        let mut flows = three_nodes();
        flows.begin(1.0, 0.into(), 1.into(), 20.0, 10.0);
        assert_eq!(ends(&mut flows), [(3.0, 0)]);
    }

    #[test]
    fn flows_out_of_one_node_share_its_port() {
        let mut flows = three_nodes();
        flows.begin(0.0, 0.into(), 1.into(), 10.0, 10.0);
        flows.begin(0.0, 0.into(), 2.into(), 20.0, 10.0);
        // 5 each until the first has its 10; then 10 for the other's rest of 10.
        assert_eq!(ends(&mut flows), [(2.0, 0), (3.0, 1)]);
    }

    #[test]
    fn what_one_cannot_use_the_other_gets() {
        let mut flows = three_nodes();
        // m0 -> m2 is limited to 2, so m1 -> m2 gets 8 of the incoming port.
        flows.begin(0.0, 0.into(), 2.into(), 4.0, 2.0);
        flows.begin(0.0, 1.into(), 2.into(), 16.0, 10.0);
        assert_eq!(ends(&mut flows), [(2.0, 0), (2.0, 1)]);
    }

    #[test]
    fn flows_between_other_nodes_do_not_matter() {
        let mut flows = three_nodes();
        flows.begin(0.0, 0.into(), 1.into(), 10.0, 10.0);
        flows.begin(0.0, 1.into(), 2.into(), 10.0, 10.0);
        flows.begin(0.0, 2.into(), 0.into(), 10.0, 10.0);
        assert_eq!(ends(&mut flows).iter().map(|e| e.0).collect::<Vec<_>>(), [1.0, 1.0, 1.0]);
    }
}
