//! `mdts retry`.

use crate::{Bench, error, json, report, sh, text, wait_until};

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
fn failed_tasks_of_a_run_under_way_run_again_at_once() {
    let bench = Bench::new(&[
        sh("gate", "touch begun; while ! test -e go; do sleep 0.05; done", ""),
        sh("bad", "echo x >> bad; test -e mended", ", retries: 1, retry_delay: 0"),
        sh("behind", "echo x >> behind", ", after: [bad]"),
    ]);
    std::fs::write(bench.path("two.toml"), "[[node]]\nname = \"n\"\ncount = 2\n").expect("written");
    let args = ["run", "flow.yaml", "--journal", "run", "--json", "--cluster", "two.toml"];
    let run = bench.command(&args).spawn().expect("mdts runs");
    bench.await_file("begun");
    let status = || json(&bench.call(&["status", "--journal", "run", "--json"]));
    wait_until(|| status()["failed"] == 1);
    let refused = bench.call(&["retry", "--journal", "run", "gate"]);
    assert!(
        error(&refused).contains("'gate' has not failed: it has not come to its end"),
        "{}",
        error(&refused)
    );
    // It is not mended, and fails again.
    let told = text(&bench.call(&["retry", "--journal", "run", "bad"]));
    let expected = format!("may run again; process {} goes on with them\n", run.id());
    assert!(told.starts_with("1 task that failed and ") && told.ends_with(&expected), "{told}");
    wait_until(|| bench.read("bad") == "x\nx\nx\nx\n" && status()["failed"] == 1);
    std::fs::write(bench.path("mended"), "").expect("written");
    let all = json(&bench.call(&["retry", "--journal", "run", "--json"]));
    assert_eq!(all["retried"], serde_json::json!(["bad"]));
    bench.await_file("behind");
    wait_until(|| status()["succeeded"] == 2);
    let nothing = bench.call(&["retry", "--journal", "run"]);
    assert_eq!(text(&nothing), "nothing to retry: no task has failed\n");
    std::fs::write(bench.path("go"), "").expect("written");
    let report = report(run);
    assert_eq!((&report["succeeded"], &report["failed"]), (&3.into(), &0.into()));
    assert_eq!((bench.read("bad").as_str(), bench.read("behind").as_str()), ("x\nx\nx\nx\nx\n", "x\n"));
    let missing = bench.call(&["retry", "--journal", "nowhere"]);
    assert!(error(&missing).contains("there is no journal here"), "{}", error(&missing));
    assert!(!bench.path("nowhere").exists());
}
