//! The learned policy beside what it has to beat, and where it could go wrong.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::random::random_instance;
use mdts_core::sim::{Conditions, simulate};
use mdts_core::{Cluster, Instance, Link, Network, Node, NodeId, Placer, Planner, Progress, Rng, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task, generate};
use mdts_policies::mdts::{Mdts, MdtsRaw, Weights};
use mdts_policies::{find, learn};
use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{Rng as _, SeedableRng};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const SHIPPED: &[u8] = include_bytes!("../src/mdts/weights.safetensors");

fn raw() -> MdtsRaw {
    MdtsRaw::new(Weights::shipped().unwrap())
}

/// Nodes of speeds over a factor of 4.
fn cluster(count: usize, rng: &mut Rng) -> Cluster {
    let speed = |rng: &mut Rng| 2.0_f64.powf(rng.random_range(-1.0..1.0));
    let nodes = (0..count).map(|i| Node::new(format!("n{i}")).speed(speed(rng))).collect();
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 1e8 });
    Cluster::new(nodes, network, SlotModel::Exclusive).unwrap()
}

fn instance(graph: &str, nodes: usize, seed: u64) -> Arc<Instance> {
    let mut rng = Rng::seed_from_u64(seed);
    let job = generate::from_text(graph, &mut rng).unwrap();
    let cluster = cluster(nodes, &mut rng);
    Arc::new(Instance::new(job.freeze().into(), cluster.into(), DataModel::Edges).unwrap())
}

#[test]
fn the_shipped_weights_are_small_and_tell_their_training() -> Outcome {
    assert!(SHIPPED.len() < 2_000_000, "{} bytes", SHIPPED.len());
    let weights = Weights::shipped()?;
    let training = weights.training();
    assert!(training.round > 0 && training.curve.iter().any(|report| report.round == training.round));
    Ok(())
}

/// The families of workflows on which the result is judged; training sees none of them.
const HELD_OUT: [&str; 15] = [
    "1000genome",
    "blast",
    "bwa",
    "cycles",
    "epigenomics",
    "fetchngs",
    "helloworld",
    "methylseq",
    "montage",
    "rnaseq",
    "scrnaseq",
    "seismology",
    "soykb",
    "srasearch",
    "viralrecon",
];

#[test]
fn no_family_that_judges_was_learnt_from() -> Outcome {
    let weights = Weights::shipped()?;
    for name in weights.training().graphs.iter().map(|name| name.to_lowercase()) {
        assert!(!HELD_OUT.iter().any(|family| name.contains(family)), "{name}");
    }
    let Some(folder) = common::data("wfinstances", "no_family_that_judges_was_learnt_from") else {
        return Ok(());
    };
    for name in names_below(&folder)? {
        assert!(HELD_OUT.iter().any(|family| name.starts_with(family)), "{name} is of no family held out");
    }
    Ok(())
}

fn names_below(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            names.extend(names_below(&entry.path())?);
        } else if name.contains(".json") {
            names.push(name);
        }
    }
    Ok(names)
}

#[test]
fn weights_that_cannot_be_right_are_refused() {
    let cut = Weights::from_bytes(&SHIPPED[..SHIPPED.len() / 2]).unwrap_err();
    assert!(matches!(cut, learn::Error::Malformed(_)), "{cut}");
    let mut bytes = SHIPPED.to_vec();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let nan = Weights::from_bytes(&bytes).unwrap_err();
    assert!(matches!(nan, learn::Error::NotFinite { .. }), "{nan}");
}

#[test]
fn the_guarded_plan_is_never_longer_than_a_list_policys() -> Outcome {
    for seed in 0..12 {
        for slots in [SlotModel::Exclusive, SlotModel::Resources] {
            let instance = random_instance(seed, slots, DataModel::Edges);
            let guarded = Mdts::new(Weights::shipped()?).plan(&instance, &mut Rng::seed_from_u64(1))?;
            guarded.verify(&instance)?;
            for name in ["heft", "peft", "cpop"] {
                let other = find(name)?.planner().plan(&instance, &mut Rng::seed_from_u64(1))?.makespan();
                assert!(guarded.makespan() <= other * (1.0 + 1e-9), "{name}, seed {seed}");
            }
        }
    }
    Ok(())
}

