//! What a run leaves to others: cancelled tasks their grace, a folder to the next run, a stopped keeper its tasks.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{Bench, error, json, keeper, kill, report, sh, signal, text, wait_until};

/// A task that runs until it is ended.
fn endless() -> Bench {
    Bench::new(&[sh("long", "echo $$ > pid; touch begun; exec sleep 600", "")])
}

fn send(name: &str, process: &str) {
    assert!(Command::new("kill").args([name, process]).status().expect("kill runs").success());
}

/// What two terminals do with Ctrl-C and `mdts cancel` must not depend on whether somebody reads what is said.
#[test]
fn a_run_whose_standard_error_is_closed_obeys() {
    for by_signal in [true, false] {
        let bench = endless();
        let mut run = bench.begin();
        drop(run.stderr.take());
        bench.await_file("begun");
        if by_signal {
            signal(&run, "-INT");
            std::thread::sleep(Duration::from_millis(200));
            signal(&run, "-INT");
        } else {
            let cancelled = bench.call(&["cancel", "--journal", "run"]);
            assert!(cancelled.status.success(), "{}", error(&cancelled));
        }
        let output = run.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), &json(&output)["end"]), (Some(1), &"cancelled".into()));
    }
}

#[test]
fn what_a_cancelled_task_has_started_gets_the_grace_too() {
    let child = "trap 'sleep 1; echo saved > saved; exit' TERM; touch begun; while :; do sleep 0.05; done";
    for how in ["cancel", "timeout"] {
        let more = if how == "timeout" { ", timeout: 1" } else { "" };
        // The shell itself ends at once.
        let bench = Bench::new(&[sh("parent", "sh child; true", more)]);
        fs::write(bench.path("child"), child).expect("written");
        let run = bench.begin();
        bench.await_file("begun");
        if how == "cancel" {
            assert!(bench.call(&["cancel", "--journal", "run"]).status.success());
        }
        run.wait_with_output().expect("it ends");
        assert_eq!(bench.read("saved"), "saved\n", "{how}");
    }
}

#[test]
fn the_tasks_of_a_lost_journal_are_not_those_of_a_new_one() {
    let bench = endless();
    let run = bench.begin();
    bench.await_file("begun");
    kill(run);
    fs::remove_file(bench.path("run/events")).expect("removed");
    let begin = bench.begin().wait_with_output().expect("it ends");
    assert_eq!(begin.status.code(), Some(2));
    assert!(error(&begin).contains("tasks of an earlier run whose journal is gone"), "{}", error(&begin));
    send("-KILL", bench.read("pid").trim());
    wait_until(|| keeper(&bench.path("run")).is_none());
    assert_eq!(bench.begin().wait_with_output().expect("it ends").status.code(), Some(2));
    fs::remove_dir_all(bench.path("run")).expect("removed");
    fs::write(bench.path("flow.yaml"), "tasks:\n  - {name: b, command: [\"true\"]}\n").expect("written");
    report(bench.begin());
}

#[test]
fn a_keeper_that_is_stopped_is_named() {
    let bench = endless();
    let run = bench.begin();
    bench.await_file("begun");
    kill(run);
    let number = keeper(&bench.path("run")).expect("it lives");
    send("-STOP", &number);
    let refused = bench.resume().wait_with_output().expect("it ends");
    assert_eq!(refused.status.code(), Some(1));
    let told = error(&refused);
    assert!(told.contains(&format!("the keeper of the tasks, process {number}, does not answer")), "{told}");
    send("-CONT", &number);
    let cancelled = bench.call(&["cancel", "--journal", "run"]);
    assert!(cancelled.status.success(), "{}", error(&cancelled));
    wait_until(|| keeper(&bench.path("run")).is_none());
}

#[test]
fn a_run_that_is_stopped_is_told_and_obeys_when_it_goes_on() {
    let bench = endless();
    let run = bench.begin();
    bench.await_file("begun");
    signal(&run, "-STOP");
    let told = bench.call(&["cancel", "--journal", "run"]);
    assert_eq!(told.status.code(), Some(1));
    assert!(error(&told).contains("has not answered for 10 s; it will do"), "{}", error(&told));
    signal(&run, "-CONT");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(json(&output)["end"], "cancelled");
}

#[test]
fn sockets_are_for_their_user_alone() {
    let bench = endless();
    let program = env!("CARGO_BIN_EXE_mdts");
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$0\" run flow.yaml --journal run", program]);
    let run = command.current_dir(bench.path("")).stderr(Stdio::null()).stdout(Stdio::null()).spawn();
    let run = run.expect("sh runs");
    bench.await_file("begun");
    for socket in ["keeper.sock", "control.sock"] {
        let mode = fs::metadata(bench.path("run").join(socket)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{socket}");
    }
    signal(&run, "-TERM");
    run.wait_with_output().expect("it ends");
}

#[test]
fn a_keeper_that_nobody_calls_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join("keeper.sock")).expect("bound");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mdts"));
    command.arg("keep").arg(folder.path()).stdin(Stdio::from(OwnedFd::from(listener)));
    assert!(command.status().expect("mdts runs").success());
}

#[test]
fn a_task_that_asks_the_terminal_fails_instead_of_being_stopped() {
    let bench = Bench::new(&[sh("asks", "read answer < /dev/tty", "")]);
    // A terminal of its own, as in a login.
    let script = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let program = env!("CARGO_BIN_EXE_mdts");
    let mut command = Command::new("python3");
    command.args(["-c", script, program, "run", "flow.yaml", "--journal", "run", "--json"]);
    let output = command.current_dir(bench.path("")).stdin(Stdio::null()).output().expect("python3 runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("/dev/tty"), "{}", text(&output));
}

#[test]
fn the_folder_of_a_journal_may_have_any_name() {
    let bench = Bench::new(&[sh("a", "echo hello", "")]);
    let name = OsStr::from_bytes(b"n\xffx");
    let mut command = bench.command(&["run", "flow.yaml", "--json", "--journal"]);
    report(command.arg(name).spawn().expect("mdts runs"));
    let logs = bench.command(&["logs", "a", "--out", "--journal"]).arg(name).output().expect("mdts runs");
    assert_eq!(text(&logs), "hello\n");
    let resumed = bench.command(&["run", "--resume", "--json", "--journal"]).arg(name).spawn();
    assert_eq!(report(resumed.expect("mdts runs"))["succeeded"], 1);
    // What cannot be kept is refused before anything runs.
    let mut command = bench.command(&["run", "flow.yaml", "--journal", "run", "--cache"]);
    let refused = command.arg(name).output().expect("mdts runs");
    assert_eq!(refused.status.code(), Some(2));
    assert!(error(&refused).contains("a journal can only keep paths that are UTF-8"), "{}", error(&refused));
}
