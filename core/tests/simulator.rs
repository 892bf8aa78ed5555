//! Laws of the simulator, the engine and the two role adapters, on random graphs and clusters.

use std::sync::Arc;

use mdts_core::engine::{Backoff, Phase, Speculation, State, Step};
use mdts_core::roles::{Planned, Simulated};
use mdts_core::sim::{Arrivals, Conditions, Failures, JobTrace, Trace, simulate, simulate_recorded};
use mdts_core::{
    Arrival, Cluster, Decisions, Error, Instance, Link, Network, Node, NodeId, PartialSchedule, Placer,
    Planner, Result, Rng, Schedule, SlotModel, lower_bounds,
};
use mdts_dag::{DataModel, JobGraph, Task, TaskId};
use proptest::prelude::*;
use rand::{Rng as _, SeedableRng};

/// Earliest finish in topological order.
#[derive(Debug)]
struct TopologicalEft;

impl Planner for TopologicalEft {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let mut partial = PartialSchedule::new(instance)?;
        for &task in instance.graph().topological_order() {
            if partial.is_open(task) {
                let slot = partial.best_insertion(task);
                partial.place(task, slot);
            }
        }
        Ok(partial.finish())
    }
}

/// A random node among those that can run the task.
#[derive(Debug)]
struct Dice(Rng);

impl Placer for Dice {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        for &task in step.ready() {
            let nodes: Vec<_> =
                step.instance().cluster().node_ids().filter(|n| step.can_run(task, *n)).collect();
            if !nodes.is_empty() {
                decisions.place(task, nodes[self.0.random_range(0..nodes.len())]);
            }
        }
        Ok(())
    }
}

fn dice(seed: u64) -> Dice {
    Dice(Rng::seed_from_u64(seed))
}

/// A random graph on a random cluster: files and direct data, zero work, zero bytes, racks, several demands.
fn random_instance(seed: u64, slots: SlotModel, data: DataModel) -> Result<Arc<Instance>> {
    instance_with_zeros(seed, slots, data, 0.15)
}

/// The same with this share of tasks that take no time.
fn instance_with_zeros(seed: u64, slots: SlotModel, data: DataModel, zeros: f64) -> Result<Arc<Instance>> {
    let mut rng = Rng::seed_from_u64(seed);
    let tasks = rng.random_range(1..40);
    let mut job = JobGraph::builder("random");
    for i in 0..tasks {
        let work = if rng.random_bool(zeros) { 0.0 } else { rng.random_range(0.1..10.0) };
        let kind = ["a", "b", "c"][rng.random_range(0..3)];
        let mut task = Task::new(format!("t{i}")).kind(kind).seconds(work);
        if rng.random_bool(0.5) {
            task = task.cores(f64::from(rng.random_range(1..4))).memory(rng.random_range(0..100));
        }
        if rng.random_bool(0.5) {
            let size = f64::from(rng.random_range(0..50));
            task.outputs.push(job.file(&format!("f{i}"), size)?);
        }
        let id = job.task(task)?;
        for parent in 0..i {
            if rng.random_bool(2.0 / f64::from(tasks)) {
                let bytes = if rng.random_bool(0.3) { 0.0 } else { rng.random_range(0.0..50.0) };
                job.depend(id, TaskId::new(parent as usize), bytes);
                if rng.random_bool(0.5)
                    && let Some(&file) = job.task_mut(TaskId::new(parent as usize)).outputs.first()
                {
                    job.task_mut(id).inputs.push(file);
                }
            }
        }
    }
    let nodes: Vec<Node> = (0..rng.random_range(1..6))
        .map(|i| {
            let mut node =
                Node::new(format!("m{i}")).speed(rng.random_range(0.5..4.0)).cores(4.0).memory(150);
            if rng.random_bool(0.3) {
                node.speeds.insert("a".into(), 5.0);
            }
            node
        })
        .collect();
    let link =
        Link { latency: f64::from(rng.random_range(0..2)) * 0.1, bandwidth: rng.random_range(1.0..50.0) };
    let network = if rng.random_bool(0.5) {
        Network::uniform(link)
    } else {
        let racks = (0..nodes.len()).map(|i| i as u32 % 2).collect();
        let mut network = Network::builder(link, racks);
        network.between_racks(0, 1, Link { latency: 0.5, bandwidth: 2.0 });
        network.build()
    };
    let cluster = Cluster::new(nodes, network, slots)?;
    Ok(Arc::new(Instance::new(job.build()?.freeze().into(), cluster.into(), data)?))
}

