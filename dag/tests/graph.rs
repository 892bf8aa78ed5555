//! Building, validation and the flat form.

use std::collections::{BTreeMap, BTreeSet};

use mdts_dag::format::{self, Format};
use mdts_dag::{
    DataModel, Demand, Error, FlatGraph, JobGraph, JobGraphBuilder, Task, TaskId, Work, generate,
};
use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};
use proptest::prelude::*;

/// Tasks `t0`, `t1`, ... of one second with these (parent, child) pairs.
fn edges(count: usize, pairs: &[(usize, usize)]) -> JobGraphBuilder {
    let mut job = JobGraph::builder("test");
    for i in 0..count {
        job.task(Task::new(format!("t{i}")).seconds(1.0)).unwrap();
    }
    for &(parent, child) in pairs {
        job.depend(TaskId::new(child), TaskId::new(parent), 1.0);
    }
    job
}

fn ids(indices: &[usize]) -> Vec<TaskId> {
    indices.iter().copied().map(TaskId::new).collect()
}

fn message(result: mdts_dag::Result<JobGraph>) -> String {
    result.expect_err("it must be refused").to_string()
}

#[test]
fn an_empty_graph_is_refused() {
    assert!(matches!(JobGraph::builder("none").build(), Err(Error::Empty)));
}

#[test]
fn cycles_name_their_tasks_in_order() {
    for (count, pairs, cycle) in [
        (1, &[(0, 0)][..], &["t0"][..]),
        (3, &[(0, 1), (1, 1), (1, 2)], &["t1"]),
        (2, &[(0, 1), (1, 0)], &["t0", "t1"]),
        (5, &[(0, 1), (1, 3), (3, 2), (2, 1), (3, 4)], &["t1", "t3", "t2"]),
        (6, &[(5, 0), (0, 2), (2, 4), (4, 1), (1, 2), (0, 3), (3, 4)], &["t2", "t4", "t1"]),
    ] {
        match edges(count, pairs).build() {
            Err(Error::Cycle { tasks }) => {
                assert!(is_rotation(&tasks, cycle), "{tasks:?}, expected {cycle:?}");
            }
            other => panic!("{pairs:?}: {other:?}"),
        }
    }
    let text = message(edges(2, &[(0, 1), (1, 0)]).build());
    assert!(text.contains("t0 -> t1 -> t0"), "{text}");
}

fn is_rotation(found: &[String], expected: &[&str]) -> bool {
    found.len() == expected.len()
        && (0..found.len())
            .any(|shift| (0..found.len()).all(|i| found[(i + shift) % found.len()] == expected[i]))
}

