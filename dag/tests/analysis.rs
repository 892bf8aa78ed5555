//! Ranks and critical paths against published values, shapes against values counted by hand.

use mdts_dag::analysis::{critical_path, downward_rank, level_widths, shape, upward_rank};
use mdts_dag::{DataModel, FlatGraph, JobGraph, Task, TaskId, generate};

/// The example of Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, figure 2: times on three processors ...
const TIMES: [[f64; 3]; 10] = [
    [14.0, 16.0, 9.0],
    [13.0, 19.0, 18.0],
    [11.0, 13.0, 19.0],
    [13.0, 8.0, 17.0],
    [12.0, 13.0, 10.0],
    [13.0, 16.0, 9.0],
    [7.0, 15.0, 11.0],
    [5.0, 11.0, 14.0],
    [18.0, 12.0, 20.0],
    [21.0, 7.0, 16.0],
];
/// ... and parent, child, communication time.
const EDGES: [(usize, usize, f64); 15] = [
    (1, 2, 18.0),
    (1, 3, 12.0),
    (1, 4, 9.0),
    (1, 5, 11.0),
    (1, 6, 14.0),
    (2, 8, 19.0),
    (2, 9, 16.0),
    (3, 7, 23.0),
    (4, 8, 27.0),
    (4, 9, 23.0),
    (5, 9, 13.0),
    (6, 8, 15.0),
    (7, 10, 17.0),
    (8, 10, 11.0),
    (9, 10, 13.0),
];

fn topcuoglu() -> JobGraph {
    let mut job = JobGraph::builder("topcuoglu");
    for (i, times) in (1..).zip(TIMES) {
        job.task(Task::new(i.to_string()).times(["P1", "P2", "P3"].into_iter().zip(times))).unwrap();
    }
    for (parent, child, bytes) in EDGES {
        job.depend(TaskId::new(child - 1), TaskId::new(parent - 1), bytes);
    }
    job.build().unwrap()
}

fn mean(task: TaskId) -> f64 {
    TIMES[task.index()].iter().sum::<f64>() / 3.0
}

fn assert_near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() < 5e-4, "task {}: {f}, published {e}", i + 1);
    }
}

#[test]
fn published_ranks() {
    let flat = topcuoglu().freeze();
    let up = upward_rank(&flat, DataModel::Edges, mean, |bytes| bytes);
    assert_near(&up, &[108.0, 77.0, 80.0, 80.0, 69.0, 63.333, 42.667, 35.667, 44.333, 14.667]);
    let down = downward_rank(&flat, DataModel::Edges, mean, |bytes| bytes);
    assert_near(&down, &[0.0, 31.0, 25.0, 22.0, 24.0, 27.0, 62.333, 66.667, 63.667, 93.333]);
}

#[test]
fn published_critical_path() {
    let flat = topcuoglu().freeze();
    let path = critical_path(&flat, DataModel::Edges, mean, |bytes| bytes);
    let names: Vec<&str> = path.tasks.iter().map(|t| flat.task_name(*t)).collect();
    assert_eq!(names, ["1", "2", "9", "10"]);
    assert!((path.seconds - 108.0).abs() < 1e-9, "{}", path.seconds);
}

#[test]
fn ties_on_the_critical_path_take_the_lowest_task() {
    let mut job = JobGraph::builder("ties");
    let [first, second] = ["a", "b"].map(|name| job.task(Task::new(name).seconds(1.0)).unwrap());
    let [third, fourth] = ["c", "d"].map(|name| job.task(Task::new(name).seconds(1.0)).unwrap());
    job.depend(fourth, first, 0.0); // added in the order that would tempt
    job.depend(third, first, 0.0);
    job.depend(third, second, 0.0);
    let flat = job.build().unwrap().freeze();
    let path = critical_path(&flat, DataModel::Edges, |t| flat.work(t), |_| 0.0);
    assert_eq!(path.tasks, [first, third]);
}

