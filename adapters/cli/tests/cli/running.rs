//! Runs: commands as processes, and emulation.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::{Folder, assert_keys, diamond};

const RUN_KEYS: &[&str] = &[
    "makespan",
    "tasks",
    "succeeded",
    "failed",
    "retried",
    "overhead_per_task_us",
    "peak_memory_mib",
    "journal",
];

#[test]
fn commands_run_in_the_folder_of_their_file() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("flow")).expect("made");
    folder.write(
        "flow/flow.yaml",
        r#"
tasks:
  - {name: write, command: [sh, -c, "echo hello > out.txt; echo said"], outputs: [out.txt]}
  - {name: read, command: [sh, -c, "grep hello out.txt"], inputs: [out.txt]}
"#,
    );
    let report = folder.json(&["run", "flow/flow.yaml", "--logs", "logs", "--json"]);
    assert_keys(&report, RUN_KEYS);
    assert_eq!(
        (&report["tasks"], &report["succeeded"], &report["failed"]),
        (&2.into(), &2.into(), &0.into())
    );
    assert!(report["journal"].is_null());
    assert!(report["overhead_per_task_us"].as_f64().is_some_and(|us| us > 0.0));
    assert_eq!(folder.read("flow/out.txt"), "hello\n");
    assert_eq!(folder.read("logs/write.1.out"), "said\n");
}

#[test]
fn a_failed_task_gives_status_1_and_names_its_log() {
    let folder = Folder::new();
    folder.write(
        "flow.yaml",
        r#"
tasks:
  - {name: bad, command: [sh, -c, "echo why >&2; exit 3"], retries: 1}
  - {name: behind, command: ["true"], after: [bad]}
  - {name: apart, command: ["true"]}
"#,
    );
    let called = folder.mdts(&["run", "flow.yaml", "--json"]);
    assert_eq!(called.status, 1);
    let report = called.json();
    let counts = ["succeeded", "failed", "blocked", "retried"].map(|key| report[key].as_u64());
    assert_eq!(counts, [Some(1), Some(1), Some(1), Some(1)]);
    let failure = &report["failures"][0];
    assert_eq!(failure["task"], "bad");
    assert!(failure["reason"].as_str().is_some_and(|reason| reason.contains('3')), "{failure}");
    assert_eq!(folder.read(failure["log"].as_str().expect("a path")), "why\n");
    let called = folder.mdts(&["run", "flow.yaml"]);
    assert_eq!(called.status, 1);
    assert!(called.stdout.contains("bad") && called.stdout.contains("see "), "{}", called.stdout);
    let called = folder.mdts(&["run", "flow.yaml", "-q"]);
    assert_eq!((called.status, called.stdout.as_str()), (1, ""));
    assert!(called.stderr.contains("failed      bad: "), "{}", called.stderr);
}

#[test]
fn emulation_follows_the_plan_at_its_scale() {
    let folder = diamond();
    let base = ["run", "diamond.yaml", "--cluster", "pair.toml", "--emulate", "0.02"];
    let report = folder.json(&[&base[..], &["--json", "--gantt", "run.svg"]].concat());
    assert_eq!(report["succeeded"], 4);
    let seconds = |key: &str| report[key].as_f64().expect("a number");
    assert!((seconds("planned_makespan") - 3.5 * 0.02).abs() < 1e-9);
    assert!(seconds("makespan") >= seconds("lower_bound"), "{report}");
    assert!(folder.read("run.svg").contains("class=\"bar "));
    let called = folder.mdts(&base);
    assert_eq!(called.status, 0);
    for word in ["lower bound", "random", "round-robin", "fastest-node", "4 of 4 succeeded"] {
        assert!(called.stdout.contains(word), "{word} in {}", called.stdout);
    }
    assert!(called.stderr.contains("4 of 4 tasks"), "{}", called.stderr);
}

/// The node that a task of a recorded run ran on.
fn node_of(folder: &Folder, journal: &str, task: &str) -> String {
    let status = folder.json(&["status", "--journal", journal, task, "--json"]);
    status["latest"]["node"].as_str().expect("a node").to_owned()
}

/// What runs faster than stated on one node does so on all: nobody waits for that node.
#[test]
fn the_learned_policy_knows_that_an_emulation_is_fast() {
    let folder = Folder::new();
    folder.write("four.toml", "[[node]]\nname = \"m\"\ncount = 4\n").write(
        "flow.yaml",
        r"
tasks:
  - {name: root, kind: work, work: 1}
  - {name: a, kind: work, work: 1, after: [root]}
  - {name: b, kind: work, work: 1, after: [root]}
  - {name: c, kind: work, work: 1, after: [root]}
  - {name: d, kind: work, work: 1, after: [root]}
",
    );
    for policy in ["mdts-raw", "mdts"] {
        let run = ["run", "flow.yaml", "--cluster", "four.toml", "--emulate", "0.05", "--policy", policy];
        folder.json(&[&run[..], &["--journal", policy, "--json"]].concat());
        let mut nodes = ["a", "b", "c", "d"].map(|task| node_of(&folder, policy, task));
        nodes.sort_unstable();
        assert_eq!(nodes, ["m-0", "m-1", "m-2", "m-3"]);
    }
}

