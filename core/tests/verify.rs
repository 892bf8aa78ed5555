//! The verifier refuses every kind of wrong schedule, and bounds and objectives have their known values.

use std::sync::Arc;

use mdts_core::{
    Cluster, Error, Instance, Link, Network, Node, Placement, Result, Schedule, SlotModel, Violation,
    lower_bounds, objectives, remaining_paths,
};
use mdts_dag::{DataModel, JobGraph, Task};

/// a (2 s) -- 10 bytes --> b (2 s); c (2 s, 2 cores) alone. Two nodes, the second twice as fast, 10 bytes/s.
fn instance(slots: SlotModel) -> Result<Instance> {
    let mut job = JobGraph::builder("three");
    let a = job.task(Task::new("a").seconds(2.0))?;
    let b = job.task(Task::new("b").seconds(2.0))?;
    job.task(Task::new("c").seconds(2.0).cores(2.0))?;
    job.depend(b, a, 10.0);
    let mut slow = Node::new("slow").cores(2.0);
    slow.price = 3600.0;
    slow.power = vec![10.0, 100.0];
    let nodes = vec![slow, Node::new("fast").speed(2.0).cores(2.0)];
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 10.0 });
    let cluster = Cluster::new(nodes, network, slots)?;
    Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)
}

fn at(task: u32, node: u32, start: f64, finish: f64) -> Placement {
    Placement { task: task.into(), node: node.into(), start, finish }
}

/// A way to break a right schedule, and what must be said of it.
type Check = (fn(&mut Vec<Placement>), fn(&Violation) -> bool);

#[test]
fn each_rule_has_its_violation() -> Result<()> {
    let instance = instance(SlotModel::Exclusive)?;
    let right = [at(0, 0, 0.0, 2.0), at(1, 1, 3.0, 4.0), at(2, 1, 0.0, 1.0)];
    Schedule::new(right.to_vec()).verify(&instance)?;
    let broken = |change: fn(&mut Vec<Placement>)| {
        let mut placements = right.to_vec();
        change(&mut placements);
        Schedule::new(placements).verify(&instance).err()
    };
    let cases: [Check; 12] = [
        (|p| p.truncate(2), |v| matches!(v, Violation::Count { times: 0, .. })),
        (|p| p.push(p[0]), |v| matches!(v, Violation::Count { times: 2, .. })),
        (|p| p.push(at(7, 0, 9.0, 9.0)), |v| matches!(v, Violation::Count { .. })),
        (|p| p[0].node = 5.into(), |v| matches!(v, Violation::UnknownNode { node: 5, .. })),
        (|p| p[0].finish = 1.0, |v| matches!(v, Violation::Duration { .. })),
        (|p| p[0].finish = f64::NAN, |v| matches!(v, Violation::Duration { .. })),
        (|p| p[0].start = f64::NAN, |v| matches!(v, Violation::Duration { .. })),
        (|p| p[2] = at(2, 1, -1.0, 0.0), |v| matches!(v, Violation::Duration { .. })),
        (|p| p[1] = at(1, 1, 2.5, 3.5), |v| matches!(v, Violation::Precedence { arrival: 3.0, .. })),
        (|p| p[1] = at(1, 0, 1.5, 3.5), |v| matches!(v, Violation::Precedence { arrival: 2.0, .. })),
        (|p| p[2] = at(2, 1, 3.5, 4.5), |v| matches!(v, Violation::Overload { .. })),
        (|p| p[2] = at(2, 0, 1.0, 3.0), |v| matches!(v, Violation::Overload { .. })),
    ];
    for (i, (change, expected)) in cases.into_iter().enumerate() {
        let violation = broken(change);
        assert!(violation.as_ref().is_some_and(expected), "case {i}: {violation:?}");
    }
    Ok(())
}

#[test]
fn shared_nodes_are_checked_at_every_instant() -> Result<()> {
    let instance = instance(SlotModel::Resources)?;
    // b (1 core) follows a (1 core) on one node; c (2 cores) fits only where neither runs.
    let schedule = |c: f64| Schedule::new(vec![at(0, 0, 0.0, 2.0), at(1, 0, 2.0, 4.0), at(2, 0, c, c + 2.0)]);
    schedule(4.0).verify(&instance)?;
    for start in [0.0, 1.0, 2.0, 3.999] {
        let violation = schedule(start).verify(&instance);
        assert!(matches!(violation, Err(Violation::Overload { .. })), "{start}: {violation:?}");
    }
    Ok(())
}

