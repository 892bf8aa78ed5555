//! The learned policy beside what it has to beat, and where it could go wrong.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::random::random_instance;
use mdts_core::sim::{Conditions, simulate};
use mdts_core::{Cluster, Instance, Link, Network, Node, NodeId, Planner, Progress, Rng, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task, generate};
use mdts_policies::mdts::{Mdts, MdtsRaw, Weights};
use mdts_policies::{find, learn};
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
