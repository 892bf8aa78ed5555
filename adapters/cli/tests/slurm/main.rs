//! `mdts run --on slurm` on a real Slurm of several nodes.
//!
//! Tests that disturb a cluster have one of their own, one after the other. `MDTS_TEST_SLURM_KILLS` sets how often the long
//! tests kill; 3 by default.

mod bad_input;
mod disturbed;
mod kills;
mod modes;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use mdts_integration_tests::slurm::SlurmCluster;
use serde_json::Value;
use tempfile::TempDir;

/// Four unequal nodes that all tests share.
fn shared() -> Option<&'static SlurmCluster> {
    static CLUSTER: OnceLock<Option<SlurmCluster>> = OnceLock::new();
    CLUSTER.get_or_init(|| SlurmCluster::start("shared", &[])).as_ref()
}

/// Four unequal nodes that one test at a time may disturb.
fn disturbed() -> Option<(&'static SlurmCluster, MutexGuard<'static, ()>)> {
    static CLUSTER: OnceLock<Option<SlurmCluster>> = OnceLock::new();
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = CLUSTER.get_or_init(|| SlurmCluster::start("disturbed", &[])).as_ref()?;
    for node in ["fast", "middle", "slow", "big"] {
        // It may be in service; that is an error then.
        cluster
            .command("scontrol")
            .args(["update", &format!("NodeName={node}"), "State=RESUME"])
            .output()
            .ok();
    }
    Some((cluster, guard))
}

/// A folder with a workflow, on a cluster.
struct Bench {
    dir: TempDir,
    cluster: &'static SlurmCluster,
}

/// A task of a workflow: its name, what it runs after, and a script of sh.
struct Task {
    name: String,
    after: Vec<String>,
    script: String,
    more: Vec<(&'static str, Value)>,
}

impl Task {
    fn new(name: impl Into<String>, after: &[&str], script: impl Into<String>) -> Self {
        let after = after.iter().map(|name| (*name).to_owned()).collect();
        Self { name: name.into(), after, script: script.into(), more: Vec::new() }
    }

    fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.more.push((key, value.into()));
        self
    }
}

impl Bench {
    /// Every task writes its node into `out/NAME` when it begins, a line for every time that it does.
    fn new(cluster: &'static SlurmCluster, tasks: &[Task]) -> Self {
        let bench = Self { dir: tempfile::tempdir().expect("a folder"), cluster };
        fs::create_dir(bench.path("out")).expect("made");
        let tasks: Vec<Value> = tasks
            .iter()
            .map(|task| {
                let script = format!("echo \"$SLURMD_NODENAME\" >> out/{}; {}", task.name, task.script);
                let mut value = serde_json::json!({
                    "name": task.name, "work": 0.1, "after": task.after, "command": ["sh", "-c", script],
                });
                for (key, more) in &task.more {
                    value[key] = more.clone();
                }
                if value["times"].is_object() {
                    value.as_object_mut().expect("it is one").remove("work"); // either, not both
                }
                value
            })
            .collect();
        let flow = serde_json::json!({"name": "bench", "tasks": tasks});
        fs::write(bench.path("flow.json"), flow.to_string()).expect("written");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The nodes on which a task began.
    fn ran(&self, task: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(&format!("out/{task}"))).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mdts"));
        command.args(arguments).current_dir(self.dir.path()).env("SLURM_CONF", self.cluster.configuration());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn begin(&self, flags: &[&str]) -> Child {
        let run = ["run", "flow.json", "--on", "slurm", "--journal", "run", "--json"];
        self.command(&[&run, flags].concat()).spawn().expect("mdts runs")
    }

    fn resume(&self, flags: &[&str]) -> Child {
        let run = ["run", "--resume", "--journal", "run", "--json"];
        self.command(&[&run, flags].concat()).spawn().expect("mdts runs")
    }

    fn call(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("mdts runs")
    }

    /// Where the policy has placed every task, by the journal.
    fn placed(&self) -> BTreeMap<String, String> {
        let log = self.call(&["log", "run"]);
        let entries = String::from_utf8_lossy(&log.stdout).into_owned();
        let entries = entries.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let placed = entries.filter(|entry| entry["entry"] == "placed");
        placed.map(|entry| (text(&entry["task"]), text(&entry["node"]))).collect()
    }

    /// All jobs that Slurm knows of the run, as wave and number of the element.
    fn jobs(&self) -> Vec<String> {
        let id = fs::read_to_string(self.path("run/slurm/run")).expect("it has begun");
        let jobs = self.cluster.ask("squeue", &["-h", "-r", "-t", "all", "-O", "Comment:|,JobArrayID:|"]);
        let own = jobs.lines().filter_map(|line| line.strip_prefix(&format!("mdts:{}:", id.trim())));
        own.map(|job| {
            job.split('|')
                .map(|part| part.split('_').next_back().unwrap_or(part))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
    }

    /// Jobs of the run that have not ended.
    fn open_jobs(&self) -> usize {
        let id = fs::read_to_string(self.path("run/slurm/run")).expect("it has begun");
        let jobs = self.cluster.ask("squeue", &["-h", "-r", "-O", "Comment:|"]);
        jobs.lines().filter(|line| line.starts_with(&format!("mdts:{}:", id.trim()))).count()
    }

    /// Every task ran once, on the node on which it was placed.
    fn check_placements(&self, tasks: &[Task]) {
        let placed = self.placed();
        for task in tasks {
            let node = placed.get(&task.name).cloned().unwrap_or_default();
            assert_eq!(self.ran(&task.name), [node], "{}", task.name);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn report_of(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {error}"))
}

/// The report of a run that has succeeded.
fn report(child: Child) -> Value {
    let output = child.wait_with_output().expect("it ends");
    let report = report_of(&output);
    assert!(output.status.success(), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
    report
}

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("waited for");
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_mins(3), "it takes too long: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Numbers for moments to kill at; any seed will do.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn kills() -> usize {
    let wanted = std::env::var("MDTS_TEST_SLURM_KILLS").ok();
    wanted.map_or(3, |wanted| wanted.parse().expect("MDTS_TEST_SLURM_KILLS is a number"))
}

/// So many tasks in layers of twenty, each after two or three of the layer before.
fn layers(tasks: usize, script: &str) -> Vec<Task> {
    let seed = &mut 5;
    let task = |i: usize| {
        let layer = i / 20;
        let parents = if layer == 0 { 0 } else { 2 + next(seed) as usize % 2 };
        let mut after: Vec<String> =
            (0..parents).map(|_| format!("t{}", (layer - 1) * 20 + next(seed) as usize % 20)).collect();
        after.sort();
        after.dedup();
        let after: Vec<&str> = after.iter().map(String::as_str).collect();
        Task::new(format!("t{i}"), &after, script)
    };
    (0..tasks).map(task).collect()
}
