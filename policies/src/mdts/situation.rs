//! What the network sees of one decision step: numbers of tasks, of nodes, of pairs, and of the whole.
//!
//! Times are measured in the mean run time of the task concerned and squashed, so that neither the unit of time nor the
//! number of tasks and nodes matters, and only differences between times count, so it does not matter when it is. Nothing
//! depends on the order of tasks or nodes. Buffers are kept: after the first steps nothing is allocated.
//! O(tasks x nodes) per step.

use std::sync::Arc;

use mdts_core::{Arrival, Instance, NodeId, SlotModel, remaining_paths};
use mdts_dag::{KindId, TaskId};

use super::experience::Experience;
use crate::list::rank;

/// Version of the numbers below; weights of another version mean something else.
pub(crate) const FEATURES: u32 = 1;
/// Numbers per task, node, pair, and of the whole.
pub(crate) const PER_TASK: usize = 9;
pub(crate) const PER_NODE: usize = 4;
pub(crate) const PER_PAIR: usize = 10;
pub(crate) const OF_ALL: usize = 7;
/// Numbers per pair that change while the tasks of a step get their nodes.
pub(crate) const LIVE: usize = 2;
/// Largest number of tasks x nodes for which paths behind every pair are kept (128 MiB).
const PATHS: usize = 1 << 24;
/// Differences beyond this many run times are all the same.
const FAR: f64 = 10.0;
/// Changes of this part of the job's time are large.
const LARGE: f64 = 0.1;

/// What a job is known by as long as it runs.
#[derive(Debug)]
pub(crate) struct Job {
    /// Upward rank of every task, in seconds.
    pub(crate) rank: Vec<f64>,
    highest: f64,
    /// Seconds that follow every task on every node at least; empty for large jobs.
    behind: Vec<f64>,
    /// Factors on run times, by kind and node, beside the pace; empty until something was learnt.
    factors: Vec<f64>,
    /// Seconds that a second of the instance takes.
    pub(crate) pace: f64,
    kinds: Vec<Arc<str>>,
}

impl Job {
    pub(crate) fn new(instance: &Instance, experience: &Experience) -> Self {
        let rank = rank::upward(instance);
        let small = instance.tasks().saturating_mul(instance.nodes()) <= PATHS;
        let mut job = Self {
            highest: rank.iter().copied().fold(0.0, f64::max),
            rank,
            behind: if small { remaining_paths(instance) } else { Vec::new() },
            factors: Vec::new(),
            pace: 1.0,
            kinds: instance.graph().kinds().to_vec(),
        };
        job.learn(experience, instance.nodes());
        job
    }

    /// Takes over what was learnt.
    pub(crate) fn learn(&mut self, experience: &Experience, nodes: usize) {
        if !experience.is_empty() {
            let estimate = experience.estimate();
            self.pace = estimate.pace();
            self.factors.clear();
            self.factors.extend(self.kinds.iter().flat_map(|kind| estimate.factors(kind, nodes)));
        }
    }

    /// The factor on run times of a kind on a node, beside the pace.
    pub(crate) fn factor(&self, kind: KindId, node: NodeId, nodes: usize) -> f64 {
        self.factors.get(kind.index() * nodes + node.index()).copied().unwrap_or(1.0)
    }
}

/// The world at one step, in seconds of the instance.
pub(crate) trait View {
    fn instance(&self) -> &Instance;
    /// Nothing begins before this time.
    fn now(&self) -> f64;
    /// When the data of a task is where, as [`View::arrives`] tells then.
    fn gather(&self, task: TaskId, arrival: &mut Arrival);
    /// When all data of the task that was gathered for is on a node.
    fn arrives(&self, arrival: &Arrival, node: NodeId) -> f64 {
        arrival.at(node)
    }
    /// Whether the node is there.
    fn is_alive(&self, node: NodeId) -> bool;
    /// The earliest start of the task on the node, not before `ready`.
    fn start(&self, task: TaskId, node: NodeId, ready: f64) -> f64;
    /// From when on the node could begin the task if it had its data at `ready`, behind all others.
    fn free(&self, task: TaskId, node: NodeId, ready: f64) -> f64;
    /// The share of the job's tasks that have their node.
    fn progress(&self) -> f64;
    /// The latest finish of what has its node.
    fn horizon(&self) -> f64;
    /// Whether this is a plan, in which tasks may go into gaps, rather than a run.
    fn is_plan(&self) -> bool;
}

