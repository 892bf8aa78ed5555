//! The search: laws on random instances, and proofs against enumeration.

mod common;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::random::{random_instance, small_instance};
use common::{instance, plan};
use mdts_core::sim::{Conditions, simulate};
use mdts_core::testkit::check_planner;
use mdts_core::{
    Cluster, Error, Instance, Node, NodeId, Placement, Planner, Progress, Rng, Schedule, SlotModel,
    lower_bounds,
};
use mdts_dag::{DataModel, JobGraph, Task, TaskId};
use mdts_policies::find;
use mdts_policies::search::{Budget, Control, Found, Quick, Search, Start};
use rand::{Rng as _, SeedableRng};

const MODELS: [(SlotModel, DataModel); 4] = [
    (SlotModel::Exclusive, DataModel::Edges),
    (SlotModel::Exclusive, DataModel::Files),
    (SlotModel::Resources, DataModel::Edges),
    (SlotModel::Resources, DataModel::Files),
];

/// A search of `iterations` on two threads; its schedule is verified.
fn search(instance: &Instance, iterations: u64, seed: u64) -> Found {
    let search = Search { budget: Budget::Iterations(iterations), threads: 2 };
    let rng = &mut Rng::seed_from_u64(seed);
    let found = search.improve(instance, rng, &AtomicBool::new(false), &|| Duration::ZERO).unwrap();
    found.schedule.verify(instance).unwrap();
    assert!(found.lower_bound <= found.schedule.makespan() * (1.0 + 1e-9));
    found
}

/// Looks for a schedule shorter than `best` by trying every order of tasks with every choice of nodes.
struct Enumeration<'a> {
    instance: &'a Instance,
    best: f64,
    /// Node, start and finish of the placed tasks.
    placed: Vec<Option<(NodeId, f64, f64)>>,
}

impl Enumeration<'_> {
    fn shorter_than(instance: &Instance, best: f64) -> Option<f64> {
        let placed = vec![None; instance.tasks()];
        let mut enumeration = Enumeration { instance, best, placed };
        enumeration.go_on(0.0);
        (enumeration.best < best).then_some(enumeration.best)
    }

    fn go_on(&mut self, makespan: f64) {
        if makespan >= self.best {
            return;
        }
        let graph = self.instance.graph();
        if self.placed.iter().all(Option::is_some) {
            self.best = makespan;
            return;
        }
        let ready = |t: &TaskId| {
            let parents = graph.parents(*t);
            self.placed[t.index()].is_none() && parents.iter().all(|p| self.placed[p.index()].is_some())
        };
        for task in graph.tasks().filter(ready).collect::<Vec<_>>() {
            for node in self.instance.cluster().node_ids().filter(|n| self.instance.can_run(task, *n)) {
                let start = self.earliest(task, node);
                let finish = start + self.instance.exec(task, node);
                self.placed[task.index()] = Some((node, start, finish));
                self.go_on(makespan.max(finish));
                self.placed[task.index()] = None;
            }
        }
    }

    /// The first moment at which data has arrived and everything fits, gaps included.
    fn earliest(&self, task: TaskId, node: NodeId) -> f64 {
        let graph = self.instance.graph();
        let arrivals = graph.parents(task).iter().zip(self.instance.parent_bytes(task)).map(|(p, bytes)| {
            let (from, _, finish) = self.placed[p.index()].unwrap();
            finish + self.instance.transfer(*bytes, from, node)
        });
        let ready = arrivals.fold(0.0, f64::max);
        let here = self.placed.iter().flatten().filter(|(n, ..)| *n == node).map(|(_, _, finish)| *finish);
        let moments = here.filter(|finish| *finish > ready).chain([ready]);
        moments.filter(|at| self.fits(task, node, *at)).fold(f64::INFINITY, f64::min)
    }

    fn fits(&self, task: TaskId, node: NodeId, start: f64) -> bool {
        let finish = start + self.instance.exec(task, node);
        let busy = |at: f64| {
            let all = self.placed.iter().enumerate().filter_map(|(t, p)| p.map(|p| (TaskId::new(t), p)));
            all.filter(move |(_, (n, s, f))| *n == node && *s <= at && at < *f).map(|(t, _)| t)
        };
        let starts = self.placed.iter().flatten().map(|(_, start, _)| *start);
        let moments = starts.filter(|at| start < *at && *at < finish).chain([start]);
        finish == start
            || moments.into_iter().all(|at| match self.instance.slots() {
                SlotModel::Exclusive => busy(at).next().is_none(),
                SlotModel::Resources => (0..self.instance.resources().dimensions()).all(|d| {
                    let used: u64 = busy(at).map(|t| self.instance.demand(t)[d]).sum();
                    used + self.instance.demand(task)[d] <= self.instance.capacity(node)[d]
                }),
            })
    }
}

