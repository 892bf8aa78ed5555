//! Run times learnt from workflows and runs, and used where a workflow states none.

use serde_json::Value;

use crate::{Folder, assert_keys};

/// Run times that grow with what is read, two kinds.
fn trace(scale: f64) -> String {
    let tasks = (1..=20).map(|i| {
        let size = scale * f64::from(i);
        let (bytes, seconds) = (size * 1e6, size * 2.0);
        format!(
            "  - {{name: get_{i}, work: {scale}}}\n  \
             - {{name: sort_{i}, work: {seconds}, needs: {{get_{i}: {bytes}}}}}\n"
        )
    });
    format!("name: trace\ntasks:\n{}", tasks.collect::<String>())
}

const UNKNOWN: &str = "
name: unknown
tasks:
  - {name: get_1, work: 1}
  - {name: sort_1, needs: {get_1: 30MB}}
";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("one.yaml", trace(1.0)).write("two.yaml", trace(2.0)).write("unknown.yaml", UNKNOWN);
    folder.write("m.toml", "[[node]]\nname = \"m\"\n");
    folder
}

fn seconds_of_sort(plan: &Value) -> f64 {
    let placed = &plan["placements"].as_array().expect("placements")[1];
    placed["finish"].as_f64().expect("finish") - placed["start"].as_f64().expect("start")
}

#[test]
fn plans_use_what_was_learnt() {
    let folder = folder();
    let learnt = folder.json(&["predict", "learn", "one.yaml", "-o", "h.json", "--json"]);
    assert_keys(&learnt, &["history", "learnt", "runs", "samples", "kinds"]);
    let learnt = folder.json(&["predict", "learn", "two.yaml", "-o", "h.json", "--json"]);
    assert_eq!((&learnt["runs"], &learnt["samples"], &learnt["kinds"]), (&2.into(), &80.into(), &2.into()));
    let plan = ["plan", "unknown.yaml", "--cluster", "m.toml", "--json"];
    assert_eq!(seconds_of_sort(&folder.json(&plan)), 1.0, "without a history, the mean of what is known");
    let predicted = folder.json(&[&plan[..], &["--history", "h.json"]].concat());
    assert!((seconds_of_sort(&predicted) / 60.0 - 1.0).abs() < 0.1, "{predicted}");
    let named = |report: &Value| report["predicted"].as_array().map_or(0, Vec::len);
    assert!(named(&predicted) > 0 && named(&folder.json(&plan)) == 0, "{predicted}");
    let compared = ["compare", "unknown.yaml", "--cluster", "m.toml", "--policies", "heft", "--json"];
    let row = &folder.json(&[&compared[..], &["--history", "h.json"]].concat())["rows"][0];
    assert_eq!(row["makespan"], predicted["makespan"]);
    folder.write("mdts.toml", "history = \"h.json\"");
    assert_eq!(folder.json(&plan)["makespan"], predicted["makespan"]);
}

#[test]
fn an_evaluation_has_a_row_per_workflow_and_two_for_all() {
    let folder = folder();
    let report = folder.json(&["predict", "evaluate", "one.yaml", "two.yaml", "--json"]);
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(
        rows.iter().map(|r| r["workflow"].as_str().unwrap()).collect::<Vec<_>>(),
        ["one", "two", "all tasks", "median instance"]
    );
    assert_keys(&rows[2], &["tasks", "predicted", "type_median", "kind_median", "kind_mean", "covered"]);
    assert!(rows[2]["predicted"].as_f64() < rows[2]["kind_mean"].as_f64(), "{report}");
    let text = folder.mdts(&["predict", "evaluate", "one.yaml", "two.yaml"]).stdout;
    assert!(text.lines().count() == 6 && text.contains("kind median"), "{text}");
}

#[test]
fn runs_add_to_their_history_when_all_went_well() {
    let folder = Folder::new();
    folder.write("good.yaml", "name: g\ntasks:\n  - {name: nap_1, command: [sleep, '0.2']}\n");
    folder.write("bad.yaml", "name: b\ntasks:\n  - {name: nap_1, command: ['false']}\n");
    let run = |dag, more: &[&str]| folder.mdts(&[&["run", dag, "--history", "h.json"], more].concat());
    assert_eq!(run("bad.yaml", &[]).status, 1);
    assert_eq!(run("good.yaml", &["--emulate", "0"]).status, 0);
    assert!(!folder.path("h.json").exists(), "nothing is learnt from failures and emulations");
    for runs in 1..=2 {
        assert_eq!(run("good.yaml", &[]).status, 0);
        let history: Value = serde_json::from_str(&folder.read("h.json")).expect("JSON");
        assert_eq!(history["runs"], runs);
    }
    let plan = folder.json(&["plan", "good.yaml", "--history", "h.json", "--json"]);
    let makespan = plan["makespan"].as_f64().expect("makespan");
    assert!(
        (0.15..1.0).contains(&makespan),
        "the nap, not the second that stands for nothing known: {makespan}"
    );
}

#[test]
fn runs_that_end_together_all_add_to_their_history() {
    let folder = folder();
    folder.write("nap.yaml", "name: nap\ntasks:\n  - {name: nap, command: [\"true\"]}\n");
    let runs: Vec<_> = (0..12)
        .map(|i| {
            let logs = format!("logs{i}");
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mdts"));
            command.args(["run", "nap.yaml", "--history", "all.json", "--json", "--logs", &logs]);
            command.current_dir(folder.path(".")).stdout(std::process::Stdio::null());
            command.spawn().expect("mdts runs")
        })
        .collect();
    for mut run in runs {
        assert!(run.wait().expect("it ends").success());
    }
    let history: Value = serde_json::from_str(&folder.read("all.json")).expect("JSON");
    assert_eq!(history["runs"], 12);
}

#[test]
fn bad_histories_are_told_on_one_line() {
    let folder = folder();
    folder.write("cut.json", "{\"mdts_history\":1,").write("new.json", "{\"mdts_history\":9}");
    folder.write("empty.json", "{}").write("folder.txt", "");
    assert_eq!(folder.mdts(&["predict", "learn", "unknown.yaml", "-o", "bare.json"]).status, 0);
    let table = [
        ("none.json", "none.json: cannot be read"),
        ("cut.json", "cut.json: not a history"),
        ("new.json", "version 9"),
        ("empty.json", "mdts_history"),
    ];
    for (file, part) in table {
        let called = folder.mdts(&["plan", "unknown.yaml", "--history", file]);
        assert_eq!((called.status, called.stdout.as_str()), (2, ""), "{file}");
        assert!(called.stderr.contains(part) && called.stderr.lines().count() == 1, "{}", called.stderr);
    }
    for args in [
        &["predict", "learn", "one.yaml", "-o", "no/such/h.json"][..],
        &["predict", "learn", "one.yaml", "-o", "cut.json"],
        &["predict", "evaluate", "one.yaml"],
    ] {
        let called = folder.mdts(args);
        assert_eq!((called.status, called.stderr.lines().count()), (2, 1), "{args:?}: {}", called.stderr);
    }
    assert_eq!(folder.read("cut.json"), "{\"mdts_history\":1,");
}
