//! Max-min fair rates of flows between ports, kept up to date as flows come and go.
//!
//! Every port has a *level*: the rate at which its flows were held when it became full, infinite if it is not full.
//! A flow runs at the least of its own limit and the levels of its two ports, and a full port's level is where the
//! rates of its flows add up to its capacity. That is what progressive filling computes (Bertsekas, Gallager, Data
//! Networks, 2nd edition, section 6.5.2), from the lowest level up.
//!
//! A port's level depends only on lower levels among its neighbours. So a change is repaired from the lowest level
//! up, as in Dijkstra's algorithm, and stops where levels stay as they were. A port whose level is not fair (any
//! more) is in a queue at the lower of its level and its fair level. When its turn comes, all levels below are as
//! they will be, it gets its fair level, and neighbours with higher levels look again at their own: if it has risen
//! they have less left, if it has fallen they have more. A port that falls is done; one that rises may have to
//! move again, at most once for each neighbour that falls.
//!
//! Flows between the same two ports share one rate and count as one, so the cost of a repair depends on the ports
//! affected and their pairs, whatever the number of flows: O(pairs of a port) each time that it is looked at. The
//! selective update of fluid models in `SimGrid` (Casanova, Giersch, Legrand, Quinson, Suter, Journal of Parallel
//! and Distributed Computing 74(10), 2014) has the same aim; it recomputes all that is connected to the change.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Relative difference of levels that is taken for rounding.
const ROUNDING: f64 = 1e-12;

/// A port's number.
pub(super) type Port = u32;

/// Two ports with flows from the first to the second.
#[derive(Debug, Clone)]
struct Pair {
    ports: [Port; 2],
    /// Where it is in the lists of its ports; meaningless without flows.
    at: [u32; 2],
    limit: f64,
    flows: u32,
}

/// A pair as one of its ports sees it.
#[derive(Debug, Clone, Copy)]
struct Side {
    limit: f64,
    flows: f64,
    other: Port,
    pair: u32,
}

/// Rates of flows, all equal within a pair of ports.
#[derive(Debug, Clone)]
pub(super) struct FairRates {
    capacity: Vec<f64>,
    level: Vec<f64>,
    /// Pairs with flows, per port.
    sides: Vec<Vec<Side>>,
    pairs: Vec<Pair>,
    /// Ports to look at, by level; entries other than the port's `due` are void.
    queue: BinaryHeap<Reverse<Due>>,
    due: Vec<f64>,
    /// The fair level of each port that is in the queue, NaN if not known.
    fair: Vec<f64>,
    /// Ports where flows have come or gone or the level has changed since the last repair.
    touched: Vec<Port>,
    is_touched: Vec<bool>,
    /// Scratch: the most that each pair of a port could have, and its flows.
    bounds: Vec<(f64, f64)>,
}

/// A level at which to look at a port.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Due(f64, Port);

impl Eq for Due {}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl FairRates {
    /// Ports with these capacities and no flow.
    pub(super) fn new(capacity: Vec<f64>) -> Self {
        let ports = capacity.len();
        Self {
            capacity,
            level: vec![f64::INFINITY; ports],
            sides: vec![Vec::new(); ports],
            pairs: Vec::new(),
            queue: BinaryHeap::new(),
            due: vec![f64::NAN; ports],
            fair: vec![f64::NAN; ports],
            touched: Vec::new(),
            is_touched: vec![false; ports],
            bounds: Vec::new(),
        }
    }

    /// Adds a pair without flows, each of which will have this limit; pairs are numbered from 0.
    pub(super) fn add_pair(&mut self, ports: [Port; 2], limit: f64) {
        self.pairs.push(Pair { ports, at: [0; 2], limit, flows: 0 });
    }

    /// Sets the number of a pair's flows; rates follow with the next repair.
    pub(super) fn set_flows(&mut self, pair: u32, flows: u32) {
        let of = &mut self.pairs[pair as usize];
        let before = std::mem::replace(&mut of.flows, flows);
        let (ports, at, limit) = (of.ports, of.at, of.limit);
        for end in [0, 1] {
            let port = ports[end] as usize;
            if flows == 0 {
                self.detach(port, at[end] as usize);
            } else if before == 0 {
                self.pairs[pair as usize].at[end] = self.sides[port].len() as u32;
                let other = ports[1 - end];
                self.sides[port].push(Side { limit, flows: f64::from(flows), other, pair });
            } else {
                self.sides[port][at[end] as usize].flows = f64::from(flows);
            }
            self.touch(ports[end]);
        }
    }

