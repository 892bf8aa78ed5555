//! Nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a node offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSpec {
    /// Work per second: a task of `work` seconds runs `work / speed` seconds.
    #[schema(minimum = 1e-9, maximum = 1e9)]
    pub speed: f64,
    /// Speed for some kinds of task, instead of `speed`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub speeds: BTreeMap<String, f64>,
    /// Cores; unchecked (one task at a time: ignored) if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.001, maximum = 1e12)]
    pub cores: Option<f64>,
    /// Bytes of memory; unchecked if absent.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "super::whole::read_option")]
    #[schema(minimum = 1)]
    pub memory: Option<u64>,
    /// GPUs.
    #[schema(minimum = 0.0, maximum = 1e12)]
    pub gpus: f64,
    /// Other resources by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, f64>,
    /// Seconds without a heartbeat after which the node counts as lost; absent: the service's default; 0: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1e9)]
    pub lease_seconds: Option<f64>,
}

impl Default for NodeSpec {
    fn default() -> Self {
        Self {
            speed: 1.0,
            speeds: BTreeMap::new(),
            cores: None,
            memory: None,
            gpus: 0.0,
            resources: BTreeMap::new(),
            lease_seconds: None,
        }
    }
}

/// Nodes to register, by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// Up to 10,000.
    #[serde(deserialize_with = "super::object::by_name")]
    pub nodes: BTreeMap<String, NodeSpec>,
}

/// Names of nodes that are alive.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeats {
    /// Their names.
    pub nodes: Vec<String>,
}

/// What came of heartbeats.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatsAnswer {
    /// Nodes that are not registered, or were lost in the meantime: register them again.
    pub unknown: Vec<String>,
}

/// How a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Tasks may be placed there.
    Ready,
    /// What runs there goes on, nothing new is placed.
    Draining,
    /// Its lease is over.
    Lost,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// How it stands.
    pub state: NodeState,
    /// Tasks that run there.
    pub running: usize,
    /// Tasks that are placed there and wait.
    pub waiting: usize,
    /// Seconds until its lease is over; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<f64>,
    /// What it offers.
    pub offers: NodeSpec,
}

/// All nodes, in the order of registration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Nodes {
    /// The nodes.
    pub nodes: Vec<Node>,
}
