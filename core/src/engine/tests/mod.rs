//! Small stories, told event by event.

mod demand;
mod fair;
mod rest;
mod speculation;
pub(crate) mod watch;

use std::sync::Arc;

use mdts_dag::{DataModel, JobGraph, Task, TaskId};

use super::{Command, Engine, Event, JobId, Phase, State, Step, TaskRun};
use crate::{Cluster, Decisions, Error, Instance, Node, NodeId, Placer, SlotModel};

/// Places everything on the first node that can run it; strictly in order if told so.
#[derive(Debug, Default)]
struct First {
    strict: bool,
}

impl Placer for First {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> crate::Result<()> {
        for &task in step.ready() {
            let node = step.instance().cluster().node_ids().find(|n| step.can_run(task, *n));
            match node {
                Some(node) if self.strict => decisions.place_in_order(task, node),
                Some(node) => decisions.place(task, node),
                None => {}
            }
        }
        Ok(())
    }
}

/// a -> b, a -> c; b may be repeated once.
fn fork() -> Result<Arc<Instance>, Error> {
    let mut job = JobGraph::builder("fork");
    let a = job.task(Task::new("a").seconds(1.0))?;
    let b = job.task(Task::new("b").seconds(2.0).retries(1))?;
    let c = job.task(Task::new("c").seconds(3.0))?;
    job.depend(b, a, 0.0);
    job.depend(c, a, 0.0);
    let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
    Ok(Arc::new(Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?))
}

fn engine(instance: &Instance, staging: bool) -> Engine<First> {
    let mut engine = Engine::new(instance.cluster(), First::default(), staging);
    engine.keep_records();
    engine
}

fn run(task: u32, attempt: u32) -> TaskRun {
    TaskRun { job: JobId::new(0), task: task.into(), attempt }
}

fn start(task: u32, attempt: u32, node: u32) -> Command {
    Command::Start { run: run(task, attempt), node: node.into() }
}

fn phases(state: &State) -> Vec<Phase> {
    (0..3).map(|t| state.phase(JobId::new(0), TaskId::new(t))).collect()
}

#[test]
fn children_start_when_the_parent_has_finished() -> Result<(), Error> {
    let instance = fork()?;
    let mut engine = engine(&instance, false);
    assert_eq!(engine.handle(0.0, [Event::Submitted(instance.clone())])?, [start(0, 1, 0)]);
    assert_eq!(engine.handle(1.0, [Event::Finished(run(0, 1))])?, [start(1, 1, 0)], "one at a time");
    assert_eq!(engine.handle(3.0, [Event::Finished(run(1, 1))])?, [start(2, 1, 0)]);
    let done = Command::JobDone { job: JobId::new(0), succeeded: true };
    assert_eq!(engine.handle(6.0, [Event::Finished(run(2, 1))])?, [done]);
    assert!(engine.state().is_finished());
    let replayed = State::replay(instance.cluster(), false, &engine.take_records())?;
    assert_eq!(&replayed, engine.state());
    Ok(())
}

#[test]
fn inputs_are_staged_before_the_start() -> Result<(), Error> {
    let instance = fork()?;
    let mut engine = engine(&instance, true);
    let (job, node) = (JobId::new(0), NodeId::new(0));
    let stage = |task: u32| Command::Stage { job, task: task.into(), node };
    let staged = |task: u32| Event::Staged { job, task: task.into(), node };
    assert_eq!(engine.handle(0.0, [Event::Submitted(instance.clone())])?, [stage(0)]);
    assert_eq!(engine.handle(0.5, [staged(0)])?, [start(0, 1, 0)]);
    assert_eq!(engine.handle(1.5, [Event::Finished(run(0, 1))])?, [stage(1), stage(2)]);
    assert_eq!(engine.handle(2.0, [staged(2)])?, [start(2, 1, 0)], "c overtakes b, whose data is not there");
    assert_eq!(engine.handle(2.5, [staged(1)])?, []);
    assert_eq!(engine.handle(5.0, [Event::Finished(run(2, 1))])?, [start(1, 1, 0)]);
    Ok(())
}

