//! Demands and capacities as whole numbers, so that adding and subtracting them never drifts.

use std::collections::{BTreeMap, BTreeSet};

use mdts_dag::Demand;

use crate::{Capacity, Cluster, SlotModel};

/// Units of a countable resource (cores, GPUs, named ones): thousandths.
const MILLI: f64 = 1000.0;
/// What a node offers of a resource that is not checked.
const UNLIMITED: u64 = u64::MAX / 4;

/// The resource dimensions of a cluster, with the capacity of every node and the demands of a graph in them.
///
/// Dimensions are cores (thousandths), memory (bytes), GPUs (thousandths), then the cluster's named resources.
#[derive(Debug, Clone, PartialEq)]
pub struct Resources {
    names: Vec<String>,
    demands: Vec<u64>,
    capacities: Vec<u64>,
    /// Per demand: a resource that no node of the cluster names.
    unknown: Vec<Option<String>>,
}

impl Resources {
    pub(crate) fn new(demands: &[Demand], cluster: &Cluster) -> Self {
        let mut names: Vec<String> = ["cores", "memory", "gpus"].map(String::from).to_vec();
        let named: BTreeSet<&String> = cluster.nodes().iter().flat_map(|n| n.capacity.other.keys()).collect();
        names.extend(named.into_iter().cloned());
        let default_cores = match cluster.slots() {
            SlotModel::Exclusive => UNLIMITED,
            SlotModel::Resources => units(1.0),
        };
        let row = |cores, memory, gpus, other: &BTreeMap<String, f64>| {
            let named = names[3..].iter().map(|name| other.get(name).map_or(0, |x| units(*x)));
            [cores, memory, gpus].into_iter().chain(named).collect::<Vec<u64>>()
        };
        let demand = |d: &Demand| row(units(d.cores), d.memory, units(d.gpus), &d.other);
        let capacity = |c: &Capacity| {
            let cores = c.cores.map_or(default_cores, units);
            row(cores, c.memory.unwrap_or(UNLIMITED), units(c.gpus), &c.other)
        };
        let unknown = |d: &Demand| {
            let mut wanted = d.other.iter().filter(|(_, amount)| **amount > 0.0);
            wanted.find(|(name, _)| !names.contains(name)).map(|(name, _)| name.clone())
        };
        Self {
            demands: demands.iter().flat_map(demand).collect(),
            capacities: cluster.nodes().iter().flat_map(|n| capacity(&n.capacity)).collect(),
            unknown: demands.iter().map(unknown).collect(),
            names,
        }
    }

    /// A resource that the demand wants and no node of the cluster names.
    pub(crate) fn unknown(&self, demand: usize) -> Option<&str> {
        self.unknown[demand].as_deref()
    }

    /// Names of the dimensions.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of dimensions.
    #[inline]
    pub fn dimensions(&self) -> usize {
        self.names.len()
    }

    /// The demand with this index, one number per dimension.
    #[inline]
    pub fn demand(&self, index: usize) -> &[u64] {
        let d = self.dimensions();
        &self.demands[index * d..(index + 1) * d]
    }

    /// The capacity of the node with this index, one number per dimension.
    #[inline]
    pub fn capacity(&self, node: usize) -> &[u64] {
        let d = self.dimensions();
        &self.capacities[node * d..(node + 1) * d]
    }

    /// Whether a capacity limits anything in this dimension.
    pub(crate) fn is_limited(amount: u64) -> bool {
        amount < UNLIMITED
    }

    /// An amount in the dimension's usual unit, for messages.
    pub(crate) fn show(&self, dimension: usize, amount: u64) -> String {
        let name = &self.names[dimension];
        if !Self::is_limited(amount) {
            return format!("unlimited {name}");
        }
        match dimension {
            1 => format!("{amount} bytes of memory"),
            _ => format!("{} {name}", amount as f64 / MILLI),
        }
    }
}

/// Whether a demand fits into free capacity in every dimension.
#[inline]
pub(crate) fn fits(demand: &[u64], free: &[u64]) -> bool {
    demand.iter().zip(free).all(|(d, f)| d <= f)
}

fn units(amount: f64) -> u64 {
    ((amount * MILLI).round() as u64).min(UNLIMITED)
}
