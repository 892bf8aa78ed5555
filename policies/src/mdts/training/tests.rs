//! Small trainings: they can be repeated, on any number of threads, and interrupted anywhere.

use std::path::Path;

use mdts_core::engine::Step;
use mdts_core::sim::{Conditions, simulate};
use mdts_core::{Decisions, Instance, Placer, Planner, SlotModel};
use mdts_dag::generate;

use super::*;
use crate::mdts::{MdtsRaw, Raw, save};
use crate::{balance, list};

fn config() -> TrainConfig {
    TrainConfig {
        seed: 3,
        imitation: 2,
        search: 200,
        rounds: 3,
        jobs: 3,
        updates: 2,
        batch: 16,
        memory: 90,
        nodes: 8,
        generations: 3,
        pairs: 6,
        trials: 8,
        ..TrainConfig::default()
    }
}

fn trainer() -> Trainer {
    Trainer::new(config(), Vec::new()).unwrap()
}

fn weights(trainer: &Trainer) -> [Vec<f32>; 2] {
    [state::flat(trainer.network.params()).unwrap(), state::flat(trainer.params()).unwrap()]
}

fn finish(trainer: &mut Trainer, threads: usize) -> Vec<Report> {
    let mut rest = Vec::new();
    while trainer.round() < trainer.rounds() {
        let measure = [config().planning(), trainer.rounds()].contains(&(trainer.round() + 1));
        rest.push(trainer.step(threads, measure).unwrap());
    }
    rest
}

fn resume(path: &Path) -> Trainer {
    let state = State::read(path).unwrap();
    Trainer::resume(state.config().clone(), Vec::new(), &state, 2, &mut |_, _| {}).unwrap()
}

#[test]
fn interrupted_trainings_on_any_number_of_threads_end_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut whole = trainer();
    let begin = weights(&whole);
    let reports = finish(&mut whole, 1);
    assert!(reports[..5].iter().all(|r| r.lessons > 0 && r.gain.is_none()), "{reports:?}");
    assert!(reports[5..].iter().all(|r| r.lessons == 0 && r.gain.is_some()), "{reports:?}");
    let phases: Vec<Phase> = reports.iter().map(|report| report.phase).collect();
    let expected = [(Phase::Imitation, 2), (Phase::Lessons, 3), (Phase::Runs, 3)]
        .map(|(phase, rounds)| vec![phase; rounds]);
    assert_eq!(phases, expected.concat());
    assert_ne!(weights(&whole), begin, "something was learnt");
    for interrupted_at in [0, 1, 2, 3, 5, 7] {
        let mut first = trainer();
        for round in 1..=interrupted_at {
            first.step(2, round == 5).unwrap();
        }
        first.save_state(&path).unwrap();
        let mut second = resume(&path);
        assert_eq!(weights(&second), weights(&first));
        assert_eq!(second.memory.len(), first.memory.len());
        let rest = finish(&mut second, 3);
        assert_eq!(rest, reports[interrupted_at..], "{interrupted_at}");
        assert_eq!(weights(&second), weights(&whole), "{interrupted_at}");
        assert_eq!(second.curve(), whole.curve());
    }
    let other =
        Trainer::new(TrainConfig { seed: 4, ..config() }, Vec::new()).unwrap().step(2, false).unwrap();
    assert_ne!(reports[0], other, "another seed, another training");
}

#[test]
fn what_was_imitated_is_not_mixed_with_what_is_found_out() {
    let mut trainer = Trainer::new(TrainConfig { memory: 10_000, ..config() }, Vec::new()).unwrap();
    let imitated: usize = (0..2).map(|_| trainer.step(2, false).unwrap().lessons).sum();
    assert_eq!(trainer.memory.len(), imitated);
    let found = trainer.step(2, false).unwrap();
    assert_eq!((found.phase, trainer.memory.len()), (Phase::Lessons, found.lessons));
}

