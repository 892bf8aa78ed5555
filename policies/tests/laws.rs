//! Laws of every policy on random graphs and clusters.

mod common;

use common::plan;
use std::sync::Arc;

use common::random::{models, random_instance};
use mdts_core::sim::{Conditions, Failures, simulate};
use mdts_core::{
    Cluster, Error, Instance, Link, Network, Node, NodeId, Placement, Progress, Rng, Schedule, SlotModel,
    lower_bounds,
};
use mdts_dag::{DataModel, JobGraph, Task};
use mdts_policies::{PolicyInfo, Role, find, policies};
use proptest::prelude::*;
use rand::SeedableRng;

/// What searches takes a thousand times as long as the others: it takes part in few cases, and has laws of its own.
fn policies_of(seed: u64) -> impl Iterator<Item = &'static PolicyInfo> {
    policies().iter().filter(move |p| !["search", "mdts"].contains(&p.name) || seed.is_multiple_of(30))
}

fn planners() -> impl Iterator<Item = &'static PolicyInfo> {
    policies().iter().filter(|p| p.role != Role::Placer)
}

/// What has happened of a plan at `now` if everything went as planned.
fn progress_at(schedule: &Schedule, now: f64, lost: Vec<NodeId>) -> Progress {
    let started = schedule.placements().iter().filter(|p| p.start < now);
    // What runs on a lost node has to run again.
    let kept = started.filter(|p| p.finish <= now || !lost.contains(&p.node));
    Progress { now, started: kept.copied().collect(), lost, ..Progress::default() }
}

fn check_rest(instance: &Instance, progress: &Progress, plan: &Schedule) -> Result<(), TestCaseError> {
    plan.verify(instance).map_err(|v| TestCaseError::fail(v.to_string()))?;
    let started = |p: &&Placement| progress.started.iter().any(|s| s.task == p.task);
    for p in &progress.started {
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
        for policy in policies_of(seed) {
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

    #[test]
    fn jobs_come_to_their_end_though_nodes_fail((slots, data) in models(), seed: u64) {
        let instance = Arc::new(random_instance(seed, slots, data));
        let mean = plan("heft", &instance).makespan().max(1.0) / 2.0;
        let failures = Some(Failures { mean_between: mean, repair: mean / 2.0, most: 2 });
        let conditions = Conditions { seed, noise: 0.3, failures, ..Conditions::default() };
        for policy in policies_of(seed) {
            let arrivals = vec![(0.0, instance.clone()), (mean, instance.clone())];
            // A decision for a lost node, or for one that cannot run the task, is an error.
            let trace = simulate(&arrivals, policy.placer(seed), &conditions);
            let trace = trace.map_err(|e| TestCaseError::fail(format!("{}: {e}", policy.name)))?;
            for job in &trace.jobs {
                prop_assert_eq!(job.schedule().placements().len(), instance.tasks(), "{}", policy.name);
            }
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
                    round-robin least-connection search mdts mdts-raw";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn an_unknown_name_gets_one_line_with_the_nearest_and_all() {
    for (wrong, near) in
        [("heftt", "heft"), ("MIN_MIN", "min-min"), ("minmin", "min-min"), ("roundrobin", "round-robin")]
    {
        let message = find(wrong).unwrap_err().to_string();
        assert!(message.contains(&format!("'{wrong}'; did you mean '{near}'?")), "{message}");
        assert!(
            message.ends_with("least-connection, search, mdts, mdts-raw") && !message.contains('\n'),
            "{message}"
        );
    }
    let message = find("something\nelse").unwrap_err().to_string();
    assert!(message.starts_with("unknown policy 'something\\nelse'; the policies are heft, "), "{message}");
}
