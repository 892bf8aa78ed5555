//! `run --cache` and `run --dry-run`.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::Folder;

/// `in.txt` to `mid.txt` to `out.txt`, and a task that writes nothing that it declares. Every command leaves a trace.
fn chain(env: &str) -> String {
    format!(
        r#"
name: chain
tasks:
  - {{name: a, command: [sh, -c, "echo x >> trace-a; head -n 1 in.txt > mid.txt"], inputs: [in.txt], outputs: [mid.txt]}}
  - {{name: b, command: [sh, -c, "echo x >> trace-b; cat mid.txt > out.txt"], inputs: [mid.txt], outputs: [out.txt]{env}}}
  - {{name: c, command: [sh, -c, "echo x >> trace-c"], after: [b]}}
"#
    )
}

fn bench() -> Folder {
    let folder = Folder::new();
    folder.write("flow.yaml", chain("")).write("in.txt", "one\n");
    folder
}

const RUN: [&str; 6] = ["run", "flow.yaml", "--cache", "kept", "--json", "--logs=logs"];

/// Runs and tells how many tasks the cache answered for, and how often each command has run so far.
fn run(folder: &Folder) -> (u64, [usize; 3]) {
    let report = folder.json(&RUN);
    assert_eq!(report["succeeded"], report["tasks"], "{report}");
    let traces = ["trace-a", "trace-b", "trace-c"]
        .map(|name| fs::read_to_string(folder.path(name)).map_or(0, |text| text.lines().count()));
    (report["cached"].as_u64().expect("a number"), traces)
}

#[test]
fn what_is_done_and_unchanged_does_not_run_again() {
    let folder = bench();
    assert_eq!(run(&folder), (0, [1, 1, 1]));
    assert_eq!(run(&folder), (2, [1, 1, 2]), "without outputs it always runs");
    folder.write("in.txt", "one\nmore\n");
    assert_eq!(run(&folder), (1, [2, 1, 3]), "what a writes is the same as before");
    folder.write("in.txt", "two\n");
    assert_eq!(run(&folder), (0, [3, 2, 4]));
    assert_eq!(folder.read("out.txt"), "two\n");
    // What was there before is brought back, whatever became of the outputs.
    folder.write("in.txt", "one\n");
    fs::remove_file(folder.path("out.txt")).expect("removed");
    assert_eq!(run(&folder), (2, [3, 2, 5]));
    assert_eq!(folder.read("mid.txt") + &folder.read("out.txt"), "one\none\n");
    folder.write("out.txt", "by hand\n");
    assert_eq!(run(&folder), (2, [3, 2, 6]));
    assert_eq!(folder.read("out.txt"), "one\n");
    folder.write("flow.yaml", chain(", env: {LANG: C}"));
    assert_eq!(run(&folder), (1, [3, 3, 7]), "its environment counts");
    let text = folder.mdts(&["run", "flow.yaml", "--cache", "kept"]).stdout;
    assert!(text.contains("3 of 3 succeeded, 2 from the cache"), "{text}");
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").path()) {
        if entry.is_dir() { files(&entry, found) } else { found.push(entry) }
    }
}

