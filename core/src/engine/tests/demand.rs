//! Tasks on demand, fair turns, and clusters and jobs that grow.

use std::sync::Arc;

use mdts_dag::{DataModel, JobGraph, Task, TaskId};

use super::{First, fork, phases, run, start};
use crate::engine::{Command, Engine, Event, JobId, Phase, State, TaskRun, Terms};
use crate::{Cluster, Error, Instance, Link, Network, Node, SlotModel};

const JOB: JobId = JobId::new(0);

fn on_demand(cluster: &Cluster) -> Engine<First> {
    let mut engine = Engine::with_state(State::new(cluster, false).on_demand(), First::default());
    engine.keep_records();
    engine
}

fn asked(task: u32) -> Event {
    Event::Asked { job: JOB, task: task.into() }
}

#[test]
fn only_what_is_asked_for_starts() -> Result<(), Error> {
    let instance = fork()?;
    let mut engine = on_demand(instance.cluster());
    assert_eq!(engine.handle(0.0, [Event::Submitted(instance.clone())])?, []);
    assert_eq!(engine.handle(1.0, [asked(0), asked(1)])?, [start(0, 1, 0)]);
    assert_eq!(engine.handle(2.0, [Event::Finished(run(0, 1))])?, [start(1, 1, 0)], "b was asked for ahead");
    assert_eq!(engine.handle(3.0, [Event::Failed(run(1, 1))])?, [], "what failed must be asked for again");
    assert_eq!(engine.handle(3.5, [asked(1)])?, [start(1, 2, 0)]);
    assert_eq!(engine.handle(4.0, [asked(2)])?, [], "c waits behind b");
    let moved = engine.handle(5.0, [Event::NodeLost(0.into())])?;
    assert_eq!(moved, [start(1, 3, 1)], "what was lost is placed again");
    let cancel = Command::Cancel { run: run(1, 3), node: 1.into() };
    assert_eq!(engine.handle(6.0, [Event::Withdrawn(JOB)])?, [cancel]);
    assert_eq!(phases(engine.state()), [Phase::Done, Phase::Ready, Phase::Ready]);
    assert_eq!(engine.state().running_on(1.into()) + engine.state().waiting_on(1.into()), 0);
    assert_eq!(engine.handle(7.0, [asked(2)])?, [start(2, 1, 1)]);
    let mut replayed = State::new(instance.cluster(), false).on_demand();
    for record in engine.take_records() {
        replayed.repeat(&record, &mut Vec::new())?;
    }
    assert_eq!(&replayed, engine.state());
    Ok(())
}

#[test]
fn a_drained_node_takes_nothing_more() -> Result<(), Error> {
    let instance = fork()?;
    let mut engine = Engine::new(instance.cluster(), First::default(), false);
    engine.handle(0.0, [Event::Submitted(instance.clone())])?;
    engine.handle(1.0, [Event::Finished(run(0, 1))])?; // b runs, c waits, both on node 0
    assert_eq!(engine.handle(2.0, [Event::NodeDrained(0.into())])?, [start(2, 1, 1)], "c moves, b goes on");
    assert!(engine.state().is_draining(0.into()));
    engine.handle(3.0, [Event::NodeJoined(0.into())])?;
    assert!(engine.state().is_alive(0.into()) && !engine.state().is_draining(0.into()));
    engine.handle(4.0, [Event::NodeDrained(0.into())])?;
    let lost = engine.handle(5.0, [Event::NodeLost(0.into()), Event::Finished(run(1, 1))])?;
    assert_eq!(lost, [], "b waits for node 1, and its old attempt does not count");
    assert_eq!(phases(engine.state()), [Phase::Done, Phase::Ready, Phase::Running]);
    Ok(())
}

/// A job of independent tasks of one second on a cluster.
fn flat(tasks: usize, cluster: &Arc<Cluster>) -> Result<Arc<Instance>, Error> {
    let mut job = JobGraph::builder("flat");
    for i in 0..tasks {
        job.task(Task::new(format!("t{i}")).seconds(1.0))?;
    }
    Ok(Arc::new(Instance::new(job.build()?.freeze().into(), cluster.clone(), DataModel::Edges)?))
}

