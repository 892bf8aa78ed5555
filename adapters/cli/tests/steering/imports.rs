//! Folders of batch scripts, the queue, and logs, as workflows.

use std::fs;

use mdts_integration_tests::data_folder;
use mdts_integration_tests::slurm::SlurmCluster;
use serde_json::Value;

use crate::{folder, mdts, mdts_on, submit, text};

fn json(output: &std::process::Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_folder_of_scripts_is_a_workflow() {
    let folder = folder();
    let jobs = folder.path().join("jobs");
    fs::create_dir(&jobs).unwrap();
    fs::write(jobs.join("a.sh"), "#!/bin/sh\n#SBATCH -J first -t 1\necho one > a.out\n").unwrap();
    fs::write(jobs.join("b.sh"), "#!/bin/sh\n#SBATCH -a1-2 -t 2 -d afterok:first\necho $SLURM_ARRAY_TASK_ID > b$SLURM_ARRAY_TASK_ID.out\n").unwrap();
    let report = json(&mdts(folder.path()).args(["inspect", "jobs", "--json"]).output().unwrap());
    assert_eq!((&report["tasks"], &report["edges"]), (&3.into(), &2.into()));
    assert_eq!(report["critical_path_seconds"].as_f64(), Some(180.0));
    let run = json(&mdts(folder.path()).args(["run", "jobs", "--json"]).output().unwrap());
    assert_eq!(run["succeeded"], 3, "{run}");
    fs::write(jobs.join("c.sh"), "#!/bin/sh\n#SBATCH -d afterok:frist\n").unwrap();
    let output = mdts(folder.path()).args(["inspect", "jobs"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean 'first'"), "{}", text(&output.stderr));
}

#[test]
fn the_queue_is_a_workflow() {
    let folder = folder();
    let Some(cluster) = SlurmCluster::start("queue", &[]) else { return };
    let inspect =
        || mdts_on(&cluster, folder.path()).args(["inspect", "slurm:queue", "--json"]).output().unwrap();
    let empty = inspect();
    assert!(empty.status.code() == Some(2) && text(&empty.stderr).contains("empty"));
    let a = submit(&cluster, &["-H", "-t10", "-c2", "-J", "a"]);
    submit(&cluster, &["-t20", "-J", "b", &format!("--dependency=afterok:{a}")]);
    let report = json(&inspect());
    assert_eq!((&report["tasks"], &report["edges"], &report["nodes"]), (&2.into(), &1.into(), &4.into()));
    assert_eq!(report["critical_path_seconds"].as_f64(), Some(1800.0));
    let plan =
        json(&mdts_on(&cluster, folder.path()).args(["plan", "slurm:queue", "--json"]).output().unwrap());
    assert_eq!(plan["verified"], true);
}

#[test]
fn logs_are_compared_as_streams() {
    let folder = folder();
    let log = "; MaxProcs: 4\n1 0 0 100 4 -1 -1 4 200 -1 1 1 1 1 1 1 -1 -1\n2 10 0 50 1 -1 -1 1 100 -1 1 1 1 1 1 1 -1 -1\n\
               3 20 0 50 9 -1 -1 9 100 -1 1 1 1 1 1 1 -1 -1\n";
    fs::write(folder.path().join("log.swf"), log).unwrap();
    let cluster = "slots = \"resources\"\n[[node]]\nname = \"a\"\ncores = 4\n[[node]]\nname = \"b\"\ncores = 4\nspeed = 2.0\n";
    fs::write(folder.path().join("c.toml"), cluster).unwrap();
    let flags = ["compare", "log.swf", "--cluster", "c.toml", "--policies", "eft,heft,random", "--json"];
    let report = json(&mdts(folder.path()).args(flags).output().unwrap());
    let row = |policy: &str| {
        report["rows"].as_array().unwrap().iter().find(|row| row["policy"] == policy).unwrap().clone()
    };
    // Job 1 runs 50 s on b; job 2 comes at 10: 50 s on a, or 25 s on b behind it, which ends later.
    let eft = row("eft");
    assert_eq!(
        (eft["makespan"].as_f64(), eft["mean_completion"].as_f64()),
        (Some(60.0), Some(50.0)),
        "{eft}"
    );
    assert_eq!((&eft["jobs"], &eft["left_out"]), (&2.into(), &1.into()));
    for key in ["slr", "imbalance", "cost", "plan_seconds", "mean_wait", "mean_slowdown"] {
        assert!(eft[key].is_number(), "{key}");
    }
    let inspected = json(&mdts(folder.path()).args(["inspect", "log.swf", "--json"]).output().unwrap());
    assert_eq!(inspected["tasks"], 3);
    fs::write(folder.path().join("bad.swf"), "1 2 3\n").unwrap();
    let output = mdts(folder.path()).args(["compare", "bad.swf"]).output().unwrap();
    assert!(
        output.status.code() == Some(2) && text(&output.stderr).contains("line 1"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn real_logs_are_read() {
    let Some(data) = data_folder() else {
        eprintln!("skipped: no data: real_logs_are_read");
        return;
    };
    let folder = folder();
    for (log, tasks) in [("swf/lublin_256.swf", 10_000), ("swf/NASA-iPSC-1993-3.1-cln.swf.gz", 18_066)] {
        let report =
            json(&mdts(folder.path()).arg("inspect").arg(data.join(log)).arg("--json").output().unwrap());
        assert_eq!(report["tasks"], tasks, "{log}");
    }
}
