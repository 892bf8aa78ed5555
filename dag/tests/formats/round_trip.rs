//! What is written reads back the same, strange names included.

use std::collections::BTreeMap;
use std::fs;

use mdts_dag::format::{self, Format};
use mdts_dag::{Demand, Execution, Failing, JobGraph, RetryRule, Task, TaskId, Work};
use proptest::prelude::*;

use crate::samples;

/// All of a graph that a format keeps, in an order of its own.
#[derive(Debug, PartialEq)]
struct Content {
    name: String,
    tasks: Vec<(String, String, Work, Demand, Execution)>,
    edges: BTreeMap<(String, String), f64>,
}

fn content(job: &JobGraph) -> Content {
    let name = |id: TaskId| job.task(id).name.to_string();
    let task = |task: &Task| {
        (
            task.name.to_string(),
            task.kind.to_string(),
            task.work.clone(),
            task.demand.as_deref().cloned().unwrap_or_default(),
            task.run.as_deref().cloned().unwrap_or_default(),
        )
    };
    Content {
        name: job.name().into(),
        tasks: job.tasks().map(task).collect(),
        edges: job.dependencies().map(|(p, c, data)| ((name(p), name(c)), data.bytes)).collect(),
    }
}

fn files(job: &JobGraph) -> Vec<(Vec<String>, Vec<String>)> {
    let names = |ids: &[mdts_dag::FileId]| ids.iter().map(|f| job.file(*f).name.to_string()).collect();
    job.tasks().map(|task| (names(&task.inputs), names(&task.outputs))).collect()
}

const WRITTEN: [Format; 5] = [Format::WfFormat, Format::Dot, Format::Yaml, Format::Json, Format::Toml];

fn rewritten(job: &JobGraph, format: Format) -> (JobGraph, String) {
    let mut text = Vec::new();
    format::write(job, format, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let again = format::read(text.as_bytes(), format, "again");
    (again.unwrap_or_else(|e| panic!("{e}\n{text}")), text)
}

#[test]
fn samples_survive_every_format() {
    for (_, sample) in samples::ALL {
        let job = format::read(sample.as_bytes(), None, "-").unwrap();
        for format in WRITTEN {
            let (again, text) = rewritten(&job, format);
            assert_eq!(content(&again), content(&job), "{text}");
            // DOT keeps no files; WfFormat adds files for bytes of dependencies.
            if !matches!(format, Format::Dot | Format::WfFormat) {
                assert_eq!(files(&again), files(&job), "{text}");
            }
        }
    }
}

#[test]
fn files_without_dependency_stay_without() {
    let mut job = JobGraph::builder("independent");
    let file = job.file("f", 5.0).unwrap();
    for (name, input) in [("reader", true), ("writer", false)] {
        let mut task = Task::new(name);
        if input { &mut task.inputs } else { &mut task.outputs }.push(file);
        job.task(task).unwrap();
    }
    let job = job.build().unwrap();
    for format in WRITTEN {
        assert_eq!(rewritten(&job, format).0.dependency_count(), 0);
    }
}

#[test]
fn files_appear_whole_and_packed() {
    let folder = tempfile::tempdir().unwrap();
    let job = format::read(samples::YAML.as_bytes(), Format::Yaml, "x").unwrap();
    let names = ["a.json", "a.mdts.json", "a.dot.gz", "a.yaml", "a.toml.gz", "a.stg"];
    for (name, is_packed) in names.into_iter().zip([false, false, true, false, true, false]) {
        let path = folder.path().join(name);
        fs::write(&path, "old").unwrap();
        format::write_path(&job, &path).unwrap();
        let packed = fs::read(&path).unwrap().starts_with(b"\x1f\x8b");
        assert_eq!(packed, is_packed, "{name}");
        assert_eq!(format::read_path(&path).unwrap().len(), 3, "{name}");
    }
    // Nothing is left behind, nothing is damaged by a failure.
    let unknown = format::read(b"digraph { a }", Format::Dot, "x").unwrap();
    assert!(format::write_path(&unknown, folder.path().join("a.stg")).is_err());
    assert_eq!(format::read_path(folder.path().join("a.stg")).unwrap().len(), 3);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6);
    let error = format::write_path(&job, folder.path().join("none/a.yaml")).unwrap_err().to_string();
    assert!(error.contains("none/a.yaml: ") && !error.contains('\n'), "{error}");
    let error = format::write_path(&job, folder.path().join("a.txt")).unwrap_err().to_string();
    assert!(error.contains("a.txt: the extension names no format"), "{error}");
}

#[test]
fn large_workflows_read_in_every_format() {
    const TASKS: usize = 100_000;
    let mut job = JobGraph::builder("large");
    for i in 0..TASKS {
        let task = Task::new(format!("task_{i}")).seconds(i as f64).command(["run", "--task"]);
        let id = job.task(task).unwrap();
        if i > 0 {
            job.depend(id, TaskId::new(i / 2), 1e6);
        }
    }
    let job = job.build().unwrap();
    for format in WRITTEN {
        let mut text = Vec::new();
        format::write(&job, format, &mut text).unwrap();
        let again = format::read(&text, format, "again").unwrap();
        assert_eq!((again.len(), again.dependency_count()), (TASKS, TASKS - 1), "{}", format.name());
    }
}

