//! A policy of one's own: implements `Placer`, tries it in the simulator and compares it with another policy.
//!
//!     cargo run -p mdts-examples --bin own_placer

use std::error::Error;
use std::sync::Arc;

use mdts_core::engine::Step;
use mdts_core::sim::{Conditions, simulate};
use mdts_core::{Cluster, Decisions, Instance, Placer, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task};

/// Sends each ready task to the node that has the least to do for its speed, the longest task first.
#[derive(Debug)]
struct LongestFirst;

impl Placer for LongestFirst {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> mdts_core::Result<()> {
        let instance = step.instance();
        let mut ready = step.ready().to_vec();
        ready.sort_by(|a, b| instance.mean_exec(*b).total_cmp(&instance.mean_exec(*a)));
        let mut given = vec![0.0; instance.nodes()]; // seconds placed in this step
        for task in ready {
            let end = |n: &_| step.available(task, *n) + given[n.index()] + instance.exec(task, *n);
            let nodes = instance.cluster().node_ids().filter(|n| step.can_run(task, *n));
            if let Some(node) = nodes.min_by(|a, b| end(a).total_cmp(&end(b))) {
                given[node.index()] += instance.exec(task, node);
                decisions.place(task, node);
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut job = JobGraph::builder("uneven");
    for (i, seconds) in [1.0, 1.0, 2.0, 2.0, 3.0, 9.0].into_iter().enumerate() {
        job.task(Task::new(format!("t{i}")).seconds(seconds))?;
    }
    let cluster = Arc::new(Cluster::identical(2, SlotModel::Exclusive)?);
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster, DataModel::Edges)?);
    let arrivals = vec![(0.0, instance)];
    let other = mdts_policies::find("round-robin")?.placer(1);
    for (name, placer) in
        [("longest first", Box::new(LongestFirst) as Box<dyn Placer>), ("round-robin", other)]
    {
        let trace = simulate(&arrivals, placer, &Conditions::default())?;
        println!("{name:13} {:5.1} s", trace.makespan());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mdts_core::testkit::check_placer;

    #[test]
    fn it_runs_and_keeps_the_contract() -> Result<(), Box<dyn Error>> {
        main()?;
        check_placer(|| LongestFirst).map_err(Into::into)
    }
}