/// One of two equal nodes is slow, which only an earlier run can tell.
#[test]
fn the_learned_policy_begins_with_what_the_history_tells_of_nodes() {
    let folder = Folder::new();
    let command = "command: [sh, -c, '[ $MDTS_NODE = m-1 ] || sleep 0.5']";
    folder
        .write("two.toml", "[[node]]\nname = \"m\"\ncount = 2\n")
        .write("one.yaml", format!("tasks:\n  - {{name: x, kind: work, work: 0.2, {command}}}\n"))
        .write(
            "both.yaml",
            format!(
                "tasks:\n  - {{name: x, kind: work, work: 0.2, {command}}}\n  - {{name: y, kind: work, work: 0.2, \
                 {command}}}\n"
            ),
        );
    let run = |dag, more: &[&str]| {
        let base = ["run", dag, "--cluster", "two.toml", "--policy", "mdts-raw", "--json"];
        folder.json(&[&base[..], more].concat());
    };
    run("both.yaml", &["--history", "h.json"]);
    run("one.yaml", &["--journal", "without"]);
    run("one.yaml", &["--journal", "with", "--history", "h.json"]);
    assert_eq!(node_of(&folder, "without", "x"), "m-0", "the first of equals");
    assert_eq!(node_of(&folder, "with", "x"), "m-1");
}

#[test]
fn one_interrupt_drains_and_two_cancel() {
    let folder = Folder::new();
    folder.write(
        "flow.yaml",
        r#"
tasks:
  - {name: long, command: [sh, -c, "touch started; exec sleep 60"]}
  - {name: next, command: [touch, next-ran], after: [long]}
"#,
    );
    let mut command = folder.command(&["run", "flow.yaml", "--json"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let begin = Instant::now();
    let child = command.spawn().expect("mdts runs");
    let wait_until = |done: &dyn Fn() -> bool| {
        while !done() {
            assert!(begin.elapsed() < Duration::from_secs(30), "it takes too long");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_until(&|| folder.path("started").exists());
    for _ in 0..2 {
        let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
        std::thread::sleep(Duration::from_millis(300));
    }
    let called = crate::Called::from(child.wait_with_output().expect("it ends"));
    assert_eq!(called.status, 1);
    assert!(begin.elapsed() < Duration::from_secs(30));
    let report = called.json();
    assert_eq!((&report["end"], &report["cancelled"]), (&"cancelled".into(), &2.into()));
    assert!(called.stderr.contains("interrupted again"), "{}", called.stderr);
    assert!(!folder.path("next-ran").exists());
}

#[test]
fn a_task_that_hangs_gets_a_second_attempt() {
    let folder = diamond();
    folder.write(
        "flow.yaml",
        r#"
tasks:
  - {name: a, work: 0.1, command: [sh, -c, "[ $MDTS_ATTEMPT = 2 ] || sleep 100"]}
  - {name: b, work: 0.1, command: [sh, -c, "echo $MDTS_NODE > b"], after: [a]}
"#,
    );
    let base = ["run", "flow.yaml", "--cluster", "pair.toml", "--json"];
    let report = folder
        .json(&[&base[..], &["--speculate=2", "--speculate-after", "0.3", "--journal", "kept"]].concat());
    let counts = ["succeeded", "failed", "retried", "speculated"].map(|key| report[key].as_u64());
    assert_eq!(counts, [Some(2), Some(0), Some(0), Some(1)]);
    assert!(report["makespan"].as_f64().is_some_and(|seconds| seconds < 60.0), "{report}");
    let log = folder.mdts(&["log", "kept"]).stdout;
    assert!(log.contains("\"overdue\""), "{log}");
    let refused = folder.mdts(&[&base[..], &["--speculate=0.5"]].concat());
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("factor of speculation"), "{}", refused.stderr);
}

/// The plan has half of the tasks behind one that hangs for a while; they move to the other node.
#[test]
fn a_plan_that_reality_left_behind_is_made_anew() {
    let folder = Folder::new();
    folder.write("two.toml", "[[node]]\nname = \"m\"\ncount = 2\n");
    let mut flow =
        "tasks:\n  - {name: slow, work: 0.5, command: [sh, -c, \"echo $MDTS_NODE >> slow; sleep 6\"]}\n"
            .to_owned();
    for i in 0..5 {
        let command = r#"[sh, -c, "echo $MDTS_NODE >> others; sleep 0.5"]"#;
        writeln!(flow, "  - {{name: t{i}, work: 0.5, command: {command}}}").expect("a string");
    }
    folder.write("flow.yaml", flow);
    let report = folder.json(&["run", "flow.yaml", "--cluster", "two.toml", "--policy", "heft", "--json"]);
    assert_eq!(report["succeeded"], 6);
    let (slow, others) = (folder.read("slow"), folder.read("others"));
    assert_eq!(others.lines().count(), 5);
    assert!(others.lines().all(|node| node != slow.trim()), "slow on {slow}, the others on {others}");
}
