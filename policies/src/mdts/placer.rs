//! MDTS as a placer: one call of the network per decision step, then the tasks take their nodes by falling rank.
//!
//! A task whose best node is taken for now is not placed but counted there, so that those behind it look elsewhere; it is
//! looked at again when something ends. So nothing waits in a queue on a node that turns out to be slow, and tasks of
//! higher rank that become ready later are not behind others. O(window x nodes) per step.

use std::sync::Arc;

use mdts_core::engine::{JobId, Phase, Step, Trigger};
use mdts_core::{Arrival, Decision, Decisions, Instance, NodeId, Placer, Result, SlotModel};
use mdts_dag::TaskId;
use rustc_hash::FxHashMap;

use super::experience::Experience;
use super::network::{Scorer, Scores};
use super::situation::{Job, LIVE, Situation, View};

/// Tasks looked at in one step at most, and at least, if there are so many.
const WINDOW: usize = 64;
const LEAST: usize = 8;

/// Tells the bytes of [`Placer::memory`] from those of others.
const MEMORY: &str = "mdts experience 1";

/// Sees every choice, and may change it.
pub(crate) trait Observer: Send {
    /// The network was called.
    fn looked(&mut self, _: &Situation) {}
    /// The task at a position of the window is about to get this node.
    fn chosen(&mut self, _: Choice<'_>, node: usize) -> usize {
        node
    }
}

impl Observer for () {}

/// What the choice of a node is made from.
pub(crate) struct Choice<'a> {
    /// The position of the task.
    pub(crate) task: usize,
    pub(crate) live: &'a [[f32; LIVE]],
    /// By node; NaN where it cannot run.
    pub(crate) scores: &'a [f32],
}

/// The network alone, as a placer. It learns from observed run times while it runs.
#[derive(Debug)]
pub struct Raw(Placing<()>);

impl Raw {
    pub(crate) fn new(scorer: Arc<Scorer>, experience: Experience) -> Self {
        Self(Placing::new(scorer, experience, ()))
    }

    /// Tells that everything, the travel of data too, takes so many seconds of the clock per second of the instance, as
    /// in an emulation. Without effect if it is not a number above 0.
    #[must_use]
    pub fn with_scale(mut self, scale: f64) -> Self {
        if scale > 0.0 && scale.is_finite() {
            self.0.scale = scale;
        }
        self
    }

    /// What was learnt of nodes.
    pub fn experience(&self) -> &Experience {
        &self.0.experience
    }
}

impl Placer for Raw {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        self.0.place(step, decisions)
    }

    fn watches_progress(&self) -> bool {
        true
    }

    fn replayed(&mut self, step: &Step<'_>, decisions: &[Decision]) {
        self.0.replayed(step, decisions);
    }

    fn memory(&self) -> Vec<u8> {
        self.0.memory()
    }

    fn recall(&mut self, memory: &[u8]) {
        self.0.recall(memory);
    }
}

/// The placer with somebody who watches.
pub(crate) struct Placing<O> {
    scorer: Arc<Scorer>,
    observer: O,
    experience: Experience,
    /// Runs observed.
    observed: u64,
    jobs: FxHashMap<JobId, Running>,
    /// Tasks that were placed and have not been seen to end.
    open: Vec<(JobId, TaskId)>,
    situation: Situation,
    scores: Scores,
    arrival: Arrival,
    window: Vec<TaskId>,
    taken: Vec<bool>,
    /// From when to when nodes are meant for tasks of this step.
    reserved: Vec<Vec<(f64, f64)>>,
    starts: Vec<f64>,
    live: Vec<[f32; LIVE]>,
    row: Vec<f32>,
    /// Seconds of the clock per second of the instance.
    scale: f64,
    /// By node, by how many seconds of the clock its tasks end later than the engine believes.
    late: Vec<f64>,
}

/// A job that runs.
struct Running {
    job: Job,
    placed: usize,
    /// Runs that were observed when it learnt last.
    learnt: u64,
}

impl<O> std::fmt::Debug for Placing<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Placing").field("experience", &self.experience).finish_non_exhaustive()
    }
}

/// The step in seconds of the instance, from now on.
struct Now<'s, 'a> {
    step: &'s Step<'a>,
    placed: usize,
    /// Seconds of the clock that a second of the instance takes, if a task runs, and if data travels.
    pace: f64,
    scale: f64,
    /// By node, by how many seconds of the clock tasks end later than the engine believes.
    late: &'s [f64],
}