#[test]
fn a_cycle_behind_a_long_chain_is_found() {
    let n = 200_000;
    let mut pairs: Vec<(usize, usize)> = (1..n).map(|i| (i - 1, i)).collect();
    pairs.push((n - 1, n - 3));
    match edges(n, &pairs).build() {
        Err(Error::Cycle { tasks }) => assert_eq!(tasks, ["t199997", "t199998", "t199999"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn duplicate_names_are_refused() {
    let mut job = edges(2, &[]);
    let error = job.task(Task::new("t1")).unwrap_err();
    assert!(matches!(&error, Error::DuplicateTask { name } if name == "t1"), "{error}");
    assert_eq!(job.task_count(), 2, "the graph is as before");
}

#[test]
fn unknown_parents_come_with_a_hint() {
    for (parent, hint) in [("spilt", "; did you mean 'split'?"), ("completely else", "")] {
        let mut job = JobGraph::builder("test");
        job.task(Task::new("split")).unwrap();
        let join = job.task(Task::new("join")).unwrap();
        job.depend_on(join, parent, 0.0);
        let text = message(job.build());
        let expected = format!("task 'join' depends on '{parent}', which is not a task of this graph{hint}");
        assert_eq!(text, expected);
    }
}

#[test]
fn parents_may_be_named_before_they_exist() {
    let mut job = JobGraph::builder("test");
    let join = job.task(Task::new("join")).unwrap();
    job.depend_on(join, "split", 5.0);
    let split = job.task(Task::new("split")).unwrap();
    job.depend_on(join, "split", 2.0);
    let job = job.build().unwrap();
    let found: Vec<_> = job.dependencies().collect();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0, found[0].1, found[0].2.bytes), (split, join, 7.0));
}

#[test]
fn bad_numbers_name_their_place() {
    let one = |task: Task| {
        let mut job = JobGraph::builder("test");
        job.task(task).unwrap();
        message(job.build())
    };
    let task = || Task::new("a");
    for (text, parts) in [
        (one(task().seconds(-1.0)), ["task 'a'", "work in seconds is -1"]),
        (one(task().seconds(f64::NAN)), ["task 'a'", "work in seconds is NaN"]),
        (one(task().seconds(f64::INFINITY)), ["task 'a'", "work in seconds is inf"]),
        (one(task().seconds(1e19)), ["task 'a'", "from 0 to 1e18"]),
        (one(task().times([("P1", 1.0), ("P2", -2.0)])), ["task 'a' on 'P2'", "time in seconds is -2"]),
        (one(task().cores(f64::NAN)), ["task 'a'", "cores is NaN"]),
        (one(task().gpus(-1.0)), ["task 'a'", "gpus is -1"]),
        (one(task().with_demand(|d| d.gang = 0)), ["task 'a'", "gang is 0"]),
        (
            one(task().with_demand(|d| d.other = BTreeMap::from([("licence".into(), -3.0)]))),
            ["task 'a', resource 'licence'", "is -3"],
        ),
        (one(task().timeout(0.0)), ["task 'a'", "timeout is 0"]),
        (one(task().timeout(f64::NAN)), ["task 'a'", "timeout is NaN"]),
    ] {
        for part in parts {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }
    for bytes in [-1.0, f64::NAN, f64::INFINITY] {
        let mut job = edges(2, &[]);
        job.depend(TaskId::new(1), TaskId::new(0), bytes);
        let text = message(job.build());
        assert!(text.starts_with(&format!("dependency 't0' -> 't1': bytes is {bytes}")), "{text}");

        let mut job = edges(1, &[]);
        job.file("data.txt", bytes).unwrap();
        let text = message(job.build());
        assert!(text.starts_with(&format!("file 'data.txt': size in bytes is {bytes}")), "{text}");
    }
}

#[test]
fn the_larger_size_of_a_file_holds() {
    let mut job = edges(1, &[]);
    let file = job.file("f", 10.0).unwrap();
    assert_eq!(job.file("f", 30.0).unwrap(), file);
    assert_eq!(job.file("f", 20.0).unwrap(), file);
    let job = job.build().unwrap();
    assert_eq!((job.files().len(), job.file(file).bytes), (1, 30.0));
    for sizes in [[1.0, f64::NAN], [f64::NAN, 1.0], [1.0, -1.0], [-1.0, 1.0]] {
        let mut job = edges(1, &[]);
        for bytes in sizes {
            job.file("f", bytes).unwrap();
        }
        assert!(matches!(job.build(), Err(Error::BadNumber { .. })), "{sizes:?}");
    }
}

#[test]
fn files_are_found_in_any_order() {
    let mut job = edges(1, &[]);
    let names = ["a", "b", "aa", "c"];
    let new: Vec<_> = names.iter().map(|name| job.file(name, 0.0).unwrap().index()).collect();
    assert_eq!(new, [0, 1, 2, 3]);
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [1, 1, 2, 2], [0, 3, 0, 1]] {
        for index in order {
            assert_eq!(job.file(names[index], 0.0).unwrap().index(), index, "{order:?}");
        }
    }
    assert_eq!(job.file("d", 0.0).unwrap().index(), 4);
    assert_eq!(job.build().unwrap().files().len(), 5);
}

#[test]
fn repeated_dependencies_merge() {
    let job = edges(3, &[(0, 1), (1, 2), (0, 1), (0, 1)]).build().unwrap();
    let found: Vec<_> = job.dependencies().map(|(p, c, d)| (p.index(), c.index(), d.bytes)).collect();
    assert_eq!(found, [(0, 1, 3.0), (1, 2, 1.0)]);
}

/// writer --(a, b, 5 direct bytes)--> first, --(b)--> second; `c` is read by both and written by none.
fn with_files() -> JobGraph {
    let mut job = JobGraph::builder("files");
    let [a, b, c] = [("a", 100.0), ("b", 30.0), ("c", 7.0)].map(|(n, bytes)| job.file(n, bytes).unwrap());
    let task = |name: &str, inputs: &[_], outputs: &[_]| {
        let mut task = Task::new(name).seconds(1.0);
        (task.inputs, task.outputs) = (inputs.to_vec(), outputs.to_vec());
        task
    };
    let writer = job.task(task("writer", &[], &[a, b, a])).unwrap();
    let first = job.task(task("first", &[c, b, a, b], &[])).unwrap();
    job.task(task("second", &[b, c], &[])).unwrap();
    job.depend(first, writer, 5.0);
    job.infer_parents_from_files();
    job.build().unwrap()
}

#[test]
fn dependencies_carry_each_shared_file_once() {
    let job = with_files();
    let found: Vec<_> =
        job.dependencies().map(|(p, c, d)| (p.index(), c.index(), d.bytes, d.direct)).collect();
    assert_eq!(found, [(0, 1, 135.0, 5.0), (0, 2, 30.0, 0.0)]);
}

#[test]
fn the_data_models_weigh_files_differently() {
    let flat = with_files().freeze();
    let [writer, first, second] = [0, 1, 2].map(TaskId::new);
    assert_eq!(flat.child_bytes(writer, DataModel::Edges), [135.0, 30.0]);
    assert_eq!(flat.child_bytes(writer, DataModel::Files), [100.0, 30.0]);
    assert_eq!(flat.parent_bytes(first, DataModel::Files), [100.0]);
    assert_eq!(flat.parent_bytes(second, DataModel::Files), [30.0]);
    let edge = flat.parent_edges(first).next().unwrap();
    assert_eq!((flat.edge_bytes(edge), flat.edge_direct_bytes(edge)), (135.0, 5.0));
    let files: Vec<usize> = flat.edge_files(edge).iter().map(|f| f.index()).collect();
    assert_eq!(files, [1, 0], "in the order of the reader's inputs, each once");
    assert_eq!((flat.file_count(), flat.file_bytes(flat.edge_files(edge)[0])), (3, 30.0));
}

#[test]
fn a_task_that_reads_its_own_output_is_no_cycle() {
    let mut job = JobGraph::builder("update");
    let state = job.file("state", 1.0).unwrap();
    let mut task = Task::new("update");
    (task.inputs, task.outputs) = (vec![state], vec![state]);
    job.task(task).unwrap();
    job.infer_parents_from_files();
    assert_eq!(job.build().unwrap().dependency_count(), 0);
}

#[test]
fn two_tasks_that_read_each_other_are_a_cycle() {
    let mut job = JobGraph::builder("mutual");
    let (x, y) = (job.file("x", 1.0).unwrap(), job.file("y", 1.0).unwrap());
    for (name, input, output) in [("a", x, y), ("b", y, x)] {
        let mut task = Task::new(name);
        (task.inputs, task.outputs) = (vec![input], vec![output]);
        job.task(task).unwrap();
    }
    job.infer_parents_from_files();
    assert!(matches!(job.build(), Err(Error::Cycle { tasks }) if tasks.len() == 2));
}

#[test]
fn kinds_demands_and_works_reach_the_flat_form() {
    let mut job = JobGraph::builder("mixed");
    job.task(Task::new("align1").seconds(2.0).cores(2.0)).unwrap();
    job.task(Task::new("align2").cores(2.0)).unwrap();
    job.task(Task::new("train").times([("gpu", 3.0)]).kind("training").gpus(1.0)).unwrap();
    job.task(Task::new("align3").cores(1.0)).unwrap(); // the default, given explicitly
    let job = job.build().unwrap();
    assert_eq!(job.task(TaskId::new(3)).demand, None);
    assert_eq!(job.task(TaskId::new(1)).work, Work::Unknown);
    let flat = job.freeze();
    let tasks: Vec<TaskId> = flat.tasks().collect();
    assert_eq!(flat.kinds().iter().map(|k| &**k).collect::<Vec<_>>(), ["align", "training"]);
    assert_eq!(tasks.iter().map(|t| flat.kind(*t).index()).collect::<Vec<_>>(), [0, 0, 1, 0]);
    assert_eq!(tasks.iter().map(|t| flat.demand(*t).index()).collect::<Vec<_>>(), [1, 1, 2, 0]);
    assert_eq!(flat.demands()[0], Demand::default());
    assert_eq!((flat.demands()[1].cores, flat.demands()[2].gpus), (2.0, 1.0));
    assert_eq!(flat.work(tasks[0]), 2.0);
    assert!(flat.work(tasks[1]).is_nan() && flat.work(tasks[2]).is_nan());
    assert_eq!(flat.per_node_times().len(), 1);
    assert_eq!((flat.per_node_times()[0].0, flat.per_node_times()[0].1[0].1), (tasks[2], 3.0));
}

#[test]
fn names_find_tasks() {
    let job = edges(1000, &[]).build().unwrap();
    for i in [0, 1, 500, 999] {
        assert_eq!(job.find(&format!("t{i}")), Some(TaskId::new(i)));
    }
    assert_eq!(job.find("t1000"), None);
}

#[test]
fn a_petgraph_graph_becomes_a_job() {
    let mut graph = DiGraph::new();
    let a = graph.add_node(Task::new("a"));
    let b = graph.add_node(Task::new("b"));
    graph.add_edge(a, b, mdts_dag::Dependency { bytes: 4.0, direct: 0.0 });
    let job = JobGraph::from_petgraph("from petgraph", graph.clone()).unwrap();
    let found: Vec<_> = job.dependencies().map(|(p, c, d)| (p.index(), c.index(), d.bytes)).collect();
    assert_eq!((job.name(), found), ("from petgraph", vec![(0, 1, 4.0)]));
    graph.add_edge(a, b, mdts_dag::Dependency { bytes: 3.0, direct: 9.0 });
    let job = JobGraph::from_petgraph("parallel edges", graph.clone()).unwrap();
    let found: Vec<_> =
        job.dependencies().map(|(p, c, d)| (p.index(), c.index(), d.bytes, d.direct)).collect();
    assert_eq!(found, [(0, 1, 7.0, 7.0)]);
    graph.add_edge(b, a, mdts_dag::Dependency::default());
    assert!(matches!(JobGraph::from_petgraph("cycle", graph), Err(Error::Cycle { .. })));
}

#[test]
fn a_long_chain_works() {
    let n = 200_000;
    let pairs: Vec<(usize, usize)> = (1..n).map(|i| (i, i - 1)).collect(); // from the last to the first
    let flat = edges(n, &pairs).build().unwrap().freeze();
    assert_eq!(flat.depth(), n);
    assert_eq!(flat.topological_order()[0], TaskId::new(n - 1));
    assert_eq!(flat.level(TaskId::new(0)) as usize, n - 1);
}

#[test]
fn a_wide_fan_works() {
    let n = 200_000;
    let pairs: Vec<(usize, usize)> = (1..=n).flat_map(|i| [(0, i), (i, n + 1)]).collect();
    let flat = edges(n + 2, &pairs).build().unwrap().freeze();
    assert_eq!((flat.depth(), flat.edge_count()), (3, 2 * n));
    assert_eq!((flat.children(TaskId::new(0)).len(), flat.parents(TaskId::new(n + 1)).len()), (n, n));
}

/// root --> leaves --> sink, everything through files; quadratic work on either side would take minutes.
#[test]
fn a_wide_fan_of_files_stays_linear() {
    let n = 100_000;
    let mut job = JobGraph::builder("fan");
    let shared = job.file("shared", 1.0).unwrap();
    let mut root = Task::new("root");
    root.outputs = vec![shared];
    let mut sink = Task::new("sink");
    for i in 0..n {
        let part = job.file(&format!("part{i}"), 2.0).unwrap();
        let result = job.file(&format!("result{i}"), 3.0).unwrap();
        root.outputs.push(part);
        sink.inputs.extend([part, result]);
        let mut leaf = Task::new(format!("leaf{i}"));
        (leaf.inputs, leaf.outputs) = (vec![part, shared], vec![result]);
        job.task(leaf).unwrap();
    }
    let root = job.task(root).unwrap();
    let sink = job.task(sink).unwrap();
    job.infer_parents_from_files();
    let flat = job.build().unwrap().freeze();
    assert_eq!((flat.children(root).len(), flat.parents(sink).len()), (n + 1, n + 1));
    assert_eq!(flat.child_bytes(root, DataModel::Edges)[0], 3.0);
    for (parent, model, expected) in [
        (TaskId::new(7), DataModel::Edges, 3.0),
        (root, DataModel::Edges, 2.0 * n as f64),
        (root, DataModel::Files, 2.0),
    ] {
        let at = flat.parents(sink).iter().position(|p| *p == parent).unwrap();
        assert_eq!(flat.parent_bytes(sink, model)[at], expected);
    }
}

/// `writers` tasks that write one file and `readers` that read it.
fn writers_and_readers(writers: usize, readers: usize) -> JobGraphBuilder {
    let mut job = JobGraph::builder("all to all");
    let file = job.file("shared", 1.0).unwrap();
    for i in 0..writers {
        let mut task = Task::new(format!("writer{i}"));
        task.outputs = vec![file, file];
        job.task(task).unwrap();
    }
    for i in 0..readers {
        let mut task = Task::new(format!("reader{i}"));
        task.inputs = vec![file, file];
        job.task(task).unwrap();
    }
    job.infer_parents_from_files();
    job
}

#[test]
fn files_imply_each_dependency_once_and_not_without_end() {
    let job = writers_and_readers(30, 20).build().unwrap();
    assert_eq!(job.dependency_count(), 600);
    assert!(job.dependencies().all(|(_, _, d)| (d.bytes, d.direct) == (1.0, 0.0)));
    // One more reader than 2^24 dependencies allow.
    let text = message(writers_and_readers(1 << 12, (1 << 12) + 1).build());
    assert!(text.starts_with("the graph has more than 16777216 dependencies implied"), "{text}");
    assert!(text.contains("infer_parents: false") && text.contains("let one task join"), "{text}");
}

/// 200 tasks write 1,700 files that 200 others read, all with all: 68 million transfers in few words.
#[test]
fn files_on_dependencies_have_a_limit() {
    let mut job = JobGraph::builder("transfers");
    let files: Vec<_> = (0..1700).map(|i| job.file(&format!("f{i}"), 1.0).unwrap()).collect();
    for i in 0..400 {
        let mut task = Task::new(format!("t{i}"));
        *(if i < 200 { &mut task.outputs } else { &mut task.inputs }) = files.clone();
        job.task(task).unwrap();
    }
    for (parent, child) in (0..200).flat_map(|p| (200..400).map(move |c| (p, c))) {
        job.depend(TaskId::new(child), TaskId::new(parent), 0.0);
    }
    let text = message(job.build());
    assert!(text.starts_with("the graph has more than 67108864 files on dependencies"), "{text}");
}

#[test]
fn repeated_dependencies_merge_wherever_they_stand() {
    let pairs = [(2, 3), (0, 1), (1, 3), (2, 3), (0, 1), (0, 3), (2, 3)];
    let job = edges(4, &pairs).build().unwrap();
    let found: Vec<_> = job.dependencies().map(|(p, c, d)| (p.index(), c.index(), d.bytes)).collect();
    assert_eq!(found, [(2, 3, 3.0), (0, 1, 2.0), (1, 3, 1.0), (0, 3, 1.0)]);
}

#[test]
fn a_file_with_many_writers_counts_where_it_flows() {
    let mut job = JobGraph::builder("log");
    let log = job.file("log", 10.0).unwrap();
    for i in 0..50 {
        let mut task = Task::new(format!("t{i}"));
        (task.inputs, task.outputs) = (vec![log], if i % 2 == 0 { vec![log, log] } else { vec![] });
        let id = job.task(task).unwrap();
        for parent in (0..i).rev().take(2) {
            job.depend(id, TaskId::new(parent), 1.0);
        }
    }
    let job = job.build().unwrap();
    for (parent, child, dependency) in job.dependencies() {
        let expected = if parent.index() % 2 == 0 { 11.0 } else { 1.0 };
        assert_eq!(dependency.bytes, expected, "{parent:?} -> {child:?}");
    }
    check_flat(&job, &job.freeze());
}

#[test]
fn equal_tasks_keep_the_order_of_their_ids() {
    let flat = edges(6, &[(1, 4), (0, 4), (2, 5)]).build().unwrap().freeze();
    assert_eq!(flat.topological_order(), ids(&[0, 1, 2, 3, 4, 5]));
    assert_eq!(flat.parents(TaskId::new(4)), ids(&[1, 0]), "in the order of adding");
}

/// The flat form against petgraph: neighbours, bytes, edge ids, order and levels.
fn check_flat(job: &JobGraph, flat: &FlatGraph) {
    let graph = job.petgraph();
    assert_eq!((flat.len(), flat.edge_count()), (graph.node_count(), graph.edge_count()));
    let mut level = vec![0; flat.len()];
    for node in toposort(graph, None).unwrap() {
        let before = graph.neighbors_directed(node, petgraph::Incoming).map(|p| level[p.index()] + 1).max();
        level[node.index()] = before.unwrap_or(0);
    }
    for task in flat.tasks() {
        let node = NodeIndex::new(task.index());
        let set = |tasks: &[TaskId]| tasks.iter().map(|t| t.index()).collect::<BTreeSet<_>>();
        let neighbours = |direction| {
            graph.neighbors_directed(node, direction).map(NodeIndex::index).collect::<BTreeSet<_>>()
        };
        assert_eq!(set(flat.parents(task)), neighbours(petgraph::Incoming));
        assert_eq!(set(flat.children(task)), neighbours(petgraph::Outgoing));
        assert_eq!(flat.level(task), level[task.index()]);
        for (edge, parent) in flat.parent_edges(task).zip(flat.parents(task)) {
            assert_eq!(flat.edge_parent(edge), *parent);
            let there = graph.find_edge(NodeIndex::new(parent.index()), node).unwrap();
            assert_eq!(flat.edge_bytes(edge), graph[there].bytes);
        }
        for ((edge, child), bytes) in flat
            .child_edges(task)
            .iter()
            .zip(flat.children(task))
            .zip(flat.child_bytes(task, DataModel::Edges))
        {
            assert_eq!((flat.edge_parent(*edge), flat.edge_bytes(*edge)), (task, *bytes));
            assert!(flat.parent_edges(*child).any(|e| e == *edge));
        }
    }
    assert_eq!(flat.depth() as u32, level.iter().max().unwrap() + 1);
    let mut position = vec![usize::MAX; flat.len()];
    for (i, task) in flat.topological_order().iter().enumerate() {
        position[task.index()] = i;
    }
    for (parent, child, _) in job.dependencies() {
        assert!(position[parent.index()] < position[child.index()]);
    }
    assert!(position.iter().all(|p| *p != usize::MAX), "every task is in the order");
}

#[test]
fn the_flat_form_of_every_generator_agrees_with_petgraph() {
    for generator in generate::Generator::all() {
        let job = generator.generate(&mut generate::seeded(2)).unwrap();
        check_flat(&job, &job.freeze());
    }
}

proptest! {
    #[test]
    fn the_flat_form_agrees_with_petgraph(
        n in 1_usize..60, pairs in prop::collection::vec((0_usize..60, 0_usize..60), 0..200), shuffle: u64,
    ) {
        // A random order of the tasks makes any pairs acyclic, not only those from lower to higher ids.
        let rank = |i: usize| (i as u64 + 1).wrapping_mul(shuffle | 1);
        let acyclic: Vec<(usize, usize)> = pairs
            .iter()
            .map(|(a, b)| (a % n, b % n))
            .filter(|(a, b)| rank(*a) != rank(*b))
            .map(|(a, b)| if rank(a) < rank(b) { (a, b) } else { (b, a) })
            .collect();
        let job = edges(n, &acyclic).build().unwrap();
        let distinct: BTreeSet<_> = acyclic.iter().collect();
        prop_assert_eq!(job.dependency_count(), distinct.len());
        check_flat(&job, &job.freeze());
    }

    #[test]
    fn any_pairs_build_or_show_a_real_cycle(
        n in 1_usize..12, pairs in prop::collection::vec((0_usize..12, 0_usize..12), 0..30),
    ) {
        let pairs: Vec<(usize, usize)> = pairs.iter().map(|(a, b)| (a % n, b % n)).collect();
        match edges(n, &pairs).build() {
            Ok(job) => check_flat(&job, &job.freeze()),
            Err(Error::Cycle { tasks }) => {
                let index = |name: &str| name[1..].parse::<usize>().unwrap();
                for (i, task) in tasks.iter().enumerate() {
                    let next = &tasks[(i + 1) % tasks.len()];
                    prop_assert!(pairs.contains(&(index(task), index(next))), "{task} -> {next} is no edge");
                }
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }
}

/// Tasks that were read in two parts are as if they had been read at once.
#[test]
fn a_graph_is_gone_on_with() {
    let base = r#"{"name": "g", "files": {"x": 10}, "tasks": [
        {"name": "a", "work": 1, "cores": 2, "outputs": ["x", "y"]},
        {"name": "b", "work": 1, "after": ["a"], "inputs": ["x"]}]"#;
    let added = r#"{"name": "c", "cores": 2, "inputs": ["x"], "outputs": ["z"], "needs": {"b": 5}},
        {"name": "e", "after": ["d", "d"], "retries": 2}, {"name": "d", "inputs": ["z", "y"], "after": "c", "work": 3}"#;
    let read = |text: String| format::read(text.as_bytes(), Format::Json, "g").unwrap();
    let whole = read(format!("{}, {added}]}}", &base[..base.len() - 1]));
    let grown = format::extend(
        read(format!("{base}}}")),
        &format!(r#"{{"files": {{"x": 99, "z": 7}}, "tasks": [{added}]}}"#),
    )
    .unwrap();
    assert_eq!(grown.len(), 5);
    assert_eq!(grown.find("d"), Some(TaskId::new(4)));
    assert_eq!(grown.files().iter().map(|f| f.bytes).collect::<Vec<_>>(), [10.0, 0.0, 7.0], "x stays");
    let (one, other) = (whole.freeze(), read(format!("{base}}}")).freeze().extended(&grown));
    assert_eq!(format!("{other:?}"), format!("{:?}", grown.freeze()));
    for task in one.tasks() {
        let links = |graph: &FlatGraph| {
            let mut of: Vec<_> = graph.parents(task).to_vec();
            of.sort_unstable();
            (of, graph.level(task), graph.retries(task), graph.demand(task), graph.kind(task))
        };
        assert_eq!(links(&one), links(&other), "{}", one.task_name(task));
    }
    let bytes = |graph: &JobGraph, child: &str, parent: &str| {
        let is_it =
            |(p, c): (TaskId, TaskId)| &*graph.task(p).name == parent && &*graph.task(c).name == child;
        graph.dependencies().find(|(p, c, _)| is_it((*p, *c))).map(|(_, _, data)| data.bytes)
    };
    for (child, parent) in [("b", "a"), ("c", "a"), ("c", "b"), ("d", "a")] {
        assert_eq!(bytes(&grown, child, parent), bytes(&whole, child, parent), "{parent} -> {child}");
    }
    assert_eq!(bytes(&grown, "d", "c"), Some(7.0));
}

#[test]
fn what_is_there_stays_as_it_is() {
    let base = || {
        let text = "tasks: [{name: a, work: 1}, {name: b, after: a, inputs: [x]}]";
        format::read(text.as_bytes(), Format::Yaml, "g").unwrap()
    };
    let refused = [
        (r#"{"tasks": [{"name": "a"}]}"#, "two tasks are named 'a'"),
        (r#"{"tasks": [{"name": "c", "outputs": "x"}]}"#, "'b' is there already and cannot wait for 'c'"),
        (r#"{"tasks": [{"name": "c", "after": "d"}, {"name": "d", "after": "c"}]}"#, "a cycle: c -> d -> c"),
        (r#"{"tasks": [{"name": "c", "after": "e"}]}"#, "'e', which is not a task"),
        (r#"{"tasks": [{"name": "c", "work": -1}]}"#, "-1"),
        (r#"{"files": {"y": -1}, "tasks": []}"#, "'y'"),
        (r#"{"files": {}}"#, "the key 'tasks' is missing"),
    ];
    for (text, expected) in refused {
        let error = message(format::extend(base(), text));
        assert!(error.contains(expected), "{text}: {error}");
    }
    let mut more = base().into_builder();
    more.depend(0.into(), 1.into(), 0.0);
    assert!(matches!(more.build(), Err(Error::Settled { task, parent }) if task == "a" && parent == "b"));
    assert_eq!(format::extend(base(), r#"{"tasks": []}"#).unwrap().len(), 2);
    let mut job = base();
    assert!(job.set_work(0.into(), Work::Seconds(-1.0)).is_err());
    assert_eq!(job.task(0.into()).work, Work::Seconds(1.0));
    job.set_work(1.into(), Work::Seconds(4.0)).unwrap();
    assert_eq!(job.task(1.into()).work, Work::Seconds(4.0));
}
