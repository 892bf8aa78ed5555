//! What the runner costs when tasks cost nothing: 10,000 in-process closures on 8 nodes, with and without a journal on
//! disk, in tasks per second.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mdts_core::journal::{Durability, Folder, Manifest};

mod closures;
use closures::{Shape, instance, job, run, runner};

const TASKS: usize = 10_000;

fn closures_that_end_at_once(c: &mut Criterion) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let mut group = c.benchmark_group("10000 closures");
    group.throughput(Throughput::Elements(TASKS as u64));
    for (name, shape) in
        [("independent", Shape::Independent), ("layered", Shape::Layered), ("chain", Shape::Chain)]
    {
        let Ok(job) = job(TASKS, shape) else { continue };
        let Ok(instance) = instance(&job, 8) else { continue };
        group.bench_function(name, |b| b.iter(|| runtime.block_on(run(runner(&job, &instance)))));
        let manifest = Manifest::new(&instance, "earliest-finish");
        group.bench_function(format!("{name}, journal"), |b| {
            b.iter(|| {
                let folder = tempfile::tempdir().ok()?;
                let locked = Folder::lock(folder.path()).ok()?;
                let journal = locked.begin(manifest.clone(), Durability::Process).ok()?;
                runtime.block_on(run(runner(&job, &instance).journal(journal))).ok()
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = closures_that_end_at_once
}
criterion_main!(benches);