/// Noise 0.3 and hidden affinity 0.5, jobs and clusters of other seeds than those of training.
#[test]
fn runs_are_a_tenth_shorter_than_those_of_online_rules() -> Outcome {
    let (mut to_eft, mut to_least, mut count) = (0.0, 0.0, 0.0);
    for seed in 1000..1030 {
        let instance = instance("layered:tasks=80,ccr=0.3", 10, seed);
        let arrivals = vec![(0.0, instance)];
        let conditions = Conditions { seed, noise: 0.3, affinity: 0.5, ..Conditions::default() };
        let own = simulate(&arrivals, raw().placer(), &conditions)?.makespan();
        let run = |name: &str| -> Result<f64, Box<dyn std::error::Error>> {
            Ok(simulate(&arrivals, find(name)?.placer(seed), &conditions)?.makespan())
        };
        to_eft += (own / run("eft")?).ln();
        to_least += (own / run("least-connection")?).ln();
        count += 1.0;
    }
    let (to_eft, to_least) = ((to_eft / count).exp(), (to_least / count).exp());
    assert!(to_eft < 0.9, "{to_eft} of online EFT");
    assert!(to_least < 0.9, "{to_least} of least-connection");
    Ok(())
}

#[test]
fn a_second_run_knows_the_nodes() -> Outcome {
    let (mut gain, mut count) = (0.0, 0.0);
    for seed in 1000..1020 {
        let arrivals = vec![(0.0, instance("layered:tasks=80,ccr=0.3", 10, seed))];
        let conditions = Conditions { seed, affinity: 0.7, ..Conditions::default() };
        let mut first = raw().placer();
        let before = simulate(&arrivals, &mut first, &conditions)?.makespan();
        let second = raw().placer_with(first.experience().clone());
        gain += (simulate(&arrivals, second, &conditions)?.makespan() / before).ln();
        count += 1.0;
    }
    let gain = (gain / count).exp();
    assert!(gain < 0.97, "the second run takes {gain} of the first");
    Ok(())
}

/// Node and, in order, start of every task of a run.
fn run(
    instance: &Arc<Instance>,
    at: f64,
    placer: impl Placer,
    conditions: &Conditions,
) -> Vec<(NodeId, f64)> {
    let trace = simulate(&vec![(at, instance.clone())], placer, conditions).unwrap();
    let mut attempts = trace.jobs[0].attempts.clone();
    attempts.sort_by_key(|attempt| attempt.task);
    attempts.iter().map(|attempt| (attempt.node, attempt.start - at)).collect()
}

/// All nodes slower by the same factor.
fn slower(factor: f64, nodes: usize, conditions: &Conditions) -> Conditions {
    Conditions { slowdowns: (0..nodes).map(|n| (NodeId::new(n), factor)).collect(), ..conditions.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Where no data travels, whose times would not change.
    #[test]
    fn a_uniform_slowdown_of_all_nodes_changes_no_placement(
        seed in 0_u64..10_000,
        factor in prop_oneof![0.01_f64..0.9, 1.1_f64..100.0],
        noise in prop_oneof![Just(0.0), Just(0.3)],
        affinity in prop_oneof![Just(0.0), Just(0.5)],
        nodes in 2_usize..12,
    ) {
        let shape = ["layered:tasks=60", "fork-join:width=20", "cholesky:tiles=5"][seed as usize % 3];
        let instance = instance(&format!("{shape},ccr=0"), nodes, seed);
        let conditions = Conditions { seed, noise, affinity, ..Conditions::default() };
        let as_stated = run(&instance, 0.0, raw().placer(), &conditions);
        let other = run(&instance, 0.0, raw().placer(), &slower(factor, nodes, &conditions));
        for (task, (a, b)) in as_stated.iter().zip(&other).enumerate() {
            prop_assert_eq!(a.0, b.0, "task {} at {} and {}", task, a.1, b.1);
            prop_assert!((a.1 * factor - b.1).abs() <= 1e-6 * b.1, "task {}: {} {}", task, a.1, b.1);
        }
    }
}

/// Tasks that take a twentieth of what is stated: the node that ran the first is no better than the others.
#[test]
fn nodes_that_have_run_nothing_yet_are_not_avoided() -> Outcome {
    let mut job = JobGraph::builder("root and children");
    let root = job.task(Task::new("root").kind("work").seconds(1.0))?;
    for i in 0..4 {
        let child = job.task(Task::new(format!("child{i}")).kind("work").seconds(1.0))?;
        job.depend(child, root, 0.0);
    }
    let cluster = Cluster::identical(4, SlotModel::Exclusive)?;
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?);
    for factor in [0.05, 20.0] {
        let conditions = slower(factor, 4, &Conditions::default());
        for placer in [raw().placer(), raw().placer().with_scale(factor), raw().placer().with_scale(f64::NAN)]
        {
            let begun = run(&instance, 0.0, placer, &conditions);
            let mut nodes: Vec<NodeId> = begun[1..].iter().map(|task| task.0).collect();
            nodes.sort_unstable();
            nodes.dedup();
            assert_eq!(nodes.len(), 4, "{factor}: {begun:?}");
            assert!(begun[1..].iter().all(|task| task.1 == begun[1].1), "{factor}: {begun:?}");
        }
    }
    Ok(())
}

