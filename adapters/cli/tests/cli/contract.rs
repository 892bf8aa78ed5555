//! The stable keys of every command, and that equal seeds give equal bytes.

use serde_json::Value;

use crate::{Folder, assert_keys, diamond};

const PLAN_KEYS: &[&str] = &[
    "policy",
    "tasks",
    "edges",
    "nodes",
    "slots",
    "makespan",
    "slr",
    "lower_bound",
    "plan_seconds",
    "verified",
    "placements",
    "optimal",
    "data",
    "seed",
];

#[test]
fn a_plan_goes_to_standard_output_if_asked_to() {
    let folder = diamond();
    let called = folder.mdts(&["plan", "diamond.yaml", "-o", "-"]);
    assert_eq!(called.json()["verified"], true);
    assert_eq!(folder.files(), ["diamond.yaml", "pair.toml"]);
}

#[test]
fn inspect_tells_size_and_shape() {
    let report = diamond().json(&["inspect", "diamond.yaml", "--cluster", "pair.toml", "--json"]);
    for (key, value) in [
        ("name", Value::from("diamond")),
        ("tasks", 4.into()),
        ("edges", 4.into()),
        ("depth", 3.into()),
        ("width", 2.into()),
        ("work_seconds", 7.0.into()),
        ("critical_path_seconds", 5.0.into()),
        ("data_bytes", 300.0.into()),
    ] {
        assert_eq!(report[key], value, "{key}");
    }
    assert_eq!(report["lower_bounds"]["critical_path"], 2.5);
}

#[test]
fn plan_tells_a_verified_schedule() {
    let folder = diamond();
    let args = ["plan", "diamond.yaml", "--cluster", "pair.toml", "--json", "-o", "plan.json"];
    let called = folder.mdts(&args);
    let report = called.json();
    assert_keys(&report, PLAN_KEYS);
    // Everything on the fast node: 7 s of work at speed 2; moving data costs a second and more.
    assert_eq!(report["makespan"], 3.5);
    assert_eq!((&report["verified"], &report["optimal"]), (&Value::Bool(true), &Value::Bool(false)));
    assert_eq!((&report["slots"], &report["data"]), (&"exclusive".into(), &"edges".into()));
    let placements = report["placements"].as_array().expect("a list");
    assert_eq!(placements.len(), 4);
    for placement in placements {
        assert_keys(placement, &["task", "node", "start", "finish"]);
    }
    assert_eq!(folder.read("plan.json"), called.stdout, "the file is what --json prints");
    assert_eq!(folder.files(), ["diamond.yaml", "pair.toml", "plan.json"]);
}

#[test]
fn a_plan_that_meets_the_bound_is_optimal() {
    let folder = Folder::new();
    folder.write("one.yaml", "tasks: [{name: a, work: 2}]");
    assert_eq!(folder.json(&["plan", "one.yaml", "--json"])["optimal"], true);
}

#[test]
fn compare_tells_a_row_per_workflow_and_policy() {
    let folder = diamond();
    let base = ["compare", "diamond.yaml", "diamond.yaml", "--cluster", "pair.toml", "--json"];
    let keys = ["dag", "policy", "makespan", "slr", "imbalance", "cost", "plan_seconds"];
    let all = folder.json(&base);
    let policies = folder.json(&["policies", "--json"])["policies"].as_array().expect("a list").len();
    assert_eq!(all["rows"].as_array().expect("a list").len(), 2 * policies);
    for noise in [&[][..], &["--noise", "0.2", "--affinity", "0.3", "--failures", "0.2", "--seeds", "3"]] {
        let args = [&base[..], &["--policies", "heft,random"], noise].concat();
        let report = folder.json(&args);
        let rows = report["rows"].as_array().expect("a list");
        assert_eq!(rows.len(), 4);
        for row in rows {
            assert_keys(row, &keys);
        }
        let makespan = |row: &Value, key: &str| row[key].as_f64().expect("a number");
        assert!(rows.iter().all(|row| {
            makespan(row, "makespan_low") <= makespan(row, "makespan") + 1e-9
                && makespan(row, "makespan") <= makespan(row, "makespan_high") + 1e-9
        }));
        assert!(makespan(&rows[0], "makespan") <= makespan(&rows[1], "makespan"), "the best first");
    }
}

