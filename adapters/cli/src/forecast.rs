//! When a run will end: by the cost model, and by how long tasks have taken so far against it.

use mdts_core::engine::{JobId, Phase, State};
use mdts_core::{Instance, NodeId, Placement, Progress, Schedule};
use mdts_dag::TaskId;
use mdts_dag::generate::seeded;

use crate::error::Result;
use crate::policy::{self, Policy};

/// The one job of a run.
const JOB: JobId = JobId::new(0);

/// What is left of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Forecast {
    /// Seconds along the longest path of what is not done, every task on its fastest node, at the expected pace; what
    /// runs counts with what is left of it.
    pub(crate) path_seconds: f64,
    /// The tasks of that path, in order.
    pub(crate) path: Vec<TaskId>,
    /// Seconds that done tasks took over those that they should have taken; 1 while none is done.
    pub(crate) pace: f64,
    /// When all is done, in seconds since the run began, if HEFT places the rest at this pace. `None` if all is done or
    /// it cannot be placed.
    pub(crate) end: Option<f64>,
}

impl Forecast {
    /// Of a run that stands at `state` at the time `now`; `scale`: seconds of the run per second of the cost model.
    ///
    /// # Errors
    /// None is known.
    pub(crate) fn new(state: &State, instance: &Instance, now: f64, scale: f64) -> Result<Self> {
        let pace = pace(state, instance, scale);
        let (path, path_seconds) = critical_path(state, instance, now, scale);
        let end = if state.is_finished() { None } else { end(state, instance, now, scale * pace)? };
        Ok(Self { path_seconds, path, pace, end })
    }
}

fn pace(state: &State, instance: &Instance, scale: f64) -> f64 {
    let (mut real, mut expected) = (0.0, 0.0);
    for task in instance.graph().tasks().filter(|task| state.phase(JOB, *task) == Phase::Done) {
        if let (Some((start, finish)), Some(node)) = (state.times(JOB, task), state.node_of(JOB, task)) {
            real += finish - start;
            expected += instance.exec(task, node) * scale;
        }
    }
    if expected > 0.0 { real / expected } else { 1.0 }
}

fn critical_path(state: &State, instance: &Instance, now: f64, scale: f64) -> (Vec<TaskId>, f64) {
    let graph = instance.graph();
    let mut behind = vec![0.0_f64; instance.tasks()];
    let mut next: Vec<Option<TaskId>> = vec![None; instance.tasks()];
    let mut first: Option<TaskId> = None;
    for &task in graph.topological_order().iter().rev() {
        let own = match state.phase(JOB, task) {
            Phase::Done | Phase::Failed | Phase::Blocked => continue,
            Phase::Running => match (state.times(JOB, task), state.node_of(JOB, task)) {
                (Some((start, _)), Some(node)) => (start + instance.exec(task, node) * scale - now).max(0.0),
                _ => 0.0,
            },
            Phase::Waiting | Phase::Ready => instance.min_exec(task) * scale,
        };
        let open = graph.children(task).iter().filter(|child| !is_over(state.phase(JOB, **child)));
        let longest = open.max_by(|a, b| behind[a.index()].total_cmp(&behind[b.index()])).copied();
        next[task.index()] = longest;
        behind[task.index()] = own + longest.map_or(0.0, |child| behind[child.index()]);
        if first.is_none_or(|known| behind[task.index()] >= behind[known.index()]) {
            first = Some(task);
        }
    }
    let path: Vec<TaskId> = std::iter::successors(first, |task| next[task.index()]).collect();
    let seconds = first.map_or(0.0, |task| behind[task.index()]);
    (path, seconds)
}

fn is_over(phase: Phase) -> bool {
    matches!(phase, Phase::Done | Phase::Failed | Phase::Blocked)
}

