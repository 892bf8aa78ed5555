//! Flows that share the network by max-min fairness.
//!
//! Every node has an outgoing and an incoming port as fast as its fastest link, and a flow is never faster than
//! the link between its ends. Rates are max-min fair (progressive filling: Bertsekas, Gallager, Data Networks,
//! 2nd edition, section 6.5.2): all rates grow together until a port is full or a flow has its limit. Ports are
//! taken from a heap by their fair share, so one recomputation costs O((flows + nodes) log nodes).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
    filling: Filling,
}

/// Scratch of one recomputation; ports are all outgoing ones, then all incoming ones.
#[derive(Debug, Clone, Default)]
struct Filling {
    /// Capacity left and flows without a rate, per port.
    left: Vec<f64>,
    open: Vec<u32>,
    /// Flows by port: rows of `flows` that begin at `row`.
    row: Vec<u32>,
    flows: Vec<FlowId>,
    /// Flows whose own limit is below both ports' capacity, ascending by limit.
    limited: Vec<(f64, FlowId)>,
    shares: BinaryHeap<Reverse<Share>>,
}

/// A port's fair share when it was last looked at; shares only grow while rates are fixed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share(f64, usize);

impl Eq for Share {}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
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
            filling: Filling::default(),
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

    /// The flows under way.
    pub(super) fn active(&self) -> &[FlowId] {
        &self.active
    }

    /// Ends a flow before its time.
    pub(super) fn abort(&mut self, now: f64, id: FlowId) {
        self.advance(now);
        if self.flows[id].take().is_some() {
            self.active.retain(|other| *other != id);
            self.free.push(id);
            self.changed = true;
        }
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

    /// If flows have begun or ended since the last call: recomputes rates and tells when the next flow ends.
    pub(super) fn reschedule(&mut self) -> Option<f64> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        self.share();
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
        self.begin_filling();
        let mut next_limited = 0;
        while let Some(Reverse(Share(share, port))) = self.filling.shares.pop() {
            let open = self.filling.open[port];
            if open == 0 {
                continue;
            }
            let now = self.filling.left[port].max(0.0) / f64::from(open);
            if now > share {
                self.filling.shares.push(Reverse(Share(now, port)));
                continue;
            }
            // Flows that reach their own limit before this port is full.
            while let Some(&(limit, id)) = self.filling.limited.get(next_limited).filter(|l| l.0 < share) {
                next_limited += 1;
                self.fix(id, limit);
            }
            if self.filling.open[port] < open {
                self.filling.shares.push(Reverse(Share(share, port))); // the others of this port get more
                continue;
            }
            let row = self.filling.row[port] as usize..self.filling.row[port + 1] as usize;
            for at in row {
                self.fix(self.filling.flows[at], share);
            }
        }
    }

    fn begin_filling(&mut self) {
        let (ports, incoming) = (self.ports.len(), self.ports.len() / 2);
        let f = &mut self.filling;
        f.left.clone_from(&self.ports);
        f.limited.clear();
        f.row.clear();
        f.row.resize(ports + 1, 0);
        for id in &self.active {
            let Some(flow) = &mut self.flows[*id] else { continue };
            (flow.rate, flow.end) = (f64::NAN, f64::INFINITY);
            f.row[flow.from + 1] += 1;
            f.row[incoming + flow.to + 1] += 1;
            if flow.limit < self.ports[flow.from].min(self.ports[incoming + flow.to]) {
                f.limited.push((flow.limit, *id));
            }
        }
        f.limited.sort_by(|a, b| a.0.total_cmp(&b.0));
        f.open.clear();
        f.open.extend_from_slice(&f.row[1..]);
        for port in 0..ports {
            f.row[port + 1] += f.row[port];
        }
        f.flows.clear();
        f.flows.resize(2 * self.active.len(), 0);
        let mut next = f.row.clone();
        for id in &self.active {
            let Some(flow) = &self.flows[*id] else { continue };
            for port in [flow.from, incoming + flow.to] {
                f.flows[next[port] as usize] = *id;
                next[port] += 1;
            }
        }
        f.shares.clear();
        let used = (0..ports).filter(|&port| f.open[port] > 0);
        f.shares.extend(used.map(|port| Reverse(Share(self.ports[port] / f64::from(f.open[port]), port))));
    }

    /// Gives a flow its rate, if it has none yet.
    fn fix(&mut self, id: FlowId, rate: f64) {
        let Some(flow) = self.flows[id].as_mut().filter(|f| f.rate.is_nan()) else { return };
        flow.rate = rate;
        flow.end = self.now + flow.remaining / rate;
        for port in [flow.from, self.ports.len() / 2 + flow.to] {
            self.filling.left[port] -= rate;
            self.filling.open[port] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng};

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
        while let Some(at) = flows.reschedule() {
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

    /// A max-min fair allocation: every flow is at its limit, or at the largest rate of some full port.
    #[test]
    fn every_flow_has_a_bottleneck() {
        let mut rng = crate::Rng::seed_from_u64(7);
        for _ in 0..200 {
            let mut flows = three_nodes();
            for _ in 0..rng.random_range(1..12) {
                let from = rng.random_range(0..3u32);
                let to = (from + rng.random_range(1..3u32)) % 3;
                let limit = if rng.random_bool(0.5) { 10.0 } else { rng.random_range(0.5..10.0) };
                flows.begin(0.0, from.into(), to.into(), 5.0, limit);
            }
            flows.reschedule();
            let all: Vec<&Flow> = flows.flows.iter().flatten().collect();
            let on = |port: usize| all.iter().filter(move |f| f.from == port || 3 + f.to == port);
            for port in 0..6 {
                assert!(on(port).map(|f| f.rate).sum::<f64>() <= 10.0 + 1e-9, "a port is overfull");
            }
            for flow in &all {
                let is_bottleneck = |port: usize| {
                    let full = on(port).map(|f| f.rate).sum::<f64>() >= 10.0 - 1e-9;
                    full && on(port).all(|f| f.rate <= flow.rate + 1e-9)
                };
                let at_limit = flow.rate >= flow.limit - 1e-9;
                assert!(at_limit || is_bottleneck(flow.from) || is_bottleneck(3 + flow.to), "{flow:?}");
            }
        }
    }
}
