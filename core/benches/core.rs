//! Instance, verification and simulation on a layered graph of 10,000 tasks and 64 nodes.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use mdts_core::engine::Step;
use mdts_core::sim::{Conditions, simulate};
use mdts_core::{
    Cluster, Decisions, Instance, Link, Network, Node, PartialSchedule, Placer, Result, SlotModel,
    lower_bounds, objectives,
};
use mdts_dag::{DataModel, generate};

/// The next node in turn.
#[derive(Debug, Default)]
struct InTurn(usize);

impl Placer for InTurn {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        for &task in step.ready() {
            decisions.place(task, mdts_core::NodeId::new(self.0));
            self.0 = (self.0 + 1) % step.instance().nodes();
        }
        Ok(())
    }
}

fn instance(tasks: usize, nodes: u32) -> Result<Arc<Instance>> {
    let spec = generate::Layered { tasks, ..generate::Layered::default() };
    let graph = spec.generate(&mut generate::seeded(1))?.freeze();
    let nodes = (0..nodes).map(|i| Node::new(format!("m{i}")).speed(1.0 + f64::from(i % 5))).collect();
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 1e8 });
    let cluster = Cluster::new(nodes, network, SlotModel::Exclusive)?;
    Ok(Arc::new(Instance::new(graph.into(), cluster.into(), DataModel::Edges)?))
}

fn core(c: &mut Criterion) {
    let Ok(instance) = instance(10_000, 64) else { return };
    let plan = || -> Result<_> {
        let mut partial = PartialSchedule::new(&instance)?;
        for &task in instance.graph().topological_order() {
            let slot = partial.best_insertion(task);
            partial.place(task, slot);
        }
        Ok(partial.finish())
    };
    c.bench_function("earliest finish in topological order", |b| b.iter(plan));
    let Ok(schedule) = plan() else { return };
    c.bench_function("verify", |b| b.iter(|| schedule.verify(black_box(&instance))));
    c.bench_function("lower bounds", |b| b.iter(|| lower_bounds(black_box(&instance))));
    c.bench_function("objectives", |b| b.iter(|| objectives(black_box(&instance), &schedule)));
    let arrivals = vec![(0.0, instance.clone())];
    for contention in [false, true] {
        let conditions = Conditions { contention, ..Conditions::default() };
        let name = if contention { "simulate with contention" } else { "simulate" };
        c.bench_function(name, |b| b.iter(|| simulate(&arrivals, InTurn::default(), &conditions)));
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = core
}
criterion_main!(benches);