#[test]
fn a_strict_order_is_kept() -> Result<(), Error> {
    let instance = fork()?;
    let mut engine = Engine::new(instance.cluster(), First { strict: true }, true);
    let (job, node) = (JobId::new(0), NodeId::new(0));
    let staged = |task: u32| Event::Staged { job, task: task.into(), node };
    engine.handle(0.0, [Event::Submitted(instance.clone())])?;
    engine.handle(0.0, [staged(0)])?;
    engine.handle(1.0, [Event::Finished(run(0, 1))])?;
    assert_eq!(engine.handle(2.0, [staged(2)])?, [], "c waits for b");
    assert_eq!(engine.handle(3.0, [staged(1)])?, [start(1, 1, 0)]);
    Ok(())
}

#[test]
fn failures_are_repeated_and_then_block_the_descendants() -> Result<(), Error> {
    let instance = fork()?;
    let mut engine = engine(&instance, false);
    engine.handle(0.0, [Event::Submitted(instance.clone())])?;
    engine.handle(1.0, [Event::Finished(run(0, 1))])?;
    let again = engine.handle(2.0, [Event::Failed(run(1, 1))])?;
    assert_eq!(again, [start(2, 1, 0)], "c was placed before b's second attempt");
    assert_eq!(engine.handle(2.1, [Event::Failed(run(1, 1))])?, [], "an old attempt is ignored");
    assert_eq!(engine.handle(5.0, [Event::Finished(run(2, 1))])?, [start(1, 2, 0)]);
    let done = Command::JobDone { job: JobId::new(0), succeeded: false };
    assert_eq!(engine.handle(6.0, [Event::Failed(run(1, 2))])?, [done]);
    assert_eq!(phases(engine.state()), [Phase::Done, Phase::Failed, Phase::Done]);

    let mut engine = self::engine(&instance, false);
    engine.handle(0.0, [Event::Submitted(instance.clone())])?;
    assert_eq!(engine.handle(1.0, [Event::Failed(run(0, 1))])?, [done]);
    assert_eq!(phases(engine.state()), [Phase::Failed, Phase::Blocked, Phase::Blocked]);
    Ok(())
}

#[test]
fn work_of_a_lost_node_moves() -> Result<(), Error> {
    let instance = fork()?;
    let mut engine = engine(&instance, false);
    engine.handle(0.0, [Event::Submitted(instance.clone())])?;
    engine.handle(1.0, [Event::Finished(run(0, 1))])?; // b runs, c waits, both on node 0
    let moved = engine.handle(2.0, [Event::NodeLost(0.into())])?;
    assert_eq!(moved, [start(1, 2, 1)]);
    assert_eq!(engine.handle(2.5, [Event::Finished(run(1, 1))])?, [], "the lost attempt is ignored");
    engine.handle(3.0, [Event::NodeLost(1.into())])?;
    assert_eq!(phases(engine.state()), [Phase::Done, Phase::Ready, Phase::Ready], "nowhere to go");
    assert_eq!(engine.handle(4.0, [Event::NodeJoined(1.into())])?, [start(1, 3, 1)]);
    let replayed = State::replay(instance.cluster(), false, &engine.take_records())?;
    assert_eq!(&replayed, engine.state());
    Ok(())
}

#[test]
fn cancelling_stops_what_runs() -> Result<(), Error> {
    let instance = fork()?;
    let mut engine = engine(&instance, false);
    engine.handle(0.0, [Event::Submitted(instance.clone())])?;
    let commands = engine.handle(0.5, [Event::Cancelled(JobId::new(0))])?;
    let cancel = Command::Cancel { run: run(0, 1), node: 0.into() };
    assert_eq!(commands, [cancel, Command::JobDone { job: JobId::new(0), succeeded: false }]);
    assert!(engine.state().is_finished());
    Ok(())
}