#[test]
fn damage_to_the_cache_costs_time_alone() {
    let folder = bench();
    run(&folder);
    let mut all = Vec::new();
    files(&folder.path("kept"), &mut all);
    let damaged = all.iter().filter(|path| !path.ends_with("version"));
    assert!(damaged.clone().count() >= 5);
    damaged.for_each(|path| fs::write(path, "junk").expect("written"));
    fs::remove_file(folder.path("out.txt")).expect("removed");
    assert_eq!(run(&folder), (0, [2, 2, 2]));
    assert_eq!(run(&folder), (2, [2, 2, 3]));
    // Contents alone: the record is good, what it names is not.
    fs::remove_file(folder.path("out.txt")).expect("removed");
    let mut objects = Vec::new();
    files(&folder.path("kept/objects"), &mut objects);
    for path in &objects {
        fs::write(path, "junk").expect("written");
    }
    assert_eq!(run(&folder), (1, [2, 3, 4]), "b runs, since its output is lost");
    assert_eq!(folder.read("out.txt"), "one\n");
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let folder = Folder::new();
    folder.write(
        "flow.yaml",
        "tasks: [{name: a, command: [sh, -c, 'echo x >> trace; mkdir -p out'], inputs: [pipe], outputs: [out]}, \
         {name: b, command: [sh, -c, 'echo x >> trace; mkdir -p f; test -p f/p || mkfifo f/p'], outputs: [f]}]",
    );
    let made = std::process::Command::new("mkfifo").arg(folder.path("pipe")).status();
    assert!(made.expect("mkfifo runs").success());
    for _ in 0..2 {
        let called = folder.mdts(&["run", "flow.yaml", "--cache", "kept", "--json"]);
        assert_eq!((called.status, called.json()["cached"].as_u64()), (0, Some(0)), "{}", called.stderr);
        assert!(called.stderr.contains("/f: 'p' is neither file, link nor folder"), "{}", called.stderr);
    }
    assert_eq!(folder.read("trace"), "x\nx\nx\nx\n");
}

#[test]
fn failures_are_not_kept() {
    let folder = Folder::new();
    folder.write(
        "flow.yaml",
        "tasks: [{name: a, command: [sh, -c, 'echo x >> trace; echo y > out; test -e mended'], outputs: [out]}]",
    );
    let args = ["run", "flow.yaml", "--cache", "kept", "--json"];
    assert_eq!(folder.mdts(&args).status, 1);
    assert_eq!(folder.mdts(&args).status, 1);
    folder.write("mended", "");
    assert_eq!(folder.json(&args)["cached"], 0);
    assert_eq!(folder.json(&args)["cached"], 1);
    assert_eq!(folder.read("trace"), "x\nx\nx\n");
}

#[test]
fn other_folders_and_uses_are_refused() {
    let folder = bench();
    let refused = folder.mdts(&["run", "flow.yaml", "--cache", "."]);
    assert_eq!(refused.status, 2);
    assert!(
        refused.stderr.contains("it is no cache of mdts; name an empty or a new folder"),
        "{}",
        refused.stderr
    );
    fs::create_dir(folder.path("newer")).expect("made");
    folder.write("newer/version", "mdts cache 9\n");
    let refused = folder.mdts(&["run", "flow.yaml", "--cache", "newer"]);
    assert!(
        refused.stderr.contains("it is 'mdts cache 9', this mdts has 'mdts cache 1'"),
        "{}",
        refused.stderr
    );
    let refused = folder.mdts(&["run", "flow.yaml", "--cache", "kept", "--emulate", "1"]);
    assert_eq!(refused.status, 2);
    assert!(!folder.path("trace-a").exists() && !folder.path("kept").exists());
}

#[test]
fn a_run_killed_again_and_again_keeps_a_cache_that_holds() {
    let folder = Folder::new();
    let task = |i: usize| {
        let input = if i < 4 { "in.txt".to_owned() } else { format!("o{}", i - 4) };
        format!(
            "  - {{name: t{i}, command: [sh, -c, 'sleep 0.02; cat {input} > $$.{i}; echo {i} >> $$.{i}; mv $$.{i} o{i}'], \
             inputs: [{input}], outputs: [o{i}]}}\n"
        )
    };
    let tasks: String = (0..40).map(task).collect();
    // Without a journal tasks outlive a killed run: what they write appears in one piece.
    folder.write("flow.yaml", format!("name: many\ntasks:\n{tasks}")).write("in.txt", "in\n");
    for round in 0..12 {
        let mut child = folder.command(&RUN);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("mdts runs");
        std::thread::sleep(Duration::from_millis(40 + 23 * round));
        child.kill().ok(); // it may have ended
        child.wait().expect("waited for");
    }
    let report = folder.json(&RUN);
    assert_eq!(report["succeeded"], 40);
    assert!(report["cached"].as_u64().is_some_and(|cached| cached > 0), "{report}");
    for i in 0..40 {
        fs::remove_file(folder.path(&format!("o{i}"))).expect("it was there");
    }
    assert_eq!(folder.json(&RUN)["cached"], 40);
    for i in 0..4_usize {
        let steps: Vec<String> = (0..10).map(|step| (i + 4 * step).to_string()).collect();
        assert_eq!(folder.read(&format!("o{}", i + 36)), format!("in\n{}\n", steps.join("\n")));
    }
}

