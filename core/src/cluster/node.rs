//! Nodes and the cluster that they form.

use std::collections::BTreeMap;

use mdts_dag::typed_id;
use serde::{Deserialize, Serialize};

use super::range::{AMOUNT, CORES, MEMORY, SPEED, check, wrong};
use super::{Link, Network};
use crate::Result;

typed_id!(
    /// A node (machine) of one cluster.
    #[derive(Serialize, Deserialize)]
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
    /// Processor cores, at least 0.001.
    pub cores: Option<f64>,
    /// Memory in bytes, 1 to 1e18.
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
    /// Work per second, 1e-9 to 1e9: a task of `work` seconds runs `work / speed` seconds.
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
    /// [`Error::Cluster`](crate::Error::Cluster) if there is no node, a name is used twice, a number is out of
    /// range or the network was built for other nodes.
    pub fn new(nodes: Vec<Node>, network: Network, slots: SlotModel) -> Result<Self> {
        if nodes.is_empty() {
            return Err(wrong("nodes", "a cluster needs at least one node"));
        }
        let mut names = rustc_hash::FxHashSet::default();
        for node in &nodes {
            check_node(node)?;
            if !names.insert(node.name.as_str()) {
                let place = format!("node '{}'", node.name);
                return Err(wrong(place, "the name is used twice; names are unique"));
            }
        }
        network.check(nodes.len())?;
        Ok(Self { nodes, network, slots })
    }

    /// `count` nodes of speed 1 named `m0`, `m1`, ... that exchange data in no time.
    ///
    /// # Errors
    /// [`Error::Cluster`](crate::Error::Cluster) if `count` is 0.
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

fn check_node(node: &Node) -> Result<()> {
    if node.name.is_empty() {
        return Err(wrong("nodes", "a node has an empty name"));
    }
    numbers(node).map_err(|message| wrong(format!("node '{}'", node.name), message))
}

fn numbers(node: &Node) -> Result<(), String> {
    check("speed", node.speed, &SPEED, "a number")?;
    for (kind, speed) in &node.speeds {
        check(&format!("speed for '{kind}'"), *speed, &SPEED, "a number")?;
    }
    let capacity = &node.capacity;
    check("cores", capacity.cores.unwrap_or(1.0), &CORES, "a number")?;
    check("memory", capacity.memory.unwrap_or(1) as f64, &MEMORY, "bytes")?;
    check("gpus", capacity.gpus, &AMOUNT, "a number")?;
    for (name, amount) in &capacity.other {
        check(&format!("resource '{name}'"), *amount, &AMOUNT, "a number")?;
    }
    check("price", node.price, &AMOUNT, "a price per hour")?;
    node.power.iter().try_for_each(|watts| check("power", *watts, &AMOUNT, "watts"))
}
