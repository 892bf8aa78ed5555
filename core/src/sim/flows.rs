//! Flows that share the network by max-min fairness: who is under way, and who ends next.
//!
//! Every node has an outgoing and an incoming port as fast as its fastest link, and a flow is never faster than
//! the link between its ends. Flows with the same ends have the same rate at any time ([`FairRates`]), so each such
//! pair has one clock that counts the bytes that one of its flows has got. A flow ends when the clock shows
//! what it showed at its beginning plus the bytes to move; the clock is read only when the rate changes. (Virtual
//! time of fair queueing: Parekh, Gallager, IEEE/ACM Transactions on Networking 1(3), 1993.)
//!
//! Beginning and ending cost O(log flows of the pair), then O(log pairs) per pair whose rate changes; see there for
//! the rates themselves. Nothing is done per flow under way.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::fairness::FairRates;
use super::heap::IndexedHeap;
use crate::{Cluster, NodeId};

/// Ends so close to each other, relative to the time, are one moment: they differ by rounding.
const ROUNDING: f64 = 1e-13;

/// All flows under way. Their numbers are the caller's.
#[derive(Debug, Clone)]
pub(super) struct Flows {
    nodes: u32,
    rates: FairRates,
    /// Pairs of nodes that have had a flow, by number.
    numbers: FxHashMap<(NodeId, NodeId), u32>,
    pairs: Vec<Pair>,
    /// When the first flow of each pair ends if rates stay as they are.
    ends: IndexedHeap,
    changed: bool,
}

/// The flows from one node to another.
#[derive(Debug, Clone, Default)]
struct Pair {
    /// Bytes that each flow has got since the pair was last without flows, up to `since`.
    clock: f64,
    since: f64,
    rate: f64,
    /// What the clock shows when a flow ends; the first to end on top.
    flows: BinaryHeap<Reverse<Goal>>,
    /// Whether flows have come or gone since the end was computed.
    changed: bool,
}

/// What the clock shows at the end of a flow, and the flow.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Goal(f64, usize);

impl Eq for Goal {}

impl Ord for Goal {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for Goal {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Pair {
    fn advance(&mut self, now: f64) {
        self.clock += self.rate * (now - self.since);
        self.since = now;
    }

    /// When the first flow ends.
    fn end(&self) -> Option<f64> {
        let Reverse(Goal(goal, _)) = self.flows.peek()?;
        Some(self.since + (goal - self.clock).max(0.0) / self.rate)
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
            nodes: n as u32,
            rates: FairRates::new([ports.clone(), ports].concat()),
            numbers: FxHashMap::default(),
            pairs: Vec::new(),
            ends: IndexedHeap::default(),
            changed: false,
        }
    }

    /// Begins to move `bytes` at time `now`. The limit is the bandwidth of the link between the ends.
    pub(super) fn begin(&mut self, now: f64, flow: usize, ends: (NodeId, NodeId), bytes: f64, limit: f64) {
        let number = self.number(ends, limit);
        let pair = &mut self.pairs[number as usize];
        pair.advance(now);
        pair.flows.push(Reverse(Goal(pair.clock + bytes, flow)));
        self.recount(number);
    }

    fn number(&mut self, (from, to): (NodeId, NodeId), limit: f64) -> u32 {
        *self.numbers.entry((from, to)).or_insert_with(|| {
            self.rates.add_pair([from.get(), self.nodes + to.get()], limit);
            self.pairs.push(Pair::default());
            self.pairs.len() as u32 - 1
        })
    }

    /// Flows of a pair have come or gone.
    fn recount(&mut self, number: u32) {
        let pair = &mut self.pairs[number as usize];
        self.rates.set_flows(number, pair.flows.len() as u32);
        pair.changed = true;
        self.changed = true;
        if pair.flows.is_empty() {
            (pair.clock, pair.rate) = (0.0, 0.0);
            self.ends.remove(number);
        }
    }

    /// Ends a flow before its time. O(flows of the pair).
    pub(super) fn abort(&mut self, flow: usize, ends: (NodeId, NodeId)) {
        if let Some(&number) = self.numbers.get(&ends) {
            self.pairs[number as usize].flows.retain(|Reverse(goal)| goal.1 != flow);
            self.recount(number);
        }
    }

    /// Moves the flows that end by `now` into `ended`.
    pub(super) fn end_until(&mut self, now: f64, ended: &mut Vec<usize>) {
        let latest = now + now.abs() * ROUNDING;
        while let Some((_, number)) = self.ends.first().filter(|(end, _)| *end <= latest) {
            let pair = &mut self.pairs[number as usize];
            ended.extend(pair.flows.pop().map(|Reverse(goal)| goal.1));
            if let Some(end) = pair.end() {
                self.ends.set(number, end);
            }
            self.recount(number);
        }
    }

