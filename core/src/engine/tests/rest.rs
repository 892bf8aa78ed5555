//! Tasks that wait for some time before they are repeated.

use mdts_dag::{DataModel, JobGraph, Task};

use super::*;

/// a -> b -> c with two retries each, and d beside them; everything on one node.
fn chain() -> Result<Arc<Instance>, Error> {
    let mut job = JobGraph::builder("chain");
    for (name, parent) in [("a", None), ("b", Some("a")), ("c", Some("b")), ("d", None)] {
        let task = job.task(Task::new(name).seconds(1.0).retries(2))?;
        if let Some(parent) = parent {
            job.depend_on(task, parent, 0.0);
        }
    }
    let cluster = Cluster::identical(1, SlotModel::Exclusive)?;
    Ok(Arc::new(Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?))
}

fn failed(task: u32, attempt: u32, until: f64) -> Event {
    Event::FailedUntil { run: run(task, attempt), until }
}

#[test]
fn others_use_the_place_of_a_task_that_rests() -> Result<(), Error> {
    let (instance, job) = (chain()?, JobId::new(0));
    let mut engine = engine(&instance, false);
    assert_eq!(engine.handle(0.0, [Event::Submitted(instance.clone())])?, [start(0, 1, 0)]);
    assert_eq!(engine.handle(1.0, [failed(0, 1, 6.0)])?, [start(3, 1, 0)], "d has the node at once");
    assert_eq!((engine.state().phase(job, 0.into()), engine.state().next_due()), (Phase::Waiting, Some(6.0)));
    assert_eq!(engine.handle(2.0, [Event::Finished(run(3, 1))])?, []);
    assert_eq!(engine.handle(5.9, [Event::Tick])?, [], "not yet");
    assert_eq!(engine.handle(6.0, [Event::Tick])?, [start(0, 2, 0)]);
    assert_eq!(engine.state().next_due(), None);
    assert_eq!(engine.handle(7.0, [failed(0, 2, 8.0)])?, []);
    assert_eq!(
        engine.handle(9.0, [Event::NodeJoined(0.into())])?,
        [start(0, 3, 0)],
        "any event shows the time"
    );
    let done = Command::JobDone { job, succeeded: false };
    assert_eq!(engine.handle(10.0, [failed(0, 3, 20.0)])?, [done], "no retries are left");
    assert_eq!(engine.state().next_due(), None);
    let replayed = State::replay(instance.cluster(), false, &engine.take_records())?;
    assert_eq!(&replayed, engine.state());
    Ok(())
}

#[test]
fn rest_outlives_a_pause_and_a_snapshot() -> Result<(), Error> {
    let instance = chain()?;
    let mut engine = engine(&instance, false);
    engine.handle(0.0, [Event::Submitted(instance.clone())])?;
    engine.handle(1.0, [failed(0, 1, 6.0)])?;
    engine.handle(2.0, [Event::Finished(run(3, 1)), Event::Held])?;
    let bytes = engine.state().to_bytes().expect("encoded");
    let read = State::from_bytes(&bytes, instance.cluster(), |_| Some(instance.clone()));
    let state = read.expect("decoded").expect("of this job");
    assert_eq!(&state, engine.state());
    let mut engine = Engine::with_state(state, First::default());
    assert_eq!(engine.handle(3.0, [Event::Resumed])?, [], "the rest of the wait is still to come");
    assert_eq!(engine.handle(6.0, [Event::Held])?, [], "it is over while nothing starts");
    assert_eq!(engine.handle(7.0, [Event::Resumed])?, [start(0, 2, 0)]);
    Ok(())
}

