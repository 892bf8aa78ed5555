//! Instance and verification on a layered graph of 10,000 tasks and 64 nodes; simulation, in task completions per
//! second, on several graphs and clusters.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mdts_core::engine::Step;
use mdts_core::sim::{Conditions, simulate};
use mdts_core::{
    Cluster, Decisions, Instance, Link, Network, Node, PartialSchedule, Placer, Result, SlotModel,
    lower_bounds, objectives,
};
use mdts_dag::{DataModel, JobGraph, generate};

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

fn layered(tasks: usize) -> Result<JobGraph> {
    let spec = generate::Layered { tasks, ..generate::Layered::default() };
    Ok(spec.generate(&mut generate::seeded(1))?)
}

fn instance(graph: &JobGraph, nodes: u32, data: DataModel) -> Result<Arc<Instance>> {
    let nodes = (0..nodes).map(|i| Node::new(format!("m{i}")).speed(1.0 + f64::from(i % 5))).collect();
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 1e8 });
    let cluster = Cluster::new(nodes, network, SlotModel::Exclusive)?;
    Ok(Arc::new(Instance::new(graph.clone().freeze().into(), cluster.into(), data)?))
}

fn core(c: &mut Criterion) {
    let Ok(instance) = layered(10_000).and_then(|graph| instance(&graph, 64, DataModel::Edges)) else {
        return;
    };
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
}

/// A policy that decides in no time, so that the rate is that of the simulator itself.
fn simulation(c: &mut Criterion) {
    let mut rng = generate::seeded(1);
    let montage = generate::Montage { images: 65, ..generate::Montage::default() }.generate(&mut rng);
    let epigenomics = generate::Epigenomics { sequences: 8, chunks: 31 }.generate(&mut rng);
    let graphs = [
        ("layered-1000", layered(1_000), DataModel::Edges),
        ("montage-991", montage.map_err(Into::into), DataModel::Files),
        ("epigenomics-1011", epigenomics.map_err(Into::into), DataModel::Files),
        ("layered-10000", layered(10_000), DataModel::Edges),
    ];
    for (name, graph, data) in graphs {
        let Ok(graph) = graph else { continue };
        for nodes in [8, 64] {
            let Ok(instance) = instance(&graph, nodes, data) else { continue };
            let mut group = c.benchmark_group(format!("simulate {name} x {nodes}"));
            group.throughput(Throughput::Elements(instance.tasks() as u64));
            let arrivals = vec![(0.0, instance)];
            for contention in [false, true] {
                let conditions = Conditions { contention, ..Conditions::default() };
                let name = if contention { "contention" } else { "ideal" };
                group.bench_function(name, |b| {
                    b.iter(|| simulate(&arrivals, InTurn::default(), &conditions));
                });
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = core, simulation
}
criterion_main!(benches);
