//! Deciding takes no memory per task: what is needed is kept from step to step. The only test of this binary, as the
//! count is that of the whole process.

use std::alloc::System;
use std::sync::Arc;

use mdts_core::engine::{JobId, Step};
use mdts_core::sim::{Conditions, simulate};
use mdts_core::{Cluster, Decisions, Instance, Link, Network, Node, Placer, Planner, Rng, SlotModel};
use mdts_dag::{DataModel, generate};
use mdts_policies::mdts::{MdtsRaw, Weights};
use rand::SeedableRng;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Allocations, grown ones included.
fn allocations(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.allocations + change.reallocations
}

/// Counts the allocations of every step of a placer, by job.
#[derive(Debug)]
struct Counted<P> {
    placer: P,
    steps: Vec<(JobId, usize)>,
}

impl<P: Placer> Placer for Counted<P> {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> mdts_core::Result<()> {
        let region = Region::new(COUNTED);
        let result = self.placer.place(step, decisions);
        self.steps.push((step.job(), allocations(&region)));
        result
    }

    fn watches_progress(&self) -> bool {
        self.placer.watches_progress()
    }
}

fn instance(tasks: usize) -> Result<Arc<Instance>, Box<dyn std::error::Error>> {
    let mut rng = Rng::seed_from_u64(1);
    let job = generate::from_text(&format!("layered:tasks={tasks},ccr=0.5"), &mut rng)?;
    let nodes = (0..12).map(|i| Node::new(format!("n{i}")).speed(1.0 + f64::from(i) / 4.0)).collect();
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 1e8 });
    let cluster = Cluster::new(nodes, network, SlotModel::Exclusive)?;
    Ok(Arc::new(Instance::new(job.freeze().into(), cluster.into(), DataModel::Edges)?))
}

#[test]
fn decisions_allocate_nothing_after_warm_up() -> Outcome {
    let policy = MdtsRaw::new(Weights::shipped()?);
    // The same job a second time, long after the first.
    let job = instance(300)?;
    let conditions = Conditions { seed: 1, noise: 0.3, affinity: 0.5, ..Conditions::default() };
    let mut counted = Counted { placer: policy.placer(), steps: Vec::with_capacity(10_000) };
    simulate(&vec![(0.0, job.clone()), (1e9, job)], &mut counted, &conditions)?;
    let second: Vec<usize> = counted.steps.iter().filter(|s| s.0 == JobId::new(1)).map(|s| s.1).collect();
    assert!(second.len() > 100, "{} steps", second.len());
    assert!(second[0] > 0, "the count works: a new job takes memory");
    let later: usize = second[1..].iter().sum();
    assert_eq!(later, 0, "allocations by step: {second:?}");

    // A plan takes memory once, and its timelines grow, but not with every task.
    let of_plan = |tasks: usize| -> Result<usize, Box<dyn std::error::Error>> {
        let instance = instance(tasks)?;
        let region = Region::new(COUNTED);
        let plan = policy.plan(&instance, &mut Rng::seed_from_u64(1))?;
        let count = allocations(&region);
        plan.verify(&instance)?;
        Ok(count)
    };
    let (small, large) = (of_plan(1000)?, of_plan(3000)?);
    assert!(large < small + 100, "{small} allocations for 1000 tasks, {large} for 3000");
    Ok(())
}
