//! Demands and capacities as whole numbers, so that adding and subtracting them never drifts.

use std::collections::BTreeMap;

use mdts_dag::Demand;

use crate::Capacity;
use crate::cluster::SlotModel;

/// Units of a countable resource (cores, GPUs, named ones): thousandths.
const MILLI: f64 = 1000.0;
/// What a node offers of a resource that is not checked.
const UNLIMITED: u64 = u64::MAX / 4;

/// The resource dimensions of one instance with every demand and capacity in them.
///
/// Dimensions are cores (thousandths), memory (bytes), GPUs (thousandths), then the named resources.
#[derive(Debug, Clone)]
pub struct Resources {
    names: Vec<String>,
    demands: Vec<u64>,
    capacities: Vec<u64>,
}

impl Resources {
    pub(crate) fn new(demands: &[Demand], capacities: &[&Capacity], slots: SlotModel) -> Self {
        let mut names: Vec<String> = ["cores", "memory", "gpus"].map(String::from).to_vec();
        let named: BTreeMap<&String, ()> =
            demands.iter().flat_map(|d| d.other.keys()).map(|name| (name, ())).collect();
        names.extend(named.into_keys().cloned());
        let demand_row = |d: &Demand| {
            let mut row = vec![units(d.cores), d.memory, units(d.gpus)];
            row.extend(names[3..].iter().map(|name| d.other.get(name).map_or(0, |x| units(*x))));
            row
        };
        let default_cores = match slots {
            SlotModel::Exclusive => UNLIMITED,
            SlotModel::Resources => units(1.0),
        };
        let capacity_row = |c: &Capacity| {
            let mut row =
                vec![c.cores.map_or(default_cores, units), c.memory.unwrap_or(UNLIMITED), units(c.gpus)];
            row.extend(names[3..].iter().map(|name| c.other.get(name).map_or(0, |x| units(*x))));
            row
        };
        Self {
            demands: demands.iter().flat_map(demand_row).collect(),
            capacities: capacities.iter().flat_map(|c| capacity_row(c)).collect(),
            names,
        }
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