/// The numbers of one step.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Situation {
    /// The tasks by falling rank.
    pub(crate) tasks: Vec<TaskId>,
    pub(crate) nodes: usize,
    /// By pair, in seconds: run time (infinite: impossible), when data is there, earliest start, what follows.
    exec: Vec<f64>,
    arrive: Vec<f64>,
    start: Vec<f64>,
    behind: Vec<f64>,
    /// When a node is free, by node, or by pair if nodes run tasks side by side.
    free: Vec<f64>,
    shared: bool,
    /// By task: what times are measured in, earliest finish, earliest finish plus what follows, first arrival, fastest.
    of: Vec<OfTask>,
    /// When the first data is there, when it all could end, and the time from now to then.
    base: f64,
    pub(crate) horizon: f64,
    span: f64,
    pub(crate) task: Vec<f32>,
    pub(crate) node: Vec<f32>,
    pub(crate) pair: Vec<f32>,
    pub(crate) all: [f32; OF_ALL],
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct OfTask {
    scale: f64,
    finish: f64,
    end: f64,
    arrive: f64,
    exec: f64,
    behind: f64,
}

/// From 0 to 1 for 0 to infinity.
#[inline]
fn squash(x: f64) -> f32 {
    let x = x.max(0.0);
    if x > 1e9 { 1.0 } else { (x / (1.0 + x)) as f32 }
}

/// From -1 to 1.
#[inline]
fn signed(x: f64) -> f32 {
    if x < 0.0 { -squash(-x) } else { squash(x) }
}

impl Situation {
    /// Numbers between 0 and 1 of a run with so many tasks and nodes.
    pub(crate) fn made_up(tasks: usize, nodes: usize) -> Self {
        let numbers = |count: usize| (0..count).map(|i| ((i * 37) % 101) as f32 / 101.0).collect();
        Self {
            nodes,
            task: numbers(tasks * PER_TASK),
            node: numbers(nodes * PER_NODE),
            pair: numbers(tasks * nodes * PER_PAIR),
            ..Self::default()
        }
    }

    /// Looks at these tasks, by falling rank, and all nodes.
    pub(crate) fn look(&mut self, view: &impl View, job: &Job, tasks: &[TaskId], arrival: &mut Arrival) {
        let instance = view.instance();
        self.nodes = instance.nodes();
        self.shared = instance.slots() == SlotModel::Resources;
        self.tasks.clear();
        self.tasks.extend_from_slice(tasks);
        self.measure(view, job, arrival);
        self.summarise(view);
        self.describe_tasks(view.instance(), job);
        self.describe_nodes();
        self.describe_pairs();
        let (k, n) = (self.tasks.len() as f64, self.nodes as f64);
        let free: f64 =
            (0..self.nodes).map(|node| self.room(node, |free| f64::from(u8::from(free <= self.base)))).sum();
        let sent: f64 = self.task.chunks_exact(PER_TASK).map(|t| f64::from(t[6])).sum();
        self.all = [
            squash(k / n),
            squash(k / 8.0),
            squash(n / 8.0),
            (free / n) as f32,
            f32::from(u8::from(view.is_plan())),
            view.progress() as f32,
            (sent / k.max(1.0)) as f32,
        ];
    }

