//! `mdts cancel`, on runs that are alive and on what dead ones left behind.

use serde_json::Value;

use crate::{Bench, error, json, keeper, kill, report, sh, text, wait_until};

/// Whether a process whose number is in a file still runs.
fn lives(bench: &Bench, name: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", bench.read(name).trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// A task that never ends by itself, and one behind it.
fn endless() -> Bench {
    let script = "echo $$ > pid; echo x >> begun; test -e again && exit 0; touch again; sleep 600";
    let bench = Bench::new(&[sh("long", script, ""), sh("next", "true", ", after: [long]")]);
    assert!(!bench.path("pid").exists());
    bench
}

#[test]
fn a_run_is_cancelled_from_another_terminal_and_goes_on_later() {
    let bench = endless();
    let run = bench.begin();
    bench.await_file("again");
    let process = run.id();
    let cancelled = bench.call(&["cancel", "--journal", "run", "--json"]);
    assert!(cancelled.status.success(), "{}", error(&cancelled));
    let told = json(&cancelled);
    assert_eq!(
        (&told["process"], &told["cancelled"][0], &told["ended"]),
        (&process.into(), &"long".into(), &true.into())
    );
    assert!(!lives(&bench, "pid"));
    let output = run.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), &json(&output)["end"]), (Some(1), &"cancelled".into()));
    assert!(error(&output).contains("told by mdts cancel"), "{}", error(&output));
    assert!(!bench.path("run/control.sock").exists());
    assert_eq!(report(bench.resume())["succeeded"], 2);
    assert_eq!(bench.read("begun"), "x\nx\n");
    let nothing = bench.call(&["cancel", "--journal", "run"]);
    assert_eq!(text(&nothing), "nothing runs: no process is at it, and it stands at 'complete'\n");
}

#[test]
fn draining_lets_finish_what_runs() {
    let bench = Bench::new(&[
        sh("a", "touch begun; while ! test -e go; do sleep 0.05; done", ""),
        sh("b", "true", ", after: [a]"),
    ]);
    let run = bench.begin();
    bench.await_file("begun");
    let drained = bench.call(&["cancel", "--journal", "run", "--drain"]);
    assert!(
        text(&drained).contains("starts nothing more") && text(&drained).contains("1 task"),
        "{}",
        text(&drained)
    );
    std::fs::write(bench.path("go"), "").expect("written");
    let output = run.wait_with_output().expect("it ends");
    let report = json(&output);
    assert_eq!((&report["end"], &report["succeeded"]), (&"drained".into(), &1.into()));
}

