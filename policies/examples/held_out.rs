//! Held-out workflows on random clusters: `mdts-raw` and `mdts` beside HEFT in plans, and beside online policies in runs
//! with noise and hidden affinity.
//!
//! `cargo run --release -p mdts-policies --example held_out -- [plans|runs] CLUSTERS FILE...`; WEIGHTS in the environment
//! names other weights than those of the crate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mdts_core::sim::{Conditions, simulate};
use mdts_core::{Cluster, Instance, Link, Network, Node, Placer, Planner, Rng, SlotModel, lower_bounds};
use mdts_dag::{DataModel, FlatGraph, format};
use mdts_policies::mdts::{Mdts, MdtsRaw, Weights};
use mdts_policies::search::{Budget, Control, Found, Search, Start};
use rand::{Rng as _, SeedableRng};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// 4 to 64 nodes, speeds over a factor of 8, 10 MB/s to 1 GB/s; every second cluster in racks with slower links between.
fn cluster(seed: u64) -> Result<Cluster> {
    let mut rng = Rng::seed_from_u64(seed);
    let count = 2.0_f64.powf(rng.random_range(2.0..6.01)) as usize;
    let speed = |rng: &mut Rng| 2.0_f64.powf(rng.random_range(-1.5..1.5));
    let nodes = (0..count).map(|i| Node::new(format!("n{i}")).speed(speed(&mut rng))).collect();
    let bandwidth = 10.0_f64.powf(rng.random_range(7.0..9.0));
    let link = |share: f64| Link { latency: 0.0, bandwidth: bandwidth * share };
    let network = if seed.is_multiple_of(2) {
        Network::uniform(link(1.0))
    } else {
        let racks = rng.random_range(2..=4);
        let rack_of = (0..count).map(|_| rng.random_range(0..racks)).collect();
        let mut network = Network::builder(link(1.0), rack_of);
        network.between_all_racks(racks, || link(10.0_f64.powf(rng.random_range(-1.5..-0.3))));
        network.build()
    };
    Ok(Cluster::new(nodes, network, SlotModel::Exclusive)?)
}

