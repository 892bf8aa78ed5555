//! Small trainings: they can be repeated, on any number of threads, and interrupted anywhere.

use std::path::Path;

use mdts_core::SlotModel;
use mdts_dag::generate;

use super::*;
use crate::mdts::{MdtsRaw, save};

fn config() -> TrainConfig {
    TrainConfig {
        seed: 3,
        rounds: 5,
        jobs: 3,
        updates: 2,
        batch: 16,
        memory: 90,
        nodes: 4,
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
    while trainer.round() < config().rounds {
        let measure = trainer.round() + 1 == config().rounds;
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
    assert!(reports.iter().all(|r| r.lessons > 0) && whole.memory.len() == config().memory, "{reports:?}");
    assert!(whole.taught.len() < 5, "some of the lessons have been forgotten");
    assert_ne!(weights(&whole), begin, "something was learnt");
    for interrupted_at in [0, 1, 4] {
        let mut first = trainer();
        for _ in 0..interrupted_at {
            first.step(2, false).unwrap();
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
    assert!(text.contains("'rounds'") && text.contains("found 6, expected 5"), "{text}");
    let text = refused(TrainConfig { seed: 9, ..config() }, Vec::new());
    assert!(text.contains("'seed'"), "{text}");
    let graph = generate::from_text("fork-join:width=3", &mut Rng::seed_from_u64(1)).unwrap();
    let text = refused(config(), vec![Arc::new(graph.freeze())]);
    assert!(text.contains("graphs"), "{text}");

    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(State::read(&path).unwrap_err().to_string().contains("not a whole checkpoint"));
    save(&path, &first, &first.card()).unwrap();
    assert!(State::read(&path).is_err(), "weights are no state");
}

#[test]
fn saved_weights_tell_of_their_training_and_score_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    let mut trainer = trainer();
    let first = trainer.measure().unwrap();
    let last = trainer.step(2, true).unwrap();
    save(&path, &trainer, &trainer.card()).unwrap();
    let read = Weights::read(&path).unwrap();
    assert_eq!(read.training(), &trainer.card());
    assert_eq!(read.training().curve, [first, last]);
    assert_eq!(trainer.measure_other(&read).score(), last.score());
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
        (TrainConfig { jobs: 0, ..config() }, "jobs"),
        (TrainConfig { memory: 15, ..config() }, "memory"),
        (TrainConfig { rate: f64::NAN, ..config() }, "rate"),
        (TrainConfig { nodes: 1, ..config() }, "nodes"),
        (TrainConfig { runs: 1.5, ..config() }, "runs"),
        (TrainConfig { share: 0.0, ..config() }, "share"),
    ];
    for (config, named) in table {
        let text = Trainer::new(config, Vec::new()).unwrap_err().to_string();
        assert!(text.contains(named), "{text}");
    }
}