    /// Seconds of every pair.
    fn measure(&mut self, view: &impl View, job: &Job, arrival: &mut Arrival) {
        let (instance, n, now) = (view.instance(), self.nodes, view.now());
        let pairs = self.tasks.len() * n;
        for row in [&mut self.exec, &mut self.arrive, &mut self.start, &mut self.behind] {
            row.clear();
            row.resize(pairs, 0.0);
        }
        self.base = f64::INFINITY;
        for (i, &task) in self.tasks.iter().enumerate() {
            let row = i * n..(i + 1) * n;
            let exec = &mut self.exec[row.clone()];
            instance.exec_all(task, exec);
            let factors = instance.graph().kind(task).index() * n;
            if let Some(factors) = job.factors.get(factors..factors + n) {
                exec.iter_mut().zip(factors).for_each(|(exec, factor)| *exec *= factor);
            }
            view.gather(task, arrival);
            match job.behind.get(task.index() * n..(task.index() + 1) * n) {
                Some(behind) => self.behind[row.clone()].copy_from_slice(behind),
                None => self.behind[row.clone()]
                    .fill((job.rank[task.index()] - instance.mean_exec(task)).max(0.0)),
            }
            for (node, at) in row.enumerate() {
                let node = NodeId::new(node);
                if !view.is_alive(node) {
                    self.exec[at] = f64::INFINITY;
                }
                self.arrive[at] = view.arrives(arrival, node).max(now);
                if self.exec[at].is_finite() {
                    self.base = self.base.min(self.arrive[at]);
                    self.start[at] = view.start(task, node, self.arrive[at]);
                }
            }
        }
        if !self.base.is_finite() {
            self.base = now;
        }
        self.free.clear();
        let rows = if self.shared { self.tasks.len() } else { self.tasks.len().min(1) };
        for (i, task) in self.tasks.iter().take(rows).enumerate() {
            for node in 0..n {
                let can_run = !self.shared || self.exec[i * n + node].is_finite();
                self.free.push(if can_run {
                    view.free(*task, NodeId::new(node), self.base)
                } else {
                    self.base
                });
            }
        }
    }

    #[inline]
    fn free_at(&self, i: usize, node: usize) -> f64 {
        self.free.get(if self.shared { i * self.nodes + node } else { node }).copied().unwrap_or(self.base)
    }

    /// The mean over tasks of a number of when the node has room for them; over those that can run there, if any can.
    fn room(&self, node: usize, of: impl Fn(f64) -> f64) -> f64 {
        if !self.shared {
            return of(self.free_at(0, node));
        }
        let tasks = (0..self.tasks.len()).filter(|i| self.can_run(*i, node));
        let (sum, count) =
            tasks.fold((0.0, 0.0), |(sum, count), i| (sum + of(self.free_at(i, node)), count + 1.0));
        if count > 0.0 { sum / count } else { of(self.base) }
    }

    /// When the data of a pair is there.
    #[inline]
    pub(crate) fn arrive(&self, i: usize, node: usize) -> f64 {
        self.arrive[i * self.nodes + node]
    }

    /// The earliest start of a pair as it was when the step began.
    #[inline]
    pub(crate) fn start(&self, i: usize, node: usize) -> f64 {
        self.start[i * self.nodes + node]
    }

    /// Run time of a pair, in seconds.
    #[inline]
    pub(crate) fn exec(&self, i: usize, node: usize) -> f64 {
        self.exec[i * self.nodes + node]
    }

    /// Whether the node can run the task.
    #[inline]
    pub(crate) fn can_run(&self, i: usize, node: usize) -> bool {
        self.exec(i, node).is_finite()
    }

    /// How much later than on its best node a task finishes on every node, and ends with all that follows, if it
    /// starts then; in run times of the task. What stands for a node that cannot run it means nothing.
    pub(crate) fn lateness(&self, i: usize, starts: &[f64], live: &mut Vec<[f32; LIVE]>) {
        let row = i * self.nodes..(i + 1) * self.nodes;
        let (exec, behind) = (&self.exec[row.clone()], &self.behind[row]);
        let (mut first, mut first_end) = (f64::INFINITY, f64::INFINITY);
        for ((start, exec), behind) in starts.iter().zip(exec).zip(behind) {
            first = first.min(start + exec);
            first_end = first_end.min(start + exec + behind);
        }
        let per = 1.0 / self.of[i].scale;
        live.clear();
        live.extend(starts.iter().zip(exec).zip(behind).map(|((start, exec), behind)| {
            let finish = start + exec;
            let (late, end) = ((finish - first) * per, (finish + behind - first_end) * per);
            [late.min(FAR) as f32, end.min(FAR) as f32]
        }));
    }