#[test]
fn a_dropped_task_fails_for_good_and_may_be_retried() -> Result<(), Error> {
    use Phase::{Blocked, Done, Failed, Ready, Running};
    let (instance, job) = (fork()?, JobId::new(0));
    let dropped = |task: u32| Event::Dropped { job, task: task.into() };
    let retried = |task: u32| Event::Retried { job, task: task.into() };
    let mut engine = engine(&instance, false);
    engine.handle(0.0, [Event::Submitted(instance.clone())])?;
    let done = Command::JobDone { job, succeeded: false };
    assert_eq!(engine.handle(0.5, [dropped(0)])?, [Command::Cancel { run: run(0, 1), node: 0.into() }, done]);
    assert_eq!(phases(engine.state()), [Failed, Blocked, Blocked]);
    assert_eq!(engine.handle(1.0, [retried(1)])?, [], "only what failed is retried");
    assert_eq!(engine.handle(1.0, [retried(0), retried(0)])?, [start(0, 2, 0)]);
    engine.handle(2.0, [Event::Finished(run(0, 2))])?;
    // b has used its only retry up when it fails; c, which waits, is dropped.
    engine.handle(3.0, [dropped(2), Event::Failed(run(1, 1))])?;
    assert_eq!(engine.handle(4.0, [Event::Failed(run(1, 2))])?, [done]);
    assert_eq!(phases(engine.state()), [Done, Failed, Failed]);
    assert_eq!(engine.handle(5.0, [retried(2), retried(1)])?, [start(2, 1, 0)]);
    assert_eq!(phases(engine.state()), [Done, Ready, Running]);
    assert_eq!(engine.handle(8.0, [Event::Finished(run(2, 1))])?, [start(1, 3, 0)]);
    assert_eq!(
        engine.handle(9.0, [Event::Failed(run(1, 3))])?,
        [start(1, 4, 0)],
        "it has all its retries again"
    );
    let replayed = State::replay(instance.cluster(), false, &engine.take_records())?;
    assert_eq!(&replayed, engine.state());
    Ok(())
}

#[test]
fn what_is_dropped_with_its_parent_stays_dropped() -> Result<(), Error> {
    use Phase::{Blocked, Failed, Running, Waiting};
    let (instance, job) = (fork()?, JobId::new(0));
    for order in [[0, 1], [1, 0]] {
        let mut engine = engine(&instance, false);
        engine.handle(0.0, [Event::Submitted(instance.clone())])?;
        engine.handle(0.5, order.map(|task: u32| Event::Dropped { job, task: task.into() }))?;
        assert_eq!(phases(engine.state()), [Failed, Failed, Blocked]);
        assert!(engine.state().is_finished());
        engine.handle(1.0, [Event::Retried { job, task: 0.into() }])?;
        assert_eq!(phases(engine.state()), [Running, Failed, Waiting], "b was cancelled for itself");
        engine.handle(2.0, [Event::Finished(run(0, 2))])?;
        engine.handle(5.0, [Event::Finished(run(2, 1))])?;
        let replayed = State::replay(instance.cluster(), false, &engine.take_records())?;
        assert_eq!(&replayed, engine.state());
        assert_eq!(engine.handle(6.0, [Event::Retried { job, task: 1.into() }])?, [start(1, 1, 0)]);
    }
    Ok(())
}

#[test]
fn what_is_blocked_by_two_waits_for_both() -> Result<(), Error> {
    let mut graph = JobGraph::builder("join");
    let tasks: Vec<TaskId> = ["a", "b", "c"]
        .iter()
        .map(|name| graph.task(Task::new(*name).seconds(1.0)))
        .collect::<Result<_, _>>()?;
    graph.depend(tasks[2], tasks[0], 0.0);
    graph.depend(tasks[2], tasks[1], 0.0);
    let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
    let instance = Arc::new(Instance::new(graph.build()?.freeze().into(), cluster.into(), DataModel::Edges)?);
    let (mut engine, job) = (engine(&instance, false), JobId::new(0));
    engine.handle(0.0, [Event::Submitted(instance.clone())])?;
    let dropped = |task: u32| Event::Dropped { job, task: task.into() };
    engine.handle(0.5, [dropped(0), dropped(1)])?;
    engine.handle(1.0, [Event::Retried { job, task: tasks[0] }])?;
    assert_eq!(phases(engine.state()), [Phase::Running, Phase::Failed, Phase::Blocked]);
    engine.handle(2.0, [Event::Retried { job, task: tasks[1] }])?;
    assert_eq!(engine.state().phase(job, tasks[2]), Phase::Waiting);
    assert_eq!(engine.state().remaining(job), 3);
    Ok(())
}

