//! What a folder keeps for those who resume its run, or move it.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Bench, error, json, kill, report, sh, signal, text, wait_until};

/// Runs the first of two tasks only; `more` are further arguments.
fn half_of(tasks: &[String], more: &[&str]) -> Bench {
    let bench = Bench::new(tasks);
    let args = [&["run", "flow.yaml", "--journal", "run", "--json"], more].concat();
    let run = bench.command(&args).spawn().expect("mdts runs");
    bench.await_file("begun");
    signal(&run, "-INT");
    // The journal tells when it is heard: only then may the task end.
    wait_until(|| text(&bench.call(&["log", "run"])).contains("\"held\""));
    fs::write(bench.path("go"), "").expect("written");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(json(&output)["end"], "drained", "{}", error(&output));
    bench
}

const GATE: &str = "touch begun; while ! test -e go; do sleep 0.01; done";

#[test]
fn flags_about_single_tasks_hold_after_a_resume() {
    let hungry = "python3 -c \"a = bytearray(100 << 20); import time; time.sleep(1)\"";
    let loud = "head -c 3000000 /dev/zero | tr \"\\\\0\" x";
    let tasks = [
        sh("gate", GATE, ", memory: 20MiB"),
        sh("hungry", hungry, ", after: [gate], memory: 20MiB"),
        sh("loud", loud, ", after: [gate]"),
    ];
    let bench = half_of(&tasks, &["--no-limits", "--output-limit", "1MiB"]);
    assert_eq!(report(bench.resume())["succeeded"], 3);
    let length = fs::metadata(bench.path("run/logs/loud.1.out")).expect("it is there").len();
    assert!((1 << 18..=1 << 20).contains(&length), "{length}");
}

#[test]
fn what_the_folder_keeps_is_what_was_read() {
    let bench = Bench::new(&[sh("a", "true", "")]);
    let cluster = "[[node]]\nname = \"piped\"\n";
    fs::write(bench.path("cluster.toml"), cluster).expect("written");
    let program = env!("CARGO_BIN_EXE_mdts");
    let script = "cat cluster.toml | \"$0\" run flow.yaml --cluster /dev/stdin --journal run --json";
    let run = Command::new("sh").args(["-c", script, program]).current_dir(bench.path("")).output();
    assert_eq!(json(&run.expect("sh runs"))["succeeded"], 1);
    let status = bench.call(&["status", "--journal", "run", "--json"]);
    assert_eq!(json(&status)["state"], "complete", "{}", error(&status));
    assert_eq!(report(bench.resume())["succeeded"], 1);
}

#[test]
fn a_folder_that_was_moved_has_its_logs() {
    let bench =
        half_of(&[sh("a", &format!("echo one; {GATE}"), ""), sh("b", "echo two", ", after: [a]")], &[]);
    fs::rename(bench.path("run"), bench.path("moved")).expect("moved");
    let logs = |task: &str| text(&bench.call(&["logs", "--journal", "moved", "--out", task]));
    assert_eq!(logs("a"), "one\n");
    let elsewhere = bench.call(&["run", "--journal", "moved", "--resume", "--logs", "other"]);
    assert_eq!(elsewhere.status.code(), Some(2));
    report(bench.command(&["run", "--journal", "moved", "--resume", "--json"]).spawn().expect("mdts runs"));
    assert_eq!(logs("b"), "two\n");
    assert!(!bench.path("run").exists() && !bench.path("other").exists());
}

#[test]
fn a_folder_of_tasks_that_is_gone_is_told() {
    let bench = Bench::new(&[]);
    fs::create_dir(bench.path("work")).expect("made");
    fs::write(bench.path("work/flow.yaml"), "tasks:\n  - {name: a, command: [\"false\"]}\n")
        .expect("written");
    let begun = bench.call(&["run", "work/flow.yaml", "--journal", "run"]);
    assert_eq!(begun.status.code(), Some(1));
    fs::rename(bench.path("work"), bench.path("elsewhere")).expect("moved");
    let resumed = bench.call(&["run", "--journal", "run", "--resume"]);
    assert_eq!(resumed.status.code(), Some(2));
    assert!(error(&resumed).contains("/work: the tasks run in this folder, and"), "{}", error(&resumed));
}

#[test]
fn what_cannot_begin_leaves_no_folder() {
    let bench = Bench::new(&[sh("a", "touch begun", ", after: [b]"), sh("b", "true", ", after: [a]")]);
    for args in [&["run", "flow.yaml", "--journal", "run"][..], &["run", "--journal", "run", "--resume"]] {
        assert_eq!(bench.call(args).status.code(), Some(2));
        assert!(!bench.path("run").exists(), "{args:?}");
    }
    let bench = Bench::new(&[sh("a", "touch begun", "")]);
    let history = bench.call(&["run", "flow.yaml", "--history", "nowhere/history"]);
    assert_eq!(history.status.code(), Some(2));
    assert!(error(&history).contains("nowhere/history: cannot be written"), "{}", error(&history));
    assert!(!bench.path("begun").exists());
}

#[test]
fn found_attempts_count_as_processes() {
    const TASKS: usize = 45;
    // Every task writes down how many there are; 124 open files are enough for 20 processes.
    let script = |i| format!("touch at/{i}; ls at | wc -l >> counts; sleep 1; rm at/{i}");
    let bench = Bench::new(&(0..TASKS).map(|i| sh(&format!("t{i}"), &script(i), "")).collect::<Vec<_>>());
    fs::create_dir(bench.path("at")).expect("made");
    let cluster = format!("slots = \"resources\"\n[[node]]\nname = \"n\"\ncores = {TASKS}\n");
    fs::write(bench.path("cluster.toml"), cluster).expect("written");
    let start = |args: &str| {
        let script = format!("ulimit -n 124; exec \"$0\" run --journal run --json {args}");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_mdts")]).current_dir(bench.path(""));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sh runs")
    };
    let run = start("flow.yaml --cluster cluster.toml");
    wait_until(|| bench.read("counts").lines().count() >= 15);
    kill(run);
    let report: Value = report(start("--resume"));
    assert_eq!(report["succeeded"], TASKS);
    let counts = bench.read("counts");
    let most = counts.lines().filter_map(|n| n.trim().parse::<usize>().ok()).max();
    assert!(most.is_some_and(|most| most <= 20), "{most:?} ran at once");
}