    /// The numbers of a pair.
    pub(crate) fn pair(&self, i: usize, node: usize) -> &[f32] {
        let at = (i * self.nodes + node) * PER_PAIR;
        &self.pair[at..at + PER_PAIR]
    }

    fn summarise(&mut self, view: &impl View) {
        let n = self.nodes;
        self.of.clear();
        for i in 0..self.tasks.len() {
            let (mut sum, mut count) = (0.0, 0.0);
            let far = f64::INFINITY;
            let mut of = OfTask { scale: 0.0, finish: far, end: far, arrive: far, exec: far, behind: far };
            for at in i * n..(i + 1) * n {
                let exec = self.exec[at];
                if exec.is_finite() {
                    sum += exec;
                    count += 1.0;
                    let finish = self.start[at] + exec;
                    of.finish = of.finish.min(finish);
                    of.end = of.end.min(finish + self.behind[at]);
                    of.arrive = of.arrive.min(self.arrive[at]);
                    of.exec = of.exec.min(exec);
                    of.behind = of.behind.min(self.behind[at]);
                }
            }
            of.scale = if count > 0.0 { sum / count } else { 0.0 };
            self.of.push(of);
        }
        // Tasks that take no time are measured in a hundredth of the others'.
        let mean = self.of.iter().map(|of| of.scale).sum::<f64>() / self.of.len().max(1) as f64;
        let least = if mean > 0.0 { mean / 100.0 } else { 1.0 };
        self.of.iter_mut().for_each(|of| of.scale = of.scale.max(least));
        let ends = self.of.iter().map(|of| of.end).filter(|end| end.is_finite());
        self.horizon = ends.fold(view.horizon().max(self.base), f64::max);
        self.span = ((self.horizon - self.base) * LARGE).max(least * 1e-3);
    }

    fn describe_tasks(&mut self, instance: &Instance, job: &Job) {
        let count = self.tasks.len();
        let mean = self.of.iter().map(|of| of.scale).sum::<f64>() / count.max(1) as f64;
        let top = self.tasks.first().map_or(0.0, |t| job.rank[t.index()]).max(f64::MIN_POSITIVE);
        self.task.clear();
        for (i, &task) in self.tasks.iter().enumerate() {
            let rank = job.rank[task.index()];
            let of = &self.of[i];
            let sent: f64 = instance.child_bytes(task).iter().sum();
            let sent = if sent > 0.0 { instance.mean_transfer(sent) } else { 0.0 };
            let late = if of.end.is_finite() { (of.end - self.horizon) / self.span } else { 0.0 };
            self.task.extend([
                squash(rank / of.scale / 8.0),
                (rank / top) as f32,
                (rank / job.highest.max(f64::MIN_POSITIVE)) as f32,
                i as f32 / count as f32,
                squash(instance.graph().children(task).len() as f64 / 4.0),
                squash(of.scale / mean.max(f64::MIN_POSITIVE)),
                squash(sent / of.scale),
                if of.exec.is_finite() { (of.exec / of.scale) as f32 } else { 0.0 },
                signed(late),
            ]);
        }
    }

    fn describe_nodes(&mut self) {
        let count = self.tasks.len();
        let mean = self.of.iter().map(|of| of.scale).sum::<f64>() / count.max(1) as f64;
        let all = count.max(1) as f64;
        self.node.clear();
        for node in 0..self.nodes {
            let (mut relative, mut best, mut here) = (0.0, 0.0, 0.0);
            for (i, of) in self.of.iter().enumerate() {
                let at = i * self.nodes + node;
                let exec = self.exec[at];
                if exec.is_finite() {
                    relative += exec / of.scale;
                    best += f64::from(u8::from(self.start[at] + exec <= of.finish));
                    here += f64::from(u8::from(self.arrive[at] <= of.arrive));
                }
            }
            let free = self.room(node, |free| free - self.base);
            self.node.extend([
                signed(free / mean.max(f64::MIN_POSITIVE)),
                squash(relative / all),
                (best / all) as f32,
                (here / all) as f32,
            ]);
        }
    }