fn alone(instance: &Arc<Instance>) -> Arrivals {
    vec![(0.0, instance.clone())]
}

fn planned(seed: u64) -> Planned<TopologicalEft> {
    Planned::new(TopologicalEft, Rng::seed_from_u64(seed))
}

fn models() -> impl Strategy<Value = (SlotModel, DataModel)> {
    (
        prop_oneof![Just(SlotModel::Exclusive), Just(SlotModel::Resources)],
        prop_oneof![Just(DataModel::Edges), Just(DataModel::Files)],
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ideal_simulation_is_a_valid_schedule((slots, data) in models(), seed: u64) {
        let instance = random_instance(seed, slots, data)?;
        let trace = simulate(&alone(&instance), dice(seed), &Conditions::default())?;
        let schedule = trace.jobs[0].schedule();
        schedule.verify(&instance)?;
        prop_assert!(schedule.makespan() >= lower_bounds(&instance).best() * (1.0 - 1e-9));
        prop_assert_eq!(trace.makespan(), schedule.makespan());
    }

    #[test]
    fn planned_reproduces_the_plan((slots, data) in models(), seed: u64) {
        let instance = instance_with_zeros(seed, slots, data, zeros(slots))?;
        let plan = TopologicalEft.plan(&instance, &mut Rng::seed_from_u64(0))?;
        plan.verify(&instance)?;
        let trace = simulate(&alone(&instance), planned(0), &Conditions::default())?;
        check_reproduced(&instance, &plan, &trace.jobs[0].schedule())?;
    }

    #[test]
    fn planned_reproduces_a_simulated_placer((slots, data) in models(), seed: u64) {
        let instance = instance_with_zeros(seed, slots, data, zeros(slots))?;
        let simulated = || Simulated::new(|rng: &mut Rng| Dice(rng.clone()));
        let plan = simulated().plan(&instance, &mut Rng::seed_from_u64(seed))?;
        let follow = Planned::new(simulated(), Rng::seed_from_u64(seed));
        let trace = simulate(&alone(&instance), follow, &Conditions::default())?;
        check_reproduced(&instance, &plan, &trace.jobs[0].schedule())?;
    }

    #[test]
    fn replay_gives_the_same_state((slots, data) in models(), seed: u64, contention: bool) {
        let instance = random_instance(seed, slots, data)?;
        let conditions = hard(seed, contention, &instance);
        let (trace, state, records) = simulate_recorded(&alone(&instance), dice(seed), &conditions)?;
        prop_assert_eq!(&State::replay(instance.cluster(), true, &records)?, &state);
        let again = simulate(&alone(&instance), dice(seed), &conditions)?;
        prop_assert_eq!(again, trace);
    }

    #[test]
    fn hard_conditions_end_with_every_task_done((slots, data) in models(), seed: u64, contention: bool) {
        let instance = random_instance(seed, slots, data)?;
        let conditions = hard(seed, contention, &instance);
        let late = planned(seed).replan_when_late(0.1);
        let simulated = Planned::new(Simulated::new(|rng: &mut Rng| Dice(rng.clone())), Rng::seed_from_u64(1));
        let policies: [Box<dyn Placer>; 4] =
            [Box::new(dice(seed)), Box::new(planned(seed)), Box::new(late), Box::new(simulated)];
        for policy in policies {
            let trace = simulate(&alone(&instance), policy, &conditions)?;
            check_run(&instance, &trace)?;
        }
    }

    #[test]
    fn contention_never_helps_a_fixed_plan(seed: u64, data in prop_oneof![Just(DataModel::Edges), Just(DataModel::Files)]) {
        // All data moves at the same moment as in the ideal world, or later.
        let instance = random_instance(seed, SlotModel::Exclusive, data)?;
        let ideal = simulate(&alone(&instance), planned(0), &Conditions::default())?.makespan();
        let contended = Conditions { contention: true, ..Conditions::default() };
        let real = simulate(&alone(&instance), planned(0), &contended)?.makespan();
        prop_assert!(real >= ideal * (1.0 - 1e-9), "{} < {}", real, ideal);
    }
}

/// On shared nodes, tasks that take no time occupy nothing in a plan but need room when they run.
fn zeros(slots: SlotModel) -> f64 {
    if slots == SlotModel::Exclusive { 0.15 } else { 0.0 }
}

/// Exclusive nodes: the same schedule, bit for bit. Shared nodes: a plan may hold room free for a task that needs
/// more; the same nodes, and no task starts later.
fn check_reproduced(
    instance: &Instance,
    plan: &Schedule,
    run: &Schedule,
) -> std::result::Result<(), TestCaseError> {
    run.verify(instance)?;
    if instance.slots() == SlotModel::Exclusive {
        prop_assert_eq!(run, plan);
    }
    for (run, plan) in run.placements().iter().zip(plan.placements()) {
        prop_assert_eq!(run.node, plan.node);
        prop_assert!(run.start <= plan.start, "{:?} after {:?}", run, plan);
    }
    Ok(())
}

fn hard(seed: u64, contention: bool, instance: &Instance) -> Conditions {
    let bound = lower_bounds(instance).best().max(1.0);
    let failures = Failures { mean_between: bound, repair: 0.2 * bound, most: 5 };
    let speculation = seed.is_multiple_of(2).then_some(Speculation { factor: 1.2, least: 0.0 });
    let conditions = Conditions { seed, noise: 0.5, affinity: 0.5, ..Conditions::default() };
    Conditions { contention, failures: Some(failures), speculation, ..conditions }
}

/// Every task succeeded once, after its parents, and no node ran more than it can.
fn check_run(instance: &Instance, trace: &Trace) -> std::result::Result<(), TestCaseError> {
    let run = trace.jobs[0].schedule();
    prop_assert_eq!(run.placements().len(), instance.tasks());
    for p in run.placements() {
        for parent in instance.graph().parents(p.task) {
            prop_assert!(p.start >= run.placements()[parent.index()].finish);
        }
    }
    for row in trace.jobs[0].attempts.chunk_by(|a, b| a.node == b.node) {
        prop_assert!(row.iter().all(|a| a.finish >= a.start));
    }
    if instance.slots() == SlotModel::Exclusive {
        let mut attempts = trace.jobs[0].attempts.clone();
        attempts.sort_by(|a, b| (a.node, a.start).partial_cmp(&(b.node, b.start)).expect("no NaN"));
        for row in attempts.chunk_by(|a, b| a.node == b.node) {
            prop_assert!(row.windows(2).all(|w| w[0].finish <= w[1].start));
        }
    }
    Ok(())
}

#[test]
fn two_transfers_share_a_port() -> Result<()> {
    // a on m0 sends 10 bytes each to b on m1 and c on m2 at 10 bytes/s: 2 s under contention, 1 s ideally.
    let mut job = JobGraph::builder("fan");
    let a = job.task(Task::new("a").times([("m0", 1.0)]))?;
    for (name, node) in [("b", "m1"), ("c", "m2")] {
        let child = job.task(Task::new(name).times([(node, 1.0)]))?;
        job.depend(child, a, 10.0);
    }
    let nodes = (0..3).map(|i| Node::new(format!("m{i}"))).collect();
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 10.0 });
    let cluster = Cluster::new(nodes, network, SlotModel::Exclusive)?;
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?);
    for (contention, makespan) in [(false, 3.0), (true, 4.0)] {
        let conditions = Conditions { contention, ..Conditions::default() };
        assert_eq!(simulate(&alone(&instance), dice(1), &conditions)?.makespan(), makespan);
    }
    Ok(())
}

