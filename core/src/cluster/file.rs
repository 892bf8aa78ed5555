//! Cluster files in TOML, YAML or JSON.
//!
//! ```toml
//! slots = "exclusive"          # or "resources"
//! [network]
//! bandwidth = 100e6            # bytes per second between different nodes (or a text like "100MB")
//! latency = 0.0                # seconds
//! [[node]]
//! name = "m0"                  # with count = 4: m0-0 .. m0-3
//! speed = 1.0
//! cores = 1                    # also memory = "16GiB", gpus, resources = {licence = 1}
//! speeds = {training = 3.0}    # per kind, instead of speed
//! price = 0.0                  # per busy hour
//! power = [0.0, 100.0]         # watts at evenly spaced loads from idle to full
//! rack = "r1"
//! [[link]]                     # an exception between two nodes, two racks, or inside a rack
//! between = ["r1", "r2"]
//! bandwidth = 10e6
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use mdts_dag::units::{parse_bytes, parse_seconds};
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use super::range::{MEMORY, check, wrong};
use super::text;
use super::{Capacity, Cluster, Link, Network, Node, NodeId, SlotModel};
use crate::{Error, Result};

/// Most nodes that one `count` may ask for.
const MOST_NODES: usize = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    #[serde(default)]
    slots: SlotModel,
    #[serde(default)]
    network: NetworkTable,
    #[serde(default, alias = "nodes")]
    node: Vec<NodeTable>,
    #[serde(default, alias = "links")]
    link: Vec<LinkTable>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct NetworkTable {
    bandwidth: Option<Quantity>,
    latency: Option<Quantity>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    name: String,
    count: Option<usize>,
    #[serde(default = "one")]
    speed: f64,
    #[serde(default)]
    speeds: BTreeMap<String, f64>,
    cores: Option<f64>,
    memory: Option<Quantity>,
    #[serde(default)]
    gpus: f64,
    #[serde(default)]
    resources: BTreeMap<String, f64>,
    #[serde(default)]
    price: f64,
    #[serde(default)]
    power: Vec<f64>,
    rack: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    between: [String; 2],
    bandwidth: Option<Quantity>,
    latency: Option<Quantity>,
}

