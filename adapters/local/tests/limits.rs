//! What attempts may take and what they are given: output, memory, processors, GPUs, files and environment.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mdts_core::engine::Step;
use mdts_core::runner::{RunReport, Runner, TaskOutcome};
use mdts_core::{Cluster, Decisions, Instance, Link, Network, Node, NodeId, Placer, Result, SlotModel};
use mdts_dag::{DataModel, Failing, JobGraph, JobGraphBuilder, RetryRule, Task};
use mdts_local::{LocalExecutor, LocalOptions};

/// Task `i` on node `i` modulo their number.
#[derive(Debug)]
struct InTurn(usize);

impl Placer for InTurn {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        step.ready().iter().for_each(|task| decisions.place(*task, NodeId::new(task.index() % self.0)));
        Ok(())
    }
}

fn sh(name: &str, script: &str) -> Task {
    Task::new(name).seconds(1.0).cores(0.01).command(["sh", "-c", script])
}

fn job(tasks: impl IntoIterator<Item = Task>) -> JobGraphBuilder {
    let mut job = JobGraph::builder("limits");
    for task in tasks {
        job.task(task).unwrap();
    }
    job
}

fn nodes(nodes: impl IntoIterator<Item = Node>) -> Arc<Cluster> {
    let network = Network::uniform(Link::INSTANT);
    Arc::new(Cluster::new(nodes.into_iter().collect(), network, SlotModel::Resources).unwrap())
}

fn plenty() -> Arc<Cluster> {
    nodes([Node::new("n").cores(64.0)])
}

/// Runs a job in `folder`, with its logs in `folder/logs`.
async fn run(
    folder: &Path,
    job: JobGraphBuilder,
    cluster: Arc<Cluster>,
    set: impl FnOnce(&mut LocalOptions),
) -> RunReport {
    let job = Arc::new(job.build().unwrap());
    let mut options = LocalOptions::new(folder.join("logs"), folder);
    options.grace = Duration::from_millis(300);
    set(&mut options);
    let mut executor = LocalExecutor::new(options, cluster.clone()).unwrap();
    let instance = Instance::new(job.freeze().into(), cluster.clone(), DataModel::Files).unwrap();
    Runner::new(job, instance.into(), InTurn(cluster.len())).run(&mut executor).await.unwrap()
}

fn reason(report: &RunReport, task: usize) -> &str {
    match &report.tasks[task].outcome {
        TaskOutcome::Failed(reason) => reason,
        other => panic!("task {task} did not fail: {other:?}"),
    }
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn only_what_is_written_has_a_file_and_nothing_else_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut tasks: Vec<Task> = (0..50).map(|i| sh(&format!("quiet{i}"), "true")).collect();
    tasks.push(sh("out", "echo one"));
    tasks.push(sh("err", "echo two >&2"));
    // What writes late, behind the back of the runner, spoils no file of another task.
    tasks.push(sh("late", "(sleep 0.3; echo late) & exit 0"));
    assert!(run(folder.path(), job(tasks), plenty(), |_| {}).await.is_success());
    let logs = folder.path().join("logs");
    assert_eq!(
        (read(logs.join("out.1.out")), read(logs.join("err.1.err"))),
        ("one\n".into(), "two\n".into())
    );
    let names = std::fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["err.1.err", "out.1.out"]);
}

#[tokio::test]
async fn output_can_be_read_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo soon; while ! grep -q soon logs/t.1.out 2>/dev/null; do sleep 0.02; done";
    assert!(run(folder.path(), job([sh("t", script).timeout(20.0)]), plenty(), |_| {}).await.is_success());
}

#[tokio::test]
async fn a_gibibyte_of_output_leaves_its_beginning_and_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo first; head -c 1073741824 /dev/zero; echo; echo last; echo fault >&2; exit 3";
    let limit = 1 << 20;
    let report =
        run(folder.path(), job([sh("loud", script)]), plenty(), |o| o.output_limit = Some(limit)).await;
    assert_eq!(reason(&report, 0), "exit status 3: fault");
    let out = std::fs::read(folder.path().join("logs/loud.1.out")).unwrap();
    assert!(out.len() as u64 <= limit, "{}", out.len());
    assert!(out.starts_with(b"first\n") && out.ends_with(b"\nlast\n"));
    let left_out = (1 << 30) + 12 - out.len();
    let mark = format!("\n[mdts: {left_out:>20} bytes of output are left out here]");
    assert!(out.windows(mark.len()).any(|window| window == mark.as_bytes()));
}

