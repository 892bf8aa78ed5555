//! A planner in the role of a placer: follow the plan, and plan again when reality leaves it.

use mdts_dag::TaskId;
use rustc_hash::FxHashMap;

use crate::engine::{JobId, Phase, Step, Trigger};
use crate::{Decisions, Error, Instance, NodeId, Placer, Planner, Result, Rng};

/// Follows the plans of a [`Planner`].
///
/// A job is planned when it is submitted; all tasks are placed at once, in the plan's order on every node, so
/// that data can move ahead of time. The rest is planned again when a node is lost or joins, and when the job is
/// late: some task should have finished `drift` times the planned makespan ago.
#[derive(Debug)]
pub struct Planned<P> {
    planner: P,
    rng: Rng,
    drift: f64,
    plans: FxHashMap<JobId, Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    node: Vec<NodeId>,
    /// All tasks with their planned finish, ascending.
    finishes: Vec<(f64, TaskId)>,
    /// All of `finishes` before this are done.
    done: usize,
    /// Seconds of delay that are put up with.
    patience: f64,
}

impl<P: Planner> Planned<P> {
    /// Follows plans however late they are; plans again only when nodes change.
    pub fn new(planner: P, rng: Rng) -> Self {
        Self { planner, rng, drift: f64::INFINITY, plans: FxHashMap::default() }
    }

    /// Also plans again when a task is late by more than this part of the planned makespan.
    #[must_use]
    pub fn replan_when_late(mut self, drift: f64) -> Self {
        self.drift = drift;
        self
    }

    fn plan(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        let alive = || step.instance().cluster().node_ids().all(|n| step.is_alive(n));
        let first = step.trigger() == Trigger::Submitted
            && step.instance().progress().is_none()
            && step.now() == 0.0 // plans count from there
            && alive();
        let rest;
        let instance = if first {
            step.instance()
        } else {
            if !can_go_on(step) {
                return Ok(()); // until a node joins
            }
            rest = step.instance().with_progress(step.progress());
            &rest
        };
        let schedule = self.planner.plan(instance, &mut self.rng)?;
        let mut plan = Plan { node: vec![NodeId::default(); instance.tasks()], ..Plan::default() };
        let mut order = schedule.placements().to_vec();
        if order.len() != instance.tasks() {
            let message = format!("the plan has {} tasks, the job {}", order.len(), instance.tasks());
            return Err(Error::Unsupported { message });
        }
        let position = positions(instance);
        order.sort_by(|a, b| {
            let key = |task: TaskId| position[task.index()];
            a.start
                .total_cmp(&b.start)
                .then(a.finish.total_cmp(&b.finish))
                .then(key(a.task).cmp(&key(b.task)))
        });
        for p in &order {
            plan.node[p.task.index()] = p.node;
            if matches!(step.phase(p.task), Phase::Waiting | Phase::Ready) {
                decisions.place_in_order(p.task, p.node);
            }
        }
        plan.finishes = order.iter().map(|p| (p.finish, p.task)).collect();
        plan.finishes.sort_by(|a, b| a.0.total_cmp(&b.0));
        plan.patience = self.drift * schedule.makespan();
        self.plans.insert(step.job(), plan);
        Ok(())
    }

    fn is_late(&mut self, step: &Step<'_>) -> bool {
        let Some(plan) = self.plans.get_mut(&step.job()) else { return false };
        let is_done = |task| matches!(step.phase(task), Phase::Done);
        while plan.finishes.get(plan.done).is_some_and(|(_, task)| is_done(*task)) {
            plan.done += 1;
        }
        plan.finishes.get(plan.done).is_some_and(|(finish, _)| step.now() > finish + plan.patience)
    }
}

impl<P: Planner> Placer for Planned<P> {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        if step.trigger() >= Trigger::NodesChanged || self.is_late(step) {
            return self.plan(step, decisions);
        }
        // Attempts to be repeated; they must not queue behind tasks that wait for them.
        let Some(plan) = self.plans.get(&step.job()) else { return Ok(()) };
        for &task in step.ready() {
            if step.can_run(task, plan.node[task.index()]) {
                decisions.place(task, plan.node[task.index()]);
            }
        }
        Ok(())
    }

    fn watches_progress(&self) -> bool {
        self.drift.is_finite()
    }
}

/// Whether every task that has not started could run on some node that is there.
fn can_go_on(step: &Step<'_>) -> bool {
    let instance = step.instance();
    let alive: Vec<NodeId> = instance.cluster().node_ids().filter(|n| step.is_alive(*n)).collect();
    let open = |t: &TaskId| matches!(step.phase(*t), Phase::Waiting | Phase::Ready);
    instance.graph().tasks().filter(open).all(|t| alive.iter().any(|n| instance.can_run(t, *n)))
}

/// Position of every task in topological order.
fn positions(instance: &Instance) -> Vec<u32> {
    let mut position = vec![0; instance.tasks()];
    for (at, task) in instance.graph().topological_order().iter().enumerate() {
        position[task.index()] = at as u32;
    }
    position
}