/// Proves an instance of each model for every seed, of at most `tasks` tasks, and looks for shorter schedules.
fn compare_with_enumeration(tasks: u32, seeds: std::ops::Range<u64>) {
    for (slots, data) in MODELS {
        for seed in seeds.clone() {
            let instance = small_instance(seed, slots, data, tasks, 3);
            let found = search(&instance, 200, seed);
            assert!(found.optimal, "seed {seed}, {slots:?}, {data:?}: nothing is proven");
            let makespan = found.schedule.makespan();
            let shorter = Enumeration::shorter_than(&instance, makespan * (1.0 - 1e-9));
            assert_eq!(shorter, None, "seed {seed}, {slots:?}, {data:?}: {makespan} is not the optimum");
            let bounds = lower_bounds(&instance);
            assert!(bounds.best() <= makespan * (1.0 + 1e-9), "seed {seed}, {slots:?}, {data:?}: {bounds:?}");
        }
    }
}

/// `MDTS_PROOFS=N` compares N instances of each model with up to nine tasks.
#[test]
fn what_is_proven_is_what_enumeration_finds() {
    match std::env::var("MDTS_PROOFS") {
        Ok(count) => compare_with_enumeration(9, 0..count.parse().expect("a number")),
        Err(_) => compare_with_enumeration(6, 0..150),
    }
}

/// Without annealing: the proof starts from the best list policy and has to find what is better.
#[test]
fn the_proof_finds_the_optimum_without_annealing() {
    for (slots, data) in MODELS {
        for seed in 0..100 {
            let instance = small_instance(seed, slots, data, 5, 3);
            let found = search(&instance, 0, seed);
            assert!(found.optimal);
            let makespan = found.schedule.makespan();
            assert_eq!(Enumeration::shorter_than(&instance, makespan * (1.0 - 1e-9)), None, "seed {seed}");
        }
    }
}

/// 30 tasks on one node with two resources.
fn project(seed: u64) -> Instance {
    let rng = &mut Rng::seed_from_u64(seed);
    let mut job = JobGraph::builder("project");
    for i in 0..30 {
        let seconds = f64::from(rng.random_range(1..10_u32));
        let task = Task::new(format!("t{i}")).seconds(seconds).cores(f64::from(rng.random_range(1..5_u32)));
        let id = job.task(task.memory(rng.random_range(0..10))).unwrap();
        for parent in i.max(8) - 8..i {
            if rng.random_bool(0.25) {
                job.depend(id, TaskId::new(parent), 0.0);
            }
        }
    }
    let nodes = vec![Node::new("m").cores(8.0).memory(16)];
    let network = mdts_core::Network::uniform(mdts_core::Link::INSTANT);
    let cluster = Cluster::new(nodes, network, SlotModel::Resources).unwrap();
    instance(&job.build().unwrap(), cluster, DataModel::Edges)
}

#[test]
fn a_longer_search_proves_more() {
    for (seed, optimum) in [(17, 59.0), (18, 56.0)] {
        let instance = project(seed);
        let short = search(&instance, 20_000, 1);
        assert!(!short.optimal && short.lower_bound < optimum, "seed {seed}: {short:?}");
        let long = search(&instance, 80_000, 1);
        assert!(long.optimal, "seed {seed}");
        assert_eq!((long.schedule.makespan(), long.lower_bound), (optimum, optimum), "seed {seed}");
        assert_eq!(long, search(&instance, 80_000, 1), "seed {seed}");
    }
}

