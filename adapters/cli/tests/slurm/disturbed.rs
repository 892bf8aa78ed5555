//! Nodes that go away, jobs that others cancel or hold back: no job waits for ever, and it is said what became of it.

use std::time::Duration;

use crate::{Bench, Task, disturbed, report, report_of, wait_until};

/// A task that only fits the node with the most memory.
fn for_big(name: &str, script: &str) -> Task {
    Task::new(name, &[], script).with("memory", "100000MiB")
}

#[test]
fn a_job_whose_node_is_drained_runs_elsewhere() {
    let Some((cluster, _alone)) = disturbed() else { return };
    // The first keeps the node busy, so that the second is planned there and waits.
    let tasks = [
        Task::new("first", &[], "sleep 2").with("times", serde_json::json!({"slow": 0.1})),
        Task::new("second", &["first"], "true").with("times", serde_json::json!({"slow": 0.1, "fast": 50})),
    ];
    let bench = Bench::new(cluster, &tasks);
    let flow = std::fs::read_to_string(bench.path("flow.json")).expect("written");
    std::fs::write(bench.path("flow.json"), flow.replace("\"work\":0.1,", "").replace(",\"work\":0.1", ""))
        .expect("written");
    let run = bench.begin(&["--mode", "graph", "--patience", "1s"]);
    wait_until("it runs", || !bench.ran("first").is_empty());
    cluster.ask("scontrol", &["update", "NodeName=slow", "State=DRAIN", "Reason=test"]);
    let output = run.wait_with_output().expect("it ends");
    cluster.ask("scontrol", &["update", "NodeName=slow", "State=RESUME"]);
    let report = report_of(&output);
    assert_eq!(report["succeeded"], 2, "{report}");
    assert_ne!(bench.ran("second"), ["slow"]);
    assert!(report["slurm"]["moved"].to_string().contains("second"), "{report}");
}

#[test]
fn a_job_that_can_never_begin_fails_with_slurms_reason() {
    let Some((cluster, _alone)) = disturbed() else { return };
    let bench = Bench::new(cluster, &[for_big("huge", "true")]);
    cluster.ask("scontrol", &["update", "NodeName=big", "State=DRAIN", "Reason=test"]);
    // A file brings the node back into the plan.
    std::fs::write(bench.path("cluster.toml"), "slots = 'resources'\n[[node]]\nname = 'big'\n")
        .expect("written");
    let run = bench.begin(&["--mode", "live", "--patience", "1s", "--cluster", "cluster.toml"]);
    let output = wait(run, Duration::from_mins(1));
    cluster.ask("scontrol", &["update", "NodeName=big", "State=RESUME"]);
    let report = report_of(&output);
    let reason = report["failures"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("waited in vain"), "{report}");
    assert_eq!(bench.open_jobs(), 0);
}

#[test]
fn a_job_that_somebody_cancels_has_failed_for_good() {
    let Some((cluster, _alone)) = disturbed() else { return };
    let bench = Bench::new(cluster, &[Task::new("a", &[], "sleep 300").with("retries", 3)]);
    let run = bench.begin(&["--mode", "live"]);
    wait_until("it runs", || !bench.ran("a").is_empty());
    let job = cluster.ask("squeue", &["-h", "--me", "-o", "%A"]);
    cluster.ask("scancel", &[job.trim()]);
    let report = report_of(&wait(run, Duration::from_mins(1)));
    let reason = report["failures"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("cancelled by somebody"), "{report}");
    assert_eq!(bench.ran("a").len(), 1, "it is not repeated");
}

#[test]
fn a_job_that_reaches_its_limit_has_timed_out() {
    let Some((cluster, _alone)) = disturbed() else { return };
    // Slurm counts in minutes, and looks about every half of one.
    let bench = Bench::new(cluster, &[Task::new("a", &[], "sleep 300")]);
    let run = bench.begin(&["--mode", "live", "--sbatch=--time=1"]);
    wait_until("it runs", || !bench.ran("a").is_empty());
    let job = cluster.ask("squeue", &["-h", "--me", "-o", "%A"]);
    cluster.ask("scontrol", &["update", &format!("JobId={}", job.trim()), "EndTime=now+1"]);
    let report = report_of(&wait(run, Duration::from_mins(3)));
    let reason = report["failures"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("TIMEOUT"), "{report}");
}

#[test]
fn a_soft_placement_gives_way() {
    let Some((cluster, _alone)) = disturbed() else { return };
    let blocker = cluster
        .ask("sbatch", &["--parsable", "-w", "fast", "-c", "8", "-o", "/dev/null", "--wrap", "sleep 300"]);
    wait_until("the node is busy", || {
        cluster.ask("squeue", &["-h", "-j", blocker.trim(), "-o", "%T"]).trim() == "RUNNING"
    });
    std::thread::sleep(Duration::from_millis(100));
    let bench = Bench::new(cluster, &[Task::new("a", &[], "true")]);
    let report = report(bench.begin(&["--mode", "live", "--placement", "soft"]));
    cluster.ask("scancel", &[blocker.trim()]);
    assert_eq!(report["succeeded"], 1);
    assert_ne!(bench.ran("a"), ["fast"]);
}

fn wait(mut run: std::process::Child, limit: Duration) -> std::process::Output {
    let begin = std::time::Instant::now();
    while run.try_wait().expect("waited for").is_none() {
        if begin.elapsed() > limit {
            run.kill().expect("killed");
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    run.wait_with_output().expect("it ends")
}
