//! A damaged journal, a full disk, a folder that cannot be written.

use std::process::Command;

use crate::{Bench, error, report, sh};

/// A file system in memory at a folder, until it is dropped; `None` where it cannot be mounted.
struct Mount {
    folder: std::path::PathBuf,
}

impl Mount {
    fn new(folder: std::path::PathBuf, options: &str) -> Option<Self> {
        std::fs::create_dir_all(&folder).ok()?;
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&folder).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self { folder })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.folder).status().ok(); // at the latest the next start does it
    }
}

fn many(tasks: usize) -> Vec<String> {
    (0..tasks).map(|i| sh(&format!("t{i}"), &format!("echo x >> out/t{i}"), "")).collect()
}

#[test]
fn a_journal_cut_or_flipped_on_disk_is_handled() {
    let bench = Bench::new(&many(30));
    std::fs::create_dir(bench.path("out")).expect("made");
    report(bench.begin());
    let whole = std::fs::read(bench.path("run/events")).expect("read");
    for cut in [5, 300] {
        std::fs::write(bench.path("run/events"), &whole[..whole.len() - cut]).expect("written");
        let resumed = bench.call(&["run", "--journal", "run", "--resume", "--json"]);
        assert!(resumed.status.success(), "{}", error(&resumed));
        // The last record is longer than 5 bytes.
        let is_told = error(&resumed).contains("was torn and is dropped");
        assert!(is_told || cut > 5, "{}", error(&resumed));
    }

    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    std::fs::write(bench.path("run/events"), &flipped).expect("written");
    let refused = bench.call(&["run", "--journal", "run", "--resume"]);
    assert_eq!(refused.status.code(), Some(2));
    let told = error(&refused);
    assert!(told.contains("run/events: damaged at byte ") && told.contains("truncate -s "), "{told}");
    // The remedy that is told works.
    let size = told.split("truncate -s ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a size");
    let cut = Command::new("truncate").args(["-s", size]).arg(bench.path("run/events")).status();
    assert!(cut.expect("truncate runs").success());
    assert_eq!(report(bench.resume())["succeeded"], 30);
}

#[test]
fn room_for_output_is_no_fault_of_tasks() {
    let bench =
        Bench::new(&(0..30).map(|i| sh(&format!("t{i}"), "echo x", ", retries: 1")).collect::<Vec<_>>());
    let Some(mount) = Mount::new(bench.path("logs"), "size=1m,nr_inodes=9") else {
        eprintln!("room_for_output_is_no_fault_of_tasks: skipped: nothing can be mounted here");
        return;
    };
    let stopped = bench.call(&["run", "flow.yaml", "--journal", "run", "--logs", "logs"]);
    assert_eq!(stopped.status.code(), Some(1));
    let told = error(&stopped);
    assert!(
        told.contains("No space left on device") && told.contains("make room for it, then go on"),
        "{told}"
    );
    let remount = Command::new("mount").args(["-o", "remount,nr_inodes=1000"]).arg(&mount.folder).status();
    assert!(remount.expect("mount runs").success());
    let report = report(bench.resume());
    assert_eq!((&report["succeeded"], &report["failed"]), (&30.into(), &0.into()));
}

#[test]
fn a_full_disk_stops_the_run_which_goes_on_when_there_is_room() {
    // What runs when the disk is full goes on, and is found again.
    let long = sh("long", "echo x >> out/long; while ! test -e go; do sleep 0.05; done", "");
    let bench = Bench::new(&[vec![long], many(400)].concat());
    std::fs::create_dir(bench.path("out")).expect("made");
    let Some(_mount) = Mount::new(bench.path("run"), "size=40k") else {
        eprintln!(
            "skipped: a_full_disk_stops_the_run_which_goes_on_when_there_is_room needs the right to mount"
        );
        return;
    };
    // The output of the tasks has room elsewhere.
    let args = ["run", "flow.yaml", "--journal", "run", "--logs", "logs"];
    let full = bench.call(&args);
    assert_eq!(full.status.code(), Some(1), "{}", error(&full));
    let told = error(&full);
    // Journal or register, whichever grows first.
    assert!(told.contains("No space left on device"), "{told}");
    assert!(told.contains("go on with --resume") && told.contains("tasks that run go on"), "{told}");
    let more = Command::new("mount").args(["-o", "remount,size=8m"]).arg(bench.path("run")).status();
    assert!(more.expect("mount runs").success());
    std::fs::write(bench.path("go"), "").expect("written");
    let report = report(bench.resume());
    assert_eq!(report["succeeded"], 401);
    assert_eq!(bench.read("out/long"), "x\n", "it ran once");
    assert!(report["done_before"].as_u64().is_some_and(|done| done > 0 && done < 401), "{report}");
}

#[test]
fn a_folder_that_cannot_be_written_is_told_before_anything_runs() {
    let bench = Bench::new(&[sh("a", "touch ran", "")]);
    let Some(_mount) = Mount::new(bench.path("fixed"), "ro,size=64k") else {
        eprintln!(
            "skipped: a_folder_that_cannot_be_written_is_told_before_anything_runs needs the right to mount"
        );
        return;
    };
    for folder in ["fixed", "fixed/run"] {
        let refused = bench.call(&["run", "flow.yaml", "--journal", folder]);
        assert_eq!(refused.status.code(), Some(2));
        let told = error(&refused);
        assert!(
            told.contains("Read-only file system") && told.contains("choose a folder that you may write to"),
            "{told}"
        );
    }
    assert!(!bench.path("ran").exists());
}

#[test]
fn a_journal_of_a_newer_version_is_refused() {
    let bench = Bench::new(&[sh("a", "true", "")]);
    report(bench.begin());
    let mut bytes = std::fs::read(bench.path("run/events")).expect("read");
    bytes[8..12].copy_from_slice(&9_u32.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..12]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(bench.path("run/events"), bytes).expect("written");
    for args in
        [&["run", "--journal", "run", "--resume"][..], &["log", "run"], &["status", "--journal", "run"]]
    {
        let refused = bench.call(args);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            error(&refused).contains("it is of version 9, this mdts reads version 4"),
            "{}",
            error(&refused)
        );
    }
}
