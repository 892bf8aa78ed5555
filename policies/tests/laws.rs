//! Laws of every policy on random graphs and clusters.

mod common;

use common::plan;
use mdts_core::{
    Cluster, Error, Instance, Link, Network, Node, NodeId, Placement, Progress, Rng, Schedule, SlotModel,
    lower_bounds,
};
use mdts_dag::{DataModel, JobGraph, Task, TaskId};
use mdts_policies::{PolicyInfo, Role, find, policies};
use proptest::prelude::*;
use rand::{Rng as _, SeedableRng};

/// Edges and files, ties, tasks without work, times per node with gaps, several demands, racks.
fn random_instance(seed: u64, slots: SlotModel, data: DataModel) -> Instance {
    let rng = &mut Rng::seed_from_u64(seed);
    let cluster = random_cluster(rng, slots);
    let job = random_job(rng, &cluster);
    common::instance(&job, cluster, data)
}

fn random_cluster(rng: &mut Rng, slots: SlotModel) -> Cluster {
    let count = rng.random_range(1..7);
    let nodes: Vec<Node> = (0..count)
        .map(|i| {
            let cores = if i == 0 { 4.0 } else { f64::from(rng.random_range(1..5)) };
            let node = Node::new(format!("m{i}")).speed(f64::from(rng.random_range(1..4))).cores(cores);
            node.memory(if i == 0 { 100 } else { rng.random_range(30..100) })
        })
        .collect();
    let link =
        Link { latency: f64::from(rng.random_range(0..2)) * 0.1, bandwidth: rng.random_range(1.0..50.0) };
    let network = if rng.random_bool(0.5) {
        Network::uniform(link)
    } else {
        let mut network = Network::builder(link, (0..count).map(|i| i % 2).collect());
        network.between_racks(0, 1, Link { latency: 0.5, bandwidth: 2.0 });
        network.build()
    };
    Cluster::new(nodes, network, slots).unwrap()
}

fn random_job(rng: &mut Rng, cluster: &Cluster) -> JobGraph {
    let tasks = if rng.random_bool(0.1) { 1 } else { rng.random_range(1..50) };
    let mut job = JobGraph::builder("random");
    for i in 0..tasks {
        let mut task = random_task(rng, cluster, i);
        if rng.random_bool(0.5) {
            task.outputs.push(job.file(&format!("f{i}"), f64::from(rng.random_range(0..50))).unwrap());
        }
        let id = job.task(task).unwrap();
        for parent in 0..i {
            if rng.random_bool(2.0 / f64::from(tasks)) {
                let parent = TaskId::new(parent as usize);
                job.depend(id, parent, f64::from(rng.random_range(0..20)));
                let file = job.task_mut(parent).outputs.first().copied();
                job.task_mut(id).inputs.extend(file.filter(|_| rng.random_bool(0.5)));
            }
        }
    }
    job.build().unwrap()
}

fn random_task(rng: &mut Rng, cluster: &Cluster, i: u32) -> Task {
    let seconds = |rng: &mut Rng| {
        if rng.random_bool(0.5) { f64::from(rng.random_range(0..4)) } else { rng.random_range(0.1..10.0) }
    };
    let mut task = Task::new(format!("t{i}"));
    task = if rng.random_bool(0.7) {
        task.seconds(seconds(rng))
    } else {
        // Node 0 has room for every task.
        let some = cluster.nodes().iter().enumerate().filter(|(n, _)| *n == 0 || rng.random_bool(0.7));
        let names: Vec<String> = some.map(|(_, node)| node.name.clone()).collect();
        let times: Vec<(String, f64)> = names.into_iter().map(|name| (name, seconds(rng))).collect();
        task.times(times)
    };
    if rng.random_bool(0.5) {
        task = task.cores(f64::from(rng.random_range(1..4))).memory(rng.random_range(0..60));
    }
    task
}

fn models() -> impl Strategy<Value = (SlotModel, DataModel)> {
    (
        prop_oneof![Just(SlotModel::Exclusive), Just(SlotModel::Resources)],
        prop_oneof![Just(DataModel::Edges), Just(DataModel::Files)],
    )
}

fn planners() -> impl Iterator<Item = &'static PolicyInfo> {
    policies().iter().filter(|p| p.role == Role::Planner)
}

/// What has happened of a plan at `now` if everything went as planned.
fn progress_at(schedule: &Schedule, now: f64, lost: Vec<NodeId>) -> Progress {
    let started = schedule.placements().iter().filter(|p| p.start < now);
    // What runs on a lost node has to run again.
    let kept = started.filter(|p| p.finish <= now || !lost.contains(&p.node));
    Progress { now, started: kept.copied().collect(), lost }
}