impl Now<'_, '_> {
    fn available(&self, task: TaskId, node: NodeId) -> f64 {
        let (now, available) = (self.step.now(), self.step.available(task, node));
        // Where there is room now, it does not matter when others end.
        let has_room = available <= now && self.step.instance().slots() == SlotModel::Resources;
        let late = if has_room { 0.0 } else { self.late[node.index()] };
        ((available - now + late) / self.pace).max(0.0)
    }
}

impl View for Now<'_, '_> {
    fn instance(&self) -> &Instance {
        self.step.instance()
    }
    fn now(&self) -> f64 {
        0.0
    }
    fn gather(&self, task: TaskId, arrival: &mut Arrival) {
        let now = self.step.now();
        arrival.gather(self.step.instance(), task, |parent| {
            let ago = self.step.times(parent).map_or(0.0, |(_, finish)| finish - now);
            (self.step.node_of(parent).unwrap_or_default(), ago / self.scale)
        });
    }
    fn arrives(&self, arrival: &Arrival, node: NodeId) -> f64 {
        arrival.at(node) * (self.scale / self.pace)
    }
    fn is_alive(&self, node: NodeId) -> bool {
        self.step.is_alive(node)
    }
    fn start(&self, task: TaskId, node: NodeId, ready: f64) -> f64 {
        self.available(task, node).max(ready)
    }
    fn free(&self, task: TaskId, node: NodeId, _: f64) -> f64 {
        self.available(task, node)
    }
    fn progress(&self) -> f64 {
        // Tasks that are repeated count again.
        (self.placed as f64 / self.step.instance().tasks().max(1) as f64).min(1.0)
    }
    fn horizon(&self) -> f64 {
        0.0
    }
    fn is_plan(&self) -> bool {
        false
    }
}

impl<O: Observer> Placing<O> {
    pub(crate) fn new(scorer: Arc<Scorer>, experience: Experience, observer: O) -> Self {
        Self {
            scorer,
            observer,
            experience,
            observed: 0,
            jobs: FxHashMap::default(),
            open: Vec::new(),
            situation: Situation::default(),
            scores: Scores::default(),
            arrival: Arrival::default(),
            window: Vec::new(),
            taken: Vec::new(),
            reserved: Vec::new(),
            starts: Vec::new(),
            live: Vec::new(),
            row: Vec::new(),
            scale: 1.0,
            late: Vec::new(),
        }
    }

    /// Takes note of the tasks of this job that have ended.
    fn observe(&mut self, step: &Step<'_>) {
        let instance = step.instance();
        let Self { experience, scale, observed, open, .. } = self;
        open.retain(|&(job, task)| {
            if job != step.job() {
                return true;
            }
            if task.index() >= instance.tasks() {
                return false; // recalled from somewhere else
            }
            if matches!(step.phase(task), Phase::Running | Phase::Ready) {
                return true;
            }
            if let (Phase::Done, Some(node), Some((start, finish))) =
                (step.phase(task), step.node_of(task), step.times(task))
            {
                let expected = instance.exec(task, node) * *scale;
                let kind = &instance.graph().kinds()[instance.graph().kind(task).index()];
                // As exactly as the clock tells.
                let exact = 1e-9 * expected + 4.0 * f64::EPSILON * finish.abs();
                let took = finish - start;
                let took = if (took - expected).abs() > exact { took } else { expected };
                experience.observe(kind, node, expected, took);
                *observed += 1;
            }
            false
        });
    }

    /// Takes over what was learnt since the job was looked at last, and by how many seconds of the clock each node's tasks
    /// of this job end later than the engine believes.
    fn learn(&mut self, step: &Step<'_>) {
        let (instance, now) = (step.instance(), step.now());
        self.late.clear();
        self.late.resize(instance.nodes(), 0.0);
        let Some(Running { job, learnt, .. }) = self.jobs.get_mut(&step.job()) else { return };
        if *learnt != self.observed {
            job.learn(&self.experience, instance.nodes());
            *learnt = self.observed;
        }
        for &(_, task) in self.open.iter().filter(|(of, _)| *of == step.job()) {
            let Some(node) = step.node_of(task) else { continue };
            let factor =
                self.scale * job.pace * job.factor(instance.graph().kind(task), node, instance.nodes());
            let late = match step.times(task) {
                Some((start, finish)) => {
                    let end = if factor == 1.0 { finish } else { start + (finish - start) * factor };
                    // What should have ended is expected to take as long again as it is late.
                    end.max(2.0 * now - end) - finish.max(now)
                }
                None => instance.exec(task, node) * (factor - 1.0),
            };
            self.late[node.index()] += occupied(instance, task, node, late);
        }
    }

