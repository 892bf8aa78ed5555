//! Random instances, small and full of ties.

use mdts_core::{Cluster, Instance, Link, Network, Node, Rng, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task, TaskId};
use proptest::prelude::*;
use rand::{Rng as _, SeedableRng};

/// Both slot models with both data models.
pub(crate) fn models() -> impl Strategy<Value = (SlotModel, DataModel)> {
    (
        prop_oneof![Just(SlotModel::Exclusive), Just(SlotModel::Resources)],
        prop_oneof![Just(DataModel::Edges), Just(DataModel::Files)],
    )
}

/// Edges and files, ties, tasks without work, times per node with gaps, several demands, racks.
pub(crate) fn random_instance(seed: u64, slots: SlotModel, data: DataModel) -> Instance {
    let rng = &mut Rng::seed_from_u64(seed);
    let nodes = rng.random_range(1..7);
    let cluster = random_cluster(rng, slots, nodes);
    let tasks = if rng.random_bool(0.1) { 1 } else { rng.random_range(1..50) };
    let job = random_job(rng, &cluster, tasks);
    super::instance(&job, cluster, data)
}

/// The same with 1 to `tasks` tasks on 1 to `nodes` nodes.
pub(crate) fn small_instance(
    seed: u64,
    slots: SlotModel,
    data: DataModel,
    tasks: u32,
    nodes: u32,
) -> Instance {
    let rng = &mut Rng::seed_from_u64(seed);
    let nodes = rng.random_range(1..=nodes);
    let cluster = random_cluster(rng, slots, nodes);
    let tasks = rng.random_range(1..=tasks);
    let job = random_job(rng, &cluster, tasks);
    super::instance(&job, cluster, data)
}

fn random_cluster(rng: &mut Rng, slots: SlotModel, count: u32) -> Cluster {
    let nodes: Vec<Node> = (0..count)
        .map(|i| {
            let cores = if i == 0 { 4.0 } else { f64::from(rng.random_range(1..5)) };
            let node = Node::new(format!("m{i}")).speed(f64::from(rng.random_range(1..4))).cores(cores);
            node.memory(if i == 0 { 100 } else { rng.random_range(30..100) })
        })
        .collect();
    let link =
        Link { latency: f64::from(rng.random_range(0..2)) * 0.1, bandwidth: rng.random_range(1.0..50.0) };
    let network = if rng.random_bool(0.5) {
        Network::uniform(link)
    } else {
        let mut network = Network::builder(link, (0..count).map(|i| i % 2).collect());
        network.between_racks(0, 1, Link { latency: 0.5, bandwidth: 2.0 });
        network.build()
    };
    Cluster::new(nodes, network, slots).unwrap()
}

fn random_job(rng: &mut Rng, cluster: &Cluster, tasks: u32) -> JobGraph {
    let mut job = JobGraph::builder("random");
    for i in 0..tasks {
        let mut task = random_task(rng, cluster, i);
        if rng.random_bool(0.5) {
            task.outputs.push(job.file(&format!("f{i}"), f64::from(rng.random_range(0..50))).unwrap());
        }
        let id = job.task(task).unwrap();
        for parent in 0..i {
            if rng.random_bool(2.0 / f64::from(tasks)) {
                let parent = TaskId::new(parent as usize);
                job.depend(id, parent, f64::from(rng.random_range(0..20)));
                let file = job.task_mut(parent).outputs.first().copied();
                job.task_mut(id).inputs.extend(file.filter(|_| rng.random_bool(0.5)));
            }
        }
    }
    job.build().unwrap()
}

fn random_task(rng: &mut Rng, cluster: &Cluster, i: u32) -> Task {
    let seconds = |rng: &mut Rng| {
        if rng.random_bool(0.5) { f64::from(rng.random_range(0..4)) } else { rng.random_range(0.1..10.0) }
    };
    let mut task = Task::new(format!("t{i}"));
    task = if rng.random_bool(0.7) {
        task.seconds(seconds(rng))
    } else {
        // Node 0 has room for every task.
        let some = cluster.nodes().iter().enumerate().filter(|(n, _)| *n == 0 || rng.random_bool(0.7));
        let names: Vec<String> = some.map(|(_, node)| node.name.clone()).collect();
        let times: Vec<(String, f64)> = names.into_iter().map(|name| (name, seconds(rng))).collect();
        task.times(times)
    };
    if rng.random_bool(0.5) {
        task = task.cores(f64::from(rng.random_range(1..4))).memory(rng.random_range(0..60));
    }
    task
}
