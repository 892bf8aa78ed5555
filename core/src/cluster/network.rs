//! The network: latency and bandwidth between every two nodes.

use rustc_hash::FxHashMap;

use super::NodeId;
use super::range::{BANDWIDTH, LATENCY, check, wrong};
use crate::Result;

/// What a connection costs: `latency + bytes / bandwidth` seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Seconds before the first byte arrives, 0 to 1e9.
    pub latency: f64,
    /// Bytes per second, at least 1e-9; may be infinite.
    pub bandwidth: f64,
}

impl Link {
    /// No latency, infinite bandwidth.
    pub const INSTANT: Self = Self { latency: 0.0, bandwidth: f64::INFINITY };

    /// Seconds to move `bytes`.
    #[inline]
    pub fn seconds(self, bytes: f64) -> f64 {
        self.latency + bytes / self.bandwidth
    }

    pub(super) fn check(self) -> Result<(), String> {
        check("latency", self.latency, &LATENCY, "seconds")?;
        check("bandwidth", self.bandwidth, &BANDWIDTH, "bytes per second")
    }
}

/// Links between nodes: the same everywhere, per rack or per pair. Data on its own node moves in no time.
#[derive(Debug, Clone)]
pub struct Network {
    default: Link,
    shape: Shape,
    /// Number of nodes that it was built for; `None` for any.
    nodes: Option<usize>,
    fault: Option<Fault>,
}

/// The first exception that makes no sense; [`Cluster::new`](super::Cluster::new) refuses it.
#[derive(Debug, Clone)]
struct Fault {
    place: String,
    message: String,
}

#[derive(Debug, Clone)]
enum Shape {
    Uniform,
    /// A full matrix, for up to [`DENSE`] nodes.
    Dense {
        nodes: usize,
        links: Vec<Link>,
    },
    Sparse {
        rack: Vec<u32>,
        racks: FxHashMap<(u32, u32), Link>,
        pairs: FxHashMap<(u32, u32), Link>,
    },
}

/// Largest number of nodes for which all pairs are tabulated (16 MiB).
const DENSE: usize = 1024;
/// The rack of nodes whose rack is not known.
const NO_RACK: u32 = u32::MAX;

impl Network {
    /// The same link between any two nodes.
    pub fn uniform(link: Link) -> Self {
        Self { default: link, shape: Shape::Uniform, nodes: None, fault: None }
    }

    /// Starts a network with exceptions to `default`; `racks` tells the rack of every node.
    pub fn builder(default: Link, racks: Vec<u32>) -> NetworkBuilder {
        NetworkBuilder {
            default,
            rack: racks,
            racks: FxHashMap::default(),
            pairs: FxHashMap::default(),
            fault: None,
        }
    }

    /// The network for another number of nodes: those that it does not know are linked by the default.
    #[must_use]
    pub fn resized(&self, nodes: usize) -> Self {
        let shape = match &self.shape {
            Shape::Uniform => return Self { nodes: None, ..self.clone() },
            Shape::Dense { nodes: known, links } if nodes <= DENSE => {
                let link = |a: usize, b: usize| {
                    if a.max(b) < *known { links[a * known + b] } else { self.default }
                };
                let all = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
                Shape::Dense { nodes, links: all.map(|(a, b)| link(a, b)).collect() }
            }
            Shape::Dense { nodes: known, links } => {
                let all = (0..*known).flat_map(|a| (a..*known).map(move |b| (a, b)));
                let other = all.filter(|(a, b)| links[a * known + b] != self.default);
                Shape::Sparse {
                    rack: vec![NO_RACK; nodes],
                    racks: FxHashMap::default(),
                    pairs: other.map(|(a, b)| ((a as u32, b as u32), links[a * known + b])).collect(),
                }
            }
            Shape::Sparse { rack, racks, pairs } => {
                let mut rack = rack.clone();
                rack.resize(nodes, NO_RACK);
                Shape::Sparse { rack, racks: racks.clone(), pairs: pairs.clone() }
            }
        };
        Self { default: self.default, shape, nodes: Some(nodes), fault: self.fault.clone() }
    }

    /// Whether it is a network for this number of nodes, with all numbers in range.
    pub(super) fn check(&self, nodes: usize) -> Result<()> {
        self.default.check().map_err(|message| wrong("network", message))?;
        if let Some(racks) = self.nodes.filter(|racks| *racks != nodes) {
            let message = format!("it has racks for {racks} nodes, the cluster has {nodes} nodes");
            return Err(wrong("network", message));
        }
        match &self.fault {
            None => Ok(()),
            Some(Fault { place, message }) => Err(wrong(place, message)),
        }
    }

    /// The link between two different nodes.
    #[inline]
    pub fn link(&self, a: NodeId, b: NodeId) -> Link {
        match &self.shape {
            Shape::Uniform => self.default,
            Shape::Dense { nodes, links } => links[a.index() * nodes + b.index()],
            Shape::Sparse { rack, racks, pairs } => {
                look_up(self.default, rack, racks, pairs, a.index(), b.index())
            }
        }
    }