    /// The ready tasks of highest rank, by falling rank.
    fn fill_window(&mut self, step: &Step<'_>, free: usize) {
        let Some(Running { job, .. }) = self.jobs.get(&step.job()) else { return };
        let by_rank = |a: &TaskId, b: &TaskId| {
            job.rank[b.index()].total_cmp(&job.rank[a.index()]).then(a.index().cmp(&b.index()))
        };
        let size = (LEAST + 4 * free).min(WINDOW);
        self.window.clear();
        self.window.extend_from_slice(step.ready());
        if self.window.len() > size {
            self.window.select_nth_unstable_by(size, by_rank);
            self.window.truncate(size);
        }
        self.window.sort_unstable_by(by_rank);
    }

    /// Gives the task at a position its node, now or later.
    fn decide(&mut self, i: usize, step: &Step<'_>, decisions: &mut Decisions) {
        let instance = step.instance();
        let seen = &self.situation;
        self.starts.clear();
        self.starts.extend((0..seen.nodes).map(|node| begin(seen, i, node, &self.reserved[node])));
        seen.lateness(i, &self.starts, &mut self.live);
        self.row.clear();
        let mut best: Option<(f32, usize)> = None;
        for (node, live) in self.live.iter().enumerate() {
            let late: f32 = live.iter().zip(self.scores.live).map(|(l, w)| l * w).sum();
            let score = self.scores.fixed[i * seen.nodes + node] + late;
            let can_run = seen.can_run(i, node);
            if can_run && best.is_none_or(|b| score > b.0) {
                best = Some((score, node));
            }
            self.row.push(if can_run { score } else { f32::NAN });
        }
        let Some((_, node)) = best else { return };
        let choice = Choice { task: i, live: &self.live, scores: &self.row };
        let node = self.observer.chosen(choice, node);
        let (task, id) = (self.window[i], NodeId::new(node));
        let from = self.starts[node];
        let row = &mut self.reserved[node];
        let at = row.partition_point(|r| r.0 < from);
        row.insert(at, (from, from + occupied(instance, task, id, seen.exec(i, node))));
        let now = match instance.slots() {
            SlotModel::Exclusive => at == 0,
            SlotModel::Resources => step.available(task, id) <= step.now(),
        };
        if now && !self.taken[node] {
            decisions.place(task, id);
            self.open.push((step.job(), task));
            self.taken[node] = instance.slots() == SlotModel::Exclusive;
            if let Some(running) = self.jobs.get_mut(&step.job()) {
                running.placed += 1;
            }
        }
    }
}

impl<O: Observer> Placer for Placing<O> {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        let instance = step.instance();
        self.observe(step);
        if step.trigger() >= Trigger::NodesChanged {
            self.jobs.remove(&step.job()); // nodes may be new, and the job may have grown
        }
        self.taken.clear();
        self.taken.extend((0..instance.nodes()).map(|node| !takes(step, NodeId::new(node))));
        let free = self.taken.iter().filter(|taken| !**taken).count();
        if step.ready().is_empty() || free == 0 {
            return Ok(());
        }
        if !self.jobs.contains_key(&step.job()) {
            // Jobs that are over have no step of their own any more.
            self.jobs.retain(|job, _| !step.is_over(*job));
            self.open.retain(|(job, _)| !step.is_over(*job));
            let job = Job::new(instance, &self.experience);
            self.jobs.insert(step.job(), Running { job, placed: placed(step), learnt: self.observed });
        }
        self.learn(step);
        self.fill_window(step, free);
        let Some(Running { job, placed, .. }) = self.jobs.get(&step.job()) else { return Ok(()) };
        let (scale, late) = (self.scale, &*self.late);
        let now = Now { step, placed: *placed, pace: scale * job.pace, scale, late };
        self.situation.look(&now, job, &self.window, &mut self.arrival);
        self.scorer.score(&self.situation, &mut self.scores);
        self.observer.looked(&self.situation);
        self.reserved.resize(instance.nodes(), Vec::new());
        self.reserved.iter_mut().for_each(Vec::clear);
        for i in 0..self.window.len() {
            self.decide(i, step, decisions);
        }
        Ok(())
    }

    fn watches_progress(&self) -> bool {
        true
    }

    fn replayed(&mut self, step: &Step<'_>, decisions: &[Decision]) {
        self.observe(step);
        let ready = decisions.iter().filter(|decision| step.phase(decision.task) == Phase::Ready);
        self.open.extend(ready.map(|decision| (step.job(), decision.task)));
    }

    fn memory(&self) -> Vec<u8> {
        let open: Vec<(u32, u32)> = self.open.iter().map(|(job, task)| (job.get(), task.get())).collect();
        serde_json::to_vec(&(MEMORY, &self.experience, open)).unwrap_or_default() // plain data
    }

    fn recall(&mut self, memory: &[u8]) {
        if !memory.starts_with(format!("[\"{MEMORY}\"").as_bytes()) {
            return;
        }
        match serde_json::from_slice::<(String, Experience, Vec<(u32, u32)>)>(memory) {
            Ok((_, experience, open)) => {
                self.experience = experience;
                self.observed += 1;
                self.open = open.into_iter().map(|(job, task)| (job.into(), task.into())).collect();
            }
            Err(error) => tracing::warn!(%error, "what was learnt of nodes cannot be read and is forgotten"),
        }
    }
}