#[test]
fn files_count_once_or_largest() {
    let mut job = JobGraph::builder("files");
    let big = job.file("big", 100.0).unwrap();
    let small = job.file("small", 20.0).unwrap();
    let mut writer = Task::new("writer").seconds(1.0);
    writer.outputs = vec![big, small];
    let mut reader = Task::new("reader").seconds(2.0);
    reader.inputs = vec![small, big];
    job.task(writer).unwrap();
    job.task(reader).unwrap();
    job.infer_parents_from_files();
    let flat = job.build().unwrap().freeze();
    let rank = |model| upward_rank(&flat, model, |t| flat.work(t), |bytes| bytes / 10.0)[0];
    assert_eq!(rank(DataModel::Edges), 1.0 + 12.0 + 2.0);
    assert_eq!(rank(DataModel::Files), 1.0 + 10.0 + 2.0);
}

#[test]
fn shape_of_the_example() {
    let job = topcuoglu();
    let flat = job.freeze();
    let found = shape(&job, &flat);
    assert_eq!((found.tasks, found.edges, found.depth, found.width), (10, 15, 4, 5));
    assert_eq!((found.kinds, found.files, found.unknown_work), (10, 0, 0));
    assert_eq!(found.data_bytes, EDGES.iter().map(|e| e.2).sum::<f64>());
    let total: f64 = TIMES.iter().flatten().sum::<f64>() / 3.0;
    assert!((found.work_seconds - total).abs() < 1e-9);
    // 1, 2, 9, 10 by mean times, transfers left out.
    let path: f64 = [0, 1, 8, 9].map(|i| mean(TaskId::new(i))).iter().sum();
    assert!((found.critical_path_seconds - path).abs() < 1e-9, "{}", found.critical_path_seconds);
    assert_eq!(level_widths(&flat), [1, 5, 3, 1]);
}

#[test]
fn nothing_is_a_positive_zero() {
    let mut job = JobGraph::builder("one");
    job.task(Task::new("only").seconds(0.0)).unwrap();
    let job = job.build().unwrap();
    let found = shape(&job, &job.freeze());
    for value in [found.data_bytes, found.work_seconds, found.critical_path_seconds] {
        assert!(value == 0.0 && value.is_sign_positive(), "{value}");
    }
}

#[test]
fn unknown_work_counts_as_nothing() {
    let mut job = JobGraph::builder("unknown");
    let known = job.task(Task::new("known").seconds(3.0)).unwrap();
    let unknown = job.task(Task::new("unknown")).unwrap();
    let nowhere = job.task(Task::new("nowhere").times(Vec::<(&str, f64)>::new())).unwrap();
    job.depend(unknown, known, 0.0);
    job.depend(nowhere, unknown, 0.0);
    let job = job.build().unwrap();
    let found = shape(&job, &job.freeze());
    assert_eq!((found.unknown_work, found.work_seconds, found.critical_path_seconds), (2, 3.0, 3.0));
}

/// On random graphs: downward + upward rank is the longest path through a task, at most the critical path, and equal
/// to it on the path itself.
#[test]
fn ranks_and_critical_path_agree() {
    for seed in 0..20 {
        let job = generate::from_text("layered:tasks=150,jump=3", &mut generate::seeded(seed)).unwrap();
        let flat: FlatGraph = job.freeze();
        let weight = |t: TaskId| flat.work(t);
        let transfer = |bytes: f64| bytes / 100e6;
        let up = upward_rank(&flat, DataModel::Edges, weight, transfer);
        let down = downward_rank(&flat, DataModel::Edges, weight, transfer);
        let path = critical_path(&flat, DataModel::Edges, weight, transfer);
        let through = |t: TaskId| up[t.index()] + down[t.index()];
        assert!(flat.tasks().all(|t| through(t) <= path.seconds * (1.0 + 1e-12)));
        assert!(path.tasks.iter().all(|t| (through(*t) / path.seconds - 1.0).abs() < 1e-12));
        assert!(path.tasks.windows(2).all(|pair| flat.children(pair[0]).contains(&pair[1])));
        assert!(flat.parents(path.tasks[0]).is_empty());
        assert!(flat.children(path.tasks[path.tasks.len() - 1]).is_empty());
    }
}
