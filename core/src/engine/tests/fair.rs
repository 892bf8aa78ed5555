//! Whatever happens besides, clients with work get node time in proportion to their shares.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use mdts_dag::{DataModel, JobGraph, Task};
use proptest::prelude::*;

use crate::engine::{Command, Engine, Event, JobId, Phase, State, Step, TaskRun, Terms};
use crate::{Cluster, Decisions, Error, Instance, Link, Network, Node, NodeId, Placer, SlotModel};

/// Places every task where it would start first, or only where one could start at once.
#[derive(Debug)]
struct Plain {
    waits: bool,
}

impl Placer for Plain {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> crate::Result<()> {
        let mut taken = vec![0.0; step.instance().nodes()];
        let mut room: Vec<usize> =
            step.instance().cluster().node_ids().map(|node| room(step, node)).collect();
        for &task in step.ready() {
            let nodes = step.instance().cluster().node_ids().filter(|node| step.can_run(task, *node));
            let start = |node: NodeId| step.available(task, node) + taken[node.index()];
            let Some(node) = nodes.min_by(|a, b| start(*a).total_cmp(&start(*b))) else { continue };
            let node = match room.iter().position(|room| *room > 0) {
                _ if !self.waits => node,
                Some(free) => NodeId::new(free),
                None => return Ok(()),
            };
            room[node.index()] = room[node.index()].saturating_sub(1);
            taken[node.index()] += step.instance().exec(task, node);
            decisions.place(task, node);
        }
        Ok(())
    }

    fn watches_progress(&self) -> bool {
        self.waits
    }
}

/// Tasks of one core that could start on a node now.
fn room(step: &Step<'_>, node: NodeId) -> usize {
    let most: usize = match step.instance().slots() {
        _ if !step.is_alive(node) => 0,
        SlotModel::Exclusive => 1,
        SlotModel::Resources => 2,
    };
    most.saturating_sub(step.running(node) + step.waiting(node))
}

/// Tasks of one client: how long they are expected to run, and how long they do.
#[derive(Debug, Clone, Copy)]
struct Kind {
    client: u32,
    share: f64,
    priority: i32,
    expected: f64,
    real: f64,
}

struct World {
    cluster: Arc<Cluster>,
    engine: Engine<Plain>,
    now: f64,
    /// Of each job.
    kinds: Vec<Kind>,
    instances: Vec<Arc<Instance>>,
    /// Attempts by the microsecond at which they end; those that run, with where and since when.
    ends: BinaryHeap<Reverse<(u64, TaskRun)>>,
    running: BTreeMap<TaskRun, (NodeId, f64)>,
    /// Seconds that each client has held nodes.
    held: BTreeMap<u32, f64>,
    /// Jobs in the order of starts.
    starts: Vec<u32>,
    /// Clients that always have something to do.
    busy: Vec<Kind>,
}

impl World {
    fn new(nodes: usize, slots: SlotModel, waits: bool) -> Result<Self, Error> {
        let node = |i| Node::new(format!("m{i}")).cores(2.0);
        let list = (0..nodes).map(node).collect();
        let cluster = Arc::new(Cluster::new(list, Network::uniform(Link::INSTANT), slots)?);
        let engine = Engine::with_state(State::new(&cluster, false).on_demand(), Plain { waits });
        Ok(Self {
            cluster,
            engine,
            now: 0.0,
            kinds: Vec::new(),
            instances: Vec::new(),
            ends: BinaryHeap::new(),
            running: BTreeMap::new(),
            held: BTreeMap::new(),
            starts: Vec::new(),
            busy: Vec::new(),
        })
    }

    fn tell(&mut self, events: impl IntoIterator<Item = Event>) -> Result<(), Error> {
        for command in self.engine.handle(self.now, events)?.to_vec() {
            match command {
                Command::Start { run, node } => {
                    let end = self.now + self.kinds[run.job.index()].real;
                    self.ends.push(Reverse(((end * 1e6) as u64, run)));
                    self.running.insert(run, (node, self.now));
                    self.starts.push(run.job.get());
                }
                Command::Cancel { run, .. } => self.left(run),
                _ => {}
            }
        }
        Ok(())
    }

    /// An attempt has left its node.
    fn left(&mut self, run: TaskRun) {
        if let Some((_, since)) = self.running.remove(&run) {
            *self.held.entry(self.kinds[run.job.index()].client).or_default() += self.now - since;
        }
    }

    /// A job of equal tasks, all asked for.
    fn submit(&mut self, kind: Kind, tasks: usize) -> Result<JobId, Error> {
        let mut job = JobGraph::builder("job");
        for i in 0..tasks {
            job.task(Task::new(format!("t{i}")).seconds(kind.expected))?;
        }
        let graph = Arc::new(job.build()?.freeze());
        let instance = Arc::new(Instance::new(graph, self.cluster.clone(), DataModel::Edges)?);
        let Kind { client, share, priority, .. } = kind;
        self.engine.state_mut().announce(Terms { priority, client, share });
        let job = JobId::new(self.kinds.len());
        self.kinds.push(kind);
        self.instances.push(instance.clone());
        self.tell([Event::Submitted(instance)])?;
        self.ask(job)?;
        Ok(job)
    }

