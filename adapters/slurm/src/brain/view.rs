//! What the brain knows of the cluster.

use std::collections::BTreeMap;

use super::Memory;

/// A node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// CPUs.
    pub cpus: u64,
    /// CPUs that jobs hold.
    pub cpus_held: u64,
    /// Memory in mebibytes.
    pub memory: u64,
    /// Generic resources, as [`crate::spell::gres`] gives them.
    pub gres: BTreeMap<String, u64>,
    /// Features.
    pub features: Vec<String>,
    /// Work per second; a job of a time limit of one hour is taken to run an hour at speed 1.
    pub speed: f64,
    /// Slurm's weight: of equals, the lower one is taken.
    pub weight: u64,
    /// Jobs can start here. A node that is down or drained counts for what is possible at all.
    pub is_usable: bool,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Jobs that name none come here.
    pub is_default: bool,
    /// It takes and starts jobs.
    pub is_up: bool,
    /// Everybody may use it.
    pub is_open: bool,
    /// Jobs have whole nodes.
    pub is_exclusive: bool,
    /// Positions of its nodes.
    pub nodes: Vec<usize>,
    /// Longest time limit in minutes.
    pub most_minutes: Option<u64>,
    /// Time limit in minutes of jobs that state none.
    pub default_minutes: Option<u64>,
    /// Most nodes of one job.
    pub most_nodes: Option<u64>,
    /// Memory of jobs that state none.
    pub default_memory: Option<Memory>,
}

/// A job that runs, or a place that is promised.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Running {
    /// Positions of its nodes.
    pub nodes: Vec<usize>,
    /// CPUs that it holds on each.
    pub cpus: u64,
    /// Mebibytes that it holds on each.
    pub memory: u64,
    /// What else it holds on each.
    pub gres: BTreeMap<String, u64>,
    /// Seconds until it begins; 0 for what runs.
    pub start: f64,
    /// Seconds from there until it ends, at the latest as far as is known.
    pub seconds: f64,
}

/// The cluster at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct View {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// All partitions.
    pub partitions: Vec<Partition>,
    /// What runs.
    pub running: Vec<Running>,
    /// Memory of jobs that state none.
    pub default_memory: Memory,
}

impl View {
    /// The partition of this name.
    pub fn partition(&self, name: &str) -> Option<&Partition> {
        self.partitions.iter().find(|p| p.name == name)
    }

    /// Where jobs come that name no partition.
    pub fn default_partition(&self) -> Option<&Partition> {
        self.partitions.iter().find(|p| p.is_default)
    }

    /// The position of the node of this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|n| n.name == name)
    }
}