#[test]
fn objectives_have_their_defined_values() -> Result<()> {
    let instance = instance(SlotModel::Exclusive)?;
    let schedule = Schedule::new(vec![at(0, 0, 0.0, 2.0), at(1, 1, 3.0, 4.0), at(2, 1, 0.0, 1.0)]);
    let o = objectives(&instance, &schedule);
    assert_eq!(o.makespan, 4.0);
    assert_eq!(o.slr, 4.0 / 2.0, "a and b on the fast node: 1 s each");
    assert_eq!(o.imbalance, 0.0, "both nodes are busy for 2 s");
    assert_eq!(o.cost, 2.0, "2 s at 3600 an hour");
    assert_eq!(o.energy, 2.0 * 100.0 + 2.0 * 10.0, "busy, then idle; the other node's power is unknown");
    assert_eq!(o.moved_bytes, 10.0);
    Ok(())
}

#[test]
fn bounds_by_hand() -> Result<()> {
    let b = lower_bounds(&instance(SlotModel::Exclusive)?);
    assert_eq!((b.critical_path, b.work), (2.0, 6.0 / 3.0));
    // Three tasks of 1 s, all behind one of 5 s, on two identical nodes: 5 + 3/2.
    let mut job = JobGraph::builder("fan");
    let head = job.task(Task::new("head").seconds(5.0))?;
    for i in 0..3 {
        let task = job.task(Task::new(format!("t{i}")).seconds(1.0))?;
        job.depend(task, head, 0.0);
    }
    let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
    let fan = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
    assert_eq!(lower_bounds(&fan).interval, 6.5);
    Ok(())
}

/// Four tasks of 1 s between a first and a last one of 1 s each, beside one of 4 s, on two identical nodes: of the long one
/// at least 3 s lie between, so 1 + (4 + 3)/2 + 1.
#[test]
fn energy_by_hand() -> Result<()> {
    let mut job = JobGraph::builder("fork-join and more");
    let first = job.task(Task::new("first").seconds(1.0))?;
    let last = job.task(Task::new("last").seconds(1.0))?;
    for i in 0..4 {
        let task = job.task(Task::new(format!("t{i}")).seconds(1.0))?;
        job.depend(task, first, 0.0);
        job.depend(last, task, 0.0);
    }
    job.task(Task::new("long").seconds(4.0))?;
    let graph = Arc::new(job.build()?.freeze());
    for slots in [SlotModel::Exclusive, SlotModel::Resources] {
        let cluster = Cluster::identical(2, slots)?;
        let bounds = lower_bounds(&Instance::new(graph.clone(), cluster.into(), DataModel::Edges)?);
        assert_eq!((bounds.critical_path, bounds.work, bounds.interval), (4.0, 5.0, 5.0));
        assert_eq!((bounds.energy, bounds.best()), (5.5, 5.5));
    }
    Ok(())
}

#[test]
fn a_path_with_transfers_by_hand() -> Result<()> {
    // a takes 1 s on m0 and 4 s on m1, b 5 s and 1 s; 2 s of data between them: 1 + 2 + 1, 1 + 5 or 4 + 1.
    let mut job = JobGraph::builder("two");
    let times = |a: f64, b: f64| [("m0".to_owned(), a), ("m1".to_owned(), b)];
    let a = job.task(Task::new("a").times(times(1.0, 4.0)))?;
    let b = job.task(Task::new("b").times(times(5.0, 1.0)))?;
    job.depend(b, a, 20.0);
    let nodes = vec![Node::new("m0"), Node::new("m1")];
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 10.0 });
    let cluster = Cluster::new(nodes, network, SlotModel::Exclusive)?;
    let two = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
    assert_eq!(remaining_paths(&two), [3.0, 1.0, 0.0, 0.0]);
    let bounds = lower_bounds(&two);
    assert_eq!((bounds.critical_path, bounds.transfer_path), (2.0, 4.0));
    Ok(())
}

