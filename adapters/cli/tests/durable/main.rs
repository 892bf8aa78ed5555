//! Runs that are killed, stopped and starved, and go on: the built program and real processes.
//!
//! `MDTS_TEST_KILLS` sets how often the long test kills the runner; 200 by default.

mod cancels;
mod care;
mod faults;
mod kept;
mod kills;
mod life;
mod output;
mod rests;
mod resumed;
mod retries;
mod stops;
mod usage;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longest that anything here may take.
const DEADLINE: Duration = Duration::from_mins(5);

/// A folder with a workflow and the journal `run`.
struct Bench {
    dir: TempDir,
}

impl Bench {
    /// Tasks as lines of YAML, such as `{name: a, command: [...]}`.
    fn new(tasks: &[String]) -> Self {
        let bench = Self { dir: tempfile::tempdir().expect("a folder") };
        let lines: Vec<String> = tasks.iter().map(|task| format!("  - {task}\n")).collect();
        let text = format!("name: bench\ntasks:\n{}", lines.concat());
        std::fs::write(bench.path("flow.yaml"), text).expect("written");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mdts"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn begin(&self) -> Child {
        self.command(&["run", "flow.yaml", "--journal", "run", "--json"]).spawn().expect("mdts runs")
    }

    fn resume(&self) -> Child {
        self.command(&["run", "--journal", "run", "--resume", "--json"]).spawn().expect("mdts runs")
    }

    fn call(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("mdts runs")
    }

    /// Waits until a file is there.
    fn await_file(&self, name: &str) {
        wait_until(|| self.path(name).exists());
    }
}

fn wait_until(mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < DEADLINE, "it takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The report of a run that has succeeded.
fn report(child: Child) -> Value {
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", text(output), error(output)))
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
}

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("waited for");
}

/// The number of the keeper that works for a folder, if one lives.
fn keeper(folder: &Path) -> Option<String> {
    let register = std::fs::read_to_string(folder.join("attempts")).ok()?;
    let number = register.lines().rev().find_map(|line| line.strip_prefix("keeper "))?;
    let number = number.split(' ').next()?.to_owned();
    let is_alive = std::fs::read_to_string(format!("/proc/{number}/cmdline")).ok()?.contains("keep");
    is_alive.then_some(number)
}

fn sh(name: &str, script: &str, more: &str) -> String {
    format!("{{name: {name}, work: 0.01, command: [sh, -c, '{script}']{more}}}")
}