#[test]
fn a_file_moves_once_to_a_node() -> Result<()> {
    // b and c on m1 both read a's file of 10 bytes: 1 s in the files model, 2 s in the edges model.
    let mut job = JobGraph::builder("shared");
    let file = job.file("x", 10.0)?;
    let mut a = Task::new("a").times([("m0", 1.0)]);
    a.outputs.push(file);
    job.task(a)?;
    for name in ["b", "c"] {
        let mut task = Task::new(name).times([("m1", 1.0)]);
        task.inputs.push(file);
        job.task(task)?;
    }
    job.infer_parents_from_files();
    let graph = Arc::new(job.build()?.freeze());
    let nodes = (0..2).map(|i| Node::new(format!("m{i}")).cores(2.0)).collect();
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 10.0 });
    let cluster = Arc::new(Cluster::new(nodes, network, SlotModel::Resources)?);
    let conditions = Conditions { contention: true, ..Conditions::default() };
    for (data, makespan, moved) in [(DataModel::Files, 3.0, 10.0), (DataModel::Edges, 4.0, 20.0)] {
        let instance = Arc::new(Instance::new(graph.clone(), cluster.clone(), data)?);
        let trace = simulate(&alone(&instance), dice(1), &conditions)?;
        assert_eq!((trace.makespan(), trace.moved_bytes), (makespan, moved), "{data:?}");
    }
    Ok(())
}

