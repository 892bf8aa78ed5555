//! A planner in the role of a placer: follow the plan, and plan again when reality leaves it.

use mdts_dag::TaskId;
use rustc_hash::FxHashMap;

use crate::engine::{JobId, Phase, Step, Trigger};
use crate::{
    Decisions, Error, Instance, NodeId, Placement, Placer, Planner, Progress, Result, Rng, Schedule,
};

/// Follows the plans of a [`Planner`].
///
/// A job is planned when it is submitted; all tasks are placed at once, in the plan's order on every node, so
/// that data can move ahead of time. The rest is planned again when a node is lost or joins, and when the job is
/// late: some task should have finished `drift` times the span of the first plan ago. Tasks that only lost nodes could
/// run wait until one joins; tasks that [rest](Step::is_resting), and those behind them, are left out of new plans and
/// planned when they are ready.
#[derive(Debug)]
pub struct Planned<P> {
    planner: P,
    rng: Rng,
    drift: f64,
    first: Option<Schedule>,
    plans: FxHashMap<JobId, Plan>,
    /// Plans that were left when those of jobs that are over were dropped last.
    left: usize,
}

/// So many plans are kept at least until those of jobs that are over are dropped.
const MANY: usize = 100;

#[derive(Debug, Default)]
struct Plan {
    /// Per task; none for tasks that were left out.
    node: Vec<Option<NodeId>>,
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
        Self { planner, rng, drift: f64::INFINITY, first: None, plans: FxHashMap::default(), left: 0 }
    }

    /// Also plans again when a task is late by more than this part of the first plan's span.
    #[must_use]
    pub fn replan_when_late(mut self, drift: f64) -> Self {
        self.drift = drift;
        self
    }

    /// Follows this plan at first, made for the first job that is submitted; the planner is asked only for plans after
    /// that. If nodes are missing when the job is submitted, the plan is not used.
    #[must_use]
    pub fn beginning_with(mut self, plan: Schedule) -> Self {
        self.first = Some(plan);
        self
    }

    fn plan(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        let mut progress = step.progress();
        leave_out_stranded(step, &mut progress);
        let left_out = progress.dropped.len();
        let is_untouched = !progress.has_begun();
        let is_new = is_untouched && progress.now == 0.0; // plans count from there
        let rest;
        let instance = if is_new {
            step.instance()
        } else {
            rest = step.instance().with_progress(progress);
            &rest
        };
        let schedule = match self.first.take().filter(|_| is_untouched) {
            Some(plan) => plan,
            None => self.planner.plan(instance, &mut self.rng)?,
        };
        let order = in_order(instance, &schedule);
        if order.len() + left_out != instance.tasks() {
            let message =
                format!("the plan has {} tasks, the job {}", order.len(), instance.tasks() - left_out);
            return Err(Error::Unsupported { message });
        }
        let known = self.plans.get(&step.job()).map(|plan| plan.patience);
        let patience = known.unwrap_or(self.drift * (schedule.makespan() - step.now()).max(0.0));
        let mut plan = Plan { node: vec![None; instance.tasks()], patience, ..Plan::default() };
        for p in &order {
            plan.node[p.task.index()] = Some(p.node);
            if matches!(step.phase(p.task), Phase::Waiting | Phase::Ready) {
                decisions.place_in_order(p.task, p.node);
            }
        }
        plan.finishes = order.iter().map(|p| (p.finish, p.task)).collect();
        plan.finishes.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.plans.insert(step.job(), plan);
        if self.plans.len() > 2 * self.left + MANY {
            self.plans.retain(|job, _| !step.is_over(*job));
            self.left = self.plans.len();
        }
        Ok(())
    }

    /// Whether a task is ready that was left out of the plan and could run now.
    fn is_incomplete(&self, step: &Step<'_>) -> bool {
        let Some(plan) = self.plans.get(&step.job()) else { return false };
        let could_run = |task| step.instance().cluster().node_ids().any(|node| step.can_run(task, node));
        step.ready().iter().any(|task| plan.node[task.index()].is_none() && could_run(*task))
    }

    fn is_late(&mut self, step: &Step<'_>) -> bool {
        let Some(plan) = self.plans.get_mut(&step.job()) else { return false };
        let is_over = |task| matches!(step.phase(task), Phase::Done | Phase::Failed | Phase::Blocked);
        while plan.finishes.get(plan.done).is_some_and(|(_, task)| is_over(*task)) {
            plan.done += 1;
        }
        plan.finishes.get(plan.done).is_some_and(|(finish, _)| step.now() > finish + plan.patience)
    }
}