#[test]
fn never_worse_than_list_policies_and_the_same_for_a_seed() {
    let policies = [
        "heft",
        "cpop",
        "peft",
        "lookahead",
        "dls",
        "etf",
        "min-min",
        "max-min",
        "sufferage",
        "mct",
        "olb",
        "met",
        "fastest-node",
    ];
    for (slots, data) in MODELS {
        for seed in 0..25 {
            let instance = random_instance(seed, slots, data);
            let found = search(&instance, 400, seed);
            for policy in policies {
                let makespan = plan(policy, &instance).makespan();
                assert!(found.schedule.makespan() <= makespan * (1.0 + 1e-12), "{policy}, seed {seed}");
            }
            assert_eq!(found, search(&instance, 400, seed), "seed {seed}");
        }
    }
}

#[test]
fn it_is_a_planner() {
    let search = Search { budget: Budget::Iterations(300), threads: 2 };
    assert_eq!(check_planner(&search), Ok(()));
}

fn job(times: &[f64]) -> JobGraph {
    let mut job = JobGraph::builder("independent");
    for (i, time) in times.iter().enumerate() {
        job.task(Task::new(format!("t{i}")).seconds(*time)).unwrap();
    }
    job.build().unwrap()
}

#[test]
fn odd_sizes() {
    for slots in [SlotModel::Exclusive, SlotModel::Resources] {
        for (tasks, nodes) in [(1, 1), (1, 3), (7, 1), (10, 10_000), (200, 3)] {
            for time in [0.0, 1.0] {
                let cluster = Cluster::identical(nodes, slots).unwrap();
                let instance = instance(&job(&vec![time; tasks]), cluster, DataModel::Edges);
                let found = search(&instance, 200, 1);
                let best = tasks.div_ceil(nodes) as f64 * time;
                assert!((found.schedule.makespan() - best).abs() < 1e-9, "{tasks} tasks, {nodes} nodes");
            }
        }
    }
}

/// 13 nodes take 230 long tasks and 6 more seconds each. A bound that is a plain sum of 3,006 shares is above that.
#[test]
fn bounds_do_not_rise_by_rounding() {
    let mut times = vec![999_983.0; 2990];
    times.extend([6.0; 11]);
    times.extend([3.0, 3.0, 2.0, 2.0, 2.0]);
    let cluster = Cluster::identical(13, SlotModel::Exclusive).unwrap();
    let whole = instance(&job(&times), cluster, DataModel::Edges);
    let optimum = 230.0 * 999_983.0 + 6.0;
    let found = search(&whole, 200, 1);
    assert_eq!(found.lower_bound, optimum);
    assert_eq!(found.optimal, found.schedule.makespan() == optimum, "{}", found.schedule.makespan());

    let nothing =
        instance(&job(&[0.0, 0.0]), Cluster::identical(2, SlotModel::Exclusive).unwrap(), DataModel::Edges);
    assert_eq!(search(&nothing, 1, 1).lower_bound.to_bits(), 0.0_f64.to_bits(), "not -0");
}

#[test]
fn a_budget_must_be_a_time() {
    let cluster = Cluster::identical(2, SlotModel::Exclusive).unwrap();
    let instance = instance(&job(&[1.0]), cluster, DataModel::Edges);
    for (seconds, right) in
        [(0.0, false), (-1.0, false), (f64::NAN, false), (f64::INFINITY, false), (3600.0, true)]
    {
        let search = Search::new(Budget::Seconds(seconds));
        let result = search
            .improve(&instance, &mut Rng::seed_from_u64(1), &AtomicBool::new(false), &|| Duration::ZERO);
        match result {
            Ok(found) => assert!(right && found.optimal, "{seconds}"),
            Err(error) => assert!(!right && matches!(error, Error::BadSetting { .. }), "{seconds}: {error}"),
        }
    }
}

/// Tasks on unequal nodes, too many for a proof.
fn unequal() -> Instance {
    let times: Vec<f64> = (0..60).map(|i| f64::from(i * 7 % 23) + 1.3).collect();
    let nodes = (0..5).map(|i| Node::new(format!("m{i}")).speed(1.0 + f64::from(i) * 0.37)).collect();
    let network = mdts_core::Network::uniform(mdts_core::Link::INSTANT);
    let cluster = Cluster::new(nodes, network, SlotModel::Exclusive).unwrap();
    instance(&job(&times), cluster, DataModel::Edges)
}