    fn detach(&mut self, port: usize, at: usize) {
        self.sides[port].swap_remove(at);
        if let Some(moved) = self.sides[port].get(at) {
            let moved = &mut self.pairs[moved.pair as usize];
            let end = usize::from(moved.ports[0] as usize != port);
            moved.at[end] = at as u32;
        }
    }

    fn touch(&mut self, port: Port) {
        if !std::mem::replace(&mut self.is_touched[port as usize], true) {
            self.touched.push(port);
        }
    }

    /// Brings all rates up to date, and tells those of all pairs that may have changed, some of them twice.
    pub(super) fn repair(&mut self, mut tell: impl FnMut(u32, f64)) {
        for at in 0..self.touched.len() {
            self.look_again(self.touched[at], 0.0);
        }
        while let Some(Reverse(Due(level, port))) = self.queue.pop() {
            if self.due[port as usize] == level {
                self.due[port as usize] = f64::NAN;
                self.decide(port, level);
            }
        }
        for port in self.touched.drain(..) {
            self.is_touched[port as usize] = false;
            let level = self.level[port as usize];
            for side in &self.sides[port as usize] {
                tell(side.pair, side.limit.min(level).min(self.level[side.other as usize]));
            }
        }
    }

    /// Puts a port into the queue, unless it is there for a level as low.
    fn look_at(&mut self, port: Port, level: f64) {
        let due = &mut self.due[port as usize];
        if level.is_finite() && (due.is_nan() || level < *due) {
            *due = level;
            self.queue.push(Reverse(Due(level, port)));
        }
    }

    /// A port may have to rise or fall: puts it into the queue at the lower of its old and new level.
    fn look_again(&mut self, port: Port, now: f64) {
        let (level, fair) = (self.level[port as usize], self.fair_level(port).max(now));
        self.fair[port as usize] = fair;
        if !is_close(level, fair) {
            self.look_at(port, lower(level, fair));
        }
    }

    /// All levels below `now` are as they will be. Decides on a port's level, if it is `now` or was.
    fn decide(&mut self, port: Port, now: f64) {
        let level = self.level[port as usize];
        if self.fair[port as usize].is_nan() {
            self.fair[port as usize] = self.fair_level(port).max(now);
        }
        let fair = self.fair[port as usize];
        if is_close(level, fair) {
            return;
        }
        if lower(level, fair) > now {
            self.look_at(port, lower(level, fair));
            return;
        }
        self.level[port as usize] = fair;
        self.touch(port);
        let sides = std::mem::take(&mut self.sides[port as usize]);
        for side in &sides {
            let others = self.level[side.other as usize];
            self.fair[side.other as usize] = f64::NAN;
            if lower(side.limit, others) <= now * (1.0 + ROUNDING) {
                continue; // it does not feel whether this port is held at `now`
            }
            if fair > level {
                self.look_again(side.other, now); // has less left
            } else {
                self.look_at(side.other, others); // has more left
            }
        }
        self.sides[port as usize] = sides;
    }

    /// Where a port would be held if its neighbours' levels were final: the root of a concave, piecewise linear
    /// function, by Newton's method from the present level, which comes from below after its first step.
    fn fair_level(&mut self, port: Port) -> f64 {
        let (sides, capacity) = (&self.sides[port as usize], self.capacity[port as usize]);
        let near = self.level[port as usize];
        self.bounds.clear();
        let (mut wanted, mut flows, mut held, mut open) = (0.0, 0.0, 0.0, 0.0);
        for side in sides {
            let bound = lower(side.limit, self.level[side.other as usize]);
            self.bounds.push((bound, side.flows));
            wanted += bound * side.flows;
            flows += side.flows;
            held += if bound < near { bound * side.flows } else { 0.0 };
            open += if bound < near { 0.0 } else { side.flows };
        }
        if wanted <= capacity * (1.0 + ROUNDING) {
            return f64::INFINITY;
        }
        let share = |level: f64| {
            let (mut left, mut open) = (capacity, 0.0);
            for &(bound, flows) in &self.bounds {
                left -= if bound < level { bound * flows } else { 0.0 };
                open += if bound < level { 0.0 } else { flows };
            }
            left / open
        };
        let mut level = if open > 0.0 { (capacity - held) / open } else { capacity / flows };
        loop {
            let next = share(level);
            if next > level && next.is_finite() {
                level = next;
            } else {
                return level;
            }
        }
    }
}

