//! Small jobs on small clusters that between them have everything a policy must cope with.

use std::sync::Arc;

use mdts_dag::{DataModel, JobGraph, JobGraphBuilder, Task, TaskId};
use rand::{Rng as _, SeedableRng};

use crate::{Cluster, Instance, Link, Network, Node, Result, Rng, SlotModel};

/// Named instances: chains, forks and random graphs of at most 30 tasks, with tasks that take no time, shared files
/// and no data at all; on one to four unequal nodes, in both slot models and both data models, with demands and
/// times that some nodes cannot meet. The same seed gives the same instances.
///
/// # Errors
/// None is known; graphs and clusters are checked like any others.
pub fn instances(seed: u64) -> Result<Vec<(String, Arc<Instance>)>> {
    let mut rng = Rng::seed_from_u64(seed);
    let mut all = Vec::new();
    for (cluster_name, cluster) in clusters()? {
        let cluster = Arc::new(cluster);
        for (shape, edges) in shapes(&mut rng) {
            for data in [DataModel::Edges, DataModel::Files] {
                let job = job(shape, &edges, &cluster, &mut rng)?;
                let instance = Instance::new(job.freeze().into(), cluster.clone(), data)?;
                all.push((format!("{shape} on {cluster_name} ({data:?})"), Arc::new(instance)));
            }
        }
    }
    Ok(all)
}

fn clusters() -> Result<Vec<(&'static str, Cluster)>> {
    let nodes = || {
        vec![
            Node::new("slow").speed(0.5).cores(1.0),
            Node::new("middle").cores(2.0).memory(4 << 30),
            Node::new("fast").speed(3.0).cores(4.0).memory(8 << 30),
            Node::new("big").cores(8.0).memory(64 << 30).gpus(2.0),
        ]
    };
    let network = || Network::uniform(Link { latency: 0.01, bandwidth: 1e6 });
    let instant = Network::uniform(Link::INSTANT);
    Ok(vec![
        ("one node", Cluster::identical(1, SlotModel::Exclusive)?),
        ("equal nodes", Cluster::identical(3, SlotModel::Exclusive)?),
        ("unequal nodes", Cluster::new(nodes(), network(), SlotModel::Exclusive)?),
        ("shared nodes", Cluster::new(nodes(), network(), SlotModel::Resources)?),
        ("shared nodes without delays", Cluster::new(nodes(), instant, SlotModel::Resources)?),
    ])
}

/// Number of tasks and edges (parent, child), parents first.
type Shape = (usize, Vec<(usize, usize)>);

fn shapes(rng: &mut Rng) -> Vec<(&'static str, Shape)> {
    let fork = (1..6).flat_map(|i| [(0, i), (i, 6)]).collect();
    vec![
        ("one task", (1, Vec::new())),
        ("a chain", (5, (1..5).map(|i| (i - 1, i)).collect())),
        ("independent tasks", (9, Vec::new())),
        ("a fork and join", (7, fork)),
        ("a sparse graph", random(24, 0.08, rng)),
        ("a dense graph", random(30, 0.3, rng)),
    ]
}

fn random(tasks: usize, density: f64, rng: &mut Rng) -> Shape {
    let mut edges = Vec::new();
    for child in 1..tasks {
        edges.extend((0..child).filter(|_| rng.random_bool(density)).map(|parent| (parent, child)));
    }
    (tasks, edges)
}

fn job(name: &str, (tasks, edges): &Shape, cluster: &Cluster, rng: &mut Rng) -> Result<JobGraph> {
    let mut job = JobGraph::builder(name);
    for i in 0..*tasks {
        let task = Task::new(format!("{}_{i}", ["map", "sort", "plot"][i % 3]));
        job.task(with_needs(task, cluster, rng))?;
    }
    for &(parent, child) in edges {
        connect(&mut job, TaskId::new(parent), TaskId::new(child), rng)?;
    }
    Ok(job.build()?)
}

/// A run time, sometimes none and sometimes by node, and a demand that the largest node can meet.
fn with_needs(task: Task, cluster: &Cluster, rng: &mut Rng) -> Task {
    let work = if rng.random_bool(0.1) { 0.0 } else { rng.random_range(0.1..10.0) };
    let kind = rng.random_range(0..8);
    if kind == 0 {
        let last = cluster.nodes().iter().rev().take(2);
        return task.times(last.map(|node| (node.name.as_str(), work)));
    }
    let task = task.seconds(work);
    match kind {
        _ if cluster.nodes().iter().all(|node| node.capacity.cores.is_none()) => task,
        1 => task.cores(3.0),
        2 => task.memory(3 << 30),
        3 => task.gpus(1.0),
        4 => task.cores(0.5),
        _ => task,
    }
}

/// A dependency without data, with data of its own, or through a file that other children may share.
fn connect(job: &mut JobGraphBuilder, parent: TaskId, child: TaskId, rng: &mut Rng) -> Result<()> {
    match rng.random_range(0..3) {
        0 => job.depend(child, parent, 0.0),
        1 => job.depend(child, parent, rng.random_range(0.0..5e6)),
        _ => {
            let file = job.file(&format!("result of {parent:?}"), 2e6)?;
            if !job.task_mut(parent).outputs.contains(&file) {
                job.task_mut(parent).outputs.push(file);
            }
            job.task_mut(child).inputs.push(file);
            job.depend(child, parent, 0.0);
        }
    }
    Ok(())
}
