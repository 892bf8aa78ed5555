//! `mdts retry`.

use crate::{Bench, error, json, report, sh, text};

/// `bad` fails until there is `mended`, `worse` until there is `healed`.
fn failing() -> Bench {
    let bench = Bench::new(&[
        sh("bad", "echo x >> bad; test -e mended", ", retries: 1"),
        sh("worse", "test -e healed", ""),
        sh("behind", "echo x >> behind", ", after: [bad]"),
        sh("both", "echo x >> both", ", after: [behind, worse]"),
        sh("good", "echo x >> good", ""),
    ]);
    let output = bench.begin().wait_with_output().expect("it ends");
    let report = json(&output);
    assert_eq!(
        ["succeeded", "failed", "blocked"].map(|key| report[key].as_u64()),
        [Some(1), Some(2), Some(2)]
    );
    bench
}

#[test]
fn failed_tasks_and_what_is_behind_them_run_again() {
    let bench = failing();
    // Without a retry they stay failed.
    let again = bench.resume().wait_with_output().expect("it ends");
    assert_eq!((again.status.code(), &json(&again)["failed"]), (Some(1), &2.into()));

    let unknown = bench.call(&["retry", "--journal", "run", "wrose"]);
    assert!(error(&unknown).contains("did you mean 'worse'?"), "{}", error(&unknown));
    for (task, why) in [("good", "it has succeeded"), ("behind", "it never runs, because 'bad' failed")] {
        let refused = bench.call(&["retry", "--journal", "run", task]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(error(&refused).contains(&format!("'{task}' has not failed: {why}")), "{}", error(&refused));
    }

    std::fs::write(bench.path("mended"), "").expect("written");
    let one = bench.call(&["retry", "--journal", "run", "bad"]);
    assert_eq!(
        text(&one),
        "1 task that failed and 1 blocked behind may run again; go on with mdts run --resume --journal run\n"
    );
    let status = json(&bench.call(&["status", "--journal", "run", "--json"]));
    assert_eq!(
        (&status["state"], &status["failed"], &status["blocked"]),
        (&"retried".into(), &1.into(), &1.into())
    );
    let output = bench.resume().wait_with_output().expect("it ends");
    let after = json(&output);
    assert_eq!(
        ["succeeded", "failed", "blocked"].map(|key| after[key].as_u64()),
        [Some(3), Some(1), Some(1)]
    );
    assert_eq!(after["done_before"], 1);

    std::fs::write(bench.path("healed"), "").expect("written");
    let all = json(&bench.call(&["retry", "--journal", "run", "--json"]));
    assert_eq!((&all["retried"][0], &all["unblocked"]), (&"worse".into(), &1.into()));
    assert_eq!(report(bench.resume())["succeeded"], 5);
    assert_eq!(bench.read("bad"), "x\nx\nx\n", "two attempts, then the third that succeeded");
    for once in ["behind", "both", "good"] {
        assert_eq!(bench.read(once), "x\n", "{once}");
    }
    let nothing = bench.call(&["retry", "--journal", "run"]);
    assert_eq!(text(&nothing), "nothing to retry: no task has failed\n");
    let log = text(&bench.call(&["log", "run"]));
    let third = |line: &str| line.contains("\"bad\"") && line.contains("\"attempt\":3");
    assert!(log.lines().any(third), "attempts are counted on: {log}");
    assert!(log.contains("\"entry\":\"retried\"") && log.contains("\"task\":\"worse\""), "{log}");
}

#[test]
fn a_run_under_way_is_not_changed() {
    let bench = Bench::new(&[sh("a", "touch begun; exec sleep 600", "")]);
    let run = bench.begin();
    bench.await_file("begun");
    let refused = bench.call(&["retry", "--journal", "run"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(error(&refused).contains(&format!("in use by process {}", run.id())), "{}", error(&refused));
    assert!(bench.call(&["cancel", "--journal", "run"]).status.success());
    run.wait_with_output().expect("it ends");
    let missing = bench.call(&["retry", "--journal", "nowhere"]);
    assert!(error(&missing).contains("there is no journal here"), "{}", error(&missing));
    assert!(!bench.path("nowhere").exists());
}
