//! What a run costs when its tasks cost nothing: time per task, and bytes per task of the process.
//!
//!     cargo run --release -p mdts-core --example closures -- [TASKS] [independent|layered|chain] [NODES]

use std::time::Instant;

#[path = "../benches/closures/mod.rs"]
mod closures;
use closures::{Shape, instance, job, run, runner};

/// A line of `/proc/self/status`, in bytes; 0 where there is none.
fn memory(line: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|l| l.strip_prefix(line)?.trim().strip_suffix(" kB")?.parse().ok());
    kib.map_or(0.0, |kib: f64| kib * 1024.0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let tasks: usize = args.next().map_or(Ok(10_000), |n| n.parse())?;
    let shape = match args.next().as_deref() {
        None | Some("independent") => Shape::Independent,
        Some("layered") => Shape::Layered,
        Some("chain") => Shape::Chain,
        Some(other) => return Err(format!("{other}: should be independent, layered or chain").into()),
    };
    let nodes: usize = args.next().map_or(Ok(8), |n| n.parse())?;
    let per_task = |value: f64| value / tasks as f64;

    let empty = memory("VmRSS:");
    let job = job(tasks, shape)?;
    let graph = memory("VmRSS:");
    let instance = instance(&job, nodes)?;
    let ready = memory("VmRSS:");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let begin = Instant::now();
    let report = runtime.block_on(run(runner(&job, &instance)))?;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{} of {tasks} tasks, {shape:?}, {nodes} nodes: {:.2} us per task, of which {:.2} us in the policy, {} steps",
        report.succeeded(),
        per_task(seconds * 1e6),
        per_task(report.deciding_seconds * 1e6),
        report.steps
    );
    println!(
        "bytes per task: job {:.0}, costs {:.0}, run at most {:.0}",
        per_task(graph - empty),
        per_task(ready - graph),
        per_task(memory("VmHWM:") - ready)
    );
    Ok(())
}