/// Clocks that begin at 0 and at the end of 2001, with tasks of less than a second.
#[test]
fn it_does_not_matter_when_a_run_begins() -> Outcome {
    for seed in 0..6 {
        for graph in ["independent:tasks=200", "fork-join:width=60,ccr=0.1"] {
            let whole = instance(&format!("{graph},mean_seconds=0.5"), 8, seed);
            let conditions = Conditions { seed, noise: 0.3, affinity: 0.5, ..Conditions::default() };
            let end = |at: f64| {
                let trace = simulate(&vec![(at, whole.clone())], raw().placer(), &conditions);
                trace.map(|trace| trace.makespan() - at)
            };
            let (early, late) = (end(0.0)?, end(1e9)?);
            assert!((late / early - 1.0).abs() < 0.02, "{graph}, {seed}: {early} s at 0, {late} s at 1e9");
        }
    }
    Ok(())
}

/// The same job with its tasks in this order.
fn reordered(job: &JobGraph, order: &[usize]) -> JobGraph {
    let mut other = JobGraph::builder(job.name());
    let tasks: Vec<&Task> = job.tasks().collect();
    let mut ids = vec![None; tasks.len()];
    for &i in order {
        ids[i] = other.task(tasks[i].clone()).ok();
    }
    for (parent, child, data) in job.dependencies() {
        other.depend(ids[child.index()].unwrap(), ids[parent.index()].unwrap(), data.direct);
    }
    other.build().unwrap()
}

/// Names of tasks with the names of their nodes, sorted.
fn named(instance: &Instance, nodes: impl Iterator<Item = NodeId>) -> Vec<(String, String)> {
    let graph = instance.graph();
    let name = |node: NodeId| instance.cluster().node(node).name.clone();
    let mut all: Vec<_> =
        graph.tasks().zip(nodes).map(|(task, node)| (graph.task_name(task).to_owned(), name(node))).collect();
    all.sort();
    all
}