#[test]
fn tasks_that_fit_nowhere_are_refused_with_the_reason() -> Result<()> {
    let cluster = Arc::new(Cluster::from_text(
        "slots = 'resources'\n[[node]]\nname = 'm'\ncount = 2\ncores = 4\nmemory = '1GB'\nresources = {lic = 1}",
        "toml",
    )?);
    let cases: [(Task, &str); 6] = [
        (Task::new("t").cores(8.0), "needs 8 cores, the largest node has 4 cores"),
        (
            Task::new("t").memory(2_000_000_000),
            "needs 2000000000 bytes of memory, the largest node has 1000000000",
        ),
        (Task::new("t").gpus(1.0), "needs 1 gpus, the largest node has 0"),
        (
            Task::new("t").with_demand(|d| d.other.extend([("lic".into(), 2.0)])),
            "needs 2 lic, the largest node has 1",
        ),
        (
            Task::new("t").with_demand(|d| d.other.extend([("tape".into(), 1.0)])),
            "no node has the resource 'tape'",
        ),
        (Task::new("t").times([("other", 1.0)]), "a time is given for node 'other'"),
    ];
    for (task, reason) in cases {
        let mut job = JobGraph::builder("one");
        job.task(task)?;
        let error = Instance::new(job.build()?.freeze().into(), cluster.clone(), DataModel::Edges);
        let message = error.err().map(|e: Error| e.to_string()).unwrap_or_default();
        assert!(message.contains(reason) && message.contains("'t'"), "{message}");
    }
    Ok(())
}

#[test]
fn unknown_work_counts_as_the_mean_of_its_kind() -> Result<()> {
    let mut job = JobGraph::builder("unknown");
    job.task(Task::new("a1").seconds(2.0))?;
    job.task(Task::new("a2").seconds(4.0))?;
    let a3 = job.task(Task::new("a3"))?;
    let b1 = job.task(Task::new("b1"))?;
    let cluster = Cluster::identical(1, SlotModel::Exclusive)?;
    let instance = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
    assert_eq!((instance.exec(a3, 0.into()), instance.exec(b1, 0.into())), (3.0, 3.0));
    Ok(())
}

#[test]
fn kinds_share_a_class_when_all_nodes_run_them_at_the_same_speed() -> Result<()> {
    let mut job = JobGraph::builder("kinds");
    let kinds = ["plain", "named", "other", "like-plain", "like-named"];
    let tasks = kinds.map(|kind| job.task(Task::new(kind).kind(kind).seconds(6.0)));
    let mut fast = Node::new("fast").speed(2.0);
    fast.speeds =
        [("named", 3.0), ("like-named", 3.0), ("like-plain", 2.0)].map(|(k, s)| (k.into(), s)).into();
    let nodes = vec![Node::new("slow"), fast];
    let cluster = Cluster::new(nodes, Network::uniform(Link::INSTANT), SlotModel::Exclusive)?;
    let instance = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
    let mut classes = Vec::new();
    for (task, on_fast) in tasks.into_iter().zip([3.0, 2.0, 3.0, 3.0, 2.0]) {
        let task = task?;
        assert_eq!([0, 1].map(|node: u32| instance.exec(task, node.into())), [6.0, on_fast]);
        classes.push(instance.speed_class(task));
    }
    assert_eq!(classes, [0, 1, 0, 0, 1].map(Some));
    Ok(())
}

/// Four million times by name.
#[test]
fn wide_instances_have_their_times_per_node() -> Result<()> {
    let (tasks, nodes) = (1000, 4000);
    let cluster = Arc::new(Cluster::identical(nodes, SlotModel::Exclusive)?);
    let names: Vec<&str> = cluster.nodes().iter().map(|node| node.name.as_str()).collect();
    let mut job = JobGraph::builder("wide");
    for i in 0..tasks {
        job.task(Task::new(format!("t{i}")).times(names.iter().map(|name| (*name, 1.0))))?;
    }
    let graph = Arc::new(job.build()?.freeze());
    let instance = Instance::new(graph, cluster.clone(), DataModel::Edges)?;
    assert_eq!(instance.exec((tasks as u32 - 1).into(), (nodes as u32 - 1).into()), 1.0);
    Ok(())
}

#[test]
fn huge_capacities_do_not_overflow_the_bounds() -> Result<()> {
    let text = "slots = 'resources'\n[[node]]\nname = 'm'\ncount = 40\nmemory = 1e18";
    let cluster = Cluster::from_text(text, "toml")?;
    let mut job = JobGraph::builder("one");
    job.task(Task::new("t").seconds(2.0).memory(1_000_000))?;
    let instance = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
    assert_eq!(lower_bounds(&instance).best(), 2.0);
    Ok(())
}