/// Jobs whose tasks start, in order, when one node runs them.
fn order(terms: &[(Terms, usize)]) -> Result<Vec<u32>, Error> {
    let cluster = Arc::new(Cluster::identical(1, SlotModel::Exclusive)?);
    let mut engine = Engine::new(&cluster, First::default(), false);
    let mut runs: Vec<TaskRun> = Vec::new();
    let mut take = |commands: &[Command]| {
        runs.extend(commands.iter().filter_map(|command| match command {
            Command::Start { run, .. } => Some(*run),
            _ => None,
        }));
        runs.clone()
    };
    for (terms, tasks) in terms {
        engine.state_mut().announce(*terms);
        take(engine.handle(0.0, [Event::Submitted(flat(*tasks, &cluster)?)])?);
    }
    let mut done = 0;
    loop {
        let begun = take(&[]);
        let Some(next) = begun.get(done) else { return Ok(begun.iter().map(|run| run.job.get()).collect()) };
        done += 1;
        take(engine.handle(done as f64, [Event::Finished(*next)])?);
    }
}

#[test]
fn clients_take_turns_by_their_shares() -> Result<(), Error> {
    let of = |client, share, priority| Terms { priority, client, share };
    let equal = order(&[(of(1, 1.0, 0), 4), (of(2, 1.0, 0), 4)])?;
    assert_eq!(equal, [0, 1, 0, 1, 0, 1, 0, 1]);
    let double = order(&[(of(1, 2.0, 0), 6), (of(2, 1.0, 0), 3)])?;
    assert_eq!(double[..6].iter().filter(|job| **job == 0).count(), 4, "{double:?}");
    let same_client = order(&[(of(1, 1.0, 0), 2), (of(1, 1.0, 0), 2)])?;
    assert_eq!(same_client, [0, 0, 1, 1], "as they were placed");
    let urgent = order(&[(of(1, 1.0, 0), 3), (of(2, 1.0, 1), 2)])?;
    assert_eq!(urgent, [0, 1, 1, 0, 0]);
    Ok(())
}

fn cluster(cores: &[f64]) -> Result<Arc<Cluster>, Error> {
    let nodes = cores.iter().enumerate().map(|(i, cores)| Node::new(format!("m{i}")).cores(*cores)).collect();
    Ok(Arc::new(Cluster::new(nodes, Network::uniform(Link::INSTANT), SlotModel::Resources)?))
}

#[test]
fn clusters_grow_under_jobs_that_run() -> Result<(), Error> {
    let small = cluster(&[2.0])?;
    let mut engine = on_demand(&small);
    engine.handle(0.0, [Event::Submitted(flat(4, &small)?)])?;
    assert_eq!(engine.handle(0.0, (0..4).map(asked))?, [start(0, 1, 0), start(1, 1, 0)]);
    let large = cluster(&[2.0, 1.0])?;
    let grown = flat(4, &large)?;
    let state = engine.state_mut();
    assert!(state.change_cluster(&large, |_| None).is_err(), "the job is missing");
    state.change_cluster(&large, |_| Some(grown.clone()))?;
    assert!(!state.is_alive(1.into()), "until it joins");
    assert_eq!(state.free(0.into())[0], 0, "what runs is still counted");
    engine.handle(1.0, [Event::NodeJoined(1.into()), Event::NodeLost(0.into())])?;
    assert_eq!(engine.state().running_on(1.into()), 1);
    assert!(engine.state_mut().change_cluster(&small, |_| None).is_err(), "nodes do not disappear");
    Ok(())
}