#[test]
fn the_order_of_tasks_and_nodes_changes_no_placement() -> Outcome {
    for seed in 0..12 {
        let slots = [SlotModel::Exclusive, SlotModel::Resources][seed as usize % 2];
        let mut rng = Rng::seed_from_u64(seed);
        let mut job = generate::from_text("layered:tasks=70,ccr=0.5", &mut rng)?;
        let mut graph = job.petgraph().clone();
        for task in graph.node_weights_mut() {
            *task = task.clone().cores(f64::from(rng.random_range(1..4)));
        }
        job = JobGraph::from_petgraph("job", graph)?;
        let nodes: Vec<Node> = (0..7)
            .map(|i| Node::new(format!("n{i}")).speed(rng.random_range(0.5..2.0)).cores(f64::from(3 + i % 3)))
            .collect();
        let placements = |job: &JobGraph, nodes: Vec<Node>| -> Result<_, Box<dyn std::error::Error>> {
            let cluster =
                Cluster::new(nodes, Network::uniform(Link { latency: 0.0, bandwidth: 1e8 }), slots)?;
            let instance = Arc::new(Instance::new(job.freeze().into(), cluster.into(), DataModel::Edges)?);
            let plan = raw().plan(&instance, &mut Rng::seed_from_u64(1))?;
            let run = run(&instance, 0.0, raw().placer(), &Conditions::default());
            Ok([
                named(&instance, plan.placements().iter().map(|p| p.node)),
                named(&instance, run.iter().map(|task| task.0)),
            ])
        };
        let as_given = placements(&job, nodes.clone())?;
        let mut order: Vec<usize> = (0..job.len()).collect();
        order.shuffle(&mut rng);
        let mut turned = nodes;
        turned.shuffle(&mut rng);
        let other = placements(&reordered(&job, &order), turned)?;
        assert_eq!(as_given, other, "seed {seed}");
    }
    Ok(())
}

#[test]
fn far_more_nodes_than_in_training() -> Outcome {
    let instance = instance("layered:tasks=20", 1000, 1);
    raw().plan(&instance, &mut Rng::seed_from_u64(1))?.verify(&instance)?;
    let trace = simulate(&vec![(0.0, instance.clone())], raw().placer(), &Conditions::default())?;
    trace.jobs[0].schedule().verify(&instance)?;
    Ok(())
}

#[test]
fn tasks_that_take_no_time() -> Outcome {
    let mut job = JobGraph::builder("zeros");
    let ids: Vec<_> =
        (0..12).map(|i| job.task(Task::new(format!("t{i}")).seconds(0.0))).collect::<Result<_, _>>()?;
    for (child, parent) in [(3, 0), (4, 0), (5, 3), (6, 4), (7, 6)] {
        job.depend(ids[child], ids[parent], 0.0);
    }
    let cluster = cluster(3, &mut Rng::seed_from_u64(1));
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?);
    assert_eq!(raw().plan(&instance, &mut Rng::seed_from_u64(1))?.makespan(), 0.0);
    let trace = simulate(&vec![(0.0, instance.clone())], raw().placer(), &Conditions::default())?;
    assert_eq!(trace.makespan(), 0.0);
    // A stream of them, two at the same time, under conditions that change run times.
    let arrivals = [0.0, 0.0, 1.0].map(|at| (at, instance.clone())).to_vec();
    let conditions = Conditions { seed: 1, noise: 0.5, affinity: 0.7, ..Conditions::default() };
    let trace = simulate(&arrivals, raw().placer(), &conditions)?;
    assert_eq!(trace.makespan(), 1.0);
    for job in &trace.jobs {
        assert_eq!(job.schedule().placements().len(), 12);
    }
    Ok(())
}

#[test]
fn a_task_that_fits_nowhere() -> Outcome {
    let mut job = JobGraph::builder("stranded");
    job.task(Task::new("only").times([("m1", 1.0)]))?;
    let graph: Arc<_> = job.build()?.freeze().into();
    let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
    // No node of that name: it is not even an instance.
    let other: Arc<_> = Cluster::new(
        vec![Node::new("other")],
        Network::uniform(Link { latency: 0.0, bandwidth: 1e8 }),
        SlotModel::Exclusive,
    )?
    .into();
    let error = Instance::new(graph.clone(), other, DataModel::Edges).unwrap_err();
    assert!(error.to_string().contains("'only'"), "{error}");
    // Its node is lost.
    let progress = Progress { lost: vec![NodeId::new(1)], ..Progress::default() };
    let instance = Instance::new(graph, cluster.into(), DataModel::Edges)?.with_progress(progress);
    for planner in [&raw() as &dyn Planner, &Mdts::new(Weights::shipped()?)] {
        let error = planner.plan(&instance, &mut Rng::seed_from_u64(1)).unwrap_err();
        assert!(error.to_string().contains("task 'only' fits no node"), "{error}");
    }
    Ok(())
}
