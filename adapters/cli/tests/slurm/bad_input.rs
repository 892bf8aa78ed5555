//! What cannot be run: the message names it, the exit status is 2, and nothing is submitted.

use std::fs;

use crate::{Bench, Task, shared};

#[test]
fn what_cannot_be_run_is_refused_with_a_reason() {
    let Some(cluster) = shared() else { return };
    let plain = || vec![Task::new("a", &[], "true")];
    let wide = vec![Task::new("wide", &[], "true").with("cores", 9999)];
    let strange = vec![Task::new("a", &[], "true").with("resources", serde_json::json!({"unicorn": 1}))];
    let table: [(Vec<Task>, &[&str], &[&str]); 9] = [
        (plain(), &["--partition", "nowhere"], &["nowhere", "main", "closed"]),
        (plain(), &["--partition", "closed"], &["closed", "not up"]),
        (plain(), &["--cluster", "cluster.toml"], &["stranger", "fast"]),
        (wide, &[], &["wide", "Slurm's partition main"]),
        (strange, &[], &["unicorn"]),
        (plain(), &["--emulate", "1"], &["--emulate"]),
        (plain(), &["--rest", "localhost:1"], &["token", "SLURM_JWT"]),
        (plain(), &["--pin"], &["--pin", "--on local"]),
        (plain(), &["--sbatch=--no-such-option"], &["no-such-option"]),
    ];
    for (tasks, flags, expected) in table {
        let bench = Bench::new(cluster, &tasks);
        fs::write(bench.path("cluster.toml"), "[[node]]\nname = 'stranger'\n").expect("written");
        let output = bench.begin(flags).wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(expected.iter().all(|word| said.contains(word)), "{flags:?}: {said}");
        let refused_by_slurm = flags.iter().any(|flag| flag.contains("no-such-option"));
        assert_eq!(output.status.code(), Some(if refused_by_slurm { 1 } else { 2 }), "{flags:?}: {said}");
        assert!(bench.ran("a").is_empty());
    }
}

#[test]
fn without_slurm_it_is_said_what_is_missing() {
    let Some(cluster) = shared() else { return };
    let bench = Bench::new(cluster, &[Task::new("a", &[], "true")]);
    let mut command = bench.command(&["run", "flow.json", "--on", "slurm"]);
    let output = command.env("PATH", bench.path("out")).output().expect("mdts runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("'scontrol' cannot be run") && said.contains("PATH"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn flags_of_slurm_need_slurm() {
    let Some(cluster) = shared() else { return };
    let bench = Bench::new(cluster, &[Task::new("a", &[], "true")]);
    for flags in [&["--partition", "main"][..], &["--pack", "2"], &["--detach"]] {
        let output = bench.call(&[&["run", "flow.json"], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--on slurm"), "{flags:?}");
    }
}