fn check_rest(instance: &Instance, progress: &Progress, plan: &Schedule) -> Result<(), TestCaseError> {
    plan.verify(instance).map_err(|v| TestCaseError::fail(v.to_string()))?;
    let started = |p: &&Placement| progress.started.iter().any(|s| s.task == p.task);
    for p in progress.started.iter() {
        prop_assert_eq!(plan.find(p.task), Some(p));
    }
    for p in plan.placements().iter().filter(|p| !started(p)) {
        prop_assert!(p.start >= progress.now, "{p:?} starts in the past");
        prop_assert!(!progress.lost.contains(&p.node), "{p:?} is on a lost node");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn schedules_are_right_and_repeatable((slots, data) in models(), seed: u64) {
        let instance = random_instance(seed, slots, data);
        let bound = lower_bounds(&instance).best();
        for policy in policies() {
            let schedule = plan(policy.name, &instance); // verified
            prop_assert!(schedule.makespan() >= bound * (1.0 - 1e-9), "{}", policy.name);
            prop_assert_eq!(&schedule, &plan(policy.name, &instance), "{}", policy.name);
        }
    }

    #[test]
    fn what_has_started_stays((slots, data) in models(), seed: u64, part in 0.0..1.2, lose: bool) {
        let instance = random_instance(seed, slots, data);
        let before = plan("heft", &instance);
        let nodes = instance.nodes();
        let lost = if lose && nodes > 1 { vec![NodeId::new(1 + seed as usize % (nodes - 1))] } else { Vec::new() };
        let progress = progress_at(&before, before.makespan() * part, lost);
        let rest = instance.with_progress(progress.clone());
        for policy in planners() {
            let planner = policy.planner();
            let plan = planner.plan(&rest, &mut Rng::seed_from_u64(1)).unwrap();
            check_rest(&instance, &progress, &plan)?;
        }
    }
}

#[test]
fn a_task_that_only_a_lost_node_could_run_is_an_error() {
    let mut job = JobGraph::builder("stranded");
    job.task(Task::new("only").times([("m1", 1.0)])).unwrap();
    let cluster = Cluster::identical(2, SlotModel::Exclusive).unwrap();
    let progress = Progress { lost: vec![NodeId::new(1)], ..Progress::default() };
    let instance = common::instance(&job.build().unwrap(), cluster, DataModel::Edges).with_progress(progress);
    for policy in planners() {
        let error = policy.planner().plan(&instance, &mut Rng::seed_from_u64(1)).unwrap_err();
        assert!(matches!(error, Error::Infeasible { .. }), "{}: {error}", policy.name);
        assert_eq!(
            error.to_string(),
            "task 'only' fits no node of the cluster: all nodes that could run it are lost"
        );
    }
}

#[test]
fn few_tasks_on_many_nodes() {
    let mut job = JobGraph::builder("fan");
    let root = job.task(Task::new("root").seconds(1.0)).unwrap();
    for i in 0..9 {
        let child = job.task(Task::new(format!("t{i}")).seconds(f64::from(i))).unwrap();
        job.depend(child, root, 1e6);
    }
    let nodes = (0..10_000).map(|i| Node::new(format!("m{i}")).speed(1.0 + f64::from(i % 7)));
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 100e6 });
    let cluster = Cluster::new(nodes.collect(), network, SlotModel::Exclusive).unwrap();
    let instance = common::instance(&job.build().unwrap(), cluster, DataModel::Edges);
    for policy in policies() {
        plan(policy.name, &instance);
    }
}

#[test]
fn names_are_those_of_the_documentation() {
    let names: Vec<&str> = policies().iter().map(|p| p.name).collect();
    let expected = "heft cpop peft lookahead dls min-min max-min sufferage mct eft olb etf met fastest-node random \
                    round-robin least-connection";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn an_unknown_name_gets_one_line_with_the_nearest_and_all() {
    for (wrong, near) in
        [("heftt", "heft"), ("MIN_MIN", "min-min"), ("minmin", "min-min"), ("roundrobin", "round-robin")]
    {
        let message = find(wrong).unwrap_err().to_string();
        assert!(message.contains(&format!("'{wrong}'; did you mean '{near}'?")), "{message}");
        assert!(message.ends_with("round-robin, least-connection") && !message.contains('\n'), "{message}");
    }
    let message = find("something\nelse").unwrap_err().to_string();
    assert!(message.starts_with("unknown policy 'something\\nelse'; the policies are heft, "), "{message}");
}