#[test]
fn a_resumed_run_uses_the_cache_that_it_began_with() {
    let folder = bench();
    folder.json(&[&RUN[..5], &["--journal", "run1"]].concat());
    let failing = chain("").replace("echo x >> trace-c", "test -e mended");
    folder.write("flow.yaml", failing);
    let args = ["run", "flow.yaml", "--cache", "kept", "--json", "--journal", "run2"];
    let called = folder.mdts(&args);
    assert_eq!((called.status, called.json()["cached"].as_u64()), (1, Some(2)), "{}", called.stderr);
    folder.write("mended", "");
    assert_eq!(folder.mdts(&["retry", "--journal", "run2"]).status, 0);
    fs::remove_dir_all(folder.path("kept")).expect("removed");
    folder.json(&["run", "--resume", "--journal", "run2", "--json"]);
    assert!(folder.path("kept/version").exists());
}

/// Action and reason of every task, by name.
fn told(folder: &Folder) -> Vec<(String, String)> {
    let report = folder.json(&[&RUN[..], &["--dry-run"]].concat());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let tasks = report["tasks"].as_array().expect("a list");
    assert_eq!(report["run"].as_u64().zip(report["up_to_date"].as_u64()).map(|(a, b)| a + b), Some(3));
    let mut told: Vec<_> = tasks.iter().map(|task| (text(&task["action"]), text(&task["why"]))).collect();
    let names: Vec<_> = tasks.iter().map(|task| text(&task["task"])).collect();
    assert_eq!(names, ["a", "b", "c"], "by start");
    told.truncate(2);
    told
}

#[test]
fn a_dry_run_tells_what_would_run_and_why() {
    let folder = bench();
    let told = |folder: &Folder| {
        let told = told(folder);
        [told[0].clone(), told[1].clone()].map(|(action, why)| format!("{action}: {why}"))
    };
    let behind = "run: depends on 'a', which runs";
    assert_eq!(told(&folder), ["run: no record of an earlier success", behind]);
    assert_eq!(folder.files(), ["flow.yaml", "in.txt"], "nothing is made");
    run(&folder);
    assert_eq!(told(&folder), ["up-to-date: ", "up-to-date: "]);
    fs::remove_file(folder.path("out.txt")).expect("removed");
    assert_eq!(told(&folder), ["up-to-date: ", "restore: output 'out.txt' comes from the cache"]);
    fs::remove_dir_all(folder.path("kept/objects")).expect("removed");
    assert_eq!(told(&folder), ["up-to-date: ", "run: output 'out.txt' is missing or changed"]);
    folder.write("in.txt", "two\n");
    assert_eq!(told(&folder), ["run: input 'in.txt' changed", behind]);
    fs::remove_file(folder.path("in.txt")).expect("removed");
    assert_eq!(told(&folder), ["run: input 'in.txt': it is not there", behind]);
    folder.write("in.txt", "one\n").write("flow.yaml", chain("").replace("head -n 1", "head -n 2"));
    assert_eq!(told(&folder), ["run: its command or environment changed", behind]);
    let text = folder.mdts(&["run", "flow.yaml", "--cache", "kept", "--dry-run"]).stdout;
    assert!(text.contains("chain: 3 of 3 tasks would run; cache kept"), "{text}");
    assert!(text.contains("its command or environment changed"), "{text}");
    assert_eq!(folder.read("trace-a"), "x\n", "nothing ran");
}