#[test]
fn whoever_stops_it_gets_the_best_so_far() {
    let instance = unequal();
    let search = Search { budget: Budget::Seconds(3600.0), threads: 2 };
    let stopped = |stop: &AtomicBool, clock: &(dyn Fn() -> Duration + Sync)| {
        let found = search.improve(&instance, &mut Rng::seed_from_u64(1), stop, clock).unwrap();
        found.schedule.verify(&instance).unwrap();
        assert!(!found.optimal);
        found
    };
    let list: Schedule = plan("heft", &instance);
    let at_once = stopped(&AtomicBool::new(true), &|| Duration::ZERO);
    assert_eq!((at_once.iterations, at_once.start), (0, "heft"));
    assert_eq!(at_once.schedule, list);
    // Whoever reads the clock for the thousandth time stops it.
    let (stop, readings) = (AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
    let later = stopped(&stop, &|| {
        let count = readings.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        stop.store(count >= 1000, std::sync::atomic::Ordering::Relaxed);
        Duration::ZERO
    });
    assert!(later.iterations > 0 && later.schedule.makespan() < list.makespan());
}

/// A planner that has made its plan before.
#[derive(Debug)]
struct Made(Schedule);

impl Planner for Made {
    fn plan(&self, _: &Instance, _: &mut Rng) -> mdts_core::Result<Schedule> {
        Ok(self.0.clone())
    }
}

#[test]
fn a_search_starts_from_the_shorter_of_a_given_plan_and_those_of_list_policies() {
    let instance = unequal();
    let good = search(&instance, 20_000, 1).schedule;
    let bad = plan("fastest-node", &instance);
    let from = |start: &Schedule, iterations: u64, stop: bool| {
        let search = Search { budget: Budget::Iterations(iterations), threads: 2 };
        let mut seen: Vec<f64> = Vec::new();
        let observe = &mut |found: &Found| {
            found.schedule.verify(&instance).unwrap();
            seen.push(found.schedule.makespan());
        };
        let control = Control { stop: &AtomicBool::new(stop), clock: &|| Duration::ZERO, observe };
        let start = Start { policy: "made", planner: &Made(start.clone()) };
        let found = search.improve_from(start, &instance, &mut Rng::seed_from_u64(1), control).unwrap();
        (found, seen)
    };
    let (found, seen) = from(&good, 1, false);
    assert_eq!((found.start, found.start_makespan), ("made", good.makespan()));
    assert!(found.schedule.makespan() <= good.makespan());
    assert_eq!(seen[0], good.makespan());
    let (found, seen) = from(&bad, 2000, false);
    assert_ne!(found.start, "made");
    assert!(seen[0] == bad.makespan() && seen.is_sorted_by(|a, b| a >= b), "{seen:?}");
    assert_eq!(seen.last(), Some(&found.schedule.makespan()));
    // Who stops before it begins gets the first plan, however bad.
    assert_eq!(from(&bad, 2000, true).0.schedule, bad);
}

#[test]
fn the_policy_plans_what_is_left_by_heft() {
    let instance = unequal();
    let first = plan("search", &instance);
    assert!(first.makespan() < plan("heft", &instance).makespan());
    assert_eq!(first, Quick.plan(&instance, &mut Rng::seed_from_u64(1)).unwrap());
    let now = first.makespan() / 2.0;
    let started: Vec<Placement> = first.placements().iter().filter(|p| p.start < now).copied().collect();
    let rest = instance.with_progress(Progress { now, started, ..Progress::default() });
    assert_eq!(plan("search", &rest), plan("heft", &rest));
    // A job that only came late is searched for.
    let late = instance.with_progress(Progress { now: 1.0, ..Progress::default() });
    assert!(plan("search", &late).makespan() < plan("heft", &late).makespan());
    let placer = find("heft").unwrap().placer_with_plan(first.clone(), 1);
    let arrivals = vec![(0.0, std::sync::Arc::new(instance))];
    let trace = simulate(&arrivals, placer, &Conditions::default()).unwrap();
    assert_eq!(trace.jobs[0].schedule(), first);
}