    /// When the next flow ends, if none begins before.
    pub(super) fn next_end(&mut self, now: f64) -> Option<f64> {
        if std::mem::take(&mut self.changed) {
            self.share(now);
        }
        self.ends.first().map(|(end, _)| end.max(now))
    }

    /// Brings rates and ends up to date.
    fn share(&mut self, now: f64) {
        let Self { rates, pairs, ends, .. } = self;
        rates.repair(|number, rate| {
            let pair = &mut pairs[number as usize];
            if rate != pair.rate || pair.changed {
                pair.advance(now);
                (pair.rate, pair.changed) = (rate, false);
                if let Some(end) = pair.end() {
                    ends.set(number, end);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng};

    use super::*;
    use crate::{Link, Network, Node, SlotModel};

    fn cluster(nodes: usize) -> Flows {
        let nodes = (0..nodes).map(|i| Node::new(format!("m{i}"))).collect();
        let network = Network::uniform(Link { latency: 0.0, bandwidth: 10.0 });
        match Cluster::new(nodes, network, SlotModel::Exclusive) {
            Ok(cluster) => Flows::new(&cluster),
            Err(error) => unreachable!("{error}"),
        }
    }

    fn three_nodes() -> Flows {
        cluster(3)
    }

    fn ends(flows: &mut Flows, mut now: f64) -> Vec<(f64, usize)> {
        let (mut all, mut ended) = (Vec::new(), Vec::new());
        while let Some(at) = flows.next_end(now) {
            now = at;
            flows.end_until(at, &mut ended);
            all.extend(ended.drain(..).map(|flow| (at, flow)));
        }
        all
    }

    #[test]
    fn one_flow_has_the_whole_link() {
        let mut flows = three_nodes();
        flows.begin(1.0, 0, (0.into(), 1.into()), 20.0, 10.0);
        assert_eq!(ends(&mut flows, 1.0), [(3.0, 0)]);
    }

    #[test]
    fn flows_out_of_one_node_share_its_port() {
        let mut flows = three_nodes();
        flows.begin(0.0, 0, (0.into(), 1.into()), 10.0, 10.0);
        flows.begin(0.0, 1, (0.into(), 2.into()), 20.0, 10.0);
        // 5 each until the first has its 10; then 10 for the other's rest of 10.
        assert_eq!(ends(&mut flows, 0.0), [(2.0, 0), (3.0, 1)]);
    }

    #[test]
    fn what_one_cannot_use_the_other_gets() {
        let mut flows = three_nodes();
        // m0 -> m2 is limited to 2, so m1 -> m2 gets 8 of the incoming port.
        flows.begin(0.0, 0, (0.into(), 2.into()), 4.0, 2.0);
        flows.begin(0.0, 1, (1.into(), 2.into()), 16.0, 10.0);
        assert_eq!(ends(&mut flows, 0.0), [(2.0, 0), (2.0, 1)]);
    }

    #[test]
    fn flows_between_other_nodes_do_not_matter() {
        let mut flows = three_nodes();
        flows.begin(0.0, 0, (0.into(), 1.into()), 10.0, 10.0);
        flows.begin(0.0, 1, (1.into(), 2.into()), 10.0, 10.0);
        flows.begin(0.0, 2, (2.into(), 0.into()), 10.0, 10.0);
        assert_eq!(ends(&mut flows, 0.0).iter().map(|e| e.0).collect::<Vec<_>>(), [1.0, 1.0, 1.0]);
    }

    #[test]
    fn an_aborted_flow_leaves_its_share_to_the_others() {
        let mut flows = three_nodes();
        flows.begin(0.0, 0, (0.into(), 1.into()), 10.0, 10.0);
        flows.begin(0.0, 1, (0.into(), 1.into()), 10.0, 10.0);
        flows.begin(0.0, 2, (0.into(), 2.into()), 100.0, 10.0);
        assert_eq!(flows.next_end(0.0), Some(3.0));
        flows.abort(1, (0.into(), 1.into()));
        flows.abort(2, (0.into(), 2.into()));
        // Shared at 10 / 3 up to here, alone from now on.
        assert_eq!(flows.next_end(1.5), Some(2.0));
        assert_eq!(ends(&mut flows, 1.5), [(2.0, 0)]);
    }

    #[test]
    fn flows_of_one_pair_end_in_the_order_of_their_sizes() {
        let mut flows = three_nodes();
        flows.begin(0.0, 0, (0.into(), 1.into()), 30.0, 10.0);
        flows.begin(0.0, 1, (0.into(), 1.into()), 10.0, 10.0);
        assert_eq!(flows.next_end(0.0), Some(2.0));
        // At 1: 25 and 5 to go. All three have 5 / 1.5 s each, then two, then one.
        flows.begin(1.0, 2, (0.into(), 1.into()), 5.0, 10.0);
        assert_eq!(ends(&mut flows, 1.0), [(2.5, 1), (2.5, 2), (4.5, 0)]);
    }

    /// A flow of the reference model.
    struct Slow {
        flow: usize,
        ends: (usize, usize),
        remaining: f64,
        limit: f64,
        rate: f64,
    }

    /// Progressive filling from scratch, flow by flow; all ports have a capacity of 10.
    fn fill(flows: &mut [Slow], nodes: usize) {
        let mut left = vec![10.0; 2 * nodes];
        for f in flows.iter_mut() {
            f.rate = f64::NAN;
        }
        while flows.iter().any(|f| f.rate.is_nan()) {
            let mut open = vec![0.0; 2 * nodes];
            for f in flows.iter().filter(|f| f.rate.is_nan()) {
                open[f.ends.0] += 1.0;
                open[nodes + f.ends.1] += 1.0;
            }
            let share = |f: &Slow| {
                let [from, to] = [f.ends.0, nodes + f.ends.1].map(|port| left[port] / open[port]);
                f.limit.min(from).min(to)
            };
            let shares: Vec<f64> = flows.iter().map(share).collect();
            let unset = flows.iter().zip(&shares).filter(|(f, _)| f.rate.is_nan());
            let lowest = unset.map(|(_, share)| *share).fold(f64::INFINITY, f64::min);
            for (f, share) in flows.iter_mut().zip(shares) {
                if f.rate.is_nan() && share <= lowest * (1.0 + 1e-12) {
                    f.rate = lowest;
                    left[f.ends.0] -= lowest;
                    left[nodes + f.ends.1] -= lowest;
                }
            }
        }
    }

    fn nodes_of((from, to): (usize, usize)) -> (NodeId, NodeId) {
        (NodeId::new(from), NodeId::new(to))
    }

    /// Random beginnings and aborts: every flow ends when a model that moves all flows at every event says.
    #[test]
    fn flows_end_when_a_simple_model_says() {
        let mut rng = crate::Rng::seed_from_u64(11);
        for round in 0..100 {
            let nodes = rng.random_range(2..8);
            let mut flows = cluster(nodes);
            let (mut slow, mut now, mut begun, mut ended) = (Vec::<Slow>::new(), 0.0, 0, Vec::new());
            while begun < 100 || !slow.is_empty() {
                let event = if begun < 100 { now + rng.random_range(0.0..2.0) } else { f64::INFINITY };
                fill(&mut slow, nodes);
                let expected = slow.iter().map(|f| now + f.remaining / f.rate).fold(f64::INFINITY, f64::min);
                let end = flows.next_end(now).unwrap_or(f64::INFINITY);
                assert!(
                    end == expected || (end - expected).abs() <= 1e-9 * expected,
                    "{round}: {end} {expected}"
                );
                let next = event.min(end);
                for f in &mut slow {
                    f.remaining -= f.rate * (next - now);
                }
                now = next;
                if end <= event {
                    flows.end_until(now, &mut ended);
                    assert!(!ended.is_empty());
                    for flow in ended.drain(..) {
                        let at = slow.iter().position(|f| f.flow == flow);
                        let remaining = at.map(|at| slow.swap_remove(at).remaining);
                        assert!(remaining.is_some_and(|r| r.abs() < 1e-9), "{remaining:?} of {flow}");
                    }
                } else if rng.random_bool(0.1) && !slow.is_empty() {
                    let aborted = slow.swap_remove(rng.random_range(0..slow.len()));
                    flows.abort(aborted.flow, nodes_of(aborted.ends));
                } else {
                    let from = rng.random_range(0..nodes);
                    let to = (from + rng.random_range(1..nodes)) % nodes;
                    let limit = if (from + to + round) % 3 == 0 { 2.5 } else { 10.0 };
                    let remaining = if round % 2 == 0 { 20.0 } else { rng.random_range(1.0..50.0) };
                    slow.push(Slow { flow: begun, ends: (from, to), remaining, limit, rate: 0.0 });
                    flows.begin(now, begun, nodes_of((from, to)), remaining, limit);
                    begun += 1;
                }
            }
            assert_eq!(flows.next_end(now), None);
        }
    }
}
