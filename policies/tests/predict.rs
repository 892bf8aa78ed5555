//! Run-time prediction from outside: fallbacks, uncertainty, determinism, bad input, and real traces.

mod common;

use std::path::{Path, PathBuf};

use mdts_dag::generate::seeded;
use mdts_dag::{JobGraph, Task, Work, format};
use mdts_policies::predict::{
    Error, Features, Method, Predictor, Source, leave_one_out, score, typical_score,
};
use rand::Rng;

fn sized(bytes: f64) -> Features {
    Features { input_bytes: bytes, inputs: 1.0, ..Features::default() }
}

/// A number of a standard normal distribution, as a sum of twelve uniform ones.
fn normal(rng: &mut impl Rng) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}

/// Two kinds that grow with their input, in several runs, with lognormal noise.
fn noisy(sigma: f64, seed: u64) -> Predictor {
    let mut rng = seeded(seed);
    let mut predictor = Predictor::new(seed);
    for _ in 0..8 {
        predictor.begin_run();
        for _ in 0..50 {
            let bytes = 1e6 * rng.random_range(1.0..100.0);
            let noise = (sigma * normal(&mut rng)).exp();
            predictor.observe("sort", sized(bytes), bytes / 1e6 * noise).unwrap();
            predictor.observe("hash", sized(bytes), (bytes / 1e6).sqrt() * noise).unwrap();
        }
    }
    predictor
}

#[test]
fn each_kind_has_a_law_of_its_own() {
    let predictor = noisy(0.01, 1);
    for bytes in [3e6, 30e6, 90e6] {
        for (kind, expected) in [("sort", bytes / 1e6), ("hash", (bytes / 1e6_f64).sqrt())] {
            let said = predictor.predict(kind, &sized(bytes)).unwrap();
            assert!((said.seconds / expected - 1.0).abs() < 0.05, "{kind} {bytes}: {said:?}");
            assert_eq!(said.source, Source::Kind);
        }
    }
}

#[test]
fn four_of_five_run_times_lie_in_the_interval() {
    let predictor = noisy(0.4, 2);
    let mut rng = seeded(77);
    let inside = (0..4000).filter(|_| {
        let bytes = 1e6 * rng.random_range(1.0..100.0);
        let actual = bytes / 1e6 * (0.4 * normal(&mut rng)).exp();
        let (low, high) = predictor.predict("sort", &sized(bytes)).unwrap().interval();
        (low..=high).contains(&actual)
    });
    let share = inside.count() as f64 / 4000.0;
    assert!((0.75..=0.85).contains(&share), "{share}");
}

#[test]
fn the_same_observations_give_the_same_predictions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.json");
    let (one, other) = (noisy(0.4, 3), noisy(0.4, 3));
    one.save(&path).unwrap();
    let loaded = Predictor::load(&path, 3).unwrap();
    for kind in ["hash", "sort", "sort_more", "unheard-of"] {
        let said = one.predict(kind, &sized(5e6)).unwrap();
        assert_eq!(other.predict(kind, &sized(5e6)).unwrap(), said, "{kind}");
        assert_eq!(loaded.predict(kind, &sized(5e6)).unwrap(), said, "{kind} from a file");
    }
}

#[test]
fn unseen_kinds_fall_back_on_names_then_on_looks() {
    let mut predictor = Predictor::new(0);
    predictor.begin_run();
    for i in 0..40 {
        let (small, large) = (sized(1e3 + f64::from(i)), sized(1e9 + f64::from(i)));
        predictor.observe(&format!("map_sample{i}_lane"), small, 2.0).unwrap();
        predictor.observe("reduce", large, 500.0).unwrap();
    }
    let table = [
        ("map_sample3_lane", sized(1e3), Source::Name, 2.0), // one sample is less than those of its name
        ("map_other", sized(1e3), Source::Name, 2.0),
        ("reduce", sized(1e9), Source::Kind, 500.0),
        ("fold", sized(1e3), Source::Looks, 2.0),
        ("fold", sized(1e9), Source::Looks, 500.0),
    ];
    for (kind, features, source, seconds) in table {
        let said = predictor.predict(kind, &features).unwrap();
        assert_eq!(said.source, source, "{kind}");
        assert!((said.seconds / seconds - 1.0).abs() < 0.01, "{kind}: {said:?}");
    }
}

#[test]
fn few_samples_and_run_times_of_zero_are_no_trouble() {
    let mut predictor = Predictor::new(0);
    assert!(matches!(predictor.predict("a", &sized(1.0)), Err(Error::Empty)));
    predictor.begin_run();
    for (kind, times) in [("one", &[4.0][..]), ("two", &[4.0, 4.0]), ("zero", &[0.0, 0.0, 0.0, 0.0])] {
        for time in times {
            predictor.observe(kind, sized(9.0), *time).unwrap();
        }
        let said = predictor.predict(kind, &sized(9.0)).unwrap();
        assert!((said.seconds - times[0]).abs() < 1e-9, "{kind}: {said:?}");
        assert!(said.sigma > 0.0 && said.method == Method::Median, "{kind}: {said:?}");
    }
}

