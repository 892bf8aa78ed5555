//! Nodes and the cluster that they form.

use std::collections::BTreeMap;

use mdts_dag::typed_id;
use serde::{Deserialize, Serialize};

use crate::{Error, Network, Result};

typed_id!(
    /// A node (machine) of one cluster.
    NodeId, "n"
);

/// How many tasks a node runs at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlotModel {
    /// One task per node at a time, whatever its cores: the model of HEFT and its literature.
    #[default]
    Exclusive,
    /// As many tasks as their demands fit into the node's capacity.
    Resources,
}

/// What a node offers. A value that is not stated is not checked, but for cores in the resources model
/// (1 core) and for GPUs and other resources (none).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Capacity {
    /// Processor cores.
    pub cores: Option<f64>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// GPUs.
    pub gpus: f64,
    /// Other resources by name.
    pub other: BTreeMap<String, f64>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Unique in the cluster.
    pub name: String,
    /// What it offers.
    pub capacity: Capacity,
    /// Work per second: a task of `work` seconds runs `work / speed` seconds.
    pub speed: f64,
    /// Speed for some task kinds, instead of `speed`.
    pub speeds: BTreeMap<String, f64>,
    /// Price of one hour of being busy.
    pub price: f64,
    /// Watts at evenly spaced loads from idle to full; empty when unknown.
    pub power: Vec<f64>,
    /// Rack, for links between racks.
    pub rack: Option<String>,
}

impl Node {
    /// A node of speed 1 with nothing stated.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            capacity: Capacity::default(),
            speed: 1.0,
            speeds: BTreeMap::new(),
            price: 0.0,
            power: Vec::new(),
            rack: None,
        }
    }

    /// Sets the speed.
    #[must_use]
    pub fn speed(mut self, speed: f64) -> Self {
        self.speed = speed;
        self
    }

    /// Sets the number of cores.
    #[must_use]
    pub fn cores(mut self, cores: f64) -> Self {
        self.capacity.cores = Some(cores);
        self
    }

    /// Sets the memory in bytes.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.capacity.memory = Some(bytes);
        self
    }

    /// Sets the number of GPUs.
    #[must_use]
    pub fn gpus(mut self, gpus: f64) -> Self {
        self.capacity.gpus = gpus;
        self
    }

    /// Power in watts at a load from 0 to 1, interpolated; 0 when unknown.
    pub fn watts(&self, load: f64) -> f64 {
        match self.power.as_slice() {
            [] => 0.0,
            [only] => *only,
            curve => {
                let at = load.clamp(0.0, 1.0) * (curve.len() - 1) as f64;
                let low = (at as usize).min(curve.len() - 2);
                curve[low] + (curve[low + 1] - curve[low]) * (at - low as f64)
            }
        }
    }
}

/// Nodes and the network between them; at least one node, all numbers in range.
///
/// ```
/// use mdts_core::{Cluster, Link, Network, Node, SlotModel};
/// let nodes = vec![Node::new("slow"), Node::new("fast").speed(2.0)];
/// let network = Network::uniform(Link { latency: 0.0, bandwidth: 100e6 });
/// let cluster = Cluster::new(nodes, network, SlotModel::Exclusive)?;
/// assert_eq!(cluster.len(), 2);
/// # Ok::<(), mdts_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cluster {
    nodes: Vec<Node>,
    network: Network,
    slots: SlotModel,
}

impl Cluster {
    /// Checks and assembles a cluster.
    ///
    /// # Errors
    /// [`Error::Cluster`] if there is no node, a name is used twice or a number is out of range.
    pub fn new(nodes: Vec<Node>, network: Network, slots: SlotModel) -> Result<Self> {
        if nodes.is_empty() {
            return Err(wrong("nodes", "a cluster needs at least one node".into()));
        }
        let mut names = rustc_hash::FxHashSet::default();
        for node in &nodes {
            check_node(node)?;
            if !names.insert(node.name.as_str()) {
                return Err(wrong(
                    &format!("node '{}'", node.name),
                    "the name is used twice; names are unique".into(),
                ));
            }
        }
        Ok(Self { nodes, network, slots })
    }

    /// `count` nodes of speed 1 named `m0`, `m1`, ... that exchange data in no time.
    ///
    /// # Errors
    /// [`Error::Cluster`] if `count` is 0.
    pub fn identical(count: usize, slots: SlotModel) -> Result<Self> {
        let nodes = (0..count).map(|i| Node::new(format!("m{i}"))).collect();
        Self::new(nodes, Network::uniform(Link::INSTANT), slots)
    }

    /// The same cluster under another slot model.
    #[must_use]
    pub fn with_slots(mut self, slots: SlotModel) -> Self {
        self.slots = slots;
        self
    }

    /// Number of nodes, at least 1.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes in the order of their ids.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All node ids, ascending.
    pub fn node_ids(&self) -> impl ExactSizeIterator<Item = NodeId> + DoubleEndedIterator + Clone + use<> {
        (0..self.nodes.len()).map(NodeId::new)
    }

    /// The node with this id.
    ///
    /// # Panics
    /// If the id is not one of this cluster's.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The node of this name. O(nodes).
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(NodeId::new)
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// How many tasks a node runs at a time.
    pub fn slots(&self) -> SlotModel {
        self.slots
    }
}

use super::Link;

fn wrong(place: &str, message: String) -> Error {
    Error::Cluster { place: place.to_owned(), message }
}

fn check_node(node: &Node) -> Result<()> {
    let place = format!("node '{}'", node.name);
    if node.name.is_empty() {
        return Err(wrong("nodes", "a node has an empty name".into()));
    }
    let positive = |what: &str, value: f64| match value {
        v if v > 0.0 && v.is_finite() => Ok(()),
        v => Err(wrong(&place, format!("{what} is {v}; expected a positive number"))),
    };
    let at_least_zero = |what: &str, value: f64| match value {
        v if v >= 0.0 && v.is_finite() => Ok(()),
        v => Err(wrong(&place, format!("{what} is {v}; expected a number of at least 0"))),
    };
    positive("speed", node.speed)?;
    for (kind, speed) in &node.speeds {
        positive(&format!("speed for '{kind}'"), *speed)?;
    }
    if let Some(cores) = node.capacity.cores {
        positive("cores", cores)?;
    }
    if node.capacity.memory == Some(0) {
        return Err(wrong(&place, "memory is 0; expected a positive size (or leave it out)".into()));
    }
    at_least_zero("gpus", node.capacity.gpus)?;
    for (name, amount) in &node.capacity.other {
        at_least_zero(&format!("resource '{name}'"), *amount)?;
    }
    at_least_zero("price", node.price)?;
    node.power.iter().try_for_each(|watts| at_least_zero("power", *watts))
}
