//! What the readers make of the samples and of single constructs.

use std::fmt::Write;

use mdts_dag::format::{self, Format};
use mdts_dag::{JobGraph, Work};

use crate::samples;

fn read(format: Format, text: &str) -> JobGraph {
    format::read(text.as_bytes(), format, "test").unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn edges(job: &JobGraph) -> Vec<(&str, &str, f64)> {
    let mut edges: Vec<_> =
        job.dependencies().map(|(p, c, d)| (&*job.task(p).name, &*job.task(c).name, d.bytes)).collect();
    edges.sort_by(|a, b| a.partial_cmp(b).unwrap());
    edges
}

#[test]
fn all_samples_are_the_same_graph() {
    for (format, text) in samples::ALL {
        let job = read(format, text);
        let name = format.name();
        if format == Format::Stg {
            assert_eq!(job.name(), "test");
            assert_eq!(edges(&job), [("1", "2", 0.0), ("1", "3", 0.0)]);
            continue;
        }
        assert_eq!(job.name(), "sample", "{name}");
        let tasks: Vec<_> = job.tasks().collect();
        assert_eq!(tasks.iter().map(|t| &*t.kind).collect::<Vec<_>>(), ["split", "sort", "sort"], "{name}");
        let work: Vec<_> = tasks.iter().map(|t| t.work.clone()).collect();
        assert_eq!(work, [1.5, 2.0, 3.0].map(Work::Seconds), "{name}");
        let demand: Vec<_> =
            tasks.iter().map(|t| t.demand.as_deref().map_or((1.0, 0), |d| (d.cores, d.memory))).collect();
        assert_eq!(demand, [(1.0, 4096), (1.0, 0), (2.0, 8000)], "{name}");
        let bytes: Vec<_> = edges(&job).into_iter().map(|(_, _, bytes)| bytes).collect();
        assert_eq!(bytes, [100.0, 200.0], "{name}");
        if format != Format::Dax {
            assert_eq!(tasks[0].run.as_ref().unwrap().command, ["split", "-n", "2"], "{name}");
        }
        if format != Format::Dot {
            assert_eq!(tasks[0].outputs.len(), 2, "{name}");
            assert_eq!(&*job.file(tasks[0].inputs[0]).name, "all.txt", "{name}");
            assert_eq!(job.file(tasks[0].inputs[0]).bytes, 300.0, "{name}");
        }
    }
}

#[test]
fn samples_are_detected_without_an_extension() {
    for (format, text) in samples::ALL {
        assert_eq!(Format::detect("-", text.as_bytes()).unwrap(), format, "{text}");
        let job = format::read_from(text.as_bytes(), None, "-").unwrap();
        assert_eq!(job.len(), 3);
    }
}

#[test]
fn wfformat_tasks_are_named_by_name_up_to_14_and_by_id_from_15() {
    assert!(read(Format::WfFormat, samples::WFFORMAT_14).find("sort_ID0000003").is_some());
    assert!(read(Format::WfFormat, samples::WFFORMAT_15).find("sort_2").is_some());
    let repeated =
        r#"{"workflow": {"tasks": [{"name": "a", "id": "1"}, {"name": "a", "id": "2", "parents": ["1"]}]}}"#;
    assert_eq!(edges(&read(Format::WfFormat, repeated)), [("1", "2", 0.0)]);
}

#[test]
fn wfformat_without_execution_has_unknown_work() {
    let text = r#"{"workflow": {"specification": {"tasks": [{"name": "mAdd_ID0000001", "id": "x", "extra": [1]}]}}}"#;
    let job = read(Format::WfFormat, text);
    let task = job.tasks().next().unwrap();
    assert_eq!((&*task.name, &*task.kind, &task.work), ("x", "mAdd", &Work::Unknown));
    assert_eq!(job.name(), "test");
}

#[test]
fn wfformat_measurements_may_come_in_any_order() {
    let described = r#"{"tasks": [{"name": "x", "id": "a"}, {"name": "x", "id": "b"}, {"id": "c"}]}"#;
    for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]] {
        let seconds = |id: &str| f64::from(id.as_bytes()[0]);
        let one =
            |id: &&str| format!(r#"{{"runtimeInSeconds": {}, "id": "{id}", "name": "b"}}"#, seconds(id));
        let executed = order.iter().map(one).collect::<Vec<_>>().join(",");
        for parts in [
            format!(r#""specification": {described}, "execution": {{"tasks": [{executed}]}}"#),
            format!(r#""execution": {{"tasks": [{executed}]}}, "specification": {described}"#),
        ] {
            let job = read(Format::WfFormat, &format!(r#"{{"workflow": {{{parts}}}}}"#));
            let found: Vec<_> = job.tasks().map(|task| (&*task.name, task.work.clone())).collect();
            let expected = ["a", "b", "c"].map(|id| (id, Work::Seconds(seconds(id))));
            assert_eq!(found, expected, "{parts}");
        }
    }
}

#[test]
fn stg_needs_no_dummies_and_keeps_its_numbers() {
    let job = read(Format::Stg, "2\n1 4 0\n2 0.5 1 1\n");
    assert_eq!(edges(&job), [("1", "2", 0.0)]);
    let from_zero = read(Format::Stg, "# c\n\n2\n0 4 0\n1 5 1 0\n");
    assert_eq!(edges(&from_zero), [("0", "1", 0.0)]);
}

#[test]
fn stg_is_written_with_dummies() {
    let mut text = Vec::new();
    format::write(&read(Format::Dot, samples::DOT), Format::Stg, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text, "3\n0 0 0\n1 1.5 1 0\n2 2 1 1\n3 3 1 1\n4 0 2 2 3\n");
    assert_eq!(read(Format::Stg, &text).dependency_count(), 2);
    let unknown = read(Format::Dot, "digraph { a }");
    let error = format::write(&unknown, Format::Stg, Vec::new()).unwrap_err().to_string();
    assert!(error.contains("task 'a': has no single run time"), "{error}");
}

#[test]
fn negative_run_times_of_dax_generators_count_as_zero() {
    let job = read(Format::Dax, "<adag><job id='a' runtime='-1.03'/></adag>");
    assert_eq!(job.tasks().next().unwrap().work, Work::Seconds(0.0));
}

#[test]
fn dax_is_not_written() {
    let error = format::write(&read(Format::Stg, samples::STG), Format::Dax, Vec::new()).unwrap_err();
    assert!(error.to_string().contains("only read"), "{error}");
}

#[test]
fn dot_groups_connect_every_pair() {
    let job = read(Format::Dot, "digraph { {a b} -> subgraph s {c -> d [bytes=7]} -> e [size=5] }");
    let expected = [
        ("a", "c", 5.0),
        ("a", "d", 5.0),
        ("b", "c", 5.0),
        ("b", "d", 5.0),
        ("c", "d", 7.0),
        ("c", "e", 5.0),
        ("d", "e", 5.0),
    ];
    assert_eq!(edges(&job), expected);
}

#[test]
fn dot_edges_add_up_unless_strict() {
    let text = "digraph { a -> b [bytes=1]; a -> b [bytes=2] }";
    assert_eq!(edges(&read(Format::Dot, text)), [("a", "b", 3.0)]);
    assert_eq!(edges(&read(Format::Dot, &format!("strict {text}"))), [("a", "b", 2.0)]);
}

#[test]
fn dot_defaults_hold_in_their_braces_from_there_on() {
    let text = "digraph { a node [work=2] b { node [work=3] c } d [work=4] {a} }";
    let work: Vec<_> = read(Format::Dot, text).tasks().map(|t| t.work.clone()).collect();
    let seconds = [2.0, 3.0, 4.0].map(Work::Seconds);
    assert_eq!(work[0], Work::Unknown);
    assert_eq!(work[1..], seconds);
}

#[test]
fn dot_attributes_have_an_order_of_importance() {
    let job = read(
        Format::Dot,
        r#"digraph { a [weight=9 size="2e9"]; b [size="2e9" category=x kind=y]; c [kind=y category=x work=1 weight=2];
           d [times="P1=14, P2=16" command="[ -e x ] && y"]; e [times="{\"a=b\": 3}"] }"#,
    );
    let tasks: Vec<_> = job.tasks().collect();
    let work = [9.0, 2.0, 1.0].map(Work::Seconds);
    assert_eq!(tasks[..3].iter().map(|t| t.work.clone()).collect::<Vec<_>>(), work);
    assert_eq!((&*tasks[1].kind, &*tasks[2].kind), ("y", "y"));
    assert_eq!(tasks[3].work, mdts_dag::Task::new("d").times([("P1", 14.0), ("P2", 16.0)]).work);
    assert_eq!(tasks[3].run.as_ref().unwrap().command, ["sh", "-c", "[ -e x ] && y"]);
    assert_eq!(tasks[4].work, mdts_dag::Task::new("e").times([("a=b", 3.0)]).work);
}

#[test]
fn own_format_reads_every_key_in_three_syntaxes() {
    let yaml = r#"
name: all
infer_parents: false
tasks:
  - name: a
    kind: k
    times: {P1: 14, P2: 1m}
    cores: 0.5
    memory: 2GiB
    gpus: 1
    resources: {licence: 1}
    gang: 2
    command: "echo $HOME"
    outputs: f
    env: {THREADS: 4, MODE: fast, DEBUG: true}
    directory: sub
    retries: 2
    retry_on: [75, signal]
    never_retry_on: 2
    retry_delay: 1.5
    timeout: 10m
  - name: b
    after: [a]
    inputs: [f]
  - name: c
    needs: {a: 100MB, b: 5}
  - name: d
    inputs: f
"#;
    let json = r#"{"tasks": [{"name": "a", "kind": "k", "times": {"P1": 14, "P2": "1m"}, "cores": 0.5,
        "memory": "2GiB", "gpus": 1, "resources": {"licence": 1}, "gang": 2, "command": "echo $HOME",
        "outputs": "f", "env": {"THREADS": 4, "MODE": "fast", "DEBUG": true}, "directory": "sub",
        "retries": 2, "retry_on": [75, "signal"], "never_retry_on": 2, "retry_delay": "1500ms", "timeout": "10m"}, {"name": "b", "after": ["a"], "inputs": ["f"]},
        {"name": "c", "needs": {"a": "100MB", "b": 5}}, {"name": "d", "inputs": "f"}], "infer_parents": false}"#;
    let toml = r#"infer_parents = false
        tasks = [{name = "a", kind = "k", times = {P1 = 14, P2 = "1m"}, cores = 0.5, memory = "2GiB", gpus = 1,
        resources = {licence = 1}, gang = 2, command = "echo $HOME", outputs = "f",
        env = {THREADS = 4, MODE = "fast", DEBUG = true}, directory = "sub",
        retries = 2, retry_on = [75, "signal"], never_retry_on = 2, retry_delay = "1.5s", timeout = "10m"},
        {name = "b", after = ["a"], inputs = ["f"]}, {name = "c", needs = {a = "100MB", b = 5}},
        {name = "d", inputs = "f"}]"#;
    for (format, text) in [(Format::Yaml, yaml), (Format::Json, json), (Format::Toml, toml)] {
        let job = read(format, text);
        let a = job.task(job.find("a").unwrap());
        assert_eq!(&*a.kind, "k");
        assert_eq!(a.work, mdts_dag::Task::new("").times([("P1", 14.0), ("P2", 60.0)]).work);
        let demand = a.demand.as_deref().unwrap();
        assert_eq!((demand.cores, demand.memory, demand.gpus, demand.gang), (0.5, 2 << 30, 1.0, 2));
        assert_eq!(demand.other["licence"], 1.0);
        let run = a.run.as_deref().unwrap();
        assert_eq!(run.command, ["sh", "-c", "echo $HOME"]);
        assert_eq!((run.retries, run.retry_delay, run.timeout), (Some(2), Some(1.5), Some(600.0)));
        let variables: Vec<_> = run.env.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(variables, [("THREADS", "4"), ("MODE", "fast"), ("DEBUG", "true")]);
        assert_eq!(run.directory.as_deref(), Some("sub"));
        assert_eq!(run.retry.on, [mdts_dag::Failing::Status(75), mdts_dag::Failing::Signal]);
        assert_eq!(run.retry.never_on, [mdts_dag::Failing::Status(2)]);
        assert_eq!(edges(&job), [("a", "b", 0.0), ("a", "c", 1e8), ("b", "c", 5.0)], "{}", format.name());
    }
}

#[test]
fn yaml_anchors_serve_many_tasks() {
    let mut text = String::from("tasks:\n  - &d {name: t, cores: 2}\n");
    for i in 0..2000 {
        writeln!(text, "  - {{<<: *d, name: t{i}}}").unwrap();
    }
    let job = read(Format::Yaml, &text);
    assert_eq!(job.len(), 2001);
    assert!(job.tasks().all(|t| t.demand.as_deref().is_some_and(|d| d.cores == 2.0)));
}

#[test]
fn byte_order_mark_and_windows_lines_are_fine() {
    for (format, text) in samples::ALL {
        let text = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(read(format, &text).len(), 3, "{}", format.name());
    }
}
