//! What would have come of other choices: lessons for the network.
//!
//! In a plan, a task's best nodes are each tried and the rest planned by the network itself; in a run, the same run, with
//! the same noise, is repeated with one other choice. Either way the cost of a choice is the makespan that follows when
//! all later choices are the network's own (a rollout: Bertsekas, Tsitsiklis, Wu: Rollout algorithms for combinatorial
//! optimization, Journal of Heuristics 3, 1997). With a teacher, later choices in a plan are the teacher's.

use std::sync::{Arc, Mutex};

use mdts_core::sim::{Conditions, simulate};
use mdts_core::{Instance, NodeId, Placer, Rng};
use mdts_dag::{JobGraph, Task};
use rand::Rng as _;
use rand::seq::index::sample;

use super::experience::Experience;
use super::network::{CANDIDATES, Candidate, Lesson, Scorer, Seen};
use super::placer::{Choice, Observer, Placing, Raw};
use super::planner::Planning;
use super::situation::{Job, LIVE, PER_PAIR, Situation};

/// Differences of makespans beyond this many percent are all the same.
const MOST: f64 = 20.0;

/// Percent by which each is longer than the shortest.
fn costs(makespans: &[f64]) -> Vec<f32> {
    let least = makespans.iter().copied().fold(f64::INFINITY, f64::min);
    let cost = |m: &f64| if least > 0.0 { ((m / least - 1.0) * 100.0).min(MOST) as f32 } else { 0.0 };
    makespans.iter().map(cost).collect()
}

fn outcome(makespan: f64, horizon: f64) -> f32 {
    if horizon > 0.0 && makespan > 0.0 { (makespan / horizon).ln().clamp(-1.0, 3.0) as f32 } else { 0.0 }
}

fn candidate(situation: &Situation, i: usize, node: usize, live: [f32; LIVE], cost: f32) -> Candidate {
    let mut pair = [0.0; PER_PAIR];
    pair.copy_from_slice(situation.pair(i, node));
    Candidate { node, pair, live, cost }
}

/// The best nodes by score, and one other.
fn promising(scores: impl Iterator<Item = (usize, f32)>, count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut nodes: Vec<(usize, f32)> = scores.collect();
    nodes.sort_by(|a, b| b.1.total_cmp(&a.1));
    if nodes.len() > count {
        let other = rng.random_range(count - 1..nodes.len());
        nodes.swap(count - 1, other);
        nodes.truncate(count);
    }
    nodes.into_iter().map(|n| n.0).collect()
}

/// Lessons from the plan of one job: about `count` of its decisions. A part of the choices before is random.
///
/// With the nodes of a teacher, by task, a random part of the choices before is the teacher's, and what a choice costs is
/// told by a plan whose later choices are all the teacher's.
pub(crate) fn plan(
    instance: &Instance,
    scorer: &Arc<Scorer>,
    teacher: Option<&[NodeId]>,
    count: usize,
    rng: &mut Rng,
) -> Vec<Lesson> {
    let job = Arc::new(Job::new(instance, &Experience::default()));
    let Ok(mut planning) = Planning::new(instance, scorer.clone(), job) else { return Vec::new() };
    let share = (count as f64 / instance.tasks().max(1) as f64).min(1.0);
    let wander = if rng.random_bool(0.5) { 0.0 } else { rng.random_range(0.0..0.2) };
    let obeys = if teacher.is_some() { rng.random() } else { 0.0 };
    let mut lessons = Vec::new();
    while planning.advance() {
        let Some(mut node) = planning.best() else { return lessons };
        if rng.random_bool(share) {
            lessons.extend(tried(&planning, teacher, rng));
        }
        if let Some(nodes) = teacher
            && rng.random_bool(obeys)
        {
            node = nodes[planning.task().index()].index();
        }
        if wander > 0.0 && rng.random_bool(wander) {
            let all = promising(scores(&planning), 3, rng);
            node = all[rng.random_range(0..all.len())];
        }
        planning.take(node);
    }
    lessons
}

fn scores(planning: &Planning<'_>) -> impl Iterator<Item = (usize, f32)> {
    (0..planning.situation.nodes).filter_map(|node| Some((node, planning.score(node)?)))
}

/// What comes of some nodes for the task whose turn it is; nothing if it does not matter which.
fn tried(planning: &Planning<'_>, teacher: Option<&[NodeId]>, rng: &mut Rng) -> Option<Lesson> {
    let (seen, i) = (&planning.situation, planning.position());
    let mut nodes = promising(scores(planning), CANDIDATES.min(4), rng);
    if let Some(node) = teacher.map(|nodes| nodes[planning.task().index()].index())
        && !nodes.contains(&node)
    {
        nodes.push(node);
    }
    let makespan = |&node: &usize| {
        let mut other = planning.clone();
        other.take(node);
        match teacher {
            Some(nodes) => other.follow(nodes),
            None => other.complete(),
        }
        other.makespan()
    };
    let makespans: Vec<f64> = nodes.iter().map(makespan).collect();
    let costs = costs(&makespans);
    if costs.iter().all(|cost| *cost <= 1e-4) {
        return None;
    }
    let candidates = nodes.iter().zip(&costs);
    let candidates = candidates.map(|(n, c)| candidate(seen, i, *n, planning.live[*n], *c)).collect();
    let outcome = outcome(makespans[0], seen.horizon);
    Some(Lesson { seen: Seen::of(seen), task: i, candidates, outcome })
}

