//! Both modes, with and without arrays and packing.

use std::path::Path;

use mdts_dag::format;

use crate::{Bench, Task, layers, report, report_of, shared};

/// The Montage-shaped example with tasks of a few milliseconds.
fn montage() -> Vec<Task> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workflows/montage-small.json");
    let job = format::read_path(path).expect("it is there");
    let task = |task| {
        let after: Vec<&str> = job.parents(task).map(|parent| &*job.task(parent).name).collect();
        Task::new(&*job.task(task).name, &after, "sleep 0.05").with("kind", &*job.task(task).kind)
    };
    job.task_ids().map(task).collect()
}

/// Runs tasks in a way; how many submissions and waves that took.
fn run(tasks: &[Task], flags: &[&str]) -> Option<(u64, u64)> {
    let bench = Bench::new(shared()?, tasks);
    let report = report(bench.begin(flags));
    assert_eq!(report["succeeded"], tasks.len(), "{report}");
    assert_eq!(report["slurm"]["moved"], serde_json::json!([]), "{report}");
    bench.check_placements(tasks);
    let number = |key: &str| report["slurm"][key].as_u64().unwrap_or_default();
    Some((number("submissions"), number("waves")))
}

#[test]
fn a_montage_finishes_where_it_was_planned_to() {
    let tasks = montage();
    let table: [(&[&str], bool); 6] = [
        (&["--mode", "live"], true),
        (&["--mode", "live", "--no-arrays"], false),
        (&["--mode", "live", "--pack", "3"], true),
        (&["--mode", "graph"], true),
        (&["--mode", "graph", "--no-arrays"], false),
        (&["--mode", "graph", "--pack-seconds", "0.5s"], true),
    ];
    for (flags, has_arrays) in table {
        let Some((submissions, waves)) = run(&tasks, flags) else { return };
        assert_eq!(submissions, waves, "{flags:?}");
        assert_eq!(waves < tasks.len() as u64, has_arrays, "{flags:?}: {waves}");
    }
}

#[test]
fn five_hundred_tasks_when_they_are_ready() {
    let tasks = layers(500, "sleep 0.02");
    run(&tasks, &["--mode", "live"]);
}

#[test]
fn five_hundred_tasks_at_once() {
    let tasks = layers(500, "sleep 0.02");
    if let Some((submissions, _)) = run(&tasks, &["--mode", "graph"]) {
        assert_eq!(submissions, 25, "one for every layer");
    }
}

#[test]
fn a_failed_task_stops_those_behind_it_and_says_so() {
    let Some(cluster) = shared() else { return };
    for mode in ["live", "graph"] {
        let tasks = [
            Task::new("first", &[], "true"),
            Task::new("bad", &["first"], "echo it broke >&2; exit 7"),
            Task::new("behind", &["bad"], "true"),
            Task::new("far_behind", &["behind"], "true"),
            Task::new("beside", &["first"], "true"),
        ];
        let bench = Bench::new(cluster, &tasks);
        let output = bench.begin(&["--mode", mode]).wait_with_output().expect("it ends");
        let report = report_of(&output);
        assert_eq!(output.status.code(), Some(1), "{report}");
        assert_eq!(
            (&report["succeeded"], &report["failed"], &report["blocked"]),
            (&2.into(), &1.into(), &2.into())
        );
        let reason = report["failures"][0]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("exit status 7") && reason.contains("it broke"), "{reason}");
        assert!(bench.ran("behind").is_empty() && bench.ran("far_behind").is_empty(), "{mode}");
        assert_eq!(bench.ran("beside").len(), 1, "{mode}");
        assert_eq!(bench.open_jobs(), 0, "{mode}");
    }
}

#[test]
fn what_fails_once_is_repeated_and_what_waits_for_it_runs_after_all() {
    let Some(cluster) = shared() else { return };
    for mode in ["live", "graph"] {
        let tasks = [
            Task::new("shaky", &[], "[ \"$MDTS_ATTEMPT\" = 2 ]")
                .with("retries", 1)
                .with("retry_delay", "10ms"),
            Task::new("behind", &["shaky"], "true"),
            Task::new("last", &["behind"], "true"),
        ];
        let bench = Bench::new(cluster, &tasks);
        let report = report(bench.begin(&["--mode", mode]));
        assert_eq!((&report["succeeded"], &report["retried"]), (&3.into(), &1.into()), "{report}");
        assert_eq!(bench.ran("behind").len(), 1);
    }
}

#[test]
fn a_graph_goes_on_alone_and_is_collected_later() {
    let Some(cluster) = shared() else { return };
    let tasks = layers(40, "sleep 0.05");
    let bench = Bench::new(cluster, &tasks);
    let output = bench.begin(&["--detach"]).wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    crate::wait_until("the graph", || bench.open_jobs() == 0);
    let report = report(bench.resume(&[]));
    assert_eq!((&report["succeeded"], &report["slurm"]["submissions"]), (&40.into(), &0.into()), "{report}");
    for task in &tasks {
        assert_eq!(bench.ran(&task.name).len(), 1, "{}", task.name);
    }
}

#[test]
fn cancelling_ends_all_of_the_run_and_nothing_else() {
    let Some(cluster) = shared() else { return };
    let tasks = [Task::new("a", &[], "sleep 300"), Task::new("b", &["a"], "true")];
    let other =
        Bench::new(cluster, &[Task::new("other", &[], "while [ ! -e out/stop ]; do sleep 0.1; done")]);
    let other_run = other.begin(&[]);
    for mode in ["live", "graph"] {
        let bench = Bench::new(cluster, &tasks);
        let run = bench.begin(&["--mode", mode]);
        crate::wait_until("it runs", || !bench.ran("a").is_empty());
        let cancelled = bench.call(&["cancel", "--journal", "run"]);
        assert!(cancelled.status.success(), "{}", String::from_utf8_lossy(&cancelled.stderr));
        let output = run.wait_with_output().expect("it ends");
        assert_eq!(report_of(&output)["end"], "cancelled");
        assert_eq!(bench.open_jobs(), 0, "{mode}");
        // What a killed run leaves behind is cancelled as well.
        let bench = Bench::new(cluster, &tasks);
        let run = bench.begin(&["--mode", mode]);
        crate::wait_until("it runs", || !bench.ran("a").is_empty());
        crate::kill(run);
        let cancelled = bench.call(&["cancel", "--journal", "run"]);
        assert!(cancelled.status.success(), "{}", String::from_utf8_lossy(&cancelled.stderr));
        crate::wait_until("its jobs end", || bench.open_jobs() == 0);
    }
    crate::wait_until("the other runs", || !other.ran("other").is_empty());
    std::fs::write(other.path("out/stop"), "").expect("written");
    assert_eq!(report(other_run)["succeeded"], 1);
}
