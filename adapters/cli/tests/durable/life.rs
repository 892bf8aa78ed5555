//! Tasks that misbehave, under the keeper: daemons, deaf, loud and hungry ones, and many that fail.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{Bench, error, keeper, kill, report, sh, wait_until};

/// Whether the process whose number is in a file runs; zombies do not.
fn is_alive(bench: &Bench, file: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", bench.read(file).trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Bytes on disk of all files in a folder.
fn on_disk(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.blocks() * 512)).sum()
}

/// The report of a run, whether or not it has succeeded.
fn outcome(bench: &Bench, args: &[&str]) -> Value {
    let output = bench.call(args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", error(&output)))
}

const JOURNAL: [&str; 5] = ["run", "flow.yaml", "--journal", "run", "--json"];

#[test]
fn daemons_of_a_task_do_not_outlive_it() {
    let daemon = "setsid sh -c \"echo \\$\\$ > number; exec sleep 1000\" >/dev/null 2>&1 & while ! grep -q . number; do sleep 0.01; done";
    // The second task runs until the daemon of the first is gone; its own stays for the end of the run.
    let gone = "while kill -0 $(cat number) 2>/dev/null; do sleep 0.01; done; rm number; ";
    let last = "setsid sh -c \"echo \\$\\$ > last; trap : TERM; while true; do sleep 1000; done\" >/dev/null 2>&1 & while ! grep -q . last; do sleep 0.01; done";
    let bench = Bench::new(&[
        sh("a", &daemon.replace("cat number", "cat number 2>/dev/null"), ""),
        sh("b", &format!("{gone}{last}"), ", after: [a], timeout: 30"),
    ]);
    let report = report(bench.begin());
    assert_eq!(report["succeeded"], 2);
    wait_until(|| keeper(&bench.path("run")).is_none());
    assert!(bench.path("last").exists() && !is_alive(&bench, "last"), "a daemon still runs");
}

#[test]
fn a_task_that_ignores_the_request_to_end_is_killed() {
    let script = "trap : TERM INT HUP; echo $$ > number; while true; do sleep 0.1; done";
    let bench = Bench::new(&[sh("deaf", script, ", timeout: 0.5")]);
    let report = outcome(&bench, &JOURNAL);
    assert_eq!(report["failures"][0]["reason"], "timed out after 0.5 s");
    wait_until(|| keeper(&bench.path("run")).is_none());
    assert!(!is_alive(&bench, "number"));
}

#[test]
fn a_gibibyte_of_output_does_not_fill_the_disk_even_without_a_runner() {
    let script = "echo first; touch begun; head -c 1073741824 /dev/zero; while ! test -e seen; do sleep 0.01; done; echo last";
    let bench = Bench::new(&[sh("loud", script, "")]);
    let args = ["run", "flow.yaml", "--journal", "run", "--output-limit", "1MiB", "--json"];
    let run = bench.command(&args).spawn().expect("mdts runs");
    bench.await_file("begun");
    kill(run);
    let out = bench.path("run/logs/loud.1.out");
    wait_until(|| out.metadata().is_ok_and(|about| about.len() > 1 << 30));
    wait_until(|| on_disk(&bench.path("run/logs")) <= 1 << 20);
    std::fs::write(bench.path("seen"), "").expect("written");
    assert_eq!(report(bench.resume())["succeeded"], 1);
    let text = std::fs::read(&out).expect("read");
    assert!(text.len() <= 1 << 20, "{} bytes are left", text.len());
    assert!(text.starts_with(b"first\n") && text.ends_with(b"last\n"));
    assert!(String::from_utf8_lossy(&text).contains(" bytes of output are left out here]"));
}

#[test]
fn memory_beyond_the_demand_is_told_even_after_the_runner_was_killed() {
    let script = "touch begun; while ! test -e go; do sleep 0.01; done; exec python3 -c \"a = bytearray(300 << 20); import time; time.sleep(60)\"";
    let bench = Bench::new(&[sh("hungry", script, ", memory: 100MiB, retries: 2")]);
    let run = bench.begin();
    bench.await_file("begun");
    kill(run);
    std::fs::write(bench.path("go"), "").expect("written");
    wait_until(|| keeper(&bench.path("run")).is_none());
    let report = outcome(&bench, &["run", "--journal", "run", "--resume", "--json"]);
    let reason = report["failures"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("killed: used ") && reason.ends_with(" of 100.0 MiB of memory"), "{report}");
    assert_eq!(report["retried"], 0);
}

#[test]
fn rules_of_the_command_line_hold_where_the_workflow_has_none() {
    let bench = Bench::new(&[
        sh("a", "exit 75", ""),
        sh("b", "exit 2", ""),
        sh("c", "exit 2", ", retries: 1, retry_on: exit"),
        sh("d", "sleep 9", ", timeout: 0.2"),
        sh("e", "exit 75", ", retries: 0"),
    ]);
    let args = [&JOURNAL[..], &["--retries", "3", "--retry-on", "75,timeout"]].concat();
    assert_eq!(outcome(&bench, &args)["retried"], 3 + 1 + 3);
    let log = String::from_utf8(bench.call(&["log", "run"]).stdout).expect("UTF-8");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let last: Vec<Value> = lines.filter(|line| line["final"] == true).collect();
    assert_eq!((last.len(), &last[0]["task"]), (1, &"b".into()));
}

#[test]
fn one_failure_in_twenty_is_survived_by_two_thousand_tasks() {
    // 13 of 256 random numbers begin like this.
    let script = |i| {
        format!(
            "read x < /proc/sys/kernel/random/uuid; case $x in 0[0-9a-c]*) exit 1;; esac; echo e >> out/t{i}"
        )
    };
    let after = |i: usize| if i < 20 { String::new() } else { format!(", after: [t{}]", i - 20) };
    let tasks: Vec<String> =
        (0..2000).map(|i| sh(&format!("t{i}"), &script(i), &format!(", retries: 20{}", after(i)))).collect();
    let bench = Bench::new(&tasks);
    std::fs::create_dir(bench.path("out")).expect("made");
    let report = report(bench.begin());
    assert_eq!(report["succeeded"], 2000);
    let retried = report["retried"].as_u64().unwrap_or_default();
    assert!((40..200).contains(&retried), "{retried} attempts were repeated; about 107 are expected");
    assert!((0..2000).all(|i| bench.read(&format!("out/t{i}")) == "e\n"));
}

#[test]
fn ten_thousand_tasks_need_few_file_descriptors() {
    let task = |i| format!("{{name: t{i}, work: 0.001, cores: 0.001, command: [/bin/true]}}");
    let bench = Bench::new(&(0..10_000).map(task).collect::<Vec<_>>());
    for journal in [&[][..], &["--journal", "run"]] {
        let program = env!("CARGO_BIN_EXE_mdts");
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 256; exec \"$@\"", "sh", program, "run", "flow.yaml", "--json"]);
        let output = command.args(["--policy", "eft"]).args(journal).current_dir(bench.path("")).output();
        let output = output.expect("sh runs");
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", error(&output)));
        assert_eq!(report["succeeded"], 10_000, "{}", report["failures"]);
    }
}