/// When a pair would begin, around what is reserved on the node (ascending). Times count from now, so what is lost to
/// rounding does not depend on the clock.
#[inline]
fn begin(seen: &Situation, i: usize, node: usize, reserved: &[(f64, f64)]) -> f64 {
    let mut start = seen.start(i, node);
    for (from, to) in reserved {
        if start + seen.exec(i, node) <= *from + 1e-9 * from.abs() {
            break;
        }
        start = start.max(*to);
    }
    start
}

/// Tasks of the job that have left the ready ones.
fn placed(step: &Step<'_>) -> usize {
    let is_placed = |t: &TaskId| !matches!(step.phase(*t), Phase::Waiting | Phase::Ready);
    step.instance().graph().tasks().filter(is_placed).count()
}

/// Whether a node may take a task now.
fn takes(step: &Step<'_>, node: NodeId) -> bool {
    let idle = step.instance().slots() == SlotModel::Resources || step.running(node) == 0;
    step.is_alive(node) && step.waiting(node) == 0 && idle
}

/// By how much a task delays others on a node.
fn occupied(instance: &Instance, task: TaskId, node: NodeId, exec: f64) -> f64 {
    match instance.slots() {
        SlotModel::Exclusive => exec,
        SlotModel::Resources => {
            let share = instance.demand(task).first().zip(instance.capacity(node).first());
            exec * share.map_or(1.0, |(demand, capacity)| *demand as f64 / (*capacity).max(1) as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use mdts_core::sim::{Conditions, simulate};
    use mdts_core::{Cluster, Rng};
    use mdts_dag::{DataModel, JobGraph, Task};
    use rand::SeedableRng;

    use super::*;
    use crate::mdts::network::PairNetwork;

    fn raw() -> Raw {
        let network = PairNetwork::new(&mut Rng::seed_from_u64(1)).unwrap();
        Raw::new(Arc::new(Scorer::new(network.params()).unwrap()), Experience::default())
    }

    fn instance() -> Arc<Instance> {
        let mut job = JobGraph::builder("three");
        for i in 0..3 {
            job.task(Task::new(format!("t{i}")).seconds(1.0)).unwrap();
        }
        let cluster = Cluster::identical(2, SlotModel::Exclusive).unwrap();
        Arc::new(
            Instance::new(job.build().unwrap().freeze().into(), cluster.into(), DataModel::Edges).unwrap(),
        )
    }

    #[test]
    fn what_was_learnt_is_known_again() {
        let mut first = raw();
        let conditions = Conditions { seed: 1, noise: 0.3, ..Conditions::default() };
        simulate(&vec![(0.0, instance())], &mut first, &conditions).unwrap();
        let mut second = raw();
        second.recall(&first.memory());
        assert!(!second.experience().is_empty());
        assert_eq!(second.experience(), first.experience());
        assert_eq!(second.memory(), first.memory());
    }

    #[test]
    fn kept_bytes_that_make_no_sense_are_passed_over() {
        let table = [
            String::new(),
            "another policy".into(),
            r#"["mdts experience 1",{"kinds":{}}]"#.into(),
            r#"["mdts experience 1",{"kinds":{"t":[{"logs":1e300,"count":2.0}]}},[]]"#.into(),
            r#"["mdts experience 1",{"kinds":{"t":[{"logs":0.0,"count":-2.0}]}},[]]"#.into(),
        ];
        for text in table {
            let mut raw = raw();
            raw.recall(text.as_bytes());
            assert!(raw.experience().is_empty(), "{text}");
        }
        // Tasks that the job does not have.
        let mut raw = raw();
        raw.recall(br#"["mdts experience 1",{"kinds":{}},[[0,4000000000],[0,2],[77,1]]]"#);
        let trace = simulate(&vec![(0.0, instance())], &mut raw, &Conditions::default()).unwrap();
        assert_eq!(trace.makespan(), 2.0);
    }
}