/// A decision of a run.
struct Decision {
    step: usize,
    task: usize,
    chosen: usize,
    scores: Vec<(usize, f32)>,
    live: Vec<[f32; LIVE]>,
}

#[derive(Default)]
struct Log {
    steps: Vec<Situation>,
    decisions: Vec<Decision>,
}

/// Writes down every decision.
struct Recorder(Arc<Mutex<Log>>);

impl Observer for Recorder {
    fn looked(&mut self, situation: &Situation) {
        if let Ok(mut log) = self.0.lock() {
            log.steps.push(situation.clone());
        }
    }

    fn chosen(&mut self, choice: Choice<'_>, node: usize) -> usize {
        if let Ok(mut log) = self.0.lock() {
            let scores = choice.scores.iter().copied().enumerate().filter(|s| !s.1.is_nan()).collect();
            let step = log.steps.len() - 1;
            let live = choice.live.to_vec();
            log.decisions.push(Decision { step, task: choice.task, chosen: node, scores, live });
        }
        node
    }
}

/// Makes one choice another.
struct Other {
    /// Steps still to come before the one.
    steps: usize,
    task: usize,
    node: usize,
}

impl Observer for Other {
    fn looked(&mut self, _: &Situation) {
        self.steps = self.steps.wrapping_sub(1);
    }

    fn chosen(&mut self, choice: Choice<'_>, node: usize) -> usize {
        if self.steps == usize::MAX && choice.task == self.task { self.node } else { node }
    }
}

/// The makespan of a run.
pub(crate) fn run(instance: &Arc<Instance>, placer: impl Placer, conditions: &Conditions) -> Option<f64> {
    Some(simulate(&vec![(0.0, instance.clone())], placer, conditions).ok()?.makespan())
}

/// What is learnt of the nodes by an earlier run of a job: the same hidden affinity as in [`run`], but noise of its own.
pub(crate) fn experience(
    instance: &Arc<Instance>,
    scorer: &Arc<Scorer>,
    conditions: &Conditions,
) -> Experience {
    let mut raw = Raw::new(scorer.clone(), Experience::default());
    // Noise depends on the number of the job, so a job that takes no time goes before it.
    let arrivals = nothing(instance).into_iter().chain([instance.clone()]).map(|job| (0.0, job)).collect();
    // A run that fails has taught something, too.
    _ = simulate(&arrivals, &mut raw, conditions);
    raw.experience().clone()
}

/// A job of one task without work, on the nodes of another job.
fn nothing(other: &Instance) -> Option<Arc<Instance>> {
    let mut job = JobGraph::builder("nothing");
    job.task(Task::new("nothing").seconds(0.0)).ok()?;
    let graph = job.build().ok()?.freeze().into();
    Instance::new(graph, Arc::new(other.cluster().clone()), other.data()).ok().map(Arc::new)
}

/// Lessons from one run: `count` of its decisions.
pub(crate) fn practise(
    instance: &Arc<Instance>,
    scorer: &Arc<Scorer>,
    conditions: &Conditions,
    before: &Experience,
    count: usize,
    rng: &mut Rng,
) -> Vec<Lesson> {
    let log = Arc::new(Mutex::new(Log::default()));
    let raw = Placing::new(scorer.clone(), before.clone(), Recorder(log.clone()));
    let Some(makespan) = run(instance, raw, conditions) else { return Vec::new() };
    let Ok(mut log) = log.lock().map(|mut log| std::mem::take(&mut *log)) else { return Vec::new() };
    log.decisions.retain(|d| d.scores.len() > 1);
    let mut lessons = Vec::new();
    for at in sample(rng, log.decisions.len(), count.min(log.decisions.len())) {
        let decision = &log.decisions[at];
        let mut nodes = vec![decision.chosen];
        let others = decision.scores.iter().copied().filter(|s| s.0 != decision.chosen);
        nodes.extend(promising(others, 2, rng));
        let mut makespans = vec![makespan];
        for &node in &nodes[1..] {
            let other = Other { steps: decision.step, task: decision.task, node };
            makespans.extend(run(instance, Placing::new(scorer.clone(), before.clone(), other), conditions));
        }
        let costs = costs(&makespans);
        if makespans.len() == nodes.len() && costs.iter().any(|c| *c > 1e-4) {
            let (seen, i) = (&log.steps[decision.step], decision.task);
            let all = nodes.iter().zip(&costs);
            let candidates = all.map(|(n, c)| candidate(seen, i, *n, decision.live[*n], *c)).collect();
            let outcome = outcome(makespan, seen.horizon);
            lessons.push(Lesson { seen: Seen::of(seen), task: i, candidates, outcome });
        }
    }
    lessons
}