    fn ask(&mut self, job: JobId) -> Result<(), Error> {
        let tasks = self.instances[job.index()].graph().tasks();
        self.tell(tasks.map(|task| Event::Asked { job, task }).collect::<Vec<_>>())
    }

    /// Goes on until this time; busy clients submit more whenever they have little left.
    fn until(&mut self, time: f64) -> Result<(), Error> {
        loop {
            for kind in self.busy.clone() {
                let own = (0..self.kinds.len()).filter(|job| self.kinds[*job].client == kind.client);
                let state = self.engine.state();
                if own.map(|job| state.remaining(JobId::new(job))).sum::<usize>() < 10 {
                    self.submit(kind, 20)?;
                }
            }
            let next = self.ends.peek().map(|Reverse((end, _))| *end as f64 / 1e6);
            if next.is_none_or(|end| end > time) {
                self.now = time;
                return Ok(());
            }
            let Some(Reverse((end, run))) = self.ends.pop() else { return Ok(()) };
            if self.running.contains_key(&run) {
                self.now = self.now.max(end as f64 / 1e6);
                self.left(run);
                self.tell([Event::Finished(run)])?;
            }
        }
    }

    /// Something that must not change who gets what later on.
    fn disturb(&mut self, what: u8) -> Result<(), Error> {
        let stranger = Kind { client: 90, share: 1.0, priority: 0, expected: 2.0, real: 2.0 };
        match what {
            0 => {
                let Some(kind) = self.busy.first().copied() else { return Ok(()) };
                let job = self.submit(Kind { expected: 100.0, real: 100.0, ..kind }, 100)?;
                self.tell([Event::Cancelled(job)])
            }
            1 => {
                let Some(run) = self.running.keys().next().copied() else { return Ok(()) };
                self.tell([Event::Withdrawn(run.job)])?;
                self.ask(run.job)
            }
            2 => self.submit(Kind { priority: 5, expected: 100.0, ..stranger }, 3).map(drop),
            3 => self.submit(Kind { client: 91, expected: 1e18, real: 0.001, ..stranger }, 3).map(drop),
            4 => {
                let Some(run) = self.running.keys().next_back().copied() else { return Ok(()) };
                self.left(run);
                self.tell([Event::Interrupted(run)])
            }
            5 => {
                let node = NodeId::new(0);
                let there = self.running.iter().filter(|(_, (at, _))| *at == node);
                for run in there.map(|(run, _)| *run).collect::<Vec<_>>() {
                    self.left(run);
                }
                self.tell([Event::NodeLost(node)])?;
                self.until(self.now + 1.0)?;
                self.tell([Event::NodeJoined(node)])
            }
            _ => self.submit(Kind { client: 92, ..stranger }, 10).map(drop),
        }
    }
}

/// Node time per share of each busy client, over a long time after a history of disturbances.
fn shared(mut world: World, busy: &[Kind], history: &[(f64, u8)]) -> Result<(World, Vec<f64>), Error> {
    world.busy.extend(busy.first());
    for (i, (gap, what)) in history.iter().enumerate() {
        world.until(world.now + gap)?;
        world.disturb(*what)?;
        if i % 3 == 2 {
            world.busy.extend(busy.get(world.busy.len())); // another one joins
        }
    }
    world.busy = busy.to_vec();
    world.until(world.now + 300.0)?;
    let before = world.held.clone();
    world.until(world.now + 1500.0)?;
    let got = |kind: &Kind| {
        let held = |of: &BTreeMap<u32, f64>| of.get(&kind.client).copied().unwrap_or_default();
        (held(&world.held) - held(&before)) / kind.share
    };
    let got = busy.iter().map(got).collect();
    Ok((world, got))
}