#[test]
fn noise_has_mean_one_and_does_not_depend_on_the_policy() -> Result<()> {
    let mut job = JobGraph::builder("many");
    for i in 0..20_000 {
        job.task(Task::new(format!("t{i}")).seconds(1.0))?;
    }
    let cluster = Cluster::identical(3, SlotModel::Exclusive)?;
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?);
    let conditions = Conditions { seed: 3, noise: 0.5, ..Conditions::default() };
    let runs = |policy: Dice| -> Result<Vec<f64>> {
        let schedule = simulate(&alone(&instance), policy, &conditions)?.jobs[0].schedule();
        Ok(schedule.placements().iter().map(|p| p.finish - p.start).collect())
    };
    let (a, b) = (runs(dice(1))?, runs(dice(2))?);
    assert!(a.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-6));
    let mean = a.iter().sum::<f64>() / a.len() as f64;
    // Standard error: sqrt(exp(0.25) - 1) / sqrt(20000) = 0.0038.
    assert!((mean - 1.0).abs() < 0.015, "{mean}");
    Ok(())
}

#[test]
fn jobs_that_arrive_later_wait_their_turn() -> Result<()> {
    let mut job = JobGraph::builder("one");
    job.task(Task::new("a").seconds(4.0))?;
    let graph = Arc::new(job.build()?.freeze());
    let cluster = Arc::new(Cluster::identical(1, SlotModel::Exclusive)?);
    let instance = Arc::new(Instance::new(graph, cluster, DataModel::Edges)?);
    let arrivals = vec![(0.0, instance.clone()), (1.0, instance.clone()), (20.0, instance)];
    let trace = simulate(&arrivals, dice(0), &Conditions::default())?;
    let jct: Vec<f64> = trace.jobs.iter().map(JobTrace::completion_seconds).collect();
    assert_eq!(jct, [4.0, 7.0, 4.0]);
    assert_eq!(trace.mean_completion_seconds(), 5.0);
    Ok(())
}

#[test]
fn a_policy_that_places_nothing_is_stuck() -> Result<()> {
    #[derive(Debug)]
    struct Lazy;
    impl Placer for Lazy {
        fn place(&mut self, _: &Step<'_>, _: &mut Decisions) -> Result<()> {
            Ok(())
        }
    }
    let instance = random_instance(1, SlotModel::Exclusive, DataModel::Edges)?;
    let error = simulate(&alone(&instance), Lazy, &Conditions::default());
    assert!(matches!(error, Err(Error::Stuck(why)) if why.contains("placed 't0' nowhere")));
    Ok(())
}

