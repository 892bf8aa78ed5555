//! Failed tasks wait for some time before they are repeated.

use std::time::{Duration, Instant};

use crate::{Bench, json, kill, report, sh, text, wait_until};

#[test]
fn a_task_that_rests_is_explained_and_outlives_the_runner() {
    let script = "echo x >> tries; test $(wc -l < tries) -ge 3";
    let bench = Bench::new(&[
        sh("flaky", script, ", retries: 5, retry_delay: 8s"),
        sh("other", "true", ""),
        sh("behind", "true", ", after: [flaky]"),
    ]);
    std::fs::write(bench.path("one.toml"), "[[node]]\nname = \"n\"\n").expect("written");
    let args =
        ["run", "flow.yaml", "--journal", "run", "--json", "--cluster", "one.toml", "--retry-factor", "1"];
    let begin = Instant::now();
    let run = bench.command(&args).spawn().expect("mdts runs");
    let status = || text(&bench.call(&["status", "--journal", "run", "flaky"]));
    wait_until(|| status().contains("before attempt 2"));
    let told = status();
    assert!(told.starts_with("flaky (1 attempt): it failed, and waits "), "{told}");
    let left: f64 = told.split_whitespace().nth(7).and_then(|word| word.parse().ok()).expect("seconds");
    assert!((0.0..=8.0).contains(&left), "{told}");
    let all = json(&bench.call(&["status", "--journal", "run", "--json"]));
    wait_until(|| json(&bench.call(&["status", "--journal", "run", "--json"]))["succeeded"] == 1);
    assert_eq!(all["failed"], 0, "{all}");
    kill(run);
    // While nobody is at it, its clock stands still: 4 s at least are waited for in all, in both processes.
    let rested = begin.elapsed();
    let run = bench.command(&["run", "--journal", "run", "--resume", "--json", "--retry-factor", "1"]);
    let resumed = Instant::now();
    let mut run = run;
    let report = report(run.spawn().expect("mdts runs"));
    assert_eq!(
        (&report["succeeded"], &report["done_before"], &report["retried"]),
        (&3.into(), &1.into(), &2.into())
    );
    assert_eq!(bench.read("tries"), "x\nx\nx\n");
    let waited = rested + resumed.elapsed();
    assert!(waited >= Duration::from_secs(8), "two rests of 4 to 8 s, not {waited:?}");
    let log = text(&bench.call(&["log", "run"]));
    assert_eq!(log.lines().filter(|line| line.contains("\"repeated_at\":")).count(), 2, "{log}");
}

#[test]
fn flags_say_how_long_and_when_a_run_gives_up() {
    let bench = Bench::new(&[
        sh("bad", "exit 1", ""),
        sh("slow", "while ! test -e go; do sleep 0.05; done", ""),
        sh("never", "touch ran", ", after: [slow]"),
    ]);
    std::fs::write(bench.path("two.toml"), "[[node]]\nname = \"n\"\ncount = 2\n").expect("written");
    std::fs::write(bench.path("go"), "").expect("written");
    let base = ["run", "flow.yaml", "--json", "--cluster", "two.toml"];
    let begin = Instant::now();
    let hasty = bench.call(&[&base[..], &["--retries", "3", "--retry-delay", "0", "--keep-going"]].concat());
    let hasty = json(&hasty);
    assert_eq!((&hasty["retried"], &hasty["succeeded"], &hasty["failed"]), (&3.into(), &2.into(), &1.into()));
    let patient = ["--retries", "3", "--retry-delay", "400ms", "--retry-delay-max", "600ms"];
    let patient = bench.call(&[&base[..], &patient].concat());
    assert_eq!(json(&patient)["retried"], 3);
    assert!(begin.elapsed() >= Duration::from_millis(200 + 300 + 300));

    std::fs::remove_file(bench.path("ran")).expect("it ran");
    std::fs::remove_file(bench.path("go")).expect("it is there");
    let fast = bench.command(&[&base[..], &["--fail-fast"]].concat()).spawn().expect("mdts runs");
    std::thread::sleep(Duration::from_secs(1)); // by now one task has failed, and the other is let go
    std::fs::write(bench.path("go"), "").expect("written");
    let fast = json(&fast.wait_with_output().expect("it ends"));
    assert_eq!((&fast["end"], &fast["failed"]), (&"failed-fast".into(), &1.into()));
    assert!(!bench.path("ran").exists());

    std::fs::remove_file(bench.path("go")).expect("it is there");
    let late = bench.call(&[&base[..], &["--deadline", "500ms"]].concat());
    let report = json(&late);
    assert_eq!((late.status.code(), &report["end"]), (Some(1), &"deadline".into()), "{report}");
    for wrong in
        [["--deadline", "0"], ["--retry-factor", "0.5"], ["--retry-delay", "-1"], ["--retry-delay-max", "x"]]
    {
        let refused = bench.call(&[&base[..], &wrong].concat());
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
    }
}