fn kind() -> impl Strategy<Value = Kind> {
    let seconds = || prop_oneof![Just(1.0), Just(2.0), Just(4.0)];
    (1..=3_u32, seconds(), seconds()).prop_map(|(share, expected, real)| Kind {
        client: 0,
        share: f64::from(share),
        priority: 0,
        expected,
        real,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn node_time_goes_by_shares(
        mut busy in proptest::collection::vec(kind(), 2..=3),
        history in proptest::collection::vec((0.0..10.0, 0..7_u8), 0..12),
        (waits, is_exclusive, nodes) in (any::<bool>(), any::<bool>(), 1..=3_usize),
    ) {
        busy.iter_mut().enumerate().for_each(|(i, kind)| kind.client = i as u32);
        // Where the policy places all at once, a client may have nothing to do on one node of several.
        let nodes = if waits { nodes } else { 1 };
        let slots = if is_exclusive { SlotModel::Exclusive } else { SlotModel::Resources };
        let world = World::new(nodes, slots, waits).expect("a plain cluster");
        let (world, got) = shared(world, &busy, &history).expect("nothing is refused");
        let (least, most) = (got.iter().copied().fold(f64::MAX, f64::min), got.iter().copied().fold(0.0, f64::max));
        prop_assert!(most <= 1.1 * least, "{:?} for {:?}", got, busy);
        let bytes = world.engine.state().to_bytes().expect("plain data");
        let instance = |job: JobId| Some(world.instances[job.index()].clone());
        let again = State::from_bytes(&bytes, &world.cluster, instance).expect("its own bytes").expect("it fits");
        prop_assert_eq!(again.to_bytes().expect("plain data"), bytes);
    }
}

#[test]
fn who_ends_and_begins_at_once_was_not_idle() -> Result<(), Error> {
    // Two places at once, all attempts end together, and the policy keeps back what cannot start.
    let real = |client, share, expected| Kind { share, expected, ..plain(client, 1.0) };
    let busy = [real(0, 2.0, 1.0), real(1, 3.0, 4.0)];
    let (_, got) = shared(World::new(1, SlotModel::Resources, true)?, &busy, &[])?;
    assert!((got[0] - 600.0).abs() < 10.0 && (got[1] - 600.0).abs() < 10.0, "{got:?}");
    Ok(())
}

fn plain(client: u32, seconds: f64) -> Kind {
    Kind { client, share: 1.0, priority: 0, expected: seconds, real: seconds }
}

/// Starts of two jobs among the next so many.
fn count(world: &mut World, seconds: f64, jobs: [JobId; 2]) -> Result<[usize; 2], Error> {
    let from = world.starts.len();
    world.until(world.now + seconds)?;
    Ok(jobs.map(|job| world.starts[from..].iter().filter(|start| **start == job.get()).count()))
}

#[test]
fn work_that_never_ran_costs_nothing() -> Result<(), Error> {
    for waits in [false, true] {
        let mut world = World::new(1, SlotModel::Exclusive, waits)?;
        world.submit(plain(0, 1.0), 1)?;
        let first = world.submit(plain(1, 100.0), 100)?;
        let alice = world.submit(plain(1, 1.0), 100)?; // behind what will not run
        world.tell([Event::Cancelled(first)])?;
        let bob = world.submit(plain(2, 1.0), 100)?;
        let [a, b] = count(&mut world, 60.0, [alice, bob])?;
        assert!(a.abs_diff(b) <= 2, "{a} and {b}");
    }
    Ok(())
}

#[test]
fn other_priorities_and_nodes_cost_nothing() -> Result<(), Error> {
    for waits in [false, true] {
        let mut world = World::new(1, SlotModel::Exclusive, waits)?;
        world.submit(plain(0, 1.0), 1)?;
        let bob = world.submit(plain(1, 1.0), 100)?;
        world.submit(Kind { priority: 5, ..plain(2, 100.0) }, 20)?;
        world.until(2010.0)?;
        let carol = world.submit(plain(3, 1.0), 100)?;
        let [b, c] = count(&mut world, 60.0, [bob, carol])?;
        assert!(b.abs_diff(c) <= 2, "{b} and {c}");
    }
    Ok(())
}

#[test]
fn absurd_estimates_do_no_harm() -> Result<(), Error> {
    for waits in [false, true] {
        let mut world = World::new(1, SlotModel::Exclusive, waits)?;
        world.busy.push(plain(0, 1.0));
        world.until(0.5)?;
        world.submit(Kind { expected: 1e18, real: 0.01, share: 0.001, ..plain(1, 0.0) }, 3)?;
        world.until(100.0)?;
        world.busy.clear();
        world.until(200.0)?;
        let (alice, bob) = (world.submit(plain(2, 1.0), 100)?, world.submit(plain(3, 1.0), 100)?);
        let [a, b] = count(&mut world, 60.0, [alice, bob])?;
        assert!(a.abs_diff(b) <= 2, "{a} and {b}");
    }
    Ok(())
}

#[test]
fn who_is_interrupted_again_and_again_does_not_hold_the_node() -> Result<(), Error> {
    let mut world = World::new(1, SlotModel::Exclusive, false)?;
    let alice = world.submit(plain(0, 10.0), 5)?;
    let bob = world.submit(plain(1, 10.0), 5)?;
    for _ in 0..1000 {
        let Some(run) = world.running.keys().find(|run| run.job == alice).copied() else { break };
        world.now += 0.1;
        world.left(run);
        world.tell([Event::Interrupted(run)])?;
    }
    assert_eq!(world.starts, [0, 1], "it is the other's turn after what it held");
    world.until(world.now + 10.5)?;
    assert_eq!(world.starts[2], 0, "and then the first one's");
    assert_eq!(world.engine.state().phase(bob, 0.into()), Phase::Done);
    Ok(())
}
