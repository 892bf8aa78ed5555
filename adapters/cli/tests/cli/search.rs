//! Plans improved by a search: what is told of it, how odd jobs fare, and what Ctrl-C does.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{Folder, assert_keys, diamond};

/// A workflow of the examples on a cluster of the examples.
fn example(workflow: &str, cluster: &str) -> [String; 3] {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    [format!("{folder}/workflows/{workflow}"), "--cluster".into(), format!("{folder}/clusters/{cluster}")]
}

fn with<'a>(command: &'a str, example: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    let example = example.iter().map(String::as_str);
    [command].into_iter().chain(example).chain(more.iter().copied()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn a_small_job_is_planned_at_its_proven_optimum() {
    // HEFT takes 80 s. An hour is not waited for.
    let topcuoglu = example("topcuoglu.yaml", "three-processors.toml");
    let folder = Folder::new();
    for budget in [["--budget", "3600"], ["--iterations", "5000"]] {
        let report = folder.json(&with("plan", &topcuoglu, &[&budget[..], &["--json"]].concat()));
        assert_keys(&report, &["start", "iterations", "budget_seconds", "interrupted", "plan_seconds"]);
        assert_eq!((&report["policy"], &report["optimal"]), (&"search".into(), &true.into()));
        assert_eq!((number(&report["makespan"]), number(&report["lower_bound"])), (73.0, 73.0));
        assert!(number(&report["start"]["makespan"]) > 73.0 && report["start"]["policy"].is_string());
        assert_eq!(report["interrupted"], false);
        assert_eq!(report["budget_seconds"].as_f64(), (budget[0] == "--budget").then_some(3600.0));
    }
    let text = folder.mdts(&with("plan", &topcuoglu, &["--iterations", "5000"])).stdout;
    for part in ["  search       from ", " shorter after ", " trials", "73 s; the plan is optimal"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    // Without a search nothing is told of one.
    assert_eq!(folder.json(&with("plan", &topcuoglu, &["--json"])).get("start"), None);
}

#[test]
fn a_larger_job_is_planned_the_same_for_a_seed_and_never_worse_than_its_start() {
    let montage = example("montage-small.json", "hetero8.toml");
    let folder = Folder::new();
    let plan = |more: &[&str]| {
        let mut report = folder.json(&with("plan", &montage, &[more, &["--json"]].concat()));
        report["plan_seconds"] = Value::Null;
        report
    };
    let report = plan(&["--iterations", "3000", "--seed", "7"]);
    assert_eq!(report, plan(&["--iterations", "3000", "--seed", "7"]));
    assert_eq!((&report["iterations"], &report["optimal"]), (&3000.into(), &false.into()));
    assert!(number(&report["lower_bound"]) < number(&report["makespan"]));
    let gap = folder.mdts(&with("plan", &montage, &["--iterations", "3000"])).stdout;
    assert!(gap.contains("% above the optimum"), "{gap}");
    for policy in ["heft", "cpop", "random"] {
        let alone = number(&plan(&["--policy", policy])["makespan"]);
        let report = plan(&["--policy", policy, "--iterations", "1"]);
        assert!(number(&report["makespan"]) <= alone, "{policy}: {report}");
        assert!(number(&report["start"]["makespan"]) <= alone, "{policy}: {report}");
    }
    // The policy of this name has a budget of its own, unless told otherwise.
    assert!(number(&plan(&["--policy", "search"])["iterations"]) >= 20_000.0);
    assert_eq!(plan(&["--policy", "search", "--iterations", "9"])["iterations"], 9);
}

#[test]
fn compare_has_a_row_for_the_search() {
    let montage = example("montage-small.json", "hetero8.toml");
    let folder = Folder::new();
    for world in [&[][..], &["--noise", "0.3", "--failures", "0.5", "--seeds", "3"]] {
        let base = ["--policies", "heft,peft,eft", "--iterations", "2000", "--json"];
        let report = folder.json(&with("compare", &montage, &[&base[..], world].concat()));
        let rows = report["rows"].as_array().expect("a list");
        assert_eq!(rows.len(), 4, "{report}");
        assert!(rows.iter().any(|row| row["policy"] == "search" && number(&row["plan_seconds"]) > 0.0));
        if world.is_empty() {
            assert_eq!(rows[0]["policy"], "search", "the best comes first: {report}");
        }
    }
    let report =
        folder.json(&with("compare", &montage, &["--policies", "search,heft", "--budget", "0.1", "--json"]));
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(2), "one row, not two: {report}");
}

#[test]
fn run_follows_the_plan_that_was_found() {
    let topcuoglu = example("topcuoglu.yaml", "three-processors.toml");
    let folder = Folder::new();
    let report = folder.json(&with("run", &topcuoglu, &["--budget", "5", "--emulate", "0.002", "--json"]));
    assert_eq!((&report["policy"], &report["succeeded"]), (&"search".into(), &10.into()));
    assert!((number(&report["planned_makespan"]) - 0.146).abs() < 1e-9, "{report}");
    assert!((number(&report["lower_bound"]) - 0.146).abs() < 1e-9, "{report}");
    let text = folder.mdts(&with("run", &topcuoglu, &["--iterations", "5000", "--emulate", "0"])).stdout;
    assert!(text.contains("planned by search") && text.contains(" trials"), "{text}");
}

#[test]
fn odd_jobs_on_odd_clusters() {
    let nodes = |count: usize, network: &str| format!("{network}\n[[node]]\nname = \"m\"\ncount = {count}\n");
    let tasks = |count: usize, work: f64| {
        let task = |i: usize| format!("  - {{name: t{i}, work: {work}}}\n");
        format!("tasks:\n{}", (0..count).map(task).collect::<String>())
    };
    let fork = "tasks:\n  - {name: a, work: 1}\n  - {name: b, work: 2, needs: {a: 1e9}}\n  - {name: c, work: 2, needs: {a: 1e9}}\n";
    let infinite = "[network]\nbandwidth = inf";
    let table = [
        ("one task", tasks(1, 2.0), nodes(1, ""), 2.0),
        ("tasks that take no time", tasks(5, 0.0), nodes(2, ""), 0.0),
        ("equal times", tasks(7, 1.0), nodes(3, ""), 3.0),
        ("one node", tasks(12, 1.5), nodes(1, ""), 18.0),
        ("many nodes", tasks(10, 1.0), nodes(10_000, ""), 1.0),
        ("infinite bandwidth", fork.into(), nodes(2, infinite), 3.0),
    ];
    for (what, job, cluster, makespan) in table {
        let folder = Folder::new();
        folder.write("job.yaml", job).write("cluster.toml", cluster);
        for slots in ["exclusive", "resources"] {
            let base = ["plan", "job.yaml", "--cluster", "cluster.toml", "--slots", slots, "--json"];
            for budget in [["--budget", "3600"], ["--iterations", "100"]] {
                let report = folder.json(&[&base[..], &budget].concat());
                assert!((number(&report["makespan"]) - makespan).abs() < 1e-9, "{what}: {report}");
                assert_eq!(report["optimal"], true, "{what}, {slots}, {budget:?}");
            }
        }
    }
    let folder = diamond();
    folder.write("none.yaml", "tasks: []");
    let called = folder.mdts(&["plan", "none.yaml", "--budget", "1"]);
    assert!(called.status == 2 && called.stderr.contains("no tasks"), "{}", called.stderr);
}

/// Starts a search that would take an hour, and tells what it says.
fn spawn(command: &mut Command) -> (Child, impl BufRead) {
    let command = command.args(["--budget", "3600", "--json", "-v"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mdts runs");
    let stderr = BufReader::new(child.stderr.take().expect("piped"));
    (child, stderr)
}

/// Reads until a line is right.
fn await_line(lines: &mut impl BufRead, is_right: impl Fn(&str) -> bool) {
    let mut line = String::new();
    while !is_right(&line) {
        line.clear();
        assert!(lines.read_line(&mut line).expect("UTF-8") > 0, "it ended without saying what was awaited");
    }
}

fn interrupt(child: &Child) {
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
}

/// Interrupts when a line is right, and gives what is printed.
fn interrupted_at(command: &mut Command, is_right: impl Fn(&str) -> bool) -> Value {
    let (mut child, mut lines) = spawn(command);
    await_line(&mut lines, is_right);
    interrupt(&child);
    await_line(&mut lines, |line| line.contains("interrupted: the search ends"));
    let mut printed = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut printed).expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    serde_json::from_str(&printed).expect("one object")
}

#[test]
fn ctrl_c_gives_the_best_plan_so_far() {
    let montage = example("montage-small.json", "hetero8.toml");
    let folder = Folder::new();
    let mut command = folder.command(&with("plan", &montage, &["-o", "plan.json"]));
    let is_better = |line: &str| line.contains("plan of") && !line.contains(" after 0 trials");
    let report = interrupted_at(&mut command, is_better);
    assert_eq!((&report["interrupted"], &report["verified"]), (&true.into(), &true.into()));
    assert!(number(&report["iterations"]) > 0.0);
    assert!(number(&report["makespan"]) < number(&report["start"]["makespan"]), "{report}");
    assert_eq!(folder.files(), ["plan.json"]);
}

#[test]
fn ctrl_c_ends_the_search_of_a_run_and_the_run_begins() {
    let montage = example("montage-small.json", "hetero8.toml");
    let folder = Folder::new();
    let mut command = folder.command(&with("run", &montage, &["--emulate", "0.001", "--journal", "run"]));
    let report = interrupted_at(&mut command, |line| line.contains("plan of"));
    assert_eq!((&report["policy"], &report["succeeded"]), (&"search".into(), &58.into()), "{report}");
}

/// Tasks that take a minute, and too many for a proof.
fn long() -> Folder {
    let folder = Folder::new();
    let task = |i: usize| {
        let work = (i * 7 % 23) as f64 + 1.3;
        format!("  - {{name: t{i}, work: {work}, command: [sh, -c, \"touch begun; exec sleep 60\"]}}\n")
    };
    folder.write("job.yaml", format!("tasks:\n{}", (0..60).map(task).collect::<String>()));
    let nodes = "[[node]]\nname = \"m\"\ncount = 3\n[[node]]\nname = \"fast\"\nspeed = 1.37\n";
    folder.write("four.toml", nodes);
    folder
}

#[test]
fn ctrl_c_after_the_search_stops_the_run_as_without_a_search() {
    let folder = long();
    let mut command = folder.command(&["run", "job.yaml", "--cluster", "four.toml", "--dry-run"]);
    let report = interrupted_at(&mut command, |line| line.contains("plan of"));
    assert_eq!(report["tasks"].as_array().map(Vec::len), Some(60), "{report}");
    assert!(!folder.files().contains(&"begun".to_owned()));

    let mut command = folder.command(&["run", "job.yaml", "--cluster", "four.toml"]);
    let (mut child, mut lines) = spawn(&mut command);
    await_line(&mut lines, |line| line.contains("plan of"));
    interrupt(&child);
    await_line(&mut lines, |line| line.contains("the run begins with the best plan so far"));
    while !folder.files().contains(&"begun".to_owned()) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    interrupt(&child);
    await_line(&mut lines, |line| line.contains("interrupted: nothing new starts"));
    interrupt(&child);
    await_line(&mut lines, |line| line.contains("interrupted again: cancelling what runs"));
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn ctrl_c_ends_one_search_of_a_comparison_and_the_second_one_all() {
    let montage = example("montage-small.json", "hetero8.toml");
    let folder = Folder::new();
    let mut command = folder.command(&with("compare", &montage, &["--policies", "search,heft"]));
    let report = interrupted_at(&mut command, |line| line.contains("plan of"));
    let rows = report["rows"].as_array().expect("a list");
    assert!(rows.len() == 2 && rows[0]["policy"] == "search", "{report}");

    let twice = [&montage[..1], &montage[..]].concat();
    let mut command = folder.command(&with("compare", &twice, &["--policies", "search"]));
    let (mut child, mut lines) = spawn(&mut command);
    await_line(&mut lines, |line| line.contains("plan of"));
    interrupt(&child);
    await_line(&mut lines, |line| line.contains("the comparison goes on"));
    await_line(&mut lines, |line| line.contains("searching"));
    interrupt(&child);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

/// A job and a cluster on which list policies take their time.
fn large() -> Folder {
    let folder = Folder::new();
    folder.write("many.toml", "[[node]]\nname = \"m\"\ncount = 64\n");
    let generated = folder.mdts(&["convert", "--generate", "layered:tasks=20000", "large.yaml"]);
    assert_eq!(generated.status, 0, "{}", generated.stderr);
    folder
}

#[test]
fn ctrl_c_does_not_wait_for_list_policies_once_there_is_a_plan() {
    let folder = large();
    let mut command = folder.command(&["plan", "large.yaml", "--cluster", "many.toml"]);
    let report = interrupted_at(&mut command, |line| line.contains(" after 0 trials"));
    assert_eq!((&report["interrupted"], &report["verified"]), (&true.into(), &true.into()));
    assert_eq!(report["placements"].as_array().map(Vec::len), Some(20_000));
}

#[test]
fn a_second_ctrl_c_ends_the_process() {
    let folder = large();
    let mut command =
        folder.command(&["plan", "large.yaml", "--cluster", "many.toml", "--policy", "lookahead"]);
    let (mut child, mut lines) = spawn(&mut command);
    await_line(&mut lines, |line| line.contains("searching"));
    interrupt(&child);
    await_line(&mut lines, |line| line.contains("interrupted"));
    interrupt(&child);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}