#[test]
fn tasks_have_the_environment_of_the_runner_that_starts_them() {
    let wait = "touch begun; while ! test -e go; do sleep 0.01; done; echo $COLOUR > a";
    let bench = Bench::new(&[sh("a", wait, ""), sh("b", "echo $COLOUR$SHAPE > b", ", after: [a]")]);
    let run = bench.command(&JOURNAL).env("COLOUR", "red").env("SHAPE", "round").spawn().expect("mdts runs");
    bench.await_file("begun");
    kill(run);
    let mut resume = bench.command(&["run", "--journal", "run", "--resume", "--json"]);
    let run = resume.env("COLOUR", "blue").spawn().expect("mdts runs");
    std::thread::sleep(std::time::Duration::from_millis(200));
    std::fs::write(bench.path("go"), "").expect("written");
    assert_eq!(report(run)["succeeded"], 2);
    assert_eq!((bench.read("a"), bench.read("b")), ("red\n".into(), "blue\n".into()));
}

#[test]
fn a_task_keeps_its_gpu_while_runners_come_and_go() {
    let until = |file: &str| format!("while ! test -e {file}; do sleep 0.01; done");
    let bench = Bench::new(&[
        sh(
            "a",
            &format!("echo $CUDA_VISIBLE_DEVICES > a; touch begun; {}", until("b")),
            ", cores: 0.1, gpus: 1",
        ),
        sh("c", &until("go"), ", cores: 0.1"),
        sh("b", "echo $CUDA_VISIBLE_DEVICES > b", ", cores: 0.1, gpus: 1, after: [c]"),
    ]);
    let cluster = "slots = \"resources\"\n[[node]]\nname = \"n\"\ncores = 4\ngpus = 2\n";
    std::fs::write(bench.path("cluster.toml"), cluster).expect("written");
    let run =
        bench.command(&[&JOURNAL[..], &["--cluster", "cluster.toml"]].concat()).spawn().expect("mdts runs");
    bench.await_file("begun");
    kill(run);
    std::fs::write(bench.path("go"), "").expect("written");
    assert_eq!(report(bench.resume())["succeeded"], 3);
    let mut devices = [bench.read("a"), bench.read("b")];
    devices.sort();
    assert_eq!(devices, ["0\n", "1\n"]);
}

#[test]
fn a_timeout_counts_what_a_task_ran_while_no_process_was_at_the_run() {
    let bench = Bench::new(&[sh("long", "touch began; exec sleep 600", ", timeout: 4")]);
    let run = bench.begin();
    bench.await_file("began");
    kill(run);
    std::thread::sleep(std::time::Duration::from_secs(4));
    let output = bench.resume().wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8(bench.call(&["log", "run"]).stdout).expect("UTF-8");
    // The clock of the run stands still while nobody is at it: without what the task ran then, it would have 4 s.
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let failed: Vec<Value> = lines.filter(|line| line["entry"] == "failed").collect();
    let failed = failed.last().expect("it failed");
    assert!(failed["reason"].as_str().is_some_and(|why| why.contains("timed out after 4 s")), "{failed}");
    assert!(failed["now"].as_f64().is_some_and(|now| now < 3.5), "{failed}");
}