impl<P: Planner> Placer for Planned<P> {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        if step.trigger() >= Trigger::NodesChanged || self.is_late(step) || self.is_incomplete(step) {
            return self.plan(step, decisions);
        }
        // Attempts to be repeated; they must not queue behind tasks that wait for them.
        let Some(plan) = self.plans.get(&step.job()) else { return Ok(()) };
        for &task in step.ready() {
            if let Some(node) = plan.node[task.index()].filter(|node| step.can_run(task, *node)) {
                decisions.place(task, node);
            }
        }
        Ok(())
    }

    fn watches_progress(&self) -> bool {
        self.drift.is_finite()
    }
}

/// Leaves out the open tasks that only lost nodes could run or that rest, and all that wait for them: they are planned
/// when a node joins, or when they are ready.
fn leave_out_stranded(step: &Step<'_>, progress: &mut Progress) {
    if progress.lost.is_empty() && !step.has_resting() {
        return;
    }
    let instance = step.instance();
    let alive: Vec<NodeId> = instance.cluster().node_ids().filter(|n| step.is_alive(*n)).collect();
    let mut stranded = vec![false; instance.tasks()];
    for &task in instance.graph().topological_order() {
        if !matches!(step.phase(task), Phase::Waiting | Phase::Ready) {
            continue;
        }
        let waits = instance.graph().parents(task).iter().any(|p| stranded[p.index()]);
        if waits || step.is_resting(task) || !alive.iter().any(|n| instance.can_run(task, *n)) {
            stranded[task.index()] = true;
            progress.dropped.push(task);
        }
    }
}

/// The placements in an order in which every node can take them one after the other: by start, then finish (tasks
/// that take no time first), then parents before children.
fn in_order(instance: &Instance, schedule: &Schedule) -> Vec<Placement> {
    let position = positions(instance);
    let mut order = schedule.placements().to_vec();
    order.sort_by(|a, b| {
        a.start
            .total_cmp(&b.start)
            .then(a.finish.total_cmp(&b.finish))
            .then(position[a.task.index()].cmp(&position[b.task.index()]))
    });
    order
}

/// Position of every task in topological order.
fn positions(instance: &Instance) -> Vec<u32> {
    let mut position = vec![0; instance.tasks()];
    for (at, task) in instance.graph().topological_order().iter().enumerate() {
        position[task.index()] = at as u32;
    }
    position
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mdts_dag::{DataModel, JobGraph, Task};
    use rand::SeedableRng;

    use super::*;
    use crate::engine::{Command, Engine, Event};
    use crate::roles::Simulated;
    use crate::{Cluster, SlotModel};

    #[derive(Debug)]
    struct First;

    impl Placer for First {
        fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
            step.ready().iter().for_each(|task| decisions.place(*task, 0.into()));
            Ok(())
        }
    }

    #[test]
    fn plans_of_jobs_that_are_over_are_dropped() -> Result<()> {
        let mut job = JobGraph::builder("one");
        job.task(Task::new("a").seconds(1.0))?;
        let cluster = Arc::new(Cluster::identical(1, SlotModel::Exclusive)?);
        let instance =
            Arc::new(Instance::new(job.build()?.freeze().into(), cluster.clone(), DataModel::Edges)?);
        let planned = Planned::new(Simulated::new(|_: &mut Rng| First), Rng::seed_from_u64(1));
        let mut engine = Engine::new(&cluster, planned, false);
        for now in 0..10 * MANY {
            let commands = engine.handle(now as f64, [Event::Submitted(instance.clone())])?.to_vec();
            let [Command::Start { run, .. }] = commands[..] else { panic!("{commands:?}") };
            engine.handle(now as f64 + 0.5, [Event::Finished(run)])?;
            assert!(engine.policy().plans.len() <= MANY + 2);
        }
        Ok(())
    }
}
