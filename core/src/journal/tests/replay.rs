//! Engines with random stories, told to a journal and read back.

use std::io::Write as _;
use std::sync::Arc;

use mdts_dag::TaskId;
use proptest::prelude::*;
use rand::{Rng as _, SeedableRng};

use super::Memory;
use crate::engine::tests::watch::Watch;
use crate::engine::{Engine, Event, JobId, Phase, State, Step, TaskRun};
use crate::journal::{Durability, Entry, StepEntry};
use crate::policy::Placer;
use crate::testkit::instances;
use crate::{Decisions, Instance, NodeId, Result, Rng};

/// Places, leaves and moves tasks at random.
#[derive(Debug)]
struct Dice(Rng);

impl Placer for Dice {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        let is_open = |task: &TaskId| matches!(step.phase(*task), Phase::Waiting | Phase::Ready);
        let mut placed = step.ready().to_vec();
        let open = step.instance().graph().tasks().filter(is_open);
        placed.extend(open.filter(|_| self.0.random_bool(0.1)));
        for task in placed {
            let fitting = step.instance().cluster().node_ids().filter(|node| step.can_run(task, *node));
            let fitting: Vec<NodeId> = fitting.collect();
            if fitting.is_empty() || self.0.random_bool(0.1) {
                continue;
            }
            let node = fitting[self.0.random_range(0..fitting.len())];
            if self.0.random_bool(0.5) {
                decisions.place(task, node);
            } else {
                decisions.place_in_order(task, node);
            }
        }
        Ok(())
    }

    fn watches_progress(&self) -> bool {
        true
    }
}

/// Something that may happen now.
fn event(rng: &mut Rng, now: f64, instance: &Arc<Instance>, running: &[TaskRun]) -> Event {
    let node = NodeId::new(rng.random_range(0..instance.nodes()));
    let run = running.get(rng.random_range(0..running.len().max(1))).copied();
    let (job, task) = (JobId::new(0), TaskId::new(rng.random_range(0..instance.tasks())));
    match (rng.random_range(0..18), run) {
        (0, _) => Event::NodeLost(node),
        (1, _) => Event::NodeJoined(node),
        (2, _) => Event::Held,
        (10, _) if rng.random_bool(0.3) => Event::Submitted(instance.clone()),
        (11, _) if rng.random_bool(0.1) => Event::Cancelled(JobId::new(rng.random_range(0..3))),
        (3, _) => Event::Resumed,
        (4, Some(run)) => Event::Started(run),
        (12, _) => Event::Dropped { job, task },
        (13, _) => Event::Retried { job, task },
        (5, Some(run)) => Event::Failed(run),
        (15, Some(run)) => Event::FailedUntil { run, until: now + rng.random_range(-1.0..8.0) },
        (6, Some(run)) => Event::Interrupted(run),
        (14, Some(run)) => Event::FailedForGood(run),
        (7..10, Some(run)) => Event::Overdue(run),
        (_, Some(run)) => Event::Finished(run),
        (_, None) => Event::Tick,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn replay_gives_the_same_state_bit_for_bit(seed: u64, which: prop::sample::Index) {
        let all = instances(seed)?;
        let instance = all[which.index(all.len())].1.clone();
        let mut rng = Rng::seed_from_u64(seed);
        let memory = Memory::new();
        let mut journal = memory.create(&instance, Durability::Process)?;
        let mut engine = Engine::new(instance.cluster(), Dice(rng.clone()), false);
        engine.keep_records();
        let mut watch = Watch::default();
        let (mut events, mut now) = (vec![Event::Submitted(instance.clone())], 0.0);
        for _ in 0..80 {
            let commands = engine.handle(now, events.iter().cloned())?.to_vec();
            watch.check(&events, &commands, engine.state(), &instance).map_err(TestCaseError::fail)?;
            for record in engine.take_records() {
                journal.append(&Entry::Step(StepEntry::new(&record, Vec::new())))?;
            }
            if rng.random_bool(0.05) {
                // A snapshot in the place of all that was before.
                let engine = engine.state().to_bytes().expect("encoded");
                journal.compact(|snapshot| snapshot.engine().write_all(&engine))?;
            }
            now += rng.random_range(0.0..1.0);
            events = (0..rng.random_range(0..4)).map(|_| event(&mut rng, now, &instance, &watch.running())).collect();
        }
        let mut state = State::new(instance.cluster(), false);
        let mut reader = memory.reader()?;
        while let Some(entry) = reader.next()? {
            match entry {
                Entry::Step(step) => state.repeat(&step.record(&instance), &mut Vec::new())?,
                Entry::Snapshot(snapshot) => {
                    let restored =
                        State::from_bytes(&snapshot.engine, instance.cluster(), |_| Some(instance.clone()));
                    state = restored.expect("decoded").expect("of this job");
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        prop_assert_eq!(state.to_bytes().expect("encoded"), engine.state().to_bytes().expect("encoded"));
        prop_assert_eq!(&state, engine.state());
    }
}
