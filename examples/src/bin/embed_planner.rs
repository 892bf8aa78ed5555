//! Embeds the planner: builds a graph and a cluster in code, plans with HEFT, and compares with a lower bound.
//!
//!     cargo run -p mdts-examples --bin embed_planner

use std::error::Error;
use std::sync::Arc;

use mdts_core::{Cluster, Instance, Link, Network, Node, Planner, Rng, SlotModel, lower_bounds};
use mdts_dag::{DataModel, JobGraph, Task};
use rand::SeedableRng;

/// Split a file, work on four parts, join the results.
fn job() -> mdts_dag::Result<JobGraph> {
    let mut job = JobGraph::builder("four parts");
    let split = job.task(Task::new("split").seconds(2.0))?;
    let join = job.task(Task::new("join").seconds(3.0))?;
    for i in 0..4 {
        let part = job.task(Task::new(format!("part_{i}")).seconds(10.0))?;
        job.depend(part, split, 50e6); // bytes
        job.depend(join, part, 5e6);
    }
    job.build()
}

/// Two unequal machines on a network of 100 MB/s.
fn cluster() -> mdts_core::Result<Cluster> {
    let nodes = vec![Node::new("old"), Node::new("new").speed(2.5)];
    let network = Network::uniform(Link { latency: 0.001, bandwidth: 100e6 });
    Cluster::new(nodes, network, SlotModel::Exclusive)
}

fn main() -> Result<(), Box<dyn Error>> {
    let job = job()?;
    let instance = Instance::new(job.freeze().into(), Arc::new(cluster()?), DataModel::Edges)?;
    let heft = mdts_policies::find("heft")?.planner();
    let schedule = heft.plan(&instance, &mut Rng::seed_from_u64(1))?;
    schedule.verify(&instance)?;
    for p in schedule.placements() {
        let (task, node) = (&job.task(p.task).name, &instance.cluster().node(p.node).name);
        println!("{task:8} on {node:4} {:7.3} s to {:7.3} s", p.start, p.finish);
    }
    println!("makespan {:.3} s, at least {:.3} s", schedule.makespan(), lower_bounds(&instance).best());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs() -> Result<(), Box<dyn Error>> {
        main()
    }
}
