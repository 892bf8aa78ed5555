//! kill -9 of the runner, of the keeper and of both.

use std::process::Command;
use std::time::Duration;

use crate::{Bench, error, keeper, kill, report, sh, wait_until};

/// A small generator of numbers for moments to kill at; any seed will do.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn kills() -> usize {
    let wanted = std::env::var("MDTS_TEST_KILLS").ok();
    wanted.map_or(200, |wanted| wanted.parse().expect("MDTS_TEST_KILLS is a number"))
}

/// Each task writes a line when it begins and one when it ends; ten chains side by side.
fn writers(tasks: usize) -> Vec<String> {
    let task = |i: usize| {
        let after = if i < 10 { String::new() } else { format!(", after: [t{}]", i - 10) };
        sh(&format!("t{i}"), &format!("echo b >> out/t{i}; echo e >> out/t{i}"), &after)
    };
    (0..tasks).map(task).collect()
}

#[test]
fn a_runner_killed_again_and_again_runs_every_task_exactly_once() {
    let (kills, seed) = (kills(), &mut 7);
    let tasks = kills * 10;
    let bench = Bench::new(&writers(tasks));
    std::fs::create_dir(bench.path("out")).expect("made");
    let mut run = bench.begin();
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(next(seed) % 120));
        kill(run);
        // It may have been killed before it had made its journal, or after it had ended.
        run = if bench.path("run/events").exists() { bench.resume() } else { bench.begin() };
    }
    let report = report(run);
    assert_eq!(report["succeeded"], tasks);
    for i in 0..tasks {
        assert_eq!(bench.read(&format!("out/t{i}")), "b\ne\n", "t{i}");
    }
}

#[test]
fn when_the_keeper_dies_too_only_what_ran_runs_again() {
    let seed = &mut 11;
    let bench = Bench::new(&writers(200));
    std::fs::create_dir(bench.path("out")).expect("made");
    let mut run = bench.begin();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(30 + next(seed) % 100));
        kill(run);
        if let Some(number) = keeper(&bench.path("run")) {
            Command::new("kill").args(["-9", &number]).status().expect("kill runs");
        }
        run = if bench.path("run/events").exists() { bench.resume() } else { bench.begin() };
    }
    let report = report(run);
    assert_eq!(report["succeeded"], 200);
    let ran: Vec<usize> =
        (0..200).map(|i| bench.read(&format!("out/t{i}")).lines().filter(|l| *l == "b").count()).collect();
    assert!(ran.iter().all(|n| *n >= 1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let again: usize = ran.iter().map(|n| n - 1).sum();
    assert!(again <= 10 * cores, "{again} attempts ran again; at most those that ran at a kill may");
}

#[test]
fn a_task_outlives_its_runner_and_its_end_is_found() {
    let script = "echo b >> effect; touch begun; sleep 1; echo e >> effect; exit 3";
    let tasks = [sh("long", script, ", retries: 0"), sh("apart", "touch apart", "")];
    for wait_for_its_end in [false, true] {
        let bench = Bench::new(&tasks);
        let run = bench.begin();
        bench.await_file("begun");
        bench.await_file("apart");
        kill(run);
        if wait_for_its_end {
            wait_until(|| keeper(&bench.path("run")).is_none());
        }
        let output = bench.resume().wait_with_output().expect("it ends");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((report["failed"].as_u64(), report["retried"].as_u64()), (Some(1), Some(0)), "{report}");
        assert!(
            report["failures"][0]["reason"].as_str().is_some_and(|r| r.contains("exit status 3")),
            "{report}"
        );
        assert_eq!(bench.read("effect"), "b\ne\n", "it ran once");
        wait_until(|| keeper(&bench.path("run")).is_none());
    }
}

#[test]
fn tasks_of_a_killed_keeper_are_killed_and_run_again_without_a_retry() {
    let bench = Bench::new(&[sh("t", "echo $$ > pid; test -e again && exit 0; touch again; sleep 60", "")]);
    let run = bench.begin();
    wait_until(|| bench.read("pid").ends_with('\n') && bench.path("again").exists());
    let first = bench.read("pid");
    let number = keeper(&bench.path("run")).expect("it lives");
    Command::new("kill").args(["-9", &number]).status().expect("kill runs");
    let report = report(run);
    assert_eq!((report["succeeded"].as_u64(), report["retried"].as_u64()), (Some(1), Some(1)));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", first.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "the first attempt still runs: {stat}");
    let log = bench.call(&["log", "run"]);
    let lines = String::from_utf8(log.stdout.clone()).expect("UTF-8");
    assert!(lines.contains("\"entry\":\"interrupted\""), "{lines}{}", error(&log));
}
