//! Following a plan while nodes come and go and tasks fail, told event by event.

use std::sync::Arc;

use mdts_core::engine::{Command, Engine, Event, JobId, Phase, TaskRun};
use mdts_core::roles::Planned;
use mdts_core::{
    Cluster, Error, Instance, Link, Network, Node, PartialSchedule, Placement, Planner, Result, Rng,
    Schedule, SlotModel, Violation,
};
use mdts_dag::{DataModel, JobGraph, Task};
use rand::SeedableRng;

/// Earliest finish in topological order.
#[derive(Debug)]
struct TopologicalEft;

impl Planner for TopologicalEft {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let mut partial = PartialSchedule::new(instance)?;
        for &task in instance.graph().topological_order() {
            if partial.is_open(task) {
                let slot = partial.best_insertion(task);
                partial.place(task, slot);
            }
        }
        Ok(partial.finish())
    }
}

const JOB: JobId = JobId::new(0);

fn planned() -> Planned<TopologicalEft> {
    Planned::new(TopologicalEft, Rng::seed_from_u64(0))
}

fn run(task: u32, attempt: u32) -> TaskRun {
    TaskRun { job: JOB, task: task.into(), attempt }
}

fn start(task: u32, attempt: u32, node: u32) -> Command {
    Command::Start { run: run(task, attempt), node: node.into() }
}

fn on_nodes(job: &JobGraph, nodes: usize) -> Result<Arc<Instance>> {
    let nodes = (0..nodes).map(|i| Node::new(format!("m{i}"))).collect();
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 1.0 });
    let cluster = Cluster::new(nodes, network, SlotModel::Exclusive)?;
    Ok(Arc::new(Instance::new(job.freeze().into(), cluster.into(), DataModel::Edges)?))
}

#[test]
fn a_failed_task_is_no_reason_to_stop_when_a_node_is_lost() -> Result<()> {
    // x can run on m1 only and fails for good; then m1 is lost; a -> b goes on.
    let mut job = JobGraph::builder("failed");
    let a = job.task(Task::new("a").times([("m0", 2.0)]))?;
    let x = job.task(Task::new("x").times([("m1", 1.0)]))?;
    let b = job.task(Task::new("b").times([("m0", 2.0), ("m1", 1.0)]))?;
    let y = job.task(Task::new("y").seconds(1.0))?;
    job.depend(b, a, 0.0);
    job.depend(y, x, 0.0);
    let instance = on_nodes(&job.build()?, 2)?;
    let mut engine = Engine::new(instance.cluster(), planned(), false);
    assert_eq!(engine.handle(0.0, [Event::Submitted(instance)])?, [start(0, 1, 0), start(1, 1, 1)]);
    engine.handle(0.5, [Event::Failed(run(1, 1))])?;
    engine.handle(1.0, [Event::NodeLost(1.into())])?;
    assert_eq!(engine.handle(2.0, [Event::Finished(run(0, 1))])?, [start(2, 1, 0)]);
    let done = Command::JobDone { job: JOB, succeeded: false };
    assert_eq!(engine.handle(4.0, [Event::Finished(run(2, 1))])?, [done]);
    Ok(())
}

#[test]
fn what_only_a_lost_node_could_run_waits_and_the_rest_goes_on() -> Result<()> {
    let mut job = JobGraph::builder("stranded");
    job.task(Task::new("first").times([("m1", 2.0)]))?;
    job.task(Task::new("only").times([("m1", 2.0)]))?;
    job.task(Task::new("any").times([("m0", 9.0), ("m1", 1.0)]))?;
    let instance = on_nodes(&job.build()?, 2)?;
    let mut engine = Engine::new(instance.cluster(), planned(), false);
    assert_eq!(engine.handle(0.0, [Event::Submitted(instance)])?, [start(0, 1, 1)]);
    assert_eq!(engine.handle(1.0, [Event::NodeLost(1.into())])?, [start(2, 1, 0)], "'any' moves to m0");
    assert_eq!(engine.state().phase(JOB, 1.into()), Phase::Ready);
    assert_eq!(engine.handle(5.0, [Event::NodeJoined(1.into())])?, [start(0, 2, 1)]);
    Ok(())
}