/// Plans the rest in seconds of the cost model, of which each takes `scale` in the run.
fn end(state: &State, instance: &Instance, now: f64, scale: f64) -> Result<Option<f64>> {
    if scale <= 0.0 {
        return Ok(Some(now));
    }
    let model = |seconds: f64| seconds / scale;
    let started = instance.graph().tasks().filter_map(|task| {
        let ((start, finish), node) = (state.times(JOB, task)?, state.node_of(JOB, task)?);
        let (start, now) = (model(start), model(now));
        let finish = match state.phase(JOB, task) {
            Phase::Running => (start + instance.exec(task, node)).max(now * (1.0 + 1e-9)),
            _ => model(finish).min(now),
        };
        Some(Placement { task, node, start, finish })
    });
    let over = |task: &TaskId| matches!(state.phase(JOB, *task), Phase::Failed | Phase::Blocked);
    let progress = Progress {
        now: model(now),
        started: started.collect(),
        lost: instance.cluster().node_ids().filter(|node| !state.is_alive(*node)).collect(),
        dropped: instance.graph().tasks().filter(over).collect(),
    };
    let planner = Policy::new(policy::find("heft")?, None).planner();
    // Where only lost nodes could run a task nobody can tell.
    let plan = planner.plan(&instance.with_progress(progress), &mut seeded(0));
    Ok(plan.ok().map(|schedule| (schedule.makespan() * scale).max(now)))
}

/// How far a run is on the way of its plan; cheap enough to be asked while it runs.
#[derive(Debug)]
pub(crate) struct Outlook {
    /// Seconds that each task takes by the plan.
    planned: Vec<f64>,
    /// Work done by the plan at a time: both grow, and between two points it is a straight line.
    curve: Vec<(f64, f64)>,
    scale: f64,
}

/// Share of the plan that counts as if it had gone as planned, so that the first tasks do not decide everything.
const PRIOR: f64 = 0.05;