/// The lower of two numbers, neither of which is NaN.
fn lower(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Whether two levels differ by no more than rounding.
fn is_close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= lower(a, b) * ROUNDING
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng};

    use super::*;

    /// Pairs by their ends, limit and number of flows, beside the rates that are kept up to date.
    struct World {
        capacity: Vec<f64>,
        pairs: Vec<(usize, usize, f64, u32)>,
        rates: FairRates,
        told: Vec<f64>,
    }

    impl World {
        fn new(nodes: usize, capacity: Vec<f64>, mut limit: impl FnMut(usize, usize) -> f64) -> Self {
            let ends = (0..nodes).flat_map(|a| (0..nodes).filter(move |b| a != *b).map(move |b| (a, b)));
            let pairs: Vec<_> = ends.map(|(a, b)| (a, nodes + b, limit(a, b), 0)).collect();
            let mut rates = FairRates::new(capacity.clone());
            for &(from, to, limit, _) in &pairs {
                rates.add_pair([from as Port, to as Port], limit);
            }
            let told = vec![0.0; pairs.len()];
            Self { capacity, pairs, rates, told }
        }

        fn set(&mut self, pair: usize, flows: u32) {
            if self.pairs[pair].3 != flows {
                self.pairs[pair].3 = flows;
                self.rates.set_flows(pair as u32, flows);
            }
        }

        /// Progressive filling from scratch: at each level, the port or limit that is reached first.
        fn filled(&self) -> Vec<f64> {
            let mut left = self.capacity.clone();
            let mut rates = vec![0.0; self.pairs.len()];
            let mut open: Vec<usize> = (0..self.pairs.len()).filter(|p| self.pairs[*p].3 > 0).collect();
            while !open.is_empty() {
                let flows = |port: usize, open: &[usize]| -> f64 {
                    let of = open.iter().map(|p| &self.pairs[*p]).filter(|p| p.0 == port || p.1 == port);
                    of.map(|p| f64::from(p.3)).sum()
                };
                let shares: Vec<f64> = (0..left.len()).map(|port| left[port] / flows(port, &open)).collect();
                let rate = |p: usize| {
                    let (from, to, limit, _) = self.pairs[p];
                    limit.min(shares[from]).min(shares[to])
                };
                let lowest = open.iter().map(|p| rate(*p)).fold(f64::INFINITY, f64::min);
                let (full, rest): (Vec<usize>, Vec<usize>) =
                    open.iter().partition(|p| rate(**p) <= lowest * (1.0 + 1e-13));
                for p in full {
                    let (from, to, _, flows) = self.pairs[p];
                    rates[p] = lowest;
                    left[from] -= lowest * f64::from(flows);
                    left[to] -= lowest * f64::from(flows);
                }
                open = rest;
            }
            rates
        }

        fn check(&mut self) {
            let told = &mut self.told;
            self.rates.repair(|pair, rate| told[pair as usize] = rate);
            for (p, rate) in self.filled().into_iter().enumerate() {
                let is_used = self.pairs[p].3 > 0;
                let told = self.told[p];
                assert!(
                    !is_used || (told - rate).abs() <= 1e-9 * rate,
                    "{:?}: {told}, not {rate}",
                    self.pairs[p]
                );
            }
        }
    }

    /// Equal ports, unequal ports, and limits of single pairs, with few and with many flows.
    #[test]
    fn rates_equal_progressive_filling_after_every_change() {
        let mut rng = crate::Rng::seed_from_u64(5);
        for round in 0..60 {
            let nodes = rng.random_range(2..=20);
            let (unequal, limited) = (round % 2 == 1, round % 3 == 1);
            let capacity: Vec<f64> =
                (0..2 * nodes).map(|_| if unequal { rng.random_range(1.0..20.0) } else { 10.0 }).collect();
            let mut limits = crate::Rng::seed_from_u64(round);
            let limit =
                |_, _| if limited && limits.random_bool(0.5) { limits.random_range(0.1..10.0) } else { 20.0 };
            let mut world = World::new(nodes, capacity, limit);
            let most_flows = [1, 3, 200][rng.random_range(0..3)];
            for _ in 0..200 {
                for _ in 0..rng.random_range(1..4) {
                    let pair = rng.random_range(0..world.pairs.len());
                    let flows = if rng.random_bool(0.5) { 0 } else { rng.random_range(0..=most_flows) };
                    world.set(pair, flows);
                }
                world.check();
            }
        }
    }

    #[test]
    fn a_change_does_not_touch_what_it_cannot_reach() {
        let mut world = World::new(4, vec![10.0; 8], |_, _| 10.0);
        let find = |world: &World, a: usize, b: usize| {
            world.pairs.iter().position(|p| (p.0, p.1) == (a, 4 + b)).unwrap_or(0)
        };
        let (far, near) = (find(&world, 2, 3), find(&world, 0, 1));
        world.set(far, 2);
        world.check();
        world.set(near, 3);
        let mut told = Vec::new();
        world.rates.repair(|pair, _| told.push(pair as usize));
        assert!(told.contains(&near) && !told.contains(&far), "{told:?}");
    }
}