/// On jobs that it has not learnt from.
#[test]
fn after_imitation_choices_cost_less_as_a_teacher_sees_it() {
    let config = TrainConfig { imitation: 31, jobs: 16, updates: 8, batch: 128, memory: 9000, ..config() };
    let mut trainer = Trainer::new(config.clone(), Vec::new()).unwrap();
    let scorer = Arc::new(Scorer::new(trainer.params()).unwrap());
    let others = teach(&config, &[], 30, &scorer, 2);
    assert!(others.len() > 50 && others.iter().all(|lesson| lesson.candidates.iter().any(|c| c.cost == 0.0)));
    let before = judge(&trainer.network, &others).unwrap().0;
    for _ in 0..30 {
        trainer.step(2, false).unwrap();
    }
    let after = judge(&trainer.network, &others).unwrap().0;
    assert!(after < before, "{before} {after}");
}

#[test]
fn the_oldest_lessons_are_forgotten() {
    let mut trainer = Trainer::new(TrainConfig { imitation: 0, rounds: 5, ..config() }, Vec::new()).unwrap();
    for _ in 0..5 {
        trainer.step(2, false).unwrap();
    }
    assert_eq!(trainer.memory.len(), config().memory);
    assert!(trainer.taught.len() < 5);
}

#[test]
fn generations_change_runs_only_and_begin_with_the_best_plans() {
    let mut trainer = Trainer::new(TrainConfig { stride: 2.0, trials: 20, ..config() }, Vec::new()).unwrap();
    let mut reports = vec![trainer.measure(2).unwrap()];
    while trainer.round() < trainer.rounds() {
        reports.push(trainer.step(2, true).unwrap());
    }
    let (plans, runs) = reports.split_at(6);
    let best = plans.iter().filter_map(|r| r.plan).fold(f64::INFINITY, f64::min);
    assert!(runs.iter().all(|r| r.plan == Some(best)), "{reports:?}");
    assert!(runs[0].run != runs[2].run, "{reports:?}");
}

#[test]
fn states_of_other_trainings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut first = trainer();
    first.step(2, false).unwrap();
    first.save_state(&path).unwrap();
    let state = State::read(&path).unwrap();
    let refused = |config: TrainConfig, graphs: Vec<Arc<FlatGraph>>| {
        Trainer::resume(config, graphs, &state, 1, &mut |_, _| {}).unwrap_err().to_string()
    };
    let text = refused(TrainConfig { rounds: 6, ..config() }, Vec::new());
    assert!(text.contains("'rounds'") && text.contains("found 6, expected 3"), "{text}");
    let text = refused(TrainConfig { imitation: 0, ..config() }, Vec::new());
    assert!(text.contains("'imitation'"), "{text}");
    let text = refused(TrainConfig { seed: 9, ..config() }, Vec::new());
    assert!(text.contains("'seed'"), "{text}");
    let text = refused(TrainConfig { measure: 7, ..config() }, Vec::new());
    assert!(text.contains("'measure'") && text.contains("found 7, expected 20"), "{text}");
    let graph = |seed| {
        let graph = generate::from_text("fork-join:width=3", &mut Rng::seed_from_u64(seed)).unwrap();
        Arc::new(graph.freeze())
    };
    let text = refused(config(), vec![graph(1)]);
    assert!(text.contains("graphs"), "{text}");

    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(State::read(&path).unwrap_err().to_string().contains("not a whole checkpoint"));
    save(&path, &first, &first.card()).unwrap();
    assert!(State::read(&path).is_err(), "weights are no state");

    // As many tasks and dependencies, but other run times.
    let first = Trainer::new(config(), vec![graph(1)]).unwrap();
    first.save_state(&path).unwrap();
    let state = State::read(&path).unwrap();
    let resumed = |graph| Trainer::resume(config(), vec![graph], &state, 1, &mut |_, _| {});
    assert!(resumed(graph(1)).is_ok());
    let text = resumed(graph(2)).unwrap_err().to_string();
    assert!(text.contains("digest of graph 1"), "{text}");
}

/// Leaves all tasks for later, for ever.
#[derive(Debug)]
struct Lazy;

impl Placer for Lazy {
    fn place(&mut self, _: &Step<'_>, _: &mut Decisions) -> mdts_core::Result<()> {
        Ok(())
    }
}

