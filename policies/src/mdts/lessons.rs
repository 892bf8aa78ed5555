//! Random jobs on random clusters to learn from.

use std::sync::Arc;

use mdts_core::sim::Conditions;
use mdts_core::{Cluster, Instance, Link, Network, Node, Rng, SlotModel};
use mdts_dag::{DataModel, FlatGraph, generate};
use rand::Rng as _;

/// A random cluster of 2 to `most` nodes: speeds over up to a factor of 16, and a third of them in racks between which the
/// network is slower.
pub(crate) fn cluster(most: usize, rng: &mut Rng) -> mdts_core::Result<Cluster> {
    let count = (2.0 * (most as f64 / 2.0).powf(rng.random::<f64>())).round().max(1.0) as usize;
    let range = rng.random_range(0.0..2.0_f64);
    let speed = |rng: &mut Rng| 2.0_f64.powf(rng.random_range(-1.0..=1.0) * range);
    let nodes = (0..count).map(|i| Node::new(format!("n{i}")).speed(speed(rng))).collect();
    let bandwidth = 10.0_f64.powf(rng.random_range(7.0..9.0));
    let link = |share: f64| Link { latency: 0.0, bandwidth: bandwidth * share };
    let network = if rng.random_bool(2.0 / 3.0) {
        Network::uniform(link(1.0))
    } else {
        let racks = rng.random_range(2..=4);
        let mut network =
            Network::builder(link(1.0), (0..count).map(|_| rng.random_range(0..racks)).collect());
        for a in 0..racks {
            for b in 0..a {
                network.between_racks(a, b, link(10.0_f64.powf(rng.random_range(-1.5..-0.3))));
            }
        }
        network.build()
    };
    Cluster::new(nodes, network, SlotModel::Exclusive)
}

/// A random graph of 16 to about 200 tasks.
fn graph(rng: &mut Rng) -> Option<FlatGraph> {
    let tasks = 2.0_f64.powf(rng.random_range(4.0..7.5)) as usize;
    let ccr = 10.0_f64.powf(rng.random_range(-1.5..1.0));
    let spread = rng.random_range(0.1..0.9);
    let shape = match rng.random_range(0..10) {
        0..4 => format!("layered:tasks={tasks}"),
        4 => format!("erdos-renyi:tasks={tasks}"),
        5 => format!("cholesky:tiles={}", rng.random_range(3..8)),
        6 => format!("fft:points={}", 1 << rng.random_range(2..5)),
        7 => format!("gaussian-elimination:size={}", rng.random_range(4..12)),
        8 => format!("fork-join:width={}", rng.random_range(4..30)),
        _ => return generated(&format!("montage:images={}", rng.random_range(6..30)), rng),
    };
    generated(&format!("{shape},ccr={ccr},spread={spread}"), rng)
}

fn generated(text: &str, rng: &mut Rng) -> Option<FlatGraph> {
    Some(generate::from_text(text, rng).ok()?.freeze())
}

/// A random job on a random cluster of up to `nodes` nodes.
pub(crate) fn instance(nodes: usize, extra: &[Arc<FlatGraph>], rng: &mut Rng) -> Option<Arc<Instance>> {
    let graph = match extra.len() {
        0 => graph(rng)?.into(),
        _ if rng.random_bool(0.5) => graph(rng)?.into(),
        count => extra[rng.random_range(0..count)].clone(),
    };
    let cluster = cluster(nodes, rng).ok()?;
    Instance::new(graph, cluster.into(), DataModel::Edges).ok().map(Arc::new)
}

/// Random conditions of a run: noise and hidden affinity.
pub(crate) fn conditions(rng: &mut Rng) -> Conditions {
    let noise = if rng.random_bool(0.2) { 0.0 } else { rng.random_range(0.1..0.6) };
    let affinity = if rng.random_bool(0.2) { 0.0 } else { rng.random_range(0.1..0.8) };
    Conditions { seed: rng.random(), noise, affinity, ..Conditions::default() }
}
