//! MDTS as a planner: one call of the network for the next tasks by falling rank that do not wait for each other, which
//! then take their slots in that order, gaps included.
//!
//! Without the network's part of the scores this is HEFT. O(tasks x nodes) for the network; searches as for HEFT.

use std::sync::Arc;

use mdts_core::{Arrival, Instance, NodeId, PartialSchedule, Result, Schedule, Slot};
use mdts_dag::TaskId;

use super::network::{Scorer, Scores};
use super::situation::{Job, LIVE, Situation, View};
use crate::list::rank;

/// Tasks per call of the network at most.
pub(crate) const WINDOW: usize = 16;

/// A plan in the making.
#[derive(Debug, Clone)]
pub(crate) struct Planning<'a> {
    world: World<'a>,
    job: Arc<Job>,
    scorer: Arc<Scorer>,
    /// How much of what was learnt counts: 0 plans as HEFT does.
    strength: f32,
    order: Arc<[TaskId]>,
    /// Tasks of the order that have been in a window.
    next: usize,
    window: Vec<TaskId>,
    /// Tasks of the window that have their slot.
    placed: usize,
    pub(crate) situation: Situation,
    pub(crate) scores: Scores,
    arrival: Arrival,
    /// Whether a node has got a task since the network was called.
    touched: Vec<bool>,
    /// Earliest starts of the task whose turn it is, and how late they are.
    starts: Vec<f64>,
    pub(crate) live: Vec<[f32; LIVE]>,
}

#[derive(Debug, Clone)]
struct World<'a> {
    partial: PartialSchedule<'a>,
    done: usize,
    horizon: f64,
}

impl View for World<'_> {
    fn instance(&self) -> &Instance {
        self.partial.instance()
    }
    fn now(&self) -> f64 {
        self.instance().progress().map_or(0.0, |p| p.now)
    }
    fn gather(&self, task: TaskId, arrival: &mut Arrival) {
        self.partial.gather(task, arrival);
    }
    fn is_alive(&self, node: NodeId) -> bool {
        self.instance().progress().is_none_or(|p| !p.lost.contains(&node))
    }
    fn start(&self, task: TaskId, node: NodeId, ready: f64) -> f64 {
        self.partial.earliest(task, node, ready)
    }
    fn free(&self, task: TaskId, node: NodeId, ready: f64) -> f64 {
        match self.instance().slots() {
            mdts_core::SlotModel::Exclusive => self.partial.node_end(node),
            mdts_core::SlotModel::Resources => self.partial.earliest(task, node, ready),
        }
    }
    fn progress(&self) -> f64 {
        self.done as f64 / self.instance().tasks().max(1) as f64
    }
    fn horizon(&self) -> f64 {
        self.horizon
    }
    fn is_plan(&self) -> bool {
        true
    }
}

impl<'a> Planning<'a> {
    pub(crate) fn new(instance: &'a Instance, scorer: Arc<Scorer>, job: Arc<Job>) -> Result<Self> {
        let partial = PartialSchedule::new(instance)?;
        let order = rank::by_falling_rank(instance, &job.rank);
        let order: Arc<[TaskId]> = order.into_iter().filter(|task| partial.is_open(*task)).collect();
        let placed = |t: &TaskId| partial.finish_of(*t).is_finite();
        let horizon =
            instance.graph().tasks().filter(placed).map(|t| partial.finish_of(t)).fold(0.0, f64::max);
        Ok(Self {
            world: World { done: instance.tasks() - order.len(), partial, horizon },
            job,
            scorer,
            strength: 1.0,
            order,
            next: 0,
            window: Vec::new(),
            placed: 0,
            situation: Situation::default(),
            scores: Scores::default(),
            arrival: Arrival::default(),
            touched: vec![false; instance.nodes()],
            starts: vec![0.0; instance.nodes()],
            live: Vec::new(),
        })
    }

    /// Lets this part of what was learnt count.
    pub(crate) fn with_strength(mut self, strength: f32) -> Self {
        self.strength = strength;
        self
    }

    /// Whether there is a task to place; sees to its numbers.
    pub(crate) fn advance(&mut self) -> bool {
        if self.placed == self.window.len() && !self.fill_window() {
            return false;
        }
        let (i, task) = (self.placed, self.task());
        for node in 0..self.situation.nodes {
            if !self.situation.can_run(i, node) {
                continue;
            }
            self.starts[node] = if self.touched[node] {
                self.world.start(task, NodeId::new(node), self.situation.arrive(i, node))
            } else {
                self.situation.start(i, node)
            };
        }
        self.situation.lateness(i, &self.starts, &mut self.live);
        true
    }

    /// The position in the situation of the task whose turn it is.
    pub(crate) fn position(&self) -> usize {
        self.placed
    }

    /// The task whose turn it is.
    pub(crate) fn task(&self) -> TaskId {
        self.window[self.placed]
    }

    fn fill_window(&mut self) -> bool {
        let graph = self.world.partial.instance().graph();
        self.window.clear();
        self.placed = 0;
        while let Some(&task) = self.order.get(self.next + self.window.len()) {
            let waits = graph.parents(task).iter().any(|p| self.world.partial.is_open(*p));
            if waits || self.window.len() == WINDOW {
                break;
            }
            self.window.push(task);
        }
        self.next += self.window.len();
        if self.window.is_empty() {
            return false;
        }
        self.situation.look(&self.world, &self.job, &self.window, &mut self.arrival);
        self.scorer.score(&self.situation, &mut self.scores);
        self.scores.weaken(self.strength, true);
        self.touched.fill(false);
        true
    }