#[test]
fn without_a_cache_a_dry_run_tells_where() {
    let folder = bench();
    let text = folder.mdts(&["run", "flow.yaml", "--dry-run"]).stdout;
    assert!(text.contains("3 of 3 tasks would run; --cache DIR skips those"), "{text}");
    let report = folder.json(&["run", "flow.yaml", "--dry-run", "--json"]);
    assert!(report["cache"].is_null() && report["tasks"][0]["why"].is_null());
    assert!(report["tasks"][2]["node"].is_string() && report["tasks"][2]["start"].is_number());
    assert_eq!(folder.files(), ["flow.yaml", "in.txt"]);
}

#[test]
fn room_is_made_in_a_cache() {
    let folder = Folder::new();
    let task = |i: usize| {
        format!(
            "  - {{name: t{i}, command: [sh, -c, \"echo x >> ran{i}; head -c 100000 /dev/zero | tr '\\\\0' {i} > out{i}\"], outputs: [out{i}]}}\n"
        )
    };
    let ran = |i: usize| folder.read(&format!("ran{i}")).len() / 2;
    let run = |tasks: &[usize]| {
        let lines: String = tasks.iter().map(|i| task(*i)).collect();
        folder.write("flow.yaml", format!("name: room\ntasks:\n{lines}"));
        assert_eq!(folder.json(&RUN)["succeeded"], tasks.len());
    };
    let cache = |more: &[&str]| folder.json(&[&["cache", "kept", "--json"], more].concat());
    assert!(folder.mdts(&["cache", "kept"]).stderr.contains("there is no cache here"));
    for i in 0..3 {
        run(&[i]);
        std::thread::sleep(Duration::from_millis(30));
    }
    let numbers =
        |report: &Value| ["records", "objects", "bytes"].map(|key| report[key].as_u64().unwrap_or(u64::MAX));
    assert_eq!(numbers(&cache(&[])), [3, 3, 300_000]);
    let text = folder.mdts(&["cache", "kept", "--older-than", "1h"]).stdout;
    assert_eq!(text, "3 tasks known, 3 outputs with 0.3 MiB\n");
    // What is young stays as contents, though no record names it: a run might be about to.
    assert_eq!(numbers(&cache(&["--keep-size", "250000"])), [2, 3, 300_000], "the oldest is forgotten");
    let old = std::time::SystemTime::now() - Duration::from_hours(3);
    let mut found = Vec::new();
    files(&folder.path("kept/objects"), &mut found);
    for path in &found {
        let file = fs::File::options().write(true).open(path).expect("opened");
        file.set_modified(old).expect("set");
    }
    assert_eq!(numbers(&cache(&["--keep-size", "250kB"])), [2, 2, 200_000]);
    run(&[0, 1, 2]);
    assert_eq!([0, 1, 2].map(ran), [2, 1, 1], "what was forgotten has run again");
    assert_eq!(numbers(&cache(&["--keep-size", "0"])), [0, 0, 0]);
    run(&[0, 1, 2]);
    assert_eq!([0, 1, 2].map(ran), [3, 2, 2]);
    assert_eq!(numbers(&cache(&["--older-than", "0"]))[0], 0);
    assert_eq!(folder.mdts(&["cache", "kept", "--keep-size", "x"]).status, 2);
}