#[test]
fn policies_tells_what_they_do() {
    let report = Folder::new().json(&["policies", "--json"]);
    let policies = report["policies"].as_array().expect("a list");
    assert!(policies.iter().any(|p| p["name"] == "heft" && p["role"] == "planner"));
    for policy in policies {
        assert_keys(policy, &["name", "role", "about", "source"]);
    }
}

#[test]
fn every_command_does_something_alone() {
    let folder = Folder::new();
    for args in [&["inspect"][..], &["plan"], &["compare"], &["run"], &["policies"], &["completions", "bash"]]
    {
        let called = folder.mdts(args);
        assert_eq!(called.status, 0, "{args:?}: {}", called.stderr);
        assert!(called.stdout.lines().count() > 2, "{args:?}: {}", called.stdout);
    }
    assert!(folder.mdts(&["plan", "--help"]).stdout.contains("--slots"));
    assert!(folder.mdts(&["--help"]).stdout.contains("MDTS_POLICY"));
}

#[test]
fn quiet_says_nothing_but_json() {
    let folder = diamond();
    for command in ["inspect", "plan", "compare"] {
        let called = folder.mdts(&[command, "diamond.yaml", "-q"]);
        assert_eq!((called.status, called.stdout.as_str(), called.stderr.as_str()), (0, "", ""), "{command}");
    }
    assert!(!folder.mdts(&["plan", "diamond.yaml", "-q", "--json"]).stdout.is_empty());
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let folder = diamond();
    let plan = ["plan", "diamond.yaml", "--cluster", "pair.toml", "--json", "--seed", "5"];
    let noisy =
        ["compare", "diamond.yaml", "--cluster", "pair.toml", "--json", "--noise", "0.5", "--seeds", "4"];
    let convert = ["convert", "--generate", "layered:tasks=40", "--seed", "3", "-", "--to", "yaml"];
    for policy in ["heft", "random", "eft", "lookahead"] {
        let args = [&plan[..], &["--policy", policy]].concat();
        assert_eq!(timeless(&folder.json(&args)), timeless(&folder.json(&args)), "{policy}");
    }
    assert_eq!(timeless(&folder.json(&noisy)), timeless(&folder.json(&noisy)));
    assert_eq!(folder.mdts(&convert).stdout, folder.mdts(&convert).stdout);
    let other = [&convert[..4], &["4", "-", "--to", "yaml"]].concat();
    assert_ne!(folder.mdts(&convert).stdout, folder.mdts(&other).stdout);
}

/// The object without measured times.
fn timeless(value: &Value) -> Value {
    let mut value = value.clone();
    for row in value["rows"].as_array_mut().into_iter().flatten() {
        row["plan_seconds"] = Value::Null;
    }
    if value.get("plan_seconds").is_some() {
        value["plan_seconds"] = Value::Null;
    }
    value
}

#[test]
fn conversion_keeps_the_graph() {
    let folder = diamond();
    for file in ["out.json", "out.mdts.json", "out.toml", "out.dot", "out.yaml.gz"] {
        let report = folder.json(&["convert", "diamond.yaml", file, "--json"]);
        assert_eq!((&report["tasks"], &report["edges"]), (&4.into(), &4.into()), "{file}");
        let back = folder.json(&["inspect", file, "--json"]);
        for (key, value) in [("tasks", 4.0), ("edges", 4.0), ("work_seconds", 7.0), ("data_bytes", 300.0)] {
            assert_eq!(back[key].as_f64(), Some(value), "{file}: {key}");
        }
    }
}

#[test]
fn a_workflow_comes_through_standard_input() {
    use std::io::Write;
    let folder = diamond();
    let mut command = folder.command(&["inspect", "-", "--json"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("mdts runs");
    child.stdin.take().expect("piped").write_all(crate::DIAMOND.as_bytes()).expect("written");
    let called = crate::Called::from(child.wait_with_output().expect("it ends"));
    assert_eq!(called.json()["tasks"], 4);
}

#[test]
fn a_closed_pipe_is_no_fault() {
    let folder = diamond();
    let mut command = folder.command(&["plan", "diamond.yaml", "--json"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    command.stdout(writer).stderr(std::process::Stdio::piped());
    let output = command.output().expect("mdts runs");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