/// Logarithms of ratios, by name.
#[derive(Debug, Default)]
struct Means(Vec<(&'static str, f64, f64)>);

impl Means {
    fn add(&mut self, name: &'static str, ratio: f64) {
        match self.0.iter_mut().find(|m| m.0 == name) {
            Some(m) => (m.1, m.2) = (m.1 + ratio.ln(), m.2 + 1.0),
            None => self.0.push((name, ratio.ln(), 1.0)),
        }
    }

    fn print(&self, title: &str) {
        let all = self.0.iter().map(|(name, sum, count)| format!("{name} {:.4}", (sum / count).exp()));
        if !self.0.is_empty() {
            println!("{title:45} {}", all.collect::<Vec<_>>().join("  "));
        }
    }
}

struct Policies {
    raw: MdtsRaw,
    mdts: Mdts,
}

/// The makespan of the guarded plan before any search: the shortest of the network's and the list policies'.
fn without_search(policies: &Policies, instance: &Instance, seed: u64) -> Result<f64> {
    let start = Start { policy: "mdts-raw", planner: &policies.raw };
    let (stop, mut makespans) = (AtomicBool::new(false), Vec::new());
    let mut observe = |found: &Found| {
        makespans.push(found.schedule.makespan());
        // First the network's plan is told of, then the best of all.
        stop.store(makespans.len() > 1, Ordering::Relaxed);
    };
    let control = Control { stop: &stop, clock: &|| Duration::ZERO, observe: &mut observe };
    let search = Search::new(Budget::Iterations(1));
    search.improve_from(start, instance, &mut Rng::seed_from_u64(seed), control)?;
    Ok(makespans[1])
}

/// Known costs; ratios to HEFT.
fn plans(
    policies: &Policies,
    instance: &Arc<Instance>,
    seed: u64,
    all: &mut Means,
    gap: &mut Means,
) -> Result<()> {
    let plan = |planner: &dyn Planner| -> Result<f64> {
        let schedule = planner.plan(instance, &mut Rng::seed_from_u64(seed))?;
        schedule.verify(instance)?;
        Ok(schedule.makespan())
    };
    let heft = plan(&*mdts_policies::find("heft")?.planner())?;
    let wide = heft > 1.05 * lower_bounds(instance).best();
    let mut add = |name, makespan: f64| {
        all.add(name, makespan / heft);
        if wide {
            gap.add(name, makespan / heft);
        }
    };
    for name in ["peft", "lookahead", "search"] {
        add(name, plan(&*mdts_policies::find(name)?.planner())?);
    }
    add("mdts-raw", plan(&policies.raw)?);
    add("mdts without search", without_search(policies, instance, seed)?);
    let guarded = plan(&policies.mdts)?;
    assert!(guarded <= heft * (1.0 + 1e-9), "mdts {guarded} is longer than heft {heft}");
    add("mdts", guarded);
    Ok(())
}

/// Noise 0.3 and hidden affinity 0.5; ratios to online EFT.
fn runs(policies: &Policies, instance: &Arc<Instance>, seed: u64, means: &mut Means) -> Result<()> {
    let conditions = Conditions { seed, noise: 0.3, affinity: 0.5, ..Conditions::default() };
    let arrivals = vec![(0.0, instance.clone())];
    let run =
        |placer: &mut dyn Placer| -> Result<f64> { Ok(simulate(&arrivals, placer, &conditions)?.makespan()) };
    let eft = run(&mut *mdts_policies::find("eft")?.placer(seed))?;
    for name in ["least-connection", "heft"] {
        means.add(name, run(&mut *mdts_policies::find(name)?.placer(seed))? / eft);
    }
    means.add("mdts-raw", run(&mut policies.raw.placer())? / eft);
    // The same workflow again, on the same nodes but with noise of its own: that depends on the number of the job, too.
    let far = 10.0 * eft; // long after the first one
    let apart = vec![(0.0, instance.clone()), (far, instance.clone())];
    let second = |placer: &mut dyn Placer| -> Result<f64> {
        Ok(simulate(&apart, placer, &conditions)?.makespan() - far)
    };
    let eft = second(&mut *mdts_policies::find("eft")?.placer(seed))?;
    means.add("mdts-raw, second run", second(&mut policies.raw.placer())? / eft);
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).peekable();
    let only = args.next_if(|arg| arg == "plans" || arg == "runs");
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    let clusters: u64 = args.next().ok_or("usage: held_out [plans|runs] CLUSTERS FILE...")?.parse()?;
    let weights = match std::env::var_os("WEIGHTS") {
        Some(path) => Weights::read(Path::new(&path))?,
        None => Weights::shipped()?,
    };
    let policies = Policies { raw: MdtsRaw::new(weights.clone()), mdts: Mdts::new(weights) };
    let (mut all, mut gap, mut noisy) = (Means::default(), Means::default(), Means::default());
    for path in args {
        let graph: Arc<FlatGraph> = format::read_path(&path)?.freeze().into();
        let (mut of_all, mut of_gap, mut of_noisy) = (Means::default(), Means::default(), Means::default());
        for seed in 0..clusters {
            let instance = Instance::new(graph.clone(), cluster(seed)?.into(), DataModel::Edges)?;
            let instance = Arc::new(instance);
            if wanted("plans") {
                plans(&policies, &instance, seed, &mut of_all, &mut of_gap)?;
            }
            if wanted("runs") {
                runs(&policies, &instance, seed, &mut of_noisy)?;
            }
        }
        let name = path.rsplit('/').next().unwrap_or(&path);
        of_all.print(&format!("{name} plan"));
        of_noisy.print(&format!("{name} run"));
        for (total, of) in [(&mut all, of_all), (&mut gap, of_gap), (&mut noisy, of_noisy)] {
            for (name, sum, count) in of.0 {
                match total.0.iter_mut().find(|m| m.0 == name) {
                    Some(m) => (m.1, m.2) = (m.1 + sum, m.2 + count),
                    None => total.0.push((name, sum, count)),
                }
            }
        }
    }
    all.print("all plans, to HEFT");
    gap.print("HEFT over 5 % above the bound");
    noisy.print("noise 0.3, affinity 0.5, to online EFT");
    Ok(())
}