/// Names that formats may stumble over.
fn name() -> impl Strategy<Value = String> {
    let strange = prop::sample::select(vec![
        "",
        " ",
        "\"",
        "\\",
        "a\\",
        "\\n",
        "a\nb",
        "a\r\nb",
        "\t",
        "'",
        "#c",
        "a#b",
        "{x",
        "a,b=c",
        "null",
        "~",
        "yes",
        "1",
        "1e5",
        "0x10",
        "-",
        "- a",
        "a: b",
        "<<",
        "*a",
        "&a",
        "!t",
        "%",
        "@",
        "`",
        "node",
        "digraph",
        "ä",
        "🦀",
        "\u{1}",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "a ",
        " a",
        "_ID001",
        "x_7",
        "...",
        "---",
        "//",
        "/*",
        "->",
        "$HOME",
        "[a]",
        "|",
        ">",
        "?",
        "inf",
        ".nan",
        "true",
        "2020-01-01",
        "'''",
        "\"\"\"",
    ])
    .prop_map(String::from);
    prop_oneof![3 => strange, 1 => "[a-z]{1,3}_[0-9]{0,3}", 1 => any::<String>()]
}

fn amount() -> impl Strategy<Value = f64> {
    prop_oneof![(0_u32..1000).prop_map(f64::from), 0.0..1e18, (0.0..1.0), Just(0.0), Just(1e18), Just(1e-300)]
}

fn work() -> impl Strategy<Value = Work> {
    let times = prop::collection::btree_map(name(), amount(), 1..4);
    prop_oneof![
        Just(Work::Unknown),
        amount().prop_map(Work::Seconds),
        times.prop_map(|times| Work::PerNode(times.into_iter().map(|(n, t)| (n.into(), t)).collect())),
    ]
}

fn demand() -> impl Strategy<Value = Demand> {
    let other = prop::collection::btree_map(name(), amount(), 0..3);
    (amount(), 0_u64..1 << 50, amount(), other, 1_u32..5)
        .prop_map(|(cores, memory, gpus, other, gang)| Demand { cores, memory, gpus, other, gang })
}

fn retry() -> impl Strategy<Value = RetryRule> {
    let failing = prop_oneof![
        (1..=255).prop_map(Failing::Status),
        prop::sample::select(&[Failing::Exit, Failing::Signal, Failing::Timeout, Failing::Memory][..]),
        prop::sample::select(&[Failing::Input, Failing::Output, Failing::Start][..]),
    ];
    let list = prop::collection::vec(failing, 0..3);
    (list.clone(), list).prop_map(|(on, never_on)| RetryRule { on, never_on })
}

fn execution() -> impl Strategy<Value = Execution> {
    let command = (name().prop_filter("a program", |p| !p.is_empty()), prop::collection::vec(name(), 0..4));
    let command =
        command.prop_map(|(program, rest)| std::iter::once(program).chain(rest).collect::<Vec<_>>());
    let variable = name().prop_filter("a name of a variable", |n| !n.is_empty() && !n.contains(['=', '\0']));
    let env = prop::collection::btree_map(variable, name(), 0..3).prop_map(|env| env.into_iter().collect());
    let directory = prop::option::of(name());
    let timeout = prop::option::of(1e-3..1e9);
    let delay = prop::option::of(0.0..1e6);
    let retries = prop::option::of(0_u32..4);
    (command, env, directory, retries, retry(), delay, timeout).prop_map(
        |(command, env, directory, retries, retry, retry_delay, timeout)| Execution {
            command,
            env,
            directory,
            retries,
            retry,
            retry_delay,
            timeout,
        },
    )
}

prop_compose! {
    fn task()(
        kind in prop::option::of(name()),
        work in work(),
        demand in prop::option::of(demand()),
        run in prop::option::of(execution()),
    ) -> Task {
        let mut task = Task::new("");
        task.kind = kind.unwrap_or_else(|| "absent".into()).into();
        task.work = work;
        task.demand = demand.map(Into::into);
        task.run = run.map(Into::into);
        task
    }
}

prop_compose! {
    fn graph()(
        job_name in name().prop_filter("DOT has no empty name", |n| !n.is_empty()),
        names in prop::collection::btree_set(name(), 1..8),
        tasks in prop::collection::vec(task(), 8),
        edges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0_u32..100), 0..12),
        files in prop::collection::btree_map(name(), (0_u32..1000, any::<u8>(), any::<u8>()), 0..4),
    ) -> JobGraph {
        let mut job = JobGraph::builder(job_name);
        let files: Vec<_> = files
            .into_iter()
            .map(|(name, (bytes, readers, writers))| (job.file(&name, f64::from(bytes)).unwrap(), readers, writers))
            .collect();
        let count = names.len();
        for (i, (name, mut task)) in names.into_iter().zip(tasks).enumerate() {
            if &*task.kind == "absent" {
                task.kind = Task::new(name.as_str()).kind;
            }
            task.name = name.into();
            let has = |bits: u8| bits & (1 << i) != 0;
            task.inputs = files.iter().filter(|(_, readers, _)| has(*readers)).map(|(f, ..)| *f).collect();
            task.outputs = files.iter().filter(|(_, _, writers)| has(*writers)).map(|(f, ..)| *f).collect();
            job.task(task).unwrap();
        }
        for (a, b, bytes) in edges {
            let (a, b) = (a.index(count), b.index(count));
            if a != b {
                job.depend(TaskId::new(a.max(b)), TaskId::new(a.min(b)), f64::from(bytes));
            }
        }
        job.build().unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn every_graph_survives_every_format(job in graph()) {
        for format in WRITTEN {
            let (again, text) = rewritten(&job, format);
            prop_assert_eq!(content(&again), content(&job), "{}", text);
            if !matches!(format, Format::Dot | Format::WfFormat) {
                prop_assert_eq!(files(&again), files(&job), "{}", text);
            }
        }
    }
}
