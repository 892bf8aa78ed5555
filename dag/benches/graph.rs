//! Generating, freezing and ranking graphs of growing size: each should grow linearly.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mdts_dag::{DataModel, analysis, generate};

fn graphs(criterion: &mut Criterion) {
    for text in ["layered:tasks=1e3", "layered:tasks=1e5", "montage:images=1e4"] {
        let job = generate::from_text(text, &mut generate::seeded(1)).expect("a known generator");
        let flat = job.freeze();
        let mut group = criterion.benchmark_group("graph");
        group.sample_size(10).throughput(Throughput::Elements((flat.len() + flat.edge_count()) as u64));
        group.bench_function(BenchmarkId::new("generate", text), |b| {
            b.iter(|| generate::from_text(black_box(text), &mut generate::seeded(1)));
        });
        group.bench_function(BenchmarkId::new("freeze", text), |b| b.iter(|| black_box(&job).freeze()));
        group.bench_function(BenchmarkId::new("upward_rank", text), |b| {
            b.iter(|| {
                analysis::upward_rank(
                    black_box(&flat),
                    DataModel::Edges,
                    |t| flat.work(t),
                    |bytes| bytes / 1e8,
                )
            });
        });
        group.finish();
    }
}

criterion_group!(benches, graphs);
criterion_main!(benches);