#[test]
fn data_is_not_moved_again_when_the_node_stays() -> Result<()> {
    let mut job = JobGraph::builder("moving");
    let a = job.task(Task::new("a").times([("m0", 1.0)]))?;
    let b = job.task(Task::new("b").times([("m1", 1.0)]))?;
    job.depend(b, a, 10.0);
    let instance = on_nodes(&job.build()?, 3)?;
    let mut engine = Engine::new(instance.cluster(), planned(), true);
    let stages =
        |commands: &[Command]| commands.iter().filter(|c| matches!(c, Command::Stage { .. })).count();
    assert_eq!(stages(engine.handle(0.0, [Event::Submitted(instance)])?), 2);
    engine.handle(0.0, [Event::Staged { job: JOB, task: 0.into(), node: 0.into() }])?;
    engine.handle(1.0, [Event::Finished(run(0, 1))])?;
    assert_eq!(engine.handle(2.0, [Event::NodeLost(2.into())])?, [], "b stays on m1; its data is on the way");
    let staged = Event::Staged { job: JOB, task: 1.into(), node: 1.into() };
    assert_eq!(engine.handle(11.0, [staged])?, [start(1, 1, 1)]);
    Ok(())
}

#[test]
fn a_late_job_is_planned_anew_however_late_it_came() -> Result<()> {
    // a takes 1 s, b and c about 4 s on either node; a hangs on m0, so c, planned behind it, moves to m1.
    let mut job = JobGraph::builder("late");
    for (name, on_m0, on_m1) in [("a", 1.0, 1.0), ("b", 4.0, 4.0), ("c", 4.0, 3.9)] {
        job.task(Task::new(name).times([("m0", on_m0), ("m1", on_m1)]))?;
    }
    let instance = on_nodes(&job.build()?, 2)?;
    let plan = |drift: f64| -> Result<Vec<Command>> {
        let mut engine = Engine::new(instance.cluster(), planned().replan_when_late(drift), false);
        let begun = engine.handle(1000.0, [Event::Submitted(instance.clone())])?;
        assert_eq!(begun, [start(0, 1, 0), start(1, 1, 1)]);
        Ok(engine.handle(1004.0, [Event::Finished(run(1, 1))])?.to_vec())
    };
    assert_eq!(plan(f64::INFINITY)?, [], "c waits behind a as planned");
    assert_eq!(plan(0.5)?, [start(2, 1, 1)], "3 s late is more than half of 5 s");
    assert_eq!(plan(0.7)?, [], "but not more than 0.7 of it");
    Ok(())
}

#[test]
fn jobs_are_decided_in_the_order_of_their_submission() -> Result<()> {
    let mut job = JobGraph::builder("one");
    job.task(Task::new("t").seconds(1.0))?;
    let instance = on_nodes(&job.build()?, 2)?;
    let mut engine = Engine::new(instance.cluster(), planned(), false);
    for at in [0.0, 0.1, 0.2] {
        engine.handle(at, [Event::Submitted(instance.clone())])?;
    }
    let of_job = |job: usize, attempt| TaskRun { job: JobId::new(job), task: 0.into(), attempt };
    engine.handle(0.5, [Event::NodeLost(0.into())])?; // all three want m1 now
    let next = engine.handle(1.0, [Event::Finished(of_job(0, 2))])?;
    assert_eq!(next.last(), Some(&Command::Start { run: of_job(1, 1), node: 1.into() }));
    Ok(())
}

#[test]
fn gangs_are_refused_by_planners_engines_and_the_verifier() -> Result<()> {
    let mut job = JobGraph::builder("gang");
    job.task(Task::new("wide").seconds(1.0).with_demand(|d| d.gang = 2))?;
    let instance = on_nodes(&job.build()?, 2)?;
    let wants = |error: &Error| error.to_string().contains("'wide' wants several nodes at once");
    let plan = TopologicalEft.plan(&instance, &mut Rng::seed_from_u64(0));
    assert!(plan.as_ref().is_err_and(wants), "{plan:?}");
    let mut engine = Engine::new(instance.cluster(), planned(), false);
    assert!(engine.handle(0.0, [Event::Submitted(instance.clone())]).is_err_and(|e| wants(&e)));
    let placed = Placement { task: 0.into(), node: 0.into(), start: 0.0, finish: 1.0 };
    let violation = Schedule::new(vec![placed]).verify(&instance);
    assert!(matches!(violation, Err(Violation::Gang { nodes: 2, .. })), "{violation:?}");
    Ok(())
}