#[test]
fn single_tasks_are_cancelled_for_good() {
    let long =
        |name: &str| sh(name, &format!("echo $$ > {name}.pid; touch {name}; exec sleep 600"), ", retries: 3");
    let bench = Bench::new(&[
        long("a"),
        sh("b", "true", ", after: [a]"),
        sh("gate", "touch waits; while ! test -e go; do sleep 0.05; done", ""),
        sh("later", "touch ran", ", after: [gate]"),
    ]);
    let args = ["run", "flow.yaml", "--journal", "run", "--json", "--cluster", "two.toml"];
    std::fs::write(bench.path("two.toml"), "[[node]]\nname = \"n\"\ncount = 2\n").expect("written");
    let run = bench.command(&args).spawn().expect("mdts runs");
    bench.await_file("a");
    bench.await_file("waits");
    let cancelled = bench.call(&["cancel", "--journal", "run", "a", "later"]);
    assert!(cancelled.status.success(), "{}", error(&cancelled));
    assert!(
        text(&cancelled).starts_with("cancelled: a, later; they count as failed"),
        "{}",
        text(&cancelled)
    );
    wait_until(|| !lives(&bench, "a.pid"));
    let again = bench.call(&["cancel", "--journal", "run", "a"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(error(&again).contains("'a' has come to its end already"), "{}", error(&again));
    let unknown = bench.call(&["cancel", "--journal", "run", "gat"]);
    assert!(error(&unknown).contains("there is no task 'gat'; did you mean 'gate'?"), "{}", error(&unknown));
    std::fs::write(bench.path("go"), "").expect("written");
    let output = run.wait_with_output().expect("it ends");
    let report = json(&output);
    let counts = ["succeeded", "failed", "blocked", "retried"].map(|key| report[key].as_u64());
    assert_eq!(counts, [Some(1), Some(2), Some(1), Some(0)], "{report}");
    assert_eq!(report["failures"][0]["reason"], "cancelled by mdts cancel");
    assert!(!bench.path("ran").exists());
    let status = bench.call(&["status", "--journal", "run", "later"]);
    assert_eq!(text(&status), "later: it failed for good: cancelled by mdts cancel\n");
}

#[test]
fn what_a_killed_run_left_behind_is_ended() {
    let bench = endless();
    let run = bench.begin();
    bench.await_file("again");
    kill(run);
    assert!(lives(&bench, "pid"), "it goes on under the keeper");
    let cancelled = bench.call(&["cancel", "--journal", "run"]);
    assert!(cancelled.status.success(), "{}", error(&cancelled));
    assert!(text(&cancelled).contains("1 task that it left behind ended now"), "{}", text(&cancelled));
    assert!(!lives(&bench, "pid"));
    wait_until(|| keeper(&bench.path("run")).is_none());
    let status: Value = json(&bench.call(&["status", "--journal", "run", "--json"]));
    assert_eq!((&status["state"], &status["running"]), (&"cancelled".into(), &Value::Array(Vec::new())));
    // A task that waits is cancelled without any process.
    let next = bench.call(&["cancel", "--journal", "run", "next"]);
    assert!(text(&next).starts_with("cancelled: next; "), "{}{}", text(&next), error(&next));
    let output = bench.resume().wait_with_output().expect("it ends");
    let report = json(&output);
    assert_eq!((&report["succeeded"], &report["failed"]), (&1.into(), &1.into()));
}

#[test]
fn one_of_the_tasks_that_outlive_a_killed_runner_is_cancelled() {
    let long = |name: &str, more: &str| {
        sh(
            name,
            &format!("echo $$ > {name}.pid; touch {name}; while ! test -e go; do sleep 0.05; done"),
            more,
        )
    };
    let bench = Bench::new(&[long("a", ", retries: 3"), long("b", ""), sh("behind", "true", ", after: [a]")]);
    std::fs::write(bench.path("two.toml"), "[[node]]\nname = \"n\"\ncount = 2\n").expect("written");
    let args = ["run", "flow.yaml", "--journal", "run", "--json", "--cluster", "two.toml"];
    let run = bench.command(&args).spawn().expect("mdts runs");
    bench.await_file("a");
    bench.await_file("b");
    kill(run);
    let cancelled = bench.call(&["cancel", "--journal", "run", "a"]);
    assert!(text(&cancelled).starts_with("cancelled: a; "), "{}{}", text(&cancelled), error(&cancelled));
    assert!(!lives(&bench, "a.pid"), "it has ended when that is told");
    assert!(lives(&bench, "b.pid"), "the other goes on");
    let again = bench.call(&["cancel", "--journal", "run", "a"]);
    assert!(error(&again).contains("'a' has come to its end already"), "{}", error(&again));
    std::fs::write(bench.path("go"), "").expect("written");
    let output = bench.resume().wait_with_output().expect("it ends");
    let report = json(&output);
    let counts = ["succeeded", "failed", "blocked", "retried"].map(|key| report[key].as_u64());
    assert_eq!(counts, [Some(1), Some(1), Some(1), Some(0)], "{report}");
    assert_eq!(report["failures"][0]["reason"], "cancelled by mdts cancel");
}

#[test]
fn nothing_to_cancel_is_told() {
    let bench = Bench::new(&[sh("a", "true", "")]);
    let missing = bench.call(&["cancel", "--journal", "nowhere"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(error(&missing).contains("there is no journal here"), "{}", error(&missing));
    assert!(!bench.path("nowhere").exists());
}
