//! How long one verdict takes, on clusters of several sizes with jobs on every node.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mdts_slurm::brain::{
    Brain, Memory, Node, Partition, Request, Running, Settings, Standing, Steering, View,
};

fn view(nodes: usize) -> View {
    let node = |i: usize| Node {
        name: format!("n{i}"),
        cpus: 64,
        memory: 256_000,
        features: vec![format!("rack{}", i % 16), "x86".into()],
        speed: 1.0 + (i % 7) as f64 / 7.0,
        weight: (i % 3) as u64,
        is_usable: true,
        ..Node::default()
    };
    let running = (0..nodes * 8).map(|i| Running {
        nodes: vec![i % nodes],
        cpus: 7,
        memory: 20_000,
        seconds: 60.0 * (1 + i % 97) as f64,
        ..Running::default()
    });
    let partition = Partition {
        name: "main".into(),
        is_default: true,
        is_up: true,
        nodes: (0..nodes).collect(),
        ..Partition::default()
    };
    View {
        nodes: (0..nodes).map(node).collect(),
        partitions: vec![partition],
        running: running.collect(),
        default_memory: Memory::PerCpu(1000),
    }
}

fn decide(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide");
    for nodes in [64, 1024, 4096] {
        // Preferring promises nothing, so that every round meets the same cluster.
        let mut brain = Brain::new(Settings { steering: Steering::Prefer, ..Settings::default() });
        brain.refresh(view(nodes), 0.0);
        let request = Request {
            cpus_per_task: Some(4),
            minutes: Some(60),
            features: Some("x86".into()),
            ..Request::default()
        };
        group.bench_function(BenchmarkId::from_parameter(nodes), |bencher| {
            bencher.iter(|| brain.decide(&request, &Standing::default(), 1.0));
        });
    }
    group.finish();
}

criterion_group!(benches, decide);
criterion_main!(benches);