#[test]
fn jobs_of_another_cluster_are_refused() -> Result<()> {
    let mut job = JobGraph::builder("one");
    job.task(Task::new("t").seconds(1.0))?;
    let job = job.build()?;
    let (two, three) = (on_nodes(&job, 2)?, on_nodes(&job, 3)?);
    let mut engine = Engine::new(two.cluster(), planned(), false);
    let error = engine.handle(0.0, [Event::Submitted(three)]);
    assert!(matches!(error, Err(Error::BadSetting { .. })), "{error:?}");
    Ok(())
}

#[test]
fn a_plan_made_before_is_followed_first() -> Result<()> {
    // Both tasks on m0, the second first: no plan of TopologicalEft.
    let mut job = JobGraph::builder("given");
    let a = job.task(Task::new("a").seconds(2.0))?;
    let b = job.task(Task::new("b").seconds(1.0))?;
    let instance = on_nodes(&job.build()?, 2)?;
    let at = |task, start, finish| Placement { task, node: 0.into(), start, finish };
    let given = Schedule::new(vec![at(a, 1.0, 3.0), at(b, 0.0, 1.0)]);
    // A real clock has moved on when the job comes.
    for now in [0.0, 1e-3] {
        let placer = planned().beginning_with(given.clone());
        let mut engine = Engine::new(instance.cluster(), placer, false);
        assert_eq!(engine.handle(now, [Event::Submitted(instance.clone())])?, [start(1, 1, 0)]);
        // What is left is planned anew: a goes to the other node.
        assert_eq!(engine.handle(now + 0.5, [Event::NodeLost(0.into())])?.last(), Some(&start(0, 1, 1)));
    }
    // Other jobs are the planner's.
    let mut engine = Engine::new(instance.cluster(), planned().beginning_with(given), false);
    engine.handle(0.0, [Event::Submitted(instance.clone())])?;
    engine.handle(1.0, [Event::Finished(run(1, 1))])?;
    engine.handle(3.0, [Event::Finished(run(0, 1))])?;
    let again = engine.handle(4.0, [Event::Submitted(instance)])?;
    assert_eq!(again.len(), 2, "on both nodes at once: {again:?}");
    Ok(())
}

#[test]
fn a_new_plan_leaves_out_what_rests() -> Result<()> {
    // a -> b on m0, then c and d; a rests for long; late, the rest is planned anew without a and b.
    let mut job = JobGraph::builder("rests");
    let a = job.task(Task::new("a").times([("m0", 1.0)]).retries(1))?;
    let b = job.task(Task::new("b").times([("m0", 1.0)]))?;
    job.depend(b, a, 0.0);
    for name in ["c", "d"] {
        job.task(Task::new(name).times([("m0", 2.0)]))?;
    }
    let instance = on_nodes(&job.build()?, 2)?;
    let mut engine = Engine::new(instance.cluster(), planned().replan_when_late(0.01), false);
    assert_eq!(engine.handle(0.0, [Event::Submitted(instance.clone())])?, [start(0, 1, 0)]);
    let failed = Event::FailedUntil { run: run(0, 1), until: 50.0 };
    assert_eq!(engine.handle(1.0, [failed])?, [start(2, 1, 0)], "c does not wait for a and b");
    assert_eq!(engine.handle(3.0, [Event::Finished(run(2, 1))])?, [start(3, 1, 0)]);
    assert_eq!(engine.handle(9.0, [Event::Finished(run(3, 1))])?, [], "late, and nothing else to do");
    assert_eq!(engine.handle(50.0, [Event::Tick])?, [start(0, 2, 0)], "planned when it is ready");
    assert_eq!(engine.handle(51.0, [Event::Finished(run(0, 2))])?, [start(1, 1, 0)]);
    let done = Command::JobDone { job: JOB, succeeded: true };
    assert_eq!(engine.handle(52.0, [Event::Finished(run(1, 1))])?, [done]);
    Ok(())
}