#[test]
fn a_run_that_fails_counts_as_a_bad_one() {
    let mut rng = Rng::seed_from_u64(1);
    let run = validation::Run::random(8, &[], &mut rng).unwrap();
    assert!((run.cost(Lazy) - 10.0_f64.ln()).abs() < 1e-12);
    assert!(run.cost(balance::Eft::default()).abs() < 1e-9);
}

#[test]
fn an_earlier_run_has_noise_of_its_own_and_the_same_nodes() {
    let mut rng = Rng::seed_from_u64(2);
    let instance = lessons::instance(8, &[], &mut rng).unwrap();
    let scorer = Arc::new(Scorer::new(PairNetwork::new(&mut rng).unwrap().params()).unwrap());
    let seen = |noise: f64, affinity: f64| {
        let conditions = Conditions { seed: 3, noise, affinity, ..Conditions::default() };
        let mut raw = Raw::new(scorer.clone(), Experience::default());
        simulate(&vec![(0.0, instance.clone())], &mut raw, &conditions).unwrap();
        (teaching::experience(&instance, &scorer, &conditions), raw.experience().clone())
    };
    let (earlier, later) = seen(0.3, 0.0);
    assert_ne!(earlier, later);
    let (earlier, later) = seen(0.0, 0.5);
    assert_eq!(earlier, later);
}

#[test]
fn saved_weights_tell_of_their_training_and_score_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    let mut trainer = trainer();
    let first = trainer.measure(2).unwrap();
    let last = trainer.step(2, true).unwrap();
    save(&path, &trainer, &trainer.card()).unwrap();
    let read = Weights::read(&path).unwrap();
    assert_eq!(read.training(), &trainer.card());
    assert_eq!(read.training().curve, [first, last]);
    assert_eq!(trainer.measure_other(&read, 2).score(), last.score());
    assert!((first.plan.unwrap() - 1.0).abs() < 1e-9, "it begins as HEFT: {first:?}");
}

#[test]
fn the_untrained_network_plans_like_heft() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    let trainer = trainer();
    save(&path, &trainer, &trainer.card()).unwrap();
    let raw = MdtsRaw::new(Weights::read(&path).unwrap());
    let mut rng = Rng::seed_from_u64(5);
    let mut instances = 0;
    for text in
        ["layered:tasks=120", "cholesky:tiles=6", "fft:points=16", "montage:images=12", "fork-join:width=9"]
    {
        for slots in [SlotModel::Exclusive, SlotModel::Resources] {
            let graph: Arc<_> = generate::from_text(text, &mut rng).unwrap().freeze().into();
            let cluster = lessons::cluster(16, &mut rng).unwrap().with_slots(slots);
            let instance = Instance::new(graph, cluster.into(), mdts_dag::DataModel::Edges).unwrap();
            let heft = list::Heft.plan(&instance, &mut rng).unwrap().makespan();
            let own = raw.plan(&instance, &mut rng).unwrap();
            own.verify(&instance).unwrap();
            assert!((own.makespan() / heft - 1.0).abs() < 1e-9, "{text}: {} {heft}", own.makespan());
            instances += 1;
        }
    }
    assert_eq!(instances, 10);
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let table = [
        (TrainConfig { rounds: 0, ..config() }, "rounds"),
        (TrainConfig { search: 0, ..config() }, "search"),
        (TrainConfig { jobs: 0, ..config() }, "jobs"),
        (TrainConfig { memory: 15, ..config() }, "memory"),
        (TrainConfig { rate: f64::NAN, ..config() }, "rate"),
        (TrainConfig { nodes: 1, ..config() }, "nodes"),
        (TrainConfig { runs: 1.5, ..config() }, "runs"),
        (TrainConfig { share: 0.0, ..config() }, "share"),
        (TrainConfig { pairs: 0, ..config() }, "pairs"),
        (TrainConfig { shift: 0.0, ..config() }, "shift"),
        (TrainConfig { stride: f64::NAN, ..config() }, "stride"),
        (TrainConfig { trials: 0, ..config() }, "trials"),
        (TrainConfig { measure: 0, ..config() }, "measurement"),
    ];
    for (config, named) in table {
        let text = Trainer::new(config, Vec::new()).unwrap_err().to_string();
        assert!(text.contains(named), "{text}");
    }
}
