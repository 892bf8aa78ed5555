//! A decision step of the learned policy, its network alone, and whole plans.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use mdts_core::sim::{Conditions, simulate};
use mdts_core::{Cluster, Instance, Link, Network, Node, Planner, Rng, SlotModel};
use mdts_dag::{DataModel, generate};
use mdts_policies::mdts::{MdtsRaw, Probe, Weights};
use rand::SeedableRng;

fn cluster(nodes: usize) -> Cluster {
    let all = (0..nodes).map(|i| Node::new(format!("n{i}")).speed(1.0 + (i % 8) as f64 / 4.0)).collect();
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 1e8 });
    Cluster::new(all, network, SlotModel::Exclusive).expect("a cluster")
}

fn instance(graph: &str, nodes: usize) -> Arc<Instance> {
    let job = generate::from_text(graph, &mut generate::seeded(1)).expect("a graph");
    let instance = Instance::new(job.freeze().into(), cluster(nodes).into(), DataModel::Edges);
    Arc::new(instance.expect("an instance"))
}

/// A job of 64 independent tasks on 100 nodes has one decision step; submission, ranks, and the events of the simulator
/// are in the time as well.
fn step(criterion: &mut Criterion) {
    let policy = MdtsRaw::new(Weights::shipped().expect("weights"));
    let mut group = criterion.benchmark_group("decision step");
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    for (tasks, nodes) in [(8, 16), (64, 100)] {
        let arrivals = vec![(0.0, instance(&format!("independent:tasks={tasks}"), nodes))];
        group.bench_function(format!("{tasks} ready tasks, {nodes} nodes"), |bencher| {
            bencher.iter(|| simulate(black_box(&arrivals), policy.placer(), &Conditions::default()));
        });
    }
    group.finish();
}

/// What `torch_step.py` measures: the network alone, features ready made.
fn network(criterion: &mut Criterion) {
    let mut probe = Probe::new(&Weights::shipped().expect("weights"), 64, 100);
    let mut group = criterion.benchmark_group("network alone");
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    group.bench_function("64 ready tasks, 100 nodes", |bencher| {
        bencher.iter(|| black_box(probe.call()).len());
    });
    group.finish();
}

fn plan(criterion: &mut Criterion) {
    let policy = MdtsRaw::new(Weights::shipped().expect("weights"));
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(5));
    for (tasks, nodes) in [(100, 16), (12_000, 32)] {
        let instance = instance(&format!("layered:tasks={tasks},max_parents=3"), nodes);
        group.bench_function(format!("{tasks} tasks, {nodes} nodes"), |bencher| {
            bencher.iter(|| policy.plan(black_box(&instance), &mut Rng::seed_from_u64(1)));
        });
    }
    group.finish();
}

criterion_group!(benches, step, network, plan);
criterion_main!(benches);
