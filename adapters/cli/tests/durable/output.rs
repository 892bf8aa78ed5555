//! `mdts logs`.

use std::io::{BufRead, BufReader};
use std::time::Instant;

use crate::{Bench, DEADLINE, error, kill, sh, text, wait_until};

#[test]
fn the_output_of_every_attempt_is_shown() {
    let script =
        "echo out $MDTS_ATTEMPT; echo err $MDTS_ATTEMPT >&2; test -e once && exit 0; touch once; exit 1";
    let bench = Bench::new(&[
        sh("talks", script, ", retries: 1"),
        sh("silent", "true", ""),
        sh("fails", "exit 1", ""),
        sh("never", "true", ", after: [fails]"),
    ]);
    bench.begin().wait_with_output().expect("it ends");
    let logs = |more: &[&str]| bench.call(&[&["logs", "--journal", "run"], more].concat());
    let both = text(&logs(&["talks"]));
    let lines: Vec<&str> = both.lines().collect();
    assert!(lines[0].starts_with("==> standard output: ") && lines[0].ends_with("talks.2.out <=="), "{both}");
    assert!(lines[2].starts_with("==> standard error: "), "{both}");
    assert_eq!((lines[1], lines[3], lines.len()), ("out 2", "err 2", 4));
    assert_eq!(text(&logs(&["talks", "--attempt", "1", "--err"])), "err 1\n");
    assert_eq!(text(&logs(&["talks", "--out", "--follow"])), "out 2\n");
    assert_eq!(text(&logs(&["silent", "--out"])), "");
    for (args, expected) in [
        (&["talk"][..], "there is no task 'talk'; did you mean 'talks'?"),
        (&["never"], "'never' was not started; mdts status --journal run 'never' tells why"),
        (&["talks", "--attempt", "3"], "'talks' has no attempt 3; there are 2 attempts"),
        (&["silent", "--attempt", "2"], "'silent' has no attempt 2; there is 1 attempt"),
    ] {
        let refused = logs(args);
        assert_eq!(refused.status.code(), Some(2));
        assert!(error(&refused).contains(expected), "{}", error(&refused));
    }
    std::fs::remove_dir_all(bench.path("run/logs")).expect("removed");
    let gone = logs(&["talks"]);
    assert!(gone.status.success() && gone.stdout.is_empty());
    assert!(
        error(&gone).contains("'talks' has written nothing, or that was removed from "),
        "{}",
        error(&gone)
    );
}

#[test]
fn following_ends_with_the_attempt() {
    let script = "echo one; touch begun; while ! test -e go; do sleep 0.05; done; echo two; echo why >&2";
    let bench = Bench::new(&[sh("a", script, ""), sh("b", "exec sleep 600", ", after: [a]")]);
    let run = bench.begin();
    bench.await_file("begun");
    let mut follower =
        bench.command(&["logs", "--journal", "run", "a", "--follow"]).spawn().expect("mdts runs");
    let mut lines =
        BufReader::new(follower.stdout.take().expect("piped")).lines().map(|line| line.expect("UTF-8"));
    let begin = Instant::now();
    let head = [lines.next(), lines.next()];
    assert_eq!(head[1].as_deref(), Some("one"), "what is there comes at once");
    std::fs::write(bench.path("go"), "").expect("written");
    let rest: Vec<String> = lines.collect();
    assert!(follower.wait().expect("it ends").success());
    assert!(begin.elapsed() < DEADLINE);
    assert_eq!((rest[0].as_str(), rest[2].as_str(), rest.len()), ("two", "why", 3), "{rest:?}");

    // Nobody tells of the end when the run is killed.
    let status = || text(&bench.call(&["status", "--journal", "run", "b"]));
    wait_until(|| status().contains("it runs"));
    let follower = bench.command(&["logs", "--journal", "run", "b", "--follow"]).spawn().expect("mdts runs");
    kill(run);
    let output = follower.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert!(error(&output).contains("its run was stopped or killed; go on with"), "{}", error(&output));
    assert!(bench.call(&["cancel", "--journal", "run"]).status.success());
}

#[test]
fn what_is_left_out_is_not_printed() {
    let script = "head -c 30000000 /dev/zero | tr \"\\\\0\" x; echo; touch begun; while ! test -e go; do sleep 0.05; done; echo last";
    let bench = Bench::new(&[sh("loud", script, "")]);
    let args = ["run", "flow.yaml", "--journal", "run", "--output-limit", "256KiB", "--json"];
    let run = bench.command(&args).spawn().expect("mdts runs");
    bench.await_file("begun");
    let logs = |more: &[&str]| bench.call(&[&["logs", "--journal", "run", "loud", "--out"], more].concat());
    // Before the first look at the file all of it is there.
    let mut shown = String::new();
    wait_until(|| {
        shown = text(&logs(&[]));
        shown.contains(" bytes of output are left out here]")
    });
    assert!(!shown.contains('\0') && shown.len() <= 1 << 18, "{}", shown.len());
    let follow = ["logs", "--journal", "run", "loud", "--out", "--follow"];
    let follower = bench.command(&follow).spawn().expect("mdts runs");
    std::thread::sleep(std::time::Duration::from_millis(500));
    std::fs::write(bench.path("go"), "").expect("written");
    assert!(run.wait_with_output().expect("it ends").status.success());
    let followed = text(&follower.wait_with_output().expect("it ends"));
    assert!(followed.len() <= 1 << 18 && followed.ends_with("x\nlast\n"), "{}", followed.len());
}