/// Eight tasks of 10 s on four nodes, one of which hides that it is 20 times as slow as the others.
#[test]
fn second_attempts_shorten_a_run_with_a_slow_node() -> Result<()> {
    let mut job = JobGraph::builder("eight");
    for i in 0..8 {
        job.task(Task::new(format!("t{i}")).seconds(10.0))?;
    }
    let cluster = Arc::new(Cluster::identical(4, SlotModel::Exclusive)?);
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster, DataModel::Edges)?);
    let mut conditions = Conditions { slowdowns: vec![(3.into(), 20.0)], ..Conditions::default() };
    let plan = || Planned::new(TopologicalEft, Rng::seed_from_u64(0));
    assert_eq!(simulate(&alone(&instance), plan(), &conditions)?.makespan(), 400.0);
    // Both tasks of the slow node are overdue after 20 s, then run for 10 s elsewhere.
    conditions.speculation = Some(Speculation { factor: 2.0, least: 10.0 });
    let (trace, state, records) = simulate_recorded(&alone(&instance), plan(), &conditions)?;
    assert_eq!(trace.makespan(), 60.0);
    let attempts = &trace.jobs[0].attempts;
    let lost: Vec<_> =
        attempts.iter().filter(|a| !a.succeeded).map(|a| (a.node, a.start, a.finish)).collect();
    assert_eq!(lost, [(3.into(), 0.0, 30.0), (3.into(), 30.0, 60.0)]);
    assert_eq!((attempts.len(), trace.jobs[0].schedule().placements().len()), (10, 8));
    assert_eq!(State::replay(instance.cluster(), true, &records)?, state);
    Ok(())
}

/// The second attempt fetches 100 bytes at 10 bytes per second; the first ends before it.
#[test]
fn a_second_attempt_fetches_its_inputs() -> Result<()> {
    let mut job = JobGraph::builder("two");
    let a = job.task(Task::new("a").seconds(1.0))?;
    let b = job.task(Task::new("b").seconds(1.0))?;
    job.depend(b, a, 100.0);
    let nodes = vec![Node::new("m0"), Node::new("m1")];
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 10.0 });
    let cluster = Arc::new(Cluster::new(nodes, network, SlotModel::Exclusive)?);
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster, DataModel::Edges)?);
    let speculation = Some(Speculation { factor: 2.0, least: 0.0 });
    let mut conditions =
        Conditions { slowdowns: vec![(0.into(), 30.0)], speculation, ..Conditions::default() };
    let plan = || Planned::new(TopologicalEft, Rng::seed_from_u64(0));
    // a takes 30 s, or 1 s after 2 s on m1; b then 1 s there.
    assert_eq!(simulate(&alone(&instance), plan(), &conditions)?.jobs[0].attempts[1].finish, 3.0);
    conditions.slowdowns = Vec::new();
    conditions.noise = 0.0;
    assert_eq!(simulate(&alone(&instance), plan(), &conditions)?.makespan(), 2.0, "nothing is overdue");
    Ok(())
}

#[test]
fn conditions_out_of_range_are_refused() -> Result<()> {
    let instance = random_instance(1, SlotModel::Exclusive, DataModel::Edges)?;
    for conditions in [
        Conditions { noise: -1.0, ..Conditions::default() },
        Conditions { noise: f64::NAN, ..Conditions::default() },
        Conditions { affinity: 1.0, ..Conditions::default() },
        Conditions { slowdowns: vec![(0.into(), 0.0)], ..Conditions::default() },
        Conditions { speculation: Some(Speculation { factor: 0.5, least: 1.0 }), ..Conditions::default() },
    ] {
        assert!(matches!(simulate(&alone(&instance), dice(1), &conditions), Err(Error::BadSetting { .. })));
    }
    Ok(())
}

