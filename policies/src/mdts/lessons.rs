//! Random jobs on random clusters to learn from.
//!
//! None of them has the shape of a workflow family on which the result is judged (those of `WfInstances`): real jobs are
//! learnt from only if they are given.

use std::sync::Arc;

use mdts_core::sim::{Conditions, Failures};
use mdts_core::{Cluster, Instance, Link, Network, Node, Rng, SlotModel};
use mdts_dag::{DataModel, FlatGraph, JobGraph, generate};
use rand::Rng as _;

/// A random cluster of 1 to `most` nodes, any doubling as likely as another: speeds over up to a factor of 16, and a third of them in racks between which the
/// network is slower.
pub(crate) fn cluster(most: usize, rng: &mut Rng) -> mdts_core::Result<Cluster> {
    let count = (most as f64).powf(rng.random()).round().max(1.0) as usize;
    let range = rng.random_range(0.0..2.0_f64);
    let speed = |rng: &mut Rng| 2.0_f64.powf(rng.random_range(-1.0..=1.0) * range);
    let nodes = (0..count).map(|i| Node::new(format!("n{i}")).speed(speed(rng))).collect();
    let bandwidth = 10.0_f64.powf(rng.random_range(7.0..9.0));
    let link = |share: f64| Link { latency: 0.0, bandwidth: bandwidth * share };
    let network = if rng.random_bool(2.0 / 3.0) {
        Network::uniform(link(1.0))
    } else {
        let racks = rng.random_range(2..=4);
        let rack_of = (0..count).map(|_| rng.random_range(0..racks)).collect();
        let mut network = Network::builder(link(1.0), rack_of);
        network.between_all_racks(racks, || link(10.0_f64.powf(rng.random_range(-1.5..-0.3))));
        network.build()
    };
    Cluster::new(nodes, network, SlotModel::Exclusive)
}

/// A random graph of 16 to about 200 tasks.
fn graph(rng: &mut Rng) -> Option<JobGraph> {
    let tasks = 2.0_f64.powf(rng.random_range(4.0..7.5)) as usize;
    let ccr = 10.0_f64.powf(rng.random_range(-1.5..1.0));
    let spread = rng.random_range(0.1..0.9);
    let shape = match rng.random_range(0..10) {
        0..5 => format!("layered:tasks={tasks}"),
        5 => format!("erdos-renyi:tasks={tasks}"),
        6 => format!("cholesky:tiles={}", rng.random_range(3..8)),
        7 => format!("fft:points={}", 1 << rng.random_range(2..5)),
        8 => format!("gaussian-elimination:size={}", rng.random_range(4..12)),
        _ => format!("fork-join:width={}", rng.random_range(4..30)),
    };
    generated(&format!("{shape},ccr={ccr},spread={spread}"), rng)
}

fn generated(text: &str, rng: &mut Rng) -> Option<JobGraph> {
    generate::from_text(text, rng).ok()
}

/// A random graph to run: as real workflows are, many have several kinds of tasks, and little data.
fn workflow(rng: &mut Rng) -> Option<JobGraph> {
    if rng.random_bool(0.4) {
        return graph(rng);
    }
    let ccr = 10.0_f64.powf(rng.random_range(-3.0..0.0));
    let spread = rng.random_range(0.1..0.9);
    let shape = match rng.random_range(0..3) {
        0 => format!("fork-join:width={}", rng.random_range(4..100)),
        1 => format!("cholesky:tiles={}", rng.random_range(3..9)),
        _ => format!("layered:tasks={}", 2.0_f64.powf(rng.random_range(4.0..8.5)) as usize),
    };
    with_kinds(&generated(&format!("{shape},ccr={ccr},spread={spread}"), rng)?, rng)
}

/// The same graph with 2 to 8 kinds of tasks, by level or at random, some of which take up to 30 times as long as others.
fn with_kinds(job: &JobGraph, rng: &mut Rng) -> Option<JobGraph> {
    let kinds = rng.random_range(2..=8);
    let factors: Vec<f64> = (0..kinds).map(|_| 30.0_f64.powf(rng.random())).collect();
    let by_level = rng.random_bool(0.5);
    let (flat, mut graph) = (job.freeze(), job.petgraph().clone());
    for (id, task) in flat.tasks().zip(graph.node_weights_mut()) {
        let kind = if by_level { flat.level(id) as usize % kinds } else { rng.random_range(0..kinds) };
        *task = task.clone().kind(format!("kind{kind}")).seconds(flat.work(id) * factors[kind]);
    }
    JobGraph::from_petgraph(job.name(), graph).ok()
}

fn known(graphs: &[Arc<FlatGraph>], rng: &mut Rng) -> Option<Arc<FlatGraph>> {
    let wanted = !graphs.is_empty() && rng.random_bool(0.5);
    wanted.then(|| graphs[rng.random_range(0..graphs.len())].clone())
}

/// A random job on a random cluster of up to `nodes` nodes; half of the jobs are these graphs, if there are any.
pub(crate) fn instance(nodes: usize, graphs: &[Arc<FlatGraph>], rng: &mut Rng) -> Option<Arc<Instance>> {
    let graph = match known(graphs, rng) {
        Some(graph) => graph,
        None => graph(rng)?.freeze().into(),
    };
    let cluster = cluster(nodes, rng).ok()?;
    Instance::new(graph, cluster.into(), DataModel::Edges).ok().map(Arc::new)
}

/// The same for runs.
pub(crate) fn run(nodes: usize, graphs: &[Arc<FlatGraph>], rng: &mut Rng) -> Option<Arc<Instance>> {
    let graph = match known(graphs, rng) {
        Some(graph) => graph,
        None => workflow(rng)?.freeze().into(),
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

/// Nodes that fail now and then and come back, in a job that takes about so many seconds; mostly none.
pub(crate) fn failures(seconds: f64, rng: &mut Rng) -> Option<Failures> {
    let fail = rng.random_bool(0.3) && seconds > 0.0;
    fail.then(|| Failures {
        mean_between: seconds * rng.random_range(0.5..4.0),
        repair: seconds * rng.random_range(0.02..0.5),
        most: rng.random_range(1..=3),
    })
}
