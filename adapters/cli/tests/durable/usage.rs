//! What tasks have used, and when a run will end.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Bench, json, kill, report, sh, text, wait_until};

const MIB: f64 = 1024.0 * 1024.0;

#[test]
fn processor_time_and_memory_of_every_attempt_are_told() {
    // A shell that holds 64 MiB, and one that counts; the second is found again after a kill.
    let hold = "x=$(head -c 67108864 /dev/zero | tr \\\\0 x); echo ${#x}";
    let count = "touch counts; i=0; while test $i -lt 200000; do i=$((i+1)); done; while ! test -e go; do sleep 0.05; done";
    let bench =
        Bench::new(&[sh("hold", hold, ""), sh("count", count, ", after: [hold]"), sh("idle", "exit 3", "")]);
    let run = bench.begin();
    bench.await_file("counts");
    kill(run);
    std::fs::write(bench.path("go"), "").expect("written");
    let output = bench.resume().wait_with_output().expect("it ends");
    let report = json(&output);
    let task = |name: &str| json(&bench.call(&["status", "--journal", "run", "--json", name]));
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} in {report}"));
    let hold = task("hold");
    let peak = number(&hold["latest"]["peak_memory"]) / MIB;
    assert!((64.0..1000.0).contains(&peak), "{hold}");
    let count = task("count");
    let cpu = number(&count["latest"]["cpu_seconds"]);
    assert!(cpu > 0.02 && number(&count["latest"]["peak_memory"]) / MIB < 60.0, "{count}");
    assert_eq!(task("idle")["latest"]["attempt"], 1);
    assert!(number(&report["tasks_cpu_seconds"]) >= cpu && number(&report["tasks_peak_memory_mib"]) >= 64.0);
    let told = text(&bench.call(&["status", "--journal", "run", "hold"]));
    assert!(
        told.starts_with("hold (1 attempt): it has succeeded on ") && told.contains(" MiB of memory at most"),
        "{told}"
    );
    let told = text(&bench.call(&["status", "--journal", "run", "idle"]));
    assert!(
        told.contains("it failed for good: exit status 3") && told.contains("the last attempt ended on "),
        "{told}"
    );
}

#[test]
fn they_are_told_without_a_journal_too() {
    let hold = "x=$(head -c 67108864 /dev/zero | tr \\\\0 x); echo ${#x}";
    let bench = Bench::new(&[sh("hold", hold, "")]);
    let report = json(&bench.call(&["run", "flow.yaml", "--json"]));
    let number = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("{key} in {report}"));
    assert!(number("tasks_cpu_seconds") > 0.0, "{report}");
    assert!((64.0..1000.0).contains(&number("tasks_peak_memory_mib")), "{report}");
    // What is smaller than mdts itself is not known.
    let small = Bench::new(&[sh("small", "true", "")]);
    let report = json(&small.call(&["run", "flow.yaml", "--json"]));
    assert!(report["tasks_cpu_seconds"].is_f64() && report["tasks_peak_memory_mib"].is_null(), "{report}");
}

#[test]
fn the_end_that_is_forecast_in_the_middle_is_about_right() {
    // Twenty sleeps of a second on four nodes, said to take half a second each: five rounds. What is shown after two of
    // them, at the pace of what is done, is within a fifth of the whole.
    let tasks: Vec<String> =
        (0..20).map(|i| format!("{{name: t{i}, work: 0.5, command: [sleep, \"1\"]}}")).collect();
    let bench = Bench::new(&tasks);
    std::fs::write(bench.path("four.toml"), "[[node]]\nname = \"n\"\ncount = 4\n").expect("written");
    let args = ["run", "flow.yaml", "--journal", "run", "--json", "--cluster", "four.toml"];
    let begin = Instant::now();
    let run = bench.command(&args).spawn().expect("mdts runs");
    let status = || json(&bench.call(&["status", "--journal", "run", "--json"]));
    wait_until(|| bench.path("run/events").exists());
    wait_until(|| status()["succeeded"].as_u64() >= Some(8));
    let status = status();
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} in {status}"));
    let (expected, pace) = (number(&status["expected_end"]), number(&status["pace"]));
    let makespan = number(&report(run)["makespan"]);
    assert!(begin.elapsed() < Duration::from_mins(1));
    assert!(
        (expected - makespan).abs() <= 0.2 * makespan,
        "{expected} s were expected, it took {makespan} s"
    );
    assert!((pace / 2.0 - 1.0).abs() < 0.3, "they took {pace} times their expected time");
}