#[tokio::test]
async fn memory_beyond_the_demand_ends_an_attempt_for_good() {
    let folder = tempfile::tempdir().unwrap();
    // Grows without end, in a process of a group of its own.
    let hungry = "exec python3 -c 'import subprocess, sys; subprocess.run([sys.executable, \"-c\", \"a = []\\nwhile True: a.append(bytearray(1 << 20))\"], start_new_session=True)'";
    let mib = 1 << 20;
    let tasks = [
        sh("hungry", hungry).memory(64 * mib).retries(3),
        sh("modest", "sleep 0.5").memory(64 * mib),
        sh("free", "sleep 0.5"),
    ];
    let report = run(folder.path(), job(tasks), plenty(), |_| {}).await;
    assert!(reason(&report, 0).starts_with("killed: used "), "{}", reason(&report, 0));
    assert!(reason(&report, 0).ends_with(" of 64.0 MiB of memory"), "{}", reason(&report, 0));
    assert_eq!((report.tasks[0].attempts, report.succeeded()), (1, 2));

    // By rule it is repeated; without limits it is not killed.
    let script = "python3 -c 'a = bytearray(200 << 20); import time; time.sleep(1)'";
    let again = |run: &mut mdts_dag::Execution| run.retry.on = vec![Failing::Memory];
    let repeated = sh("a", script).memory(64 * mib).retries(1).with_execution(again);
    let report = run(folder.path(), job([repeated]), plenty(), |_| {}).await;
    assert_eq!((report.failed(), report.tasks[0].attempts), (1, 2));
    let report =
        run(folder.path(), job([sh("b", script).memory(64 * mib)]), plenty(), |o| o.limit_memory = false)
            .await;
    assert!(report.is_success());
}

#[tokio::test]
async fn failures_are_repeated_as_the_rule_says() {
    let folder = tempfile::tempdir().unwrap();
    let rule =
        |on: &[Failing], never_on: &[Failing]| RetryRule { on: on.to_vec(), never_on: never_on.to_vec() };
    let (status, signal) = (Failing::Status, Failing::Signal);
    let cases = [
        ("exit 3", rule(&[], &[]), 3),
        ("exit 3", rule(&[status(75)], &[]), 1),
        ("exit 75", rule(&[status(75)], &[]), 3),
        ("exit 2", rule(&[], &[status(2)]), 1),
        ("kill -9 $$", rule(&[signal], &[]), 3),
        ("kill -9 $$", rule(&[], &[signal]), 1),
        ("sleep 100", rule(&[], &[Failing::Timeout]), 1),
        ("sleep 100", rule(&[], &[]), 3),
    ];
    let tasks = cases.iter().enumerate().map(|(i, (script, rule, _))| {
        let task = sh(&format!("t{i}"), script).retries(2).timeout(0.4);
        task.with_execution(|run| run.retry = rule.clone())
    });
    let report = run(folder.path(), job(tasks), plenty(), |_| {}).await;
    for (i, (script, rule, attempts)) in cases.iter().enumerate() {
        assert_eq!(report.tasks[i].attempts, *attempts, "{script} {rule:?}");
    }
}

#[tokio::test]
async fn inputs_that_nobody_writes_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("given"), "").unwrap();
    for (check, succeeded) in [(true, 2), (false, 4)] {
        let mut job =
            job([sh("a", "touch made"), sh("b", "true"), sh("c", "true").retries(3), sh("d", "true")]);
        for (task, inputs) in [(1, &["given", "made"][..]), (2, &["given", "missing"]), (3, &["from c"])] {
            for name in inputs {
                let file = job.file(name, 0.0).unwrap();
                job.task_mut(task.into()).inputs.push(file);
            }
        }
        for (task, name) in [(0, "made"), (2, "from c")] {
            let file = job.file(name, 0.0).unwrap();
            job.task_mut(task.into()).outputs.push(file);
        }
        job.infer_parents_from_files();
        let set = |o: &mut LocalOptions| (o.check_inputs, o.check_outputs) = (check, false);
        let report = run(folder.path(), job, plenty(), set).await;
        assert_eq!(report.succeeded(), succeeded, "{:?}", report.tasks);
        if check {
            assert!(
                reason(&report, 2).starts_with("its input 'missing' is not in /"),
                "{}",
                reason(&report, 2)
            );
            assert_eq!(report.tasks[2].attempts, 1, "it would be missing again");
        }
    }
}