    /// How good a node is for the task whose turn it is; nothing if it cannot run there.
    #[inline]
    pub(crate) fn score(&self, node: usize) -> Option<f32> {
        let i = self.placed;
        let live = self.live[node];
        let late: f32 = live.iter().zip(self.scores.live).map(|(l, w)| l * w).sum();
        self.situation.can_run(i, node).then(|| self.scores.fixed[i * self.situation.nodes + node] + late)
    }

    /// The best node; among equals the one where it finishes first.
    pub(crate) fn best(&self) -> Option<usize> {
        let mut best: Option<(f32, f64, usize)> = None;
        for node in 0..self.situation.nodes {
            let Some(score) = self.score(node) else { continue };
            let finish = self.starts[node] + self.situation.exec(self.placed, node);
            if best.is_none_or(|b| score > b.0 || score == b.0 && finish < b.1) {
                best = Some((score, finish, node));
            }
        }
        best.map(|b| b.2)
    }

    /// Gives the task whose turn it is to a node.
    pub(crate) fn take(&mut self, node: usize) {
        let (task, id) = (self.task(), NodeId::new(node));
        let start = self.starts[node];
        let finish = start + self.world.partial.exec(task, id);
        self.world.partial.place(task, Slot { node: id, start, finish });
        self.world.horizon = self.world.horizon.max(finish);
        self.world.done += 1;
        self.touched[node] = true;
        self.placed += 1;
    }

    /// Places all that is left.
    pub(crate) fn complete(&mut self) {
        while self.advance() {
            match self.best() {
                Some(node) => self.take(node),
                None => self.placed += 1,
            }
        }
    }

    /// Places all that is left on these nodes, by task, without asking the network.
    pub(crate) fn follow(&mut self, nodes: &[NodeId]) {
        let order = self.order.clone();
        for &task in &order[self.next - self.window.len() + self.placed..] {
            self.world.gather(task, &mut self.arrival);
            let slot = self.world.partial.insertion(task, nodes[task.index()], &self.arrival);
            if let Some(slot) = slot {
                self.world.partial.place(task, slot);
                self.world.horizon = self.world.horizon.max(slot.finish);
            }
        }
        (self.next, self.placed) = (order.len(), self.window.len());
    }

    /// When what has its node has finished.
    pub(crate) fn makespan(&self) -> f64 {
        self.world.horizon
    }

    pub(crate) fn schedule(self) -> Schedule {
        self.world.partial.finish()
    }
}

#[cfg(test)]
mod tests {
    use mdts_core::testkit::instances;
    use mdts_core::{Planner, Rng};
    use rand::SeedableRng;

    use super::*;
    use crate::list::Heft;
    use crate::mdts::experience::Experience;
    use crate::mdts::network::PairNetwork;

    #[test]
    fn an_untrained_network_plans_as_heft_does() {
        let network = PairNetwork::new(&mut Rng::seed_from_u64(1)).unwrap();
        let scorer = Arc::new(Scorer::new(network.params()).unwrap());
        for (name, instance) in instances(1).unwrap() {
            let Ok(heft) = Heft.plan(&instance, &mut Rng::seed_from_u64(1)) else { continue };
            let job = Arc::new(Job::new(&instance, &Experience::default()));
            let mut planning = Planning::new(&instance, scorer.clone(), job).unwrap();
            planning.complete();
            let difference = (planning.makespan() - heft.makespan()).abs();
            assert!(
                difference <= 1e-5 * heft.makespan(),
                "{name}: {} {}",
                planning.makespan(),
                heft.makespan()
            );
        }
    }

    /// What follows another plan's nodes puts every task there, wherever it begins to follow.
    #[test]
    fn the_nodes_of_another_plan_are_taken_over() {
        let network = PairNetwork::new(&mut Rng::seed_from_u64(1)).unwrap();
        let scorer = Arc::new(Scorer::new(network.params()).unwrap());
        for (name, instance) in instances(2).unwrap() {
            let Ok(heft) = Heft.plan(&instance, &mut Rng::seed_from_u64(1)) else { continue };
            let nodes: Vec<NodeId> = heft.placements().iter().map(|p| p.node).collect();
            let job = Arc::new(Job::new(&instance, &Experience::default()));
            for own in [0, 1, 3, WINDOW + 1] {
                let mut planning = Planning::new(&instance, scorer.clone(), job.clone()).unwrap();
                for _ in 0..own {
                    if planning.advance() {
                        planning.take(nodes[planning.task().index()].index());
                    }
                }
                planning.follow(&nodes);
                assert!(!planning.advance(), "{name}: all have their nodes");
                let makespan = planning.makespan();
                let schedule = planning.schedule();
                schedule.verify(&instance).unwrap();
                assert!((schedule.makespan() - makespan).abs() < 1e-9, "{name}");
                assert!(schedule.placements().iter().zip(&nodes).all(|(p, node)| p.node == *node), "{name}");
            }
        }
    }
}