#[test]
fn jobs_grow_and_are_forgotten() -> Result<(), Error> {
    let nodes = Arc::new(Cluster::identical(1, SlotModel::Exclusive)?);
    let mut engine = Engine::new(&nodes, First::default(), false);
    engine.handle(0.0, [Event::Submitted(flat(1, &nodes)?)])?;
    engine.state_mut().extend(JOB, &flat(2, &nodes)?)?;
    assert_eq!(engine.handle(1.0, [Event::Finished(run(0, 1))])?, [start(1, 1, 0)]);
    engine.state_mut().forget(JOB);
    assert!(!engine.state().is_forgotten(JOB), "it has not ended");
    let done = Command::JobDone { job: JOB, succeeded: true };
    assert_eq!(engine.handle(2.0, [Event::Finished(run(1, 1))])?, [done]);
    engine.state_mut().extend(JOB, &flat(3, &nodes)?)?;
    assert_eq!(engine.handle(3.0, [Event::Tick])?, [start(2, 1, 0)], "it begins anew");
    assert!(engine.state_mut().extend(JOB, &flat(2, &nodes)?).is_err(), "tasks do not disappear");
    engine.handle(4.0, [Event::Cancelled(JOB)])?;
    engine.state_mut().forget(JOB);
    assert!(engine.state().is_forgotten(JOB));
    let late = [Event::Finished(run(2, 1)), Event::Cancelled(JOB), asked(0), Event::Withdrawn(JOB)];
    assert_eq!(engine.handle(5.0, late)?, []);
    let bytes = engine.state().to_bytes().expect("plain data");
    let restored = State::from_bytes(&bytes, &nodes, |_| flat(1, &nodes).ok()).expect("its own bytes");
    assert!(restored.is_some_and(|state| state.is_forgotten(JOB)));
    Ok(())
}

#[test]
fn ready_tasks_are_known_without_a_look_at_all() -> Result<(), Error> {
    const WIDTH: u32 = 300;
    let cluster = Arc::new(Cluster::identical(7, SlotModel::Exclusive)?);
    let mut job = JobGraph::builder("layers");
    for i in 0..2 * WIDTH {
        let task = job.task(Task::new(format!("t{i}")).seconds(1.0).retries(1))?;
        if i >= WIDTH {
            job.depend(task, (i - WIDTH).into(), 0.0);
        }
    }
    let graph = Arc::new(job.build()?.freeze());
    let instance = Arc::new(Instance::new(graph, cluster.clone(), DataModel::Edges)?);
    let mut engine = on_demand(&cluster);
    let mut running: Vec<TaskRun> = Vec::new();
    let mut tell = |engine: &mut Engine<First>, events: Vec<Event>| -> Result<Vec<TaskRun>, Error> {
        for command in engine.handle(0.0, events)?.to_vec() {
            match command {
                Command::Start { run, .. } => running.push(run),
                Command::Cancel { run, .. } => running.retain(|other| *other != run),
                _ => {}
            }
        }
        let state = engine.state();
        let found: Vec<TaskId> =
            instance.graph().tasks().filter(|task| state.phase(JOB, *task) == Phase::Ready).collect();
        assert_eq!(state.ready_tasks(JOB), found);
        let bytes = state.to_bytes().expect("plain data");
        let restored =
            State::from_bytes(&bytes, &cluster, |_| Some(instance.clone())).expect("its own bytes");
        assert_eq!(restored.map(|state| state.ready_tasks(JOB)), Some(found));
        running.retain(|run| state.is_running(*run));
        Ok(running.clone())
    };
    tell(&mut engine, vec![Event::Submitted(instance.clone())])?;
    let mut runs = tell(&mut engine, (0..2 * WIDTH).map(asked).collect())?;
    for turn in 0..250 {
        let Some(run) = runs.get(turn % 3).or(runs.first()).copied() else { break };
        runs = tell(
            &mut engine,
            vec![match turn % 10 {
                3 => Event::Failed(run),
                5 => Event::NodeLost((turn as u32 % 7).into()),
                7 => Event::NodeJoined((turn as u32 / 2 % 7).into()),
                9 => Event::Withdrawn(JOB),
                _ => Event::Finished(run),
            }],
        )?;
        if runs.is_empty() {
            runs = tell(&mut engine, (0..2 * WIDTH).map(asked).collect())?;
        }
    }
    assert!(engine.state().remaining(JOB) < 2 * WIDTH as usize - 50);
    tell(&mut engine, vec![Event::Cancelled(JOB)])?;
    assert_eq!(engine.state().ready_tasks(JOB), []);
    Ok(())
}