#[tokio::test]
async fn directory_and_variables_are_the_task_s() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("sub/bin")).unwrap();
    std::fs::write(
        folder.path().join("sub/bin/tool"),
        "#!/bin/sh\necho tool $THREADS $MDTS_TASK; /bin/pwd\n",
    )
    .unwrap();
    std::process::Command::new("chmod").arg("+x").arg(folder.path().join("sub/bin/tool")).status().unwrap();
    let set = |run: &mut mdts_dag::Execution| {
        run.directory = Some("sub".into());
        run.env = vec![
            ("THREADS".into(), "4".into()),
            ("PATH".into(), "bin".into()),
            ("MDTS_TASK".into(), "x".into()),
        ];
    };
    let tasks = [Task::new("a").command(["tool"]).with_execution(set), Task::new("b").command(["tool"])];
    let report = run(folder.path(), job(tasks), plenty(), |_| {}).await;
    let place = folder.path().canonicalize().unwrap();
    let expected = format!("tool 4 a\n{}\n", place.join("sub").display());
    assert_eq!(read(folder.path().join("logs/a.1.out")), expected, "what is said of the attempt is true");
    assert!(reason(&report, 1).starts_with("cannot start 'tool': No such file"));
}

#[tokio::test]
async fn gpus_are_disjoint_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let gpu_node = |name, gpus| {
        let mut node = Node::new(name).cores(64.0);
        node.capacity.gpus = gpus;
        node
    };
    let cluster = nodes([gpu_node("a", 2.0), gpu_node("b", 1.0)]);
    // Each notes its devices, and that nobody else has them.
    let script = "for g in $(echo $CUDA_VISIBLE_DEVICES | tr , ' '); do mkdir lock$g || exit 1; done; \
        sleep 0.05; echo $MDTS_NODE $CUDA_VISIBLE_DEVICES; for g in $(echo $CUDA_VISIBLE_DEVICES | tr , ' '); do rmdir lock$g; done";
    let mut tasks: Vec<Task> = (0..12).map(|i| sh(&format!("t{i}"), script).gpus(1.0)).collect();
    tasks.push(sh("both", script).gpus(2.0));
    tasks.push(sh("none", "echo \"[$CUDA_VISIBLE_DEVICES]\""));
    let report = run(folder.path(), job(tasks), cluster, |_| {}).await;
    assert!(report.is_success(), "{:?}", report.tasks);
    let log = |name: &str| read(folder.path().join(format!("logs/{name}.1.out")));
    assert!((0..12).all(|i| ["a 0\n", "a 1\n", "b 2\n"].contains(&&*log(&format!("t{i}")))));
    assert_eq!((log("both"), log("none")), ("a 0,1\n".into(), "[]\n".into()));
}

#[tokio::test]
async fn pinned_attempts_have_processors_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let script = "grep Cpus_allowed_list /proc/self/status | cut -f2; sleep 0.3";
    let cores = std::thread::available_parallelism().unwrap().get();
    let task = |i| sh(&format!("t{i}"), script).cores(1.0);
    let cluster = nodes([Node::new("n").cores(cores as f64)]);
    let report = run(folder.path(), job((0..cores).map(task)), cluster, |o| o.pin = true).await;
    assert!(report.is_success());
    let mut lists: Vec<String> =
        (0..cores).map(|i| read(folder.path().join(format!("logs/t{i}.1.out")))).collect();
    lists.sort();
    lists.dedup();
    assert!(lists.len() == cores && lists.iter().all(|list| list.trim().parse::<u32>().is_ok()), "{lists:?}");
}
