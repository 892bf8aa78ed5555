//! Ctrl-C once and twice, status, log, and what resuming refuses.

use serde_json::Value;

use crate::{Bench, error, kill, report, sh, signal, wait_until};

#[test]
fn one_interrupt_lets_tasks_finish_and_the_run_goes_on_later() {
    let tasks =
        [sh("a", "touch begun; sleep 0.5; echo a >> out", ""), sh("b", "echo b >> out", ", after: [a]")];
    let bench = Bench::new(&tasks);
    let run = bench.begin();
    bench.await_file("begun");
    signal(&run, "-INT");
    let output = run.wait_with_output().expect("it ends");
    let stopped: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (output.status.code(), &stopped["end"], &stopped["succeeded"]),
        (Some(1), &"drained".into(), &1.into())
    );
    let status = bench.call(&["status", "--journal", "run"]);
    let shown = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(shown.contains("stopped: drained; go on with mdts run --resume --journal run"), "{shown}");
    let why = bench.call(&["status", "--journal", "run", "b"]);
    assert_eq!(
        String::from_utf8_lossy(&why.stdout),
        "b: the run was stopped before it; go on with --resume\n"
    );
    let report = report(bench.resume());
    assert_eq!((&report["succeeded"], &report["done_before"]), (&2.into(), &1.into()));
    assert_eq!(bench.read("out"), "a\nb\n");
}

#[test]
fn two_interrupts_cancel_whole_groups_and_leave_a_journal_that_goes_on() {
    let script =
        "echo x >> begun; test -e second && exit 0; sleep 61 & echo $! > child; touch second; sleep 61";
    let bench = Bench::new(&[sh("a", script, ""), sh("b", "true", ", after: [a]")]);
    let run = bench.begin();
    bench.await_file("second");
    signal(&run, "-INT");
    std::thread::sleep(std::time::Duration::from_millis(200));
    signal(&run, "-INT");
    let output = run.wait_with_output().expect("it ends");
    let stopped: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (output.status.code(), &stopped["end"], &stopped["cancelled"]),
        (Some(1), &"cancelled".into(), &2.into())
    );
    let child = bench.read("child");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "something of the task still runs: {stat}");
    let report = report(bench.resume());
    assert_eq!((&report["succeeded"], &report["failed"]), (&2.into(), &0.into()));
    assert_eq!(bench.read("begun"), "x\nx\n");
}

#[test]
fn a_second_process_is_refused() {
    let bench = Bench::new(&[sh("a", "touch begun; sleep 60", "")]);
    let run = bench.begin();
    bench.await_file("begun");
    for args in [&["run", "flow.yaml", "--journal", "run"][..], &["run", "--journal", "run", "--resume"]] {
        let refused = bench.call(args);
        let expected = format!("in use by process {}", run.id());
        assert_eq!(refused.status.code(), Some(2));
        assert!(error(&refused).contains(&expected), "{}", error(&refused));
    }
    let status = bench.call(&["status", "--journal", "run", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!((&status["state"], &status["running"][0]["task"]), (&"running".into(), &"a".into()));
    signal(&run, "-TERM");
    assert_eq!(run.wait_with_output().expect("it ends").status.code(), Some(1));
}

#[test]
fn resuming_refuses_what_is_not_the_same_run() {
    let bench = Bench::new(&[sh("a", "true", "")]);
    let missing = bench.call(&["run", "--journal", "nothing", "--resume"]);
    assert!(error(&missing).contains("there is no journal here"), "{}", error(&missing));
    report(bench.begin());
    let again = bench.call(&["run", "flow.yaml", "--journal", "run"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(error(&again).contains("go on with that run with --resume, or name another folder"));
    let same = bench.call(&["run", "flow.yaml", "--journal", "run", "--resume", "--json"]);
    assert!(same.status.success(), "{}", error(&same));
    std::fs::write(bench.path("flow.yaml"), "tasks:\n  - {name: b, command: [\"true\"]}\n").expect("written");
    let changed = bench.call(&["run", "flow.yaml", "--journal", "run", "--resume"]);
    assert_eq!(changed.status.code(), Some(2));
    assert!(error(&changed).contains("the workflow is not what the run began with"), "{}", error(&changed));
}

#[test]
fn the_log_has_a_line_for_every_event() {
    let bench = Bench::new(&[
        sh("a", "test -e second && exit 0; touch second; echo why >&2; exit 5", ", retries: 1"),
        sh("b", "true", ", after: [a]"),
    ]);
    report(bench.begin());
    let log = bench.call(&["log", "run"]);
    let lines = String::from_utf8(log.stdout).expect("UTF-8");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |word: &str| lines.iter().filter(|line| line["entry"] == word).collect::<Vec<_>>();
    assert_eq!((lines[0]["entry"].as_str(), lines[0]["job"].as_str()), (Some("manifest"), Some("bench")));
    assert_eq!((of("started").len(), of("finished").len(), of("failed").len()), (3, 2, 1));
    let failed = of("failed")[0];
    assert_eq!(
        (&failed["task"], &failed["attempt"], &failed["reason"]),
        (&"a".into(), &1.into(), &"exit status 5: why".into())
    );
    assert_eq!(of("ended")[0]["why"], "complete");
}

#[test]
fn an_emulated_run_goes_on_too() {
    let bench = Bench::new(&(0..40).map(|i| format!("{{name: t{i}, work: 1}}")).collect::<Vec<_>>());
    let args = ["run", "flow.yaml", "--journal", "run", "--emulate", "0.05", "--json"];
    let run = bench.command(&args).spawn().expect("mdts runs");
    wait_until(|| bench.path("run/events").exists());
    std::thread::sleep(std::time::Duration::from_millis(300));
    kill(run);
    let report = report(bench.resume());
    assert_eq!(report["succeeded"], 40);
}

#[test]
fn status_tells_what_is_left_and_until_when() {
    let bench = Bench::new(&[
        "{name: first, work: 0.02, command: [sh, -c, \"sleep 0.2\"]}".to_owned(),
        "{name: long, work: 100, command: [sh, -c, \"touch begun; exec sleep 600\"], after: [first]}"
            .to_owned(),
        "{name: last, work: 20, command: [\"true\"], after: [long]}".to_owned(),
        "{name: aside, work: 10, command: [\"true\"], after: [long]}".to_owned(),
    ]);
    let run = bench.begin();
    bench.await_file("begun");
    let report = || -> Value {
        serde_json::from_slice(&bench.call(&["status", "--journal", "run", "--json"]).stdout).expect("JSON")
    };
    wait_until(|| report()["running"][0]["task"] == "long");
    let status = report();
    assert_eq!(status["critical_path"], serde_json::json!(["long", "last"]));
    let number = |value: &Value| value.as_f64().expect("a number");
    let (now, pace) = (number(&status["now"]), number(&status["pace"]));
    assert!(pace > 5.0, "the first task took ten times as long: {pace}");
    let left = number(&status["critical_path_seconds"]);
    assert!((60.0..=120.0).contains(&left), "{left}");
    let end = number(&status["expected_end"]);
    assert!(end > now + 120.0, "{end} at {now}, at {pace} times the expected times");
    let running = &status["running"][0];
    assert_eq!(running["expected_seconds"], 100.0);
    let elapsed = number(&running["elapsed"]);
    wait_until(|| number(&report()["running"][0]["elapsed"]) > elapsed);
    let text = bench.call(&["status", "--journal", "run"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for expected in
        ["; expected to end at ", "times their expected time", " s more: long > last", " of 100 s"]
    {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    signal(&run, "-TERM");
    run.wait_with_output().expect("it ends");
}