    fn describe_pairs(&mut self) {
        self.pair.clear();
        self.pair.reserve(self.tasks.len() * self.nodes * PER_PAIR);
        for i in 0..self.tasks.len() {
            let of = self.of[i];
            let (per, span) = (1.0 / of.scale, 1.0 / self.span);
            for node in 0..self.nodes {
                let at = i * self.nodes + node;
                let (exec, arrive, start) = (self.exec[at], self.arrive[at], self.start[at]);
                if !exec.is_finite() {
                    self.pair.extend([0.0; PER_PAIR]);
                    continue;
                }
                let (finish, behind, free) = (start + exec, self.behind[at], self.free_at(i, node));
                self.pair.extend([
                    squash((finish - of.finish) * per),
                    squash((finish + behind - of.end) * per),
                    squash(exec * per),
                    squash((start - arrive) * per),
                    squash((arrive - of.arrive) * per),
                    squash((behind - of.behind) * per),
                    signed((finish + behind - self.horizon) * span),
                    squash((start - free) * per),
                    signed((free - self.base) * per),
                    squash((exec - of.exec) * per),
                ]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mdts_core::{Cluster, Link, Network, Node};
    use mdts_dag::{DataModel, JobGraph, Task};

    use super::*;

    /// Nodes on which tasks of one core begin at once, others in 8 seconds.
    struct Crowded(Instance);

    impl View for Crowded {
        fn instance(&self) -> &Instance {
            &self.0
        }
        fn now(&self) -> f64 {
            0.0
        }
        fn gather(&self, task: TaskId, arrival: &mut Arrival) {
            arrival.gather(&self.0, task, |_| (NodeId::default(), 0.0));
        }
        fn is_alive(&self, _: NodeId) -> bool {
            true
        }
        fn start(&self, task: TaskId, node: NodeId, ready: f64) -> f64 {
            self.free(task, node, ready).max(ready)
        }
        fn free(&self, task: TaskId, _: NodeId, _: f64) -> f64 {
            if self.0.demand(task)[0] > 1000 { 8.0 } else { 0.0 }
        }
        fn progress(&self) -> f64 {
            0.0
        }
        fn horizon(&self) -> f64 {
            0.0
        }
        fn is_plan(&self) -> bool {
            false
        }
    }

    #[test]
    fn shared_nodes_have_room_for_each_task_by_its_own_demand() {
        let mut job = JobGraph::builder("job");
        for (name, cores) in [("small", 1.0), ("large", 2.0), ("larger", 3.0)] {
            job.task(Task::new(name).seconds(1.0).cores(cores)).unwrap();
        }
        // The last one fits on the second node only.
        let nodes = vec![Node::new("a").cores(2.0), Node::new("b").cores(4.0)];
        let network = Network::uniform(Link::INSTANT);
        let cluster = Cluster::new(nodes, network, SlotModel::Resources).unwrap();
        let instance =
            Instance::new(job.build().unwrap().freeze().into(), cluster.into(), DataModel::Edges).unwrap();
        let job = Job::new(&instance, &Experience::default());
        let tasks: Vec<TaskId> = instance.graph().tasks().collect();
        let mut numbers = Vec::new();
        for order in [[0, 1, 2], [2, 1, 0]] {
            let mut situation = Situation::default();
            let tasks = order.map(|i| tasks[i]);
            situation.look(&Crowded(instance.clone()), &job, &tasks, &mut Arrival::default());
            let free = [0, 1].map(|node| situation.node[node * PER_NODE]);
            assert_eq!(free, [signed(4.0), signed(16.0 / 3.0)]);
            // Half of the tasks that fit on the one, a third of those on the other.
            assert!((situation.all[3] - 5.0 / 12.0).abs() < 1e-6);
            numbers.push(situation.all);
        }
        assert_eq!(numbers[0], numbers[1], "whichever comes first");
    }
}