#[test]
fn permissions_come_back_with_the_contents() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let make = |name: &str, mode| {
        format!(
            "  - {{name: {name}, command: [sh, -c, \"echo same > {name}; chmod {mode} {name}\"], outputs: [{name}]}}\n"
        )
    };
    folder.write("flow.yaml", format!("tasks:\n{}{}", make("tool", 755), make("text", 600)));
    let modes = || {
        ["tool", "text"]
            .map(|name| fs::metadata(folder.path(name)).expect("it is there").permissions().mode() & 0o777)
    };
    folder.json(&RUN);
    assert_eq!(modes(), [0o755, 0o600]);
    for name in ["tool", "text"] {
        fs::remove_file(folder.path(name)).expect("removed");
    }
    assert_eq!(folder.json(&RUN)["cached"], 2);
    assert_eq!(modes(), [0o755, 0o600]);
    fs::set_permissions(folder.path("tool"), fs::Permissions::from_mode(0o644)).expect("set");
    assert_eq!(folder.json(&RUN)["cached"], 2);
    assert_eq!(modes(), [0o755, 0o600]);
}

#[test]
fn folders_come_back_with_all_that_was_in_them() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let script = "echo x >> trace; mkdir -p out/in/empty; cp in.txt out/a; cp in.txt out/in/b; chmod 750 out/in/b; ln -sf a out/link; \
                  chmod 555 out/in/empty";
    let flow = |more: &str| {
        format!(
            "tasks:\n  - {{name: a, command: [sh, -c, \"{script}\"], inputs: [in.txt], outputs: [out]}}\n  \
             - {{name: b, command: [sh, -c, \"cat out/a out/in/b > sum\"], inputs: [out], outputs: [sum]}}\n{more}"
        )
    };
    folder.write("flow.yaml", flow("")).write("in.txt", "one\n");
    let check = |cached: u64, ran: usize| {
        let report = folder.json(&RUN);
        assert_eq!((&report["succeeded"], &report["cached"]), (&report["tasks"], &cached.into()), "{report}");
        assert_eq!(folder.read("trace").lines().count(), ran);
        let mode = |name: &str| fs::metadata(folder.path(name)).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode("out/in/b"), mode("out/in/empty")), (0o750, 0o555));
        assert_eq!(fs::read_link(folder.path("out/link")).expect("a link"), Path::new("a"));
        assert_eq!(folder.read("sum"), folder.read("in.txt").repeat(2));
    };
    check(0, 1);
    check(2, 1);
    // All of it is gone; a file and permissions are changed; a file is gone.
    fs::rename(folder.path("out"), folder.path("away")).expect("moved");
    check(2, 1);
    folder.write("out/a", "spoilt");
    fs::set_permissions(folder.path("out/in/b"), fs::Permissions::from_mode(0o600)).expect("set");
    check(2, 1);
    fs::remove_file(folder.path("out/in/b")).expect("removed");
    check(2, 1);
    let left: Vec<_> =
        fs::read_dir(folder.path("")).expect("read").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".mdts-")), "{left:?}");
    // What comes from another input takes the place of what was there, which comes back.
    folder.write("in.txt", "two\n");
    check(0, 2);
    folder.write("in.txt", "one\n");
    check(2, 2);
    // What nobody has kept is not thrown away: the task runs.
    folder.write("out/mine", "notes");
    check(0, 3);
    assert_eq!(folder.read("out/mine"), "notes");
    check(2, 3);
    // Room is made without losing what a record names.
    let cache = |more: &[&str]| folder.json(&[&["cache", "kept", "--json"], more].concat());
    let before = cache(&[]);
    assert_eq!(cache(&["--keep-size", "1GiB"]), before);
    fs::remove_file(folder.path("out/a")).expect("removed");
    check(2, 3);
    // Another task writes into the folder: to bring it back would take that away.
    folder.write("flow.yaml", flow("  - {name: c, command: [touch, out/c], after: [a], outputs: [out/c]}\n"));
    fs::remove_file(folder.path("out/mine")).expect("removed");
    let told = folder.mdts(&["run", "flow.yaml", "--cache", "other", "--json"]).stderr;
    assert!(told.contains("'out/c', of another task, is in it; such a folder is not kept"), "{told}");
}
