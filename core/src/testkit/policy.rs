//! Checks of policies in both roles.

use std::sync::Arc;

use rand::SeedableRng;

use super::instances;
use crate::engine::State;
use crate::sim::{Conditions, Failures, simulate_recorded};
use crate::{Error, Instance, NodeId, PartialSchedule, Placer, Planner, Progress, Rng, Schedule};

const SEED: u64 = 1;

/// Checks a planner on [`instances`], each from the start and with half of it done and a node lost.
///
/// Plans must pass [`Schedule::verify`], be the same for the same seed (also on two threads at once), keep what has
/// started and use neither the past nor lost nodes. Instances that the planner calls unsupported are left out.
///
/// # Errors
/// What is wrong, and on which instance.
pub fn check_planner(planner: &dyn Planner) -> Result<(), String> {
    let mut checked = 0;
    for (name, instance) in instances(SEED).map_err(|e| e.to_string())? {
        let half = half_done(&instance).map_err(|e| e.to_string())?;
        for (name, instance) in [(name.clone(), &*instance), (format!("{name}, half done"), &half)] {
            match check_plan(planner, instance) {
                Ok(()) => checked += 1,
                Err(Wrong::Unsupported) => {}
                Err(Wrong::Because(reason)) => return Err(format!("{name}: {reason}")),
            }
        }
    }
    if checked == 0 { Err("the planner supports none of the instances".to_owned()) } else { Ok(()) }
}

enum Wrong {
    Unsupported,
    Because(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        match error {
            Error::Unsupported { .. } => Self::Unsupported,
            error => Self::Because(error.to_string()),
        }
    }
}

fn check_plan(planner: &dyn Planner, instance: &Instance) -> Result<(), Wrong> {
    let plan = || planner.plan(instance, &mut Rng::seed_from_u64(SEED));
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(plan);
        (plan(), other.join())
    });
    let first = first?;
    let second = second.map_err(|_| Wrong::Because("planning panics".to_owned()))??;
    first.verify(instance).map_err(|violation| Wrong::Because(violation.to_string()))?;
    if first != second {
        return Err(Wrong::Because("two plans from the same seed differ".to_owned()));
    }
    match instance.progress() {
        Some(progress) => check_progress(&first, instance, progress).map_err(Wrong::Because),
        None => Ok(()),
    }
}

fn check_progress(plan: &Schedule, instance: &Instance, progress: &Progress) -> Result<(), String> {
    let name = |task| instance.graph().task_name(task);
    for started in &progress.started {
        if plan.find(started.task) != Some(started) {
            return Err(format!("task '{}' has started already, but the plan moves it", name(started.task)));
        }
    }
    let tolerance = 1e-9 * progress.now.max(1.0);
    for p in plan.placements().iter().filter(|p| progress.started.iter().all(|s| s.task != p.task)) {
        if p.start < progress.now - tolerance {
            return Err(format!(
                "task '{}' is to start at {} s, but it is {} s",
                name(p.task),
                p.start,
                progress.now
            ));
        }
        if progress.lost.contains(&p.node) {
            let node = &instance.cluster().node(p.node).name;
            return Err(format!("task '{}' is to run on '{node}', which is lost", name(p.task)));
        }
    }
    Ok(())
}

/// The instance when half of a simple plan is done; if the rest can do without it, the last node is lost.
fn half_done(instance: &Instance) -> crate::Result<Instance> {
    let mut partial = PartialSchedule::new(instance)?;
    for &task in instance.graph().topological_order() {
        let slot = partial.best_insertion(task);
        partial.place(task, slot);
    }
    let plan = partial.finish();
    let now = plan.makespan() / 2.0;
    let last = NodeId::new(instance.nodes() - 1);
    let survives = |task| instance.cluster().node_ids().any(|n| n != last && instance.can_run(task, n));
    let is_needed = instance.graph().tasks().any(|task| !survives(task));
    let lost: Vec<NodeId> = Some(last).filter(|_| !is_needed).into_iter().collect();
    let has_started = |p: &crate::Placement| p.start < now && (p.finish <= now || !lost.contains(&p.node));
    let started = plan.placements().iter().copied().filter(has_started).collect();
    Ok(instance.with_progress(Progress { now, started, lost, ..Progress::default() }))
}

/// Checks a placer on [`instances`] in the simulator: one job and two at a time, in an ideal world and in worlds
/// with noise, contention and node failures.
///
/// Every job must come to its end with each task run once on a node that can run it; under ideal conditions what
/// happened must pass [`Schedule::verify`]. `make` gives a fresh placer for every run. Instances that the placer
/// calls unsupported are left out.
///
/// # Errors
/// What is wrong, and on which instance.
pub fn check_placer<P: Placer>(mut make: impl FnMut() -> P) -> Result<(), String> {
    let mut checked = 0;
    for (name, instance) in instances(SEED).map_err(|e| e.to_string())? {
        for (world, conditions) in worlds() {
            for jobs in [1, 2] {
                match check_run(make(), &instance, jobs, &conditions) {
                    Ok(()) => checked += 1,
                    Err(Wrong::Unsupported) => {}
                    Err(Wrong::Because(reason)) => {
                        return Err(format!("{name}, {jobs} at a time, {world}: {reason}"));
                    }
                }
            }
        }
    }
    if checked == 0 { Err("the placer supports none of the instances".to_owned()) } else { Ok(()) }
}

fn worlds() -> [(&'static str, Conditions); 4] {
    let ideal = Conditions { seed: SEED, ..Conditions::default() };
    let failures = Some(Failures { mean_between: 5.0, repair: 3.0, most: 3 });
    [
        ("ideal", ideal.clone()),
        ("with noise", Conditions { noise: 0.5, affinity: 0.5, ..ideal.clone() }),
        ("with contention", Conditions { contention: true, ..ideal.clone() }),
        ("with failing nodes", Conditions { failures, ..ideal }),
    ]
}

fn check_run(
    placer: impl Placer,
    instance: &Arc<Instance>,
    jobs: usize,
    conditions: &Conditions,
) -> Result<(), Wrong> {
    let because = |reason: &str| Err(Wrong::Because(reason.to_owned()));
    let arrivals = (0..jobs).map(|i| (i as f64, instance.clone())).collect();
    let (trace, state, records) = simulate_recorded(&arrivals, placer, conditions)?;
    if !state.is_finished() {
        return because("the simulation ends before the job");
    }
    if State::replay(instance.cluster(), true, &records)? != state {
        return because("replaying the records gives another state");
    }
    for job in &trace.jobs {
        let schedule = job.schedule();
        let complete = schedule.placements().iter().map(|p| p.task).eq(instance.graph().tasks());
        if !complete {
            return because("not every task ran once");
        }
        let is_ideal = *conditions == Conditions { seed: conditions.seed, ..Conditions::default() };
        if is_ideal && jobs == 1 {
            schedule.verify(instance).map_err(|violation| Wrong::Because(violation.to_string()))?;
        }
    }
    Ok(())
}