#[test]
fn a_task_that_rests_can_be_given_up() -> Result<(), Error> {
    let (instance, job) = (chain()?, JobId::new(0));
    for event in [Event::Dropped { job, task: 0.into() }, Event::Cancelled(job)] {
        let mut engine = engine(&instance, false);
        engine.handle(0.0, [Event::Submitted(instance.clone())])?;
        engine.handle(1.0, [failed(0, 1, 6.0)])?;
        engine.handle(2.0, [Event::Finished(run(3, 1))])?;
        let done = Command::JobDone { job, succeeded: false };
        assert_eq!(engine.handle(3.0, [event])?, [done]);
        assert_eq!(engine.handle(9.0, [Event::Tick])?, [], "it does not come back");
        assert!(engine.state().is_finished());
    }
    Ok(())
}

#[test]
fn what_is_placed_behind_it_holds_up_nobody() -> Result<(), Error> {
    /// The whole job in the order a b c d; later what is ready.
    #[derive(Debug)]
    struct Whole;
    impl Placer for Whole {
        fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> crate::Result<()> {
            if step.trigger() == super::super::Trigger::Submitted {
                let is_open = |task: &TaskId| matches!(step.phase(*task), Phase::Waiting | Phase::Ready);
                let open = step.instance().graph().tasks().filter(is_open);
                open.for_each(|task| decisions.place_in_order(task, 0.into()));
            } else {
                step.ready().iter().for_each(|task| decisions.place(*task, 0.into()));
            }
            Ok(())
        }
    }
    let instance = chain()?;
    let mut engine = Engine::new(instance.cluster(), Whole, false);
    engine.keep_records();
    assert_eq!(engine.handle(0.0, [Event::Submitted(instance.clone())])?, [start(0, 1, 0)]);
    assert_eq!(engine.handle(1.0, [failed(0, 1, 9.0)])?, [start(3, 1, 0)], "b and c stood before d");
    engine.handle(2.0, [Event::Finished(run(3, 1))])?;
    assert_eq!(engine.handle(3.0, [Event::Held, Event::Resumed])?, [], "placed while it rests: passed over");
    assert_eq!(engine.handle(9.0, [Event::Tick])?, [start(0, 2, 0)]);
    assert_eq!(engine.handle(10.0, [Event::Finished(run(0, 2))])?, [start(1, 1, 0)]);
    assert_eq!(engine.handle(11.0, [Event::Finished(run(1, 1))])?, [start(2, 1, 0)]);
    let replayed = State::replay(instance.cluster(), false, &engine.take_records())?;
    assert_eq!(&replayed, engine.state());
    Ok(())
}

#[test]
fn delays_grow_to_their_most_and_differ() {
    use super::super::Backoff;
    let backoff = Backoff { first: 1.0, factor: 2.0, most: 60.0, seed: 7 };
    for (failures, full) in [(1, 1.0), (2, 2.0), (5, 16.0), (7, 60.0), (4000, 60.0)] {
        let drawn: Vec<f64> =
            (0..200).map(|task| backoff.seconds(TaskId::new(task), failures, None)).collect();
        assert!(drawn.iter().all(|seconds| (full / 2.0..=full).contains(seconds)), "{failures}: {drawn:?}");
        let mean = drawn.iter().sum::<f64>() / 200.0;
        assert!((mean / full - 0.75).abs() < 0.05, "{failures}: {mean}");
    }
    assert_ne!(
        backoff.seconds(0.into(), 1, None),
        Backoff { seed: 8, ..backoff }.seconds(0.into(), 1, None),
        "the seed counts"
    );
    let own = backoff.seconds(0.into(), 3, Some(100.0));
    assert!((50.0..=100.0).contains(&own), "a task that asks for more than the most gets it: {own}");
    assert_eq!(Backoff::default().seconds(0.into(), 9, None), 0.0);
    let wrong = [
        Backoff { first: -1.0, ..backoff },
        Backoff { first: f64::NAN, ..backoff },
        Backoff { factor: 0.5, ..backoff },
        Backoff { most: f64::INFINITY, ..backoff },
    ];
    assert!(wrong.iter().all(|backoff| backoff.check().is_err()));
}
