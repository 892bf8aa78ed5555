//! Planning time of every policy. `MDTS_DATA` adds a real workflow.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mdts_core::{Cluster, Instance, Link, Network, Node, Rng, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task, format, generate};
use mdts_policies::{find, policies};
use rand::SeedableRng;

/// Nodes of eight different speeds, 100 MB/s between them.
fn instance(job: &JobGraph, nodes: usize) -> Instance {
    let node = |i: usize| Node::new(format!("m{i}")).speed(0.5 + 0.25 * (i % 8) as f64);
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 100e6 });
    let cluster = Cluster::new((0..nodes).map(node).collect(), network, SlotModel::Exclusive);
    let cluster = cluster.expect("a cluster").into();
    Instance::new(job.freeze().into(), cluster, DataModel::Edges).expect("an instance")
}

fn generated(text: &str, nodes: usize) -> Instance {
    instance(&generate::from_text(text, &mut generate::seeded(1)).expect("a known generator"), nodes)
}

fn bench(criterion: &mut Criterion, group: &str, instance: &Instance, names: &[&str]) {
    let mut group = criterion.benchmark_group(group);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    group.sample_size(10).throughput(Throughput::Elements(instance.tasks() as u64));
    for name in names {
        let planner = find(name).expect("a policy").planner();
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| planner.plan(black_box(instance), &mut Rng::seed_from_u64(1)));
        });
    }
    group.finish();
}

fn all(criterion: &mut Criterion) {
    let every: Vec<&str> = policies().iter().map(|p| p.name).collect();
    bench(criterion, "layered 1k x 8", &generated("layered:tasks=1e3", 8), &every);
}

fn real(criterion: &mut Criterion) {
    let data = std::env::var_os("MDTS_DATA")
        .map_or(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data").into(), PathBuf::from);
    let path = data.join("wfinstances/pegasus/montage/montage-chameleon-dss-125d-001.json.gz");
    match format::read_path(&path) {
        Ok(job) => {
            let policies = ["heft", "cpop", "peft", "lookahead"];
            bench(criterion, "montage 1066 x 8", &instance(&job, 8), &policies);
        }
        Err(error) => eprintln!("skipped: no data: {error}"),
    }
}

fn large(criterion: &mut Criterion) {
    let pairs = ["heft", "cpop", "peft", "dls", "min-min", "max-min", "sufferage", "etf", "mct"];
    for tasks in ["1e4", "3e4"] {
        let instance = generated(&format!("layered:tasks={tasks}"), 32);
        bench(criterion, &format!("layered {tasks} x 32"), &instance, &pairs);
    }
    let instance = generated("independent:tasks=1e4", 32);
    bench(criterion, "independent 1e4 x 32", &instance, &pairs);
    let instance = generated("independent:tasks=1e5", 32);
    let linear = ["heft", "cpop", "peft", "min-min", "max-min", "etf", "mct"];
    bench(criterion, "independent 1e5 x 32", &instance, &linear);
}

/// Slow transfers leave many gaps on every node.
fn gaps(criterion: &mut Criterion) {
    for tasks in ["1e4", "1e5"] {
        let instance = generated(&format!("layered:tasks={tasks},ccr=10,max_parents=3"), 8);
        bench(criterion, &format!("gaps, layered {tasks} x 8"), &instance, &["heft", "mct"]);
    }
}

/// Many tasks side by side on every node; in the mixed case they want one or two cores and differ in memory.
fn resources(criterion: &mut Criterion) {
    for (tasks, nodes, cores) in [("1e3", 1, 2), ("1e4", 1, 2), ("1e5", 1, 2), ("1e5", 32, 4)] {
        let job = generate::from_text(&format!("independent:tasks={tasks}"), &mut generate::seeded(1));
        let job = job.expect("a known generator");
        let group = format!("resources, independent {tasks} x {nodes} x {cores} cores");
        bench(criterion, &group, &shared(&job, nodes, cores), &["heft", "min-min"]);
    }
    for tasks in [1_000, 10_000] {
        let mut job = JobGraph::builder("mixed");
        for i in 0..tasks {
            let task = Task::new(format!("t{i}")).seconds(1.0 + (i * 7919 % 1009) as f64 / 100.0);
            job.task(task.cores(1.0 + (i % 2) as f64).memory(1 + i % 61)).expect("a task");
        }
        let job = job.build().expect("a job");
        bench(criterion, &format!("resources, mixed {tasks} x 1 x 4 cores"), &shared(&job, 1, 4), &["heft"]);
    }
}

/// Equal nodes with cores and memory.
fn shared(job: &JobGraph, nodes: usize, cores: u32) -> Instance {
    let node = |i: usize| Node::new(format!("m{i}")).cores(cores.into()).memory(1 << 30);
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 100e6 });
    let cluster = Cluster::new((0..nodes).map(node).collect(), network, SlotModel::Resources);
    let cluster = cluster.expect("a cluster").into();
    Instance::new(job.freeze().into(), cluster, DataModel::Edges).expect("an instance")
}

criterion_group!(benches, all, real, large, gaps, resources);
criterion_main!(benches);