/// A number, or a text with a unit.
enum Quantity {
    Number(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number, or a text with a unit such as \"100MB\" or \"5ms\"")
    }

    fn visit_u64<E>(self, value: u64) -> Result<Quantity, E> {
        Ok(Quantity::Number(value as f64))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Quantity, E> {
        Ok(Quantity::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Quantity, E> {
        Ok(Quantity::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Quantity, E> {
        Ok(Quantity::Text(value.to_owned()))
    }
}

fn one() -> f64 {
    1.0
}

impl Quantity {
    fn value(&self, place: &str, parse: impl Fn(&str) -> Result<f64, String>) -> Result<f64> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Text(text) => {
                parse(text).map_err(|message| Error::Cluster { place: place.to_owned(), message })
            }
        }
    }
}

impl Cluster {
    /// Reads a cluster file of up to 64 MiB; the extension tells TOML, YAML or JSON.
    ///
    /// # Errors
    /// [`Error::Io`] or, naming the file, [`Error::Cluster`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_with_text(path).map(|(cluster, ..)| cluster)
    }

    /// The same, with text and syntax for [`Cluster::from_text`]: a pipe can be read only once.
    ///
    /// # Errors
    /// As for [`Cluster::read`].
    pub fn read_with_text(path: impl AsRef<Path>) -> Result<(Self, String, String)> {
        let path = path.as_ref();
        let bytes = text::read_bytes(path)?;
        let syntax = path.extension().and_then(|e| e.to_str()).unwrap_or("toml");
        let read = || {
            let text = text::decode(&bytes)?;
            Ok((Self::from_text(text, syntax)?, text.to_owned(), syntax.to_owned()))
        };
        read().map_err(|error| Error::InFile { path: path.to_owned(), source: Box::new(error) })
    }

    /// Reads a cluster from text; `syntax` is `toml`, `yaml` or `json`.
    ///
    /// # Errors
    /// [`Error::Cluster`]; where the text is at fault, with line and column.
    pub fn from_text(text: &str, syntax: &str) -> Result<Self> {
        text::parse::<ClusterFile>(text, syntax)?.into_cluster()
    }
}

impl ClusterFile {
    fn into_cluster(self) -> Result<Cluster> {
        let mut nodes = Vec::new();
        for table in &self.node {
            table.add_to(&mut nodes)?;
        }
        let network = network(&self.network, &self.link, &nodes)?;
        Cluster::new(nodes, network, self.slots)
    }
}

impl NodeTable {
    fn add_to(&self, nodes: &mut Vec<Node>) -> Result<()> {
        let place = format!("node '{}'", self.name);
        let count = self.count.unwrap_or(1);
        let most = MOST_NODES - nodes.len();
        if count == 0 || count > most {
            let message = format!("count is {count}; expected 1 to {MOST_NODES} nodes in all");
            return Err(wrong(place, message));
        }
        let memory = match &self.memory {
            None => None,
            Some(memory) => {
                let bytes = memory.value(&place, parse_bytes)?;
                check("memory", bytes, &MEMORY, "bytes").map_err(|message| wrong(&place, message))?;
                Some(bytes as u64)
            }
        };
        for i in 0..count {
            let name = if self.count.is_some() { format!("{}-{i}", self.name) } else { self.name.clone() };
            nodes.push(Node {
                name,
                capacity: Capacity {
                    cores: self.cores,
                    memory,
                    gpus: self.gpus,
                    other: self.resources.clone(),
                },
                speed: self.speed,
                speeds: self.speeds.clone(),
                price: self.price,
                power: self.power.clone(),
                rack: self.rack.clone(),
            });
        }
        Ok(())
    }
}

fn network(table: &NetworkTable, links: &[LinkTable], nodes: &[Node]) -> Result<Network> {
    let default = link(table.bandwidth.as_ref(), table.latency.as_ref(), Link::INSTANT, "network")?;
    let mut rack_ids: BTreeMap<&str, u32> = BTreeMap::new();
    // Nodes without a rack share number 0, which no link can name.
    let racks = nodes
        .iter()
        .map(|node| match node.rack.as_deref() {
            None => 0,
            Some(rack) => {
                let next = rack_ids.len() as u32 + 1;
                *rack_ids.entry(rack).or_insert(next)
            }
        })
        .collect();
    let node_ids: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
    let mut network = Network::builder(default, racks);
    for table in links {
        let [a, b] = table.between.each_ref().map(String::as_str);
        let place = format!("link between '{a}' and '{b}'");
        let link = link(table.bandwidth.as_ref(), table.latency.as_ref(), default, &place)?;
        match (node_ids.get(a), node_ids.get(b), rack_ids.get(a), rack_ids.get(b)) {
            (Some(a), Some(b), ..) => network.between_nodes(NodeId::new(*a), NodeId::new(*b), link),
            (_, _, Some(a), Some(b)) => network.between_racks(*a, *b, link),
            _ => {
                let message = "both ends must be nodes, or both racks, of this cluster".into();
                return Err(Error::Cluster { place, message });
            }
        }
    }
    Ok(network.build())
}

fn link(
    bandwidth: Option<&Quantity>,
    latency: Option<&Quantity>,
    default: Link,
    place: &str,
) -> Result<Link> {
    let per_second = |text: &str| parse_bytes(text.trim_end_matches("/s"));
    let link = Link {
        bandwidth: bandwidth.map_or(Ok(default.bandwidth), |b| b.value(place, per_second))?,
        latency: latency.map_or(Ok(default.latency), |l| l.value(place, parse_seconds))?,
    };
    link.check().map_err(|message| wrong(place, message))?;
    Ok(link)
}