    /// Seconds to move `bytes` from `a` to `b`; 0 on the same node.
    #[inline]
    pub fn seconds(&self, bytes: f64, a: NodeId, b: NodeId) -> f64 {
        if a == b { 0.0 } else { self.link(a, b).seconds(bytes) }
    }

    /// The link, if it is the same between any two nodes.
    #[inline]
    pub fn as_uniform(&self) -> Option<Link> {
        matches!(self.shape, Shape::Uniform).then_some(self.default)
    }

    /// A link that is no slower than any between different nodes: least latency, largest bandwidth.
    ///
    /// O(exceptions), or O(nodes^2) for up to 1024 nodes with exceptions.
    pub fn fastest(&self) -> Link {
        let faster = |a: Link, b: Link| Link {
            latency: a.latency.min(b.latency),
            bandwidth: a.bandwidth.max(b.bandwidth),
        };
        match &self.shape {
            Shape::Uniform => self.default,
            Shape::Dense { nodes, links } => {
                let between = links.iter().enumerate().filter(|(i, _)| i / nodes != i % nodes);
                between.map(|(_, link)| *link).reduce(faster).unwrap_or(self.default)
            }
            Shape::Sparse { racks, pairs, .. } => {
                racks.values().chain(pairs.values()).copied().fold(self.default, faster)
            }
        }
    }

    /// The link that stands for the whole network in ranks: mean latency and mean bandwidth over all pairs of
    /// different nodes. O(nodes^2) up to 1024 nodes, beyond that the default link.
    pub fn mean(&self, nodes: usize) -> Link {
        let pairs = nodes * nodes.saturating_sub(1);
        if self.as_uniform().is_some() || pairs == 0 || nodes > DENSE {
            return self.default;
        }
        let all = (0..nodes).flat_map(|a| (0..nodes).filter(move |b| a != *b).map(move |b| (a, b)));
        let (latency, bandwidth) = all
            .map(|(a, b)| self.link(NodeId::new(a), NodeId::new(b)))
            .fold((0.0, 0.0), |(l, w), link| (l + link.latency, w + link.bandwidth));
        Link { latency: latency / pairs as f64, bandwidth: bandwidth / pairs as f64 }
    }
}

/// Collects exceptions to a default link.
///
/// An exception that makes no sense is refused by [`Cluster::new`](super::Cluster::new).
#[derive(Debug, Clone)]
pub struct NetworkBuilder {
    default: Link,
    rack: Vec<u32>,
    racks: FxHashMap<(u32, u32), Link>,
    pairs: FxHashMap<(u32, u32), Link>,
    fault: Option<Fault>,
}

impl NetworkBuilder {
    /// Sets the link between nodes of two racks (or inside one), in both directions.
    pub fn between_racks(&mut self, a: u32, b: u32, link: Link) {
        self.note(link.check(), || format!("link between racks {a} and {b}"));
        self.racks.insert((a.min(b), a.max(b)), link);
    }

    /// Sets the link between every two of the first `racks` racks; it is asked for in the order (1, 0), (2, 0), (2, 1), ...
    pub fn between_all_racks(&mut self, racks: u32, mut link: impl FnMut() -> Link) {
        for a in 0..racks {
            for b in 0..a {
                self.between_racks(a, b, link());
            }
        }
    }

    /// Sets the link between two nodes, in both directions.
    pub fn between_nodes(&mut self, a: NodeId, b: NodeId, link: Link) {
        let nodes = self.rack.len();
        let known = a.index().max(b.index()) < nodes;
        let known = if known { Ok(()) } else { Err(format!("there are {nodes} nodes, numbered from 0")) };
        self.note(known.and(link.check()), || format!("link between nodes {} and {}", a.get(), b.get()));
        self.pairs.insert((a.get().min(b.get()), a.get().max(b.get())), link);
    }

    /// Keeps the first fault.
    fn note(&mut self, check: Result<(), String>, place: impl FnOnce() -> String) {
        if let Err(message) = check {
            self.fault.get_or_insert_with(|| Fault { place: place(), message });
        }
    }

    /// Finishes the network.
    pub fn build(self) -> Network {
        let Self { default, rack, racks, pairs, fault } = self;
        let nodes = rack.len();
        let shape = if racks.is_empty() && pairs.is_empty() {
            Shape::Uniform
        } else if nodes <= DENSE {
            let all = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
            Shape::Dense {
                nodes,
                links: all.map(|(a, b)| look_up(default, &rack, &racks, &pairs, a, b)).collect(),
            }
        } else {
            Shape::Sparse { rack, racks, pairs }
        };
        Network { default, shape, nodes: Some(nodes), fault }
    }
}

/// Pair before racks before default.
fn look_up(
    default: Link,
    rack: &[u32],
    racks: &FxHashMap<(u32, u32), Link>,
    pairs: &FxHashMap<(u32, u32), Link>,
    a: usize,
    b: usize,
) -> Link {
    let ordered = |x: u32, y: u32| (x.min(y), x.max(y));
    let pair = pairs.get(&ordered(a as u32, b as u32));
    *pair.or_else(|| racks.get(&ordered(rack[a], rack[b]))).unwrap_or(&default)
}
