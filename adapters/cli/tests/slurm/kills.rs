//! kill -9 of mdts and of Slurm's controller: nothing is lost, nothing is submitted twice, nothing runs twice.

use std::time::Duration;

use crate::{Bench, Task, disturbed, kill, kills, layers, next, report};

/// Each task succeeded once, and no job was submitted twice. Each also began once, unless the controller has forgotten jobs:
/// those that it took in the last seconds before its death were not on its disk, and it ends them when it is back.
fn check(bench: &Bench, tasks: &[Task], may_be_forgotten: bool) {
    for (at, task) in tasks.iter().enumerate() {
        let ran = bench.ran(&task.name).len();
        let claims = named(&bench.path("run/slurm/claims"), at, "");
        assert_eq!(named(&bench.path("run/slurm/results"), at, ".ok"), 1, "{}", task.name);
        assert!(
            ran == 1 || (may_be_forgotten && (2..=claims).contains(&ran)),
            "{}: {ran} of {claims}",
            task.name
        );
    }
    let mut jobs = bench.jobs();
    let all = jobs.len();
    jobs.sort();
    jobs.dedup();
    assert_eq!(jobs.len(), all, "jobs by wave and element");
}

/// Files of the attempts of a task.
fn named(folder: &std::path::Path, task: usize, end: &str) -> usize {
    let files = std::fs::read_dir(folder)
        .expect("it is there")
        .filter_map(|file| file.ok()?.file_name().into_string().ok());
    files.filter(|name| name.starts_with(&format!("{task}.")) && name.ends_with(end)).count()
}

fn go_on(bench: &Bench, mode: &str) -> std::process::Child {
    if bench.path("run/events").exists() { bench.resume(&[]) } else { bench.begin(&["--mode", mode]) }
}

#[test]
fn mdts_is_killed() {
    let Some((cluster, _alone)) = disturbed() else { return };
    let seed = &mut 3;
    for mode in ["live", "graph"] {
        let tasks = layers(80, "sleep 0.1");
        let bench = Bench::new(cluster, &tasks);
        let mut run = bench.begin(&["--mode", mode]);
        for _ in 0..kills() {
            std::thread::sleep(Duration::from_millis(next(seed) % 1500));
            kill(run);
            run = go_on(&bench, mode);
        }
        assert_eq!(report(run)["succeeded"], tasks.len(), "{mode}");
        check(&bench, &tasks, false);
    }
}

#[test]
fn the_controller_is_killed() {
    let Some((cluster, _alone)) = disturbed() else { return };
    let seed = &mut 9;
    for mode in ["live", "graph"] {
        let tasks = layers(60, "sleep 0.1");
        let bench = Bench::new(cluster, &tasks);
        let run = bench.begin(&["--mode", mode, "--patience", "10s"]);
        for _ in 0..kills().min(2) {
            std::thread::sleep(Duration::from_millis(500 + next(seed) % 1500));
            cluster.kill_controller();
            std::thread::sleep(Duration::from_millis(next(seed) % 1500));
            cluster.start_controller();
        }
        assert_eq!(report(run)["succeeded"], tasks.len(), "{mode}");
        check(&bench, &tasks, true);
    }
}

#[test]
fn both_are_killed() {
    let Some((cluster, _alone)) = disturbed() else { return };
    let seed = &mut 21;
    let tasks = layers(60, "sleep 0.1");
    let bench = Bench::new(cluster, &tasks);
    let run = bench.begin(&["--mode", "live", "--patience", "10s"]);
    std::thread::sleep(Duration::from_millis(500 + next(seed) % 1500));
    cluster.kill_controller();
    std::thread::sleep(Duration::from_millis(next(seed) % 500));
    kill(run);
    let run = go_on(&bench, "live");
    std::thread::sleep(Duration::from_secs(1));
    cluster.start_controller();
    assert_eq!(report(run)["succeeded"], tasks.len());
    check(&bench, &tasks, true);
}
