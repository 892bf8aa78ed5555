//! How fast workflow texts are read, in bytes of unpacked text.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mdts_dag::format::{self, Format};
use mdts_dag::{JobGraph, Task, TaskId};

/// Tasks in layers, each with a file that four tasks of the next layer read.
fn layered(layers: usize, width: usize) -> JobGraph {
    let mut job = JobGraph::builder("layered");
    for index in 0..layers * width {
        let mut task =
            Task::new(format!("stage_{index:07}")).seconds(index as f64 / 8.0).command(["run", "--fast"]);
        task.outputs.push(job.file(&format!("file-{index:07}.dat"), 1e6).expect("few files"));
        let parents = (index >= width)
            .then(|| (0..4).map(|i| index - width - (index + i * 7) % width.min(index - width + 1)));
        let parents: Vec<_> = parents.into_iter().flatten().collect();
        for parent in &parents {
            task.inputs.push(job.file(&format!("file-{parent:07}.dat"), 1e6).expect("few files"));
        }
        let id = job.task(task).expect("unique names");
        for parent in parents {
            job.depend(id, TaskId::new(parent), 0.0);
        }
    }
    job.build().expect("layers make no cycle")
}

fn read(c: &mut Criterion) {
    let mut group = c.benchmark_group("read");
    group.sample_size(20).measurement_time(Duration::from_secs(3));
    let job = layered(100, 100);
    for format in [Format::WfFormat, Format::Dot, Format::Json, Format::Yaml, Format::Toml] {
        let mut text = Vec::new();
        format::write(&job, format, &mut text).expect("written to memory");
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format.name(), |b| b.iter(|| format::read(&text, format, "bench")));
    }
    let data = std::env::var_os("MDTS_DATA")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data").into(), PathBuf::from);
    let path = data.join("wfcommons_generated/gen-montage-12000.json.gz");
    if let Ok(packed) = std::fs::read(&path) {
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut text).expect("a gzip file");
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function("montage-12000", |b| b.iter(|| format::read(&text, Format::WfFormat, "bench")));
        group.bench_function("montage-12000.gz", |b| {
            b.iter(|| format::read(&packed, Format::WfFormat, "bench"));
        });
    } else {
        eprintln!("montage-12000: skipped: no data");
    }
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