/// Arrivals are the same whether summarised for a uniform network or computed per node.
#[test]
fn arrival_summary_equals_the_definition() -> Result<()> {
    for seed in 0..300 {
        let instance = random_instance(seed, SlotModel::Exclusive, DataModel::Edges)?;
        let plan = TopologicalEft.plan(&instance, &mut Rng::seed_from_u64(0))?;
        let mut arrival = Arrival::default();
        for task in instance.graph().tasks() {
            let of = |p: TaskId| (plan.placements()[p.index()].node, plan.placements()[p.index()].finish);
            arrival.gather(&instance, task, of);
            for node in instance.cluster().node_ids() {
                let parents = instance.graph().parents(task).iter().zip(instance.parent_bytes(task));
                let latest = parents.map(|(p, bytes)| of(*p).1 + instance.transfer(*bytes, of(*p).0, node));
                assert_eq!(arrival.at(node), latest.fold(0.0, f64::max));
            }
        }
    }
    Ok(())
}

/// Task by task on the next node.
#[derive(Debug)]
struct InTurn;

impl Placer for InTurn {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        let nodes = step.instance().nodes();
        step.ready().iter().for_each(|task| decisions.place(*task, NodeId::new(task.index() / 3 % nodes)));
        Ok(())
    }
}

#[test]
fn attempts_fail_and_rest_before_they_are_repeated() -> Result<()> {
    // Chains of three on two nodes; of the last chain, every task asks for no rest.
    let mut job = JobGraph::builder("faults");
    for i in 0..60 {
        let task = Task::new(format!("t{i}")).seconds(1.0).retries(40);
        let task = job.task(if i < 57 { task } else { task.retry_delay(0.0) })?;
        if i % 3 > 0 {
            job.depend(task, TaskId::new(i - 1), 0.0);
        }
    }
    let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?);
    let backoff = Backoff { first: 10.0, factor: 1.0, most: 10.0, seed: 3 };
    for contention in [false, true] {
        let conditions = Conditions { faults: 0.3, backoff, contention, seed: 5, ..Conditions::default() };
        let arrivals = vec![(0.0, instance.clone())];
        let (trace, state, records) = simulate_recorded(&arrivals, InTurn, &conditions)?;
        let again = simulate_recorded(&arrivals, InTurn, &conditions)?;
        assert_eq!(trace, again.0, "the same seed gives the same faults");
        assert_eq!(State::replay(instance.cluster(), true, &records)?, state);
        assert_eq!(trace.jobs[0].schedule().placements().len(), 60, "all succeed in the end");
        let mut failed = 0;
        for task in instance.graph().tasks() {
            assert_eq!(state.phase(0.into(), task), Phase::Done);
            let attempts: Vec<_> = trace.jobs[0].attempts.iter().filter(|a| a.task == task).collect();
            for pair in attempts.windows(2) {
                let rest = pair[1].start - pair[0].finish;
                let least = if task.index() < 57 { 5.0 } else { 0.0 };
                assert!(!pair[0].succeeded && rest >= least, "{task:?} rested for {rest} s");
                failed += 1;
            }
        }
        assert!((10..60).contains(&failed), "{failed} of about 86 attempts failed");
        assert!(trace.makespan() > 40.0);
    }
    // Without retries a fault is the end of a chain.
    let mut job = JobGraph::builder("for good");
    for i in 0..60 {
        job.task(Task::new(format!("t{i}")).seconds(1.0))?;
    }
    let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?);
    let conditions = Conditions { faults: 0.3, backoff, seed: 5, ..Conditions::default() };
    let trace = simulate(&vec![(0.0, instance)], InTurn, &conditions)?;
    assert_eq!((trace.jobs[0].attempts.len(), trace.makespan()), (60, 30.0));
    assert!((30..57).contains(&trace.jobs[0].schedule().placements().len()));
    Ok(())
}
