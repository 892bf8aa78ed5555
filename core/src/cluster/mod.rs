//! The machines: nodes with capacity and speed, and the network between them.

mod file;
mod network;
mod node;
mod range;
mod text;

pub use network::{Link, Network, NetworkBuilder};
pub use node::{Capacity, Cluster, Node, NodeId, SlotModel};
