//! When the data of a task's parents has arrived, summarised once for all nodes.

use std::hash::{Hash, Hasher};

use mdts_dag::TaskId;

use super::Instance;
use crate::NodeId;

/// Arrival time of all parents' data on every node.
///
/// Over a uniform network the latest remote arrival decides everywhere but on the node that sends it, so two
/// numbers answer for all nodes: O(parents) to gather, O(1) per node. Otherwise O(parents x nodes).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arrival {
    /// Latest arrival from anywhere, and the node that sends it.
    latest: f64,
    sender: Option<NodeId>,
    /// Arrival on `sender` itself.
    on_sender: f64,
    /// Per node, for networks that are not uniform; else empty.
    per_node: Vec<f64>,
}

impl Arrival {
    /// Gathers the arrivals for `task`; `parent` tells node and finish of each parent.
    pub fn gather(&mut self, instance: &Instance, task: TaskId, parent: impl Fn(TaskId) -> (NodeId, f64)) {
        let parents = instance.graph().parents(task).iter().zip(instance.parent_bytes(task));
        self.per_node.clear();
        (self.latest, self.sender, self.on_sender) = (0.0, None, 0.0);
        if let Some(link) = instance.cluster().network().as_uniform() {
            // The two latest remote arrivals from different nodes.
            let mut second = 0.0_f64;
            for (id, bytes) in parents.clone() {
                let (node, finish) = parent(*id);
                let remote = finish + link.seconds(*bytes);
                if self.sender == Some(node) {
                    self.latest = self.latest.max(remote);
                } else if self.sender.is_none() || remote > self.latest {
                    second = if self.sender.is_some() { self.latest } else { 0.0 };
                    (self.latest, self.sender) = (remote, Some(node));
                } else {
                    second = second.max(remote);
                }
            }
            self.on_sender = second;
            for (id, _) in parents {
                let (node, finish) = parent(*id);
                if self.sender == Some(node) {
                    self.on_sender = self.on_sender.max(finish);
                }
            }
        } else {
            self.per_node.resize(instance.nodes(), 0.0);
            for (id, bytes) in parents {
                let (from, finish) = parent(*id);
                for (to, arrival) in self.per_node.iter_mut().enumerate() {
                    *arrival = arrival.max(finish + instance.transfer(*bytes, from, NodeId::new(to)));
                }
            }
        }
    }

    /// Feeds everything that [`Arrival::at`] depends on into a hash.
    pub fn hash_into(&self, state: &mut impl Hasher) {
        (self.latest.to_bits(), self.sender, self.on_sender.to_bits()).hash(state);
        self.per_node.iter().for_each(|time| time.to_bits().hash(state));
    }

    /// When all data is on `node`, in seconds.
    #[inline]
    pub fn at(&self, node: NodeId) -> f64 {
        if !self.per_node.is_empty() {
            self.per_node[node.index()]
        } else if self.sender == Some(node) {
            self.on_sender
        } else {
            self.latest
        }
    }
}