#[test]
fn unknown_sizes_are_not_taken_for_small_ones() {
    let mut predictor = noisy(0.01, 4);
    let unknown = predictor.predict("sort", &sized(0.0)).unwrap().seconds;
    assert!((10.0..100.0).contains(&unknown), "about the median of all: {unknown}");
    // Once sizes of 0 were seen, they are sizes like others.
    for _ in 0..100 {
        predictor.observe("sort", sized(0.0), 0.1).unwrap();
    }
    let small = predictor.predict("sort", &sized(0.0)).unwrap().seconds;
    assert!(small < 1.0, "{small}");
}

#[test]
fn models_follow_what_is_observed() {
    let mut predictor = Predictor::new(0);
    predictor.begin_run();
    let observe = |predictor: &mut Predictor, n: usize, seconds: f64| {
        (0..n).for_each(|_| predictor.observe("a", sized(1.0), seconds).unwrap());
    };
    observe(&mut predictor, 10, 1.0);
    let said = |predictor: &Predictor| predictor.predict("a", &sized(1.0)).unwrap().sigma;
    let first = said(&predictor);
    observe(&mut predictor, 1, 50.0);
    assert_eq!(said(&predictor), first, "one more of ten is too little for a new fit");
    observe(&mut predictor, 1, 50.0);
    assert!(said(&predictor) > first);
}

#[test]
fn speeds_count() {
    let mut predictor = Predictor::new(0);
    predictor.begin_run();
    for i in 0..30 {
        let speed = if i % 2 == 0 { 1.0 } else { 4.0 };
        predictor.observe("a", Features { speed, ..sized(1.0) }, 8.0 / speed).unwrap();
    }
    for (speed, seconds) in [(1.0, 8.0), (4.0, 2.0), (2.0, 4.0)] {
        let said = predictor.predict("a", &Features { speed, ..sized(1.0) }).unwrap().seconds;
        assert!((said / seconds - 1.0).abs() < 0.01, "{speed}: {said}");
    }
}

#[test]
fn bad_numbers_are_refused_and_not_learnt() {
    let mut predictor = Predictor::new(0);
    for (features, seconds) in
        [(sized(1.0), f64::NAN), (sized(1.0), -1.0), (sized(1.0), f64::INFINITY), (sized(f64::NAN), 1.0)]
    {
        assert!(matches!(predictor.observe("a", features, seconds), Err(Error::BadNumber { .. })));
    }
    assert_eq!(predictor.samples(), 0);
    predictor.observe("a", sized(1.0), 1.0).unwrap();
    let error = predictor.predict("a", &sized(f64::NAN)).unwrap_err().to_string();
    assert!(error.contains("'a': input_bytes is NaN"), "{error}");
}

#[test]
fn jobs_are_filled_where_they_say_nothing() {
    let mut seen = JobGraph::builder("seen");
    let file = seen.file("in", 100.0).unwrap();
    let mut read = Task::new("read_1").seconds(3.0);
    read.inputs.push(file);
    seen.task(read.clone()).unwrap();
    seen.task(Task::new("write_1").times([("n", 7.0)])).unwrap();
    let mut predictor = Predictor::new(0);
    assert_eq!(predictor.learn(&seen.build().unwrap()).unwrap(), 1, "times per node are not on speed 1");
    let mut new = JobGraph::builder("new");
    let known = new.task(Task::new("read_5").seconds(9.0)).unwrap();
    let unknown = new.task(Task::new("read_6")).unwrap();
    new.file("in", 1.0).unwrap();
    new.depend(unknown, known, 5.0);
    let filled = predictor.fill(&new.build().unwrap()).unwrap();
    assert_eq!((filled.count(), filled.predicted), (1, [1, 0, 0]));
    assert_eq!(filled.job.task(known).work, Work::Seconds(9.0));
    assert!(matches!(filled.job.task(unknown).work, Work::Seconds(s) if (s - 3.0).abs() < 1e-9));
    assert_eq!((filled.job.files().len(), filled.job.dependency_count()), (1, 1));
}

fn traces(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            traces(&path, found);
        } else if path.to_string_lossy().contains(".json") {
            found.push(path);
        }
    }
}

#[test]
fn predictions_of_left_out_instances_beat_mean_and_median() {
    let Some(folder) = common::data("wfinstances", "predictions_of_left_out_instances_beat_mean_and_median")
    else {
        return;
    };
    let mut paths = Vec::new();
    traces(&folder, &mut paths);
    paths.sort();
    let jobs: Vec<JobGraph> = paths.iter().map(|path| format::read_path(path).expect("readable")).collect();
    for known_before in [false, true] {
        let trials = leave_one_out(&jobs, known_before, 0).unwrap();
        for said in [score(&trials), typical_score(&trials)] {
            assert!(said.tasks > 10_000, "{said:?}");
            let best = said.kind_mean.min(said.kind_median).min(said.type_median);
            assert!(said.predicted < best, "known before: {known_before}: {said:?}");
        }
    }
    assert!(matches!(leave_one_out(&jobs[..1], false, 0), Err(Error::TooFewRuns { found: 1 })));
}
