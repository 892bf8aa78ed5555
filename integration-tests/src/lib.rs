//! What the integration tests share: test data, random clusters, random graphs.

pub mod slurm;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mdts_core::{Cluster, Instance, Link, Network, Node, Result, Rng, SlotModel};
use mdts_dag::generate::{Costs, Epigenomics, ErdosRenyi, ForkJoin, Layered, Montage};
use mdts_dag::{DataModel, JobGraph};
use rand::Rng as _;

/// The folder of real workflows: `$MDTS_DATA`, or `../shared/data` beside the workspace if it is there.
///
/// # Panics
/// If `$MDTS_DATA` is set and is no folder.
pub fn data_folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("MDTS_DATA").map(PathBuf::from) {
        assert!(folder.is_dir(), "MDTS_DATA is '{}', which is no folder", folder.display());
        return Some(folder);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    folder.is_dir().then_some(folder)
}

/// A graph of up to about 60 tasks from one of the generators.
///
/// # Errors
/// None for valid specifications; they are.
pub fn random_graph(rng: &mut Rng) -> Result<JobGraph> {
    let costs = Costs { ccr: [0.0, 0.1, 1.0, 5.0][rng.random_range(0..4)], ..Costs::default() };
    let tasks = rng.random_range(1..60);
    Ok(match rng.random_range(0..5) {
        0 => Layered { tasks, costs, ..Layered::default() }.generate(rng)?,
        1 => ErdosRenyi { tasks, costs, ..ErdosRenyi::default() }.generate(rng)?,
        2 => ForkJoin { costs, ..ForkJoin::default() }.generate(rng)?,
        3 => Montage::default().generate(rng)?,
        _ => Epigenomics::default().generate(rng)?,
    })
}

/// Up to eight unequal nodes with room for every generated task; racks half of the time.
///
/// # Errors
/// None: all numbers are in range.
pub fn random_cluster(rng: &mut Rng, slots: SlotModel) -> Result<Cluster> {
    let nodes: Vec<Node> = (0..rng.random_range(1..9))
        .map(|i| {
            let cores = f64::from(rng.random_range(1..5));
            let mut node = Node::new(format!("m{i}")).speed(rng.random_range(0.5..4.0)).cores(cores);
            if rng.random_bool(0.2) {
                node.speeds.insert("mProject".into(), 6.0);
            }
            node
        })
        .collect();
    let link =
        Link { latency: rng.random_range(0.0..0.2), bandwidth: 10.0_f64.powf(rng.random_range(6.0..9.0)) };
    let racks = (0..nodes.len()).map(|i| i as u32 % 2).collect();
    let mut network = Network::builder(link, racks);
    if rng.random_bool(0.5) {
        network.between_racks(0, 1, Link { latency: 0.5, bandwidth: link.bandwidth / 10.0 });
    }
    Cluster::new(nodes, network.build(), slots)
}

/// A random graph on a random cluster.
///
/// # Errors
/// None.
pub fn random_instance(rng: &mut Rng, slots: SlotModel, data: DataModel) -> Result<Arc<Instance>> {
    let graph = random_graph(rng)?.freeze();
    let cluster = random_cluster(rng, slots)?;
    Ok(Arc::new(Instance::new(graph.into(), cluster.into(), data)?))
}