impl Outlook {
    /// For a run by `plan`; `scale`: seconds of the run per second of the plan. O(tasks log tasks).
    pub(crate) fn new(plan: &Schedule, tasks: usize, scale: f64) -> Self {
        let mut planned = vec![0.0; tasks];
        let mut turns = Vec::with_capacity(2 * tasks);
        for p in plan.placements() {
            planned[p.task.index()] = p.finish - p.start;
            turns.extend([(p.start, 1.0), (p.finish, -1.0)]);
        }
        turns.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut curve, mut rate) = (vec![(0.0, 0.0)], 0.0);
        let (mut at, mut work) = (0.0, 0.0);
        for (time, turn) in turns {
            work += rate * (time - at);
            (at, rate) = (time, rate + turn);
            curve.push((at, work));
        }
        Self { planned, curve, scale }
    }

    /// When the run should end, in seconds since it began. O(tasks).
    pub(crate) fn end(&self, state: &State, instance: &Instance, now: f64) -> f64 {
        let done = |task: TaskId| match (state.phase(JOB, task), state.times(JOB, task)) {
            (Phase::Done | Phase::Failed | Phase::Blocked, _) => 1.0,
            (Phase::Running, Some((start, _))) => {
                let node = state.node_of(JOB, task).unwrap_or(NodeId::new(0));
                let expected = instance.exec(task, node) * self.scale;
                if expected > 0.0 { ((now - start) / expected).clamp(0.0, 1.0) } else { 1.0 }
            }
            _ => 0.0,
        };
        let work: f64 = instance.graph().tasks().map(|task| done(task) * self.planned[task.index()]).sum();
        let total = self.curve.last().map_or(0.0, |(at, _)| *at) * self.scale;
        let reached = self.time_of(work) * self.scale;
        let prior = PRIOR * total;
        let pace = if reached + prior > 0.0 { (now + prior) / (reached + prior) } else { 1.0 };
        now + (total - reached).max(0.0) * pace
    }

    /// When the plan has done so much.
    fn time_of(&self, work: f64) -> f64 {
        let at = self.curve.partition_point(|(_, done)| *done < work);
        match (at.checked_sub(1).and_then(|before| self.curve.get(before)), self.curve.get(at)) {
            (Some(a), Some(b)) if b.1 > a.1 => a.0 + (b.0 - a.0) * (work - a.1) / (b.1 - a.1),
            (_, Some(point)) => point.0,
            (_, None) => self.curve.last().map_or(0.0, |point| point.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mdts_core::engine::{Engine, Event, TaskRun};
    use mdts_core::{Cluster, SlotModel};
    use mdts_dag::{DataModel, JobGraph, Task};

    use super::*;

    type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

    /// Chains a-b-c and d-e on two nodes, ten seconds each.
    fn chains() -> std::result::Result<Arc<Instance>, Box<dyn std::error::Error>> {
        let mut job = JobGraph::builder("chains");
        let tasks = ["a", "b", "c", "d", "e"].map(|name| job.task(Task::new(name).seconds(10.0)));
        let [a, b, c, d, e] = tasks;
        let (b, d) = (b?, d?);
        job.depend(b, a?, 0.0);
        job.depend(c?, b, 0.0);
        job.depend(e?, d, 0.0);
        let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
        Ok(Arc::new(Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?))
    }

    fn run(task: u32) -> TaskRun {
        TaskRun { job: JOB, task: task.into(), attempt: 1 }
    }

    #[test]
    fn the_rest_is_forecast_at_the_pace_of_what_is_done() -> Outcome {
        let instance = chains()?;
        let policy = Policy::new(policy::find("heft")?, None);
        let mut engine = Engine::new(instance.cluster(), policy.placer(0), false);
        engine.handle(0.0, [Event::Submitted(instance.clone())])?;
        let forecast = Forecast::new(engine.state(), &instance, 0.0, 1.0)?;
        assert_eq!((forecast.pace, forecast.path_seconds, forecast.end), (1.0, 30.0, Some(30.0)));
        assert_eq!(forecast.path, [0, 1, 2].map(TaskId::from));
        // Everything takes twice as long.
        engine.handle(20.0, [Event::Finished(run(0)), Event::Finished(run(3))])?;
        let forecast = Forecast::new(engine.state(), &instance, 30.0, 1.0)?;
        assert_eq!((forecast.pace, forecast.path_seconds), (2.0, 10.0), "b should have ended just now");
        assert!(forecast.end.is_some_and(|end| (end - 60.0).abs() < 1e-6), "{forecast:?}");
        // As an emulation with twice the seconds it is on time.
        let forecast = Forecast::new(engine.state(), &instance, 30.0, 2.0)?;
        assert_eq!((forecast.pace, forecast.path_seconds), (1.0, 30.0));
        assert!(forecast.end.is_some_and(|end| (end - 60.0).abs() < 1e-6), "{forecast:?}");
        Ok(())
    }

    #[test]
    fn the_outlook_follows_the_plan() -> Outcome {
        let instance = chains()?;
        let policy = Policy::new(policy::find("heft")?, None);
        let plan = policy::plan(&policy, 0, &instance)?;
        let mut engine = Engine::new(instance.cluster(), policy.placer(0), false);
        engine.handle(0.0, [Event::Submitted(instance.clone())])?;
        let outlook = Outlook::new(&plan.schedule, instance.tasks(), 1.0);
        let end = |engine: &Engine<_>, now| outlook.end(engine.state(), &instance, now);
        assert!((end(&engine, 0.0) - 30.0).abs() < 1e-9);
        assert!((end(&engine, 5.0) - 30.0).abs() < 1e-9, "half of two tasks is done");
        engine.handle(10.0, [Event::Finished(run(0)), Event::Finished(run(3))])?;
        assert!((end(&engine, 10.0) - 30.0).abs() < 1e-9);
        engine.handle(40.0, [Event::Finished(run(1)), Event::Finished(run(4))])?;
        let late = end(&engine, 40.0);
        assert!((55.0..65.0).contains(&late), "it took twice as long so far: {late}");
        Ok(())
    }
}