#[test]
fn shared_nodes_run_what_fits() -> Result<(), Error> {
    let mut job = JobGraph::builder("cores");
    for cores in [2.0, 1.0, 2.0, 1.0] {
        let name = format!("t{}", job.task_count());
        job.task(Task::new(name).seconds(1.0).cores(cores))?;
    }
    let nodes = vec![Node::new("m").cores(3.0)];
    let network = crate::Network::uniform(crate::Link::INSTANT);
    let cluster = Arc::new(Cluster::new(nodes, network, SlotModel::Resources)?);
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster.clone(), DataModel::Edges)?);
    let mut engine = engine(&instance, false);
    let started = engine.handle(0.0, [Event::Submitted(instance.clone())])?;
    assert_eq!(started, [start(0, 1, 0), start(1, 1, 0)], "t3 would fit but does not pass t2");
    assert_eq!(engine.handle(1.0, [Event::Finished(run(1, 1))])?, []);
    assert_eq!(engine.handle(1.5, [Event::Finished(run(0, 1))])?, [start(2, 1, 0), start(3, 1, 0)]);
    Ok(())
}

#[test]
fn a_policy_that_misplaces_is_reported() -> Result<(), Error> {
    #[derive(Debug)]
    struct Nowhere;
    impl Placer for Nowhere {
        fn place(&mut self, _: &Step<'_>, decisions: &mut Decisions) -> crate::Result<()> {
            decisions.place(0.into(), 9.into());
            Ok(())
        }
    }
    let instance = fork()?;
    let mut engine = Engine::new(instance.cluster(), Nowhere, false);
    let error = engine.handle(0.0, [Event::Submitted(instance.clone())]);
    assert!(error.is_err_and(|e| e.to_string().contains("n9, but the node is not there")));
    Ok(())
}

/// Places on node 0, and only if nothing runs there.
#[derive(Debug)]
struct OneByOne;

impl Placer for OneByOne {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> crate::Result<()> {
        if let Some(&task) =
            step.ready().first().filter(|_| step.running(0.into()) + step.waiting(0.into()) == 0)
        {
            decisions.place(task, 0.into());
        }
        Ok(())
    }

    fn watches_progress(&self) -> bool {
        true
    }
}

#[test]
fn what_was_left_for_later_is_asked_for_again() -> Result<(), Error> {
    let mut job = JobGraph::builder("two");
    job.task(Task::new("a").seconds(1.0))?;
    job.task(Task::new("b").seconds(1.0))?;
    let cluster = Cluster::identical(1, SlotModel::Exclusive)?;
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?);
    let mut engine = Engine::new(instance.cluster(), OneByOne, false);
    let jobs = [Event::Submitted(instance.clone()), Event::Submitted(instance.clone())];
    assert_eq!(engine.handle(0.0, jobs)?, [start(0, 1, 0)]);
    // A task that has failed for good makes room for its own job, the last of a job for the other.
    assert_eq!(engine.handle(1.0, [Event::Failed(run(0, 1))])?, [start(1, 1, 0)]);
    let other = TaskRun { job: JobId::new(1), task: 0.into(), attempt: 1 };
    let done = Command::JobDone { job: JobId::new(0), succeeded: false };
    let next = Command::Start { run: other, node: 0.into() };
    assert_eq!(engine.handle(2.0, [Event::Finished(run(1, 1))])?, [done, next]);
    // So does a job that is cancelled.
    let commands =
        engine.handle(2.5, [Event::Submitted(instance.clone()), Event::Cancelled(JobId::new(1))])?;
    let third = TaskRun { job: JobId::new(2), task: 0.into(), attempt: 1 };
    assert!(commands.contains(&Command::Start { run: third, node: 0.into() }), "{commands:?}");
    Ok(())
}

#[test]
fn a_clock_that_goes_back_stands_still() -> Result<(), Error> {
    let instance = fork()?;
    let mut engine = engine(&instance, false);
    engine.handle(5.0, [Event::Submitted(instance.clone())])?;
    engine.handle(4.0, [Event::Finished(run(0, 1))])?;
    assert_eq!(engine.state().now(), 5.0);
    assert_eq!(engine.state().times(0.into(), 0.into()), Some((5.0, 5.0)));
    assert_eq!(engine.handle(7.0, [Event::Finished(run(1, 1))])?, [start(2, 1, 0)]);
    let replayed = State::replay(instance.cluster(), false, &engine.take_records())?;
    assert_eq!(&replayed, engine.state());
    Ok(())
}
