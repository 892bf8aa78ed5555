//! Stories of tasks with two attempts at once.

use std::sync::Arc;

use mdts_dag::{DataModel, JobGraph, Task};

use super::{First, phases, run, start};
use crate::engine::{Command, Engine, Event, JobId, Phase, Speculation, State, Step};
use crate::{Cluster, Decisions, Error, Instance, Link, Network, Node, NodeId, Placer, SlotModel};

/// Task i on node i, as long as that is there.
#[derive(Debug)]
struct Own;

impl Placer for Own {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> crate::Result<()> {
        let nodes = || step.instance().cluster().node_ids();
        for &task in step.ready() {
            let own = NodeId::new(task.index());
            if let Some(node) = nodes().find(|n| *n == own && step.can_run(task, *n)).or(nodes().next()) {
                decisions.place(task, node);
            }
        }
        Ok(())
    }
}

/// Three tasks of 1, 2 and 3 seconds on three nodes of these speeds; the first may be repeated once. All have begun.
fn begun(speeds: [f64; 3], tasks: u32) -> Result<Engine<Own>, Error> {
    let mut job = JobGraph::builder("three");
    for i in 0..tasks {
        let task = Task::new(format!("t{i}")).seconds(f64::from(i + 1));
        job.task(if i == 0 { task.retries(1) } else { task })?;
    }
    let nodes =
        speeds.iter().enumerate().map(|(i, speed)| Node::new(format!("m{i}")).speed(*speed)).collect();
    let cluster = Cluster::new(nodes, Network::uniform(Link::INSTANT), SlotModel::Exclusive)?;
    let instance = Instance::new(job.build()?.freeze().into(), Arc::new(cluster), DataModel::Edges)?;
    let mut engine = Engine::new(&instance.cluster().clone(), Own, false);
    engine.keep_records();
    engine.handle(0.0, [Event::Submitted(instance.into())])?;
    Ok(engine)
}

fn cancel(task: u32, attempt: u32, node: u32) -> Command {
    Command::Cancel { run: run(task, attempt), node: node.into() }
}

const DONE: Command = Command::JobDone { job: JobId::new(0), succeeded: true };

/// What the engine has kept gives the same state, by its records and by its bytes.
fn check_replay(engine: &mut Engine<Own>) -> Result<(), Error> {
    let records = engine.take_records();
    let Some(Event::Submitted(instance)) = records[0].events.first() else { panic!("submitted first") };
    assert_eq!(&State::replay(instance.cluster(), false, &records)?, engine.state());
    let bytes = engine.state().to_bytes().expect("encoded");
    let restored = State::from_bytes(&bytes, instance.cluster(), |_| Some(instance.clone()));
    assert_eq!(restored.expect("decoded").as_ref(), Some(engine.state()));
    Ok(())
}

#[test]
fn the_first_success_wins_and_the_other_attempt_is_cancelled() -> Result<(), Error> {
    for (winner, loser) in [((1, 0), (2, 2)), ((2, 2), (1, 0))] {
        let mut engine = begun([1.0, 1.0, 2.0], 1)?;
        assert_eq!(
            engine.handle(2.0, [Event::Overdue(run(0, 1))])?,
            [start(0, 2, 2)],
            "the fastest of the idle"
        );
        assert_eq!(engine.state().second_attempt(0.into(), 0.into()), Some((run(0, 2), 2.into())));
        assert_eq!(engine.handle(2.1, [Event::Overdue(run(0, 1))])?, [], "two are enough");
        let ended =
            engine.handle(2.5, [Event::Finished(run(0, winner.0)), Event::Finished(run(0, loser.0))])?;
        assert_eq!(ended, [cancel(0, loser.0, loser.1), DONE]);
        let state = engine.state();
        assert_eq!(state.node_of(0.into(), 0.into()), Some(NodeId::from(winner.1)));
        assert_eq!(state.times(0.into(), 0.into()), Some((f64::from(winner.1), 2.5)), "begun at 0 and 2");
        assert_eq!((state.attempts(0.into(), 0.into()), state.running_on(0.into())), (2, 0));
        check_replay(&mut engine)?;
    }
    Ok(())
}

#[test]
fn while_one_runs_the_end_of_the_other_is_no_failure() -> Result<(), Error> {
    for (fails, goes_on) in [(1, 2), (2, 1)] {
        let mut engine = begun([1.0; 3], 1)?;
        engine.handle(2.0, [Event::Overdue(run(0, 1))])?;
        assert!(!engine.state().is_last_chance(run(0, fails)));
        assert_eq!(
            engine.handle(3.0, [Event::Failed(run(0, fails))])?,
            [],
            "nor is a third one begun at once"
        );
        assert!(engine.state().is_running(run(0, goes_on)) && !engine.state().is_running(run(0, fails)));
        check_replay(&mut engine)?;
        // The last one to end is the task's failure, the first of two that it may have.
        assert_eq!(engine.handle(4.0, [Event::Failed(run(0, goes_on))])?, [start(0, 3, 0)]);
        assert!(engine.state().is_last_chance(run(0, 3)));
        assert_eq!(engine.handle(9.0, [Event::Overdue(run(0, 3))])?, [start(0, 4, 1)], "and again");
        assert_eq!(engine.handle(9.5, [Event::Interrupted(run(0, 3))])?, []);
        assert_eq!(engine.handle(9.9, [Event::Finished(run(0, 4))])?, [DONE]);
    }
    Ok(())
}

#[test]
fn a_lost_node_takes_one_attempt_only() -> Result<(), Error> {
    for lost in [0, 1] {
        let mut engine = begun([1.0; 3], 1)?;
        engine.handle(2.0, [Event::Overdue(run(0, 1))])?;
        assert_eq!(engine.handle(2.5, [Event::NodeLost(lost.into())])?, []);
        let survivor = 2 - lost;
        assert!(engine.state().is_running(run(0, survivor)));
        assert_eq!(engine.state().node_of(0.into(), 0.into()), Some(NodeId::from(1 - lost)));
        engine.handle(2.6, [Event::NodeJoined(lost.into())])?;
        assert_eq!(engine.state().running_on(lost.into()), 0);
        check_replay(&mut engine)?;
        assert_eq!(engine.handle(3.0, [Event::Finished(run(0, survivor))])?, [DONE]);
    }
    Ok(())
}

#[test]
fn it_waits_for_an_idle_node_that_is_worth_while() -> Result<(), Error> {
    let mut engine = begun([1.0; 3], 3)?;
    assert_eq!(
        engine.handle(4.0, [Event::Overdue(run(0, 1)), Event::Overdue(run(1, 1))])?,
        [],
        "all are busy"
    );
    check_replay(&mut engine)?;
    let begun_then = engine.handle(5.0, [Event::Finished(run(2, 1))])?;
    assert_eq!(begun_then, [start(0, 2, 2)]);
    assert_eq!(engine.handle(6.0, [Event::Finished(run(0, 2))])?, [cancel(0, 1, 0), start(1, 2, 0)]);

    // Node 1 would need 10 s for what has run for 4 s on node 0.
    let mut engine = begun([1.0, 0.1, 0.01], 1)?;
    assert_eq!(engine.handle(4.0, [Event::Overdue(run(0, 1))])?, []);
    assert_eq!(engine.handle(10.0, [Event::Overdue(run(0, 1))])?, [start(0, 2, 1)]);
    Ok(())
}

#[test]
fn nothing_begins_while_held_and_cancelling_stops_both() -> Result<(), Error> {
    let mut engine = begun([1.0; 3], 1)?;
    assert_eq!(engine.handle(2.0, [Event::Held, Event::Overdue(run(0, 1))])?, []);
    assert_eq!(engine.handle(3.0, [Event::Resumed])?, []);
    assert_eq!(engine.handle(4.0, [Event::Overdue(run(0, 1))])?, [start(0, 2, 1)]);
    let done = Command::JobDone { job: JobId::new(0), succeeded: false };
    let commands = engine.handle(5.0, [Event::Cancelled(JobId::new(0))])?;
    assert_eq!(commands, [cancel(0, 1, 0), cancel(0, 2, 1), done]);
    assert_eq!(engine.state().phase(0.into(), 0.into()), Phase::Blocked);
    check_replay(&mut engine)
}

#[test]
fn a_task_that_waits_for_room_comes_first() -> Result<(), Error> {
    let mut job = JobGraph::builder("shared");
    for (name, cores) in [("a", 1.0), ("b", 3.0), ("c", 4.0)] {
        job.task(Task::new(name).seconds(1.0).cores(cores))?;
    }
    let nodes = vec![Node::new("other").cores(1.0), Node::new("m").cores(4.0)];
    let cluster = Arc::new(Cluster::new(nodes, Network::uniform(Link::INSTANT), SlotModel::Resources)?);
    let instance = Arc::new(Instance::new(job.build()?.freeze().into(), cluster.clone(), DataModel::Edges)?);
    let mut engine = Engine::new(&cluster, First::default(), false);
    let started = engine.handle(0.0, [Event::Submitted(instance)])?;
    assert_eq!(started, [start(0, 1, 0), start(1, 1, 1)]);
    assert_eq!(
        engine.handle(2.0, [Event::Overdue(run(0, 1))])?,
        [],
        "one core is free, but c waits for four"
    );
    assert_eq!(engine.handle(3.0, [Event::Finished(run(1, 1))])?, [start(2, 1, 1)]);
    assert_eq!(engine.handle(4.0, [Event::Finished(run(2, 1))])?, [start(0, 2, 1)]);
    assert_eq!(phases(engine.state()), [Phase::Running, Phase::Done, Phase::Done]);
    Ok(())
}

#[test]
fn settings_out_of_range_are_refused() {
    for (factor, least) in
        [(0.5, 0.0), (f64::NAN, 0.0), (f64::INFINITY, 0.0), (2.0, -1.0), (2.0, f64::INFINITY)]
    {
        assert!(Speculation { factor, least }.check().is_err(), "{factor} {least}");
    }
    assert!(Speculation::default().check().is_ok());
}
