//! What is wrong is told on one line with place and remedy, with status 2, and leaves nothing behind.

use crate::{DIAMOND, Folder, PAIR};

/// Files, arguments, and parts of the message.
type Case = (&'static [(&'static str, &'static [u8])], &'static [&'static str], &'static [&'static str]);

const GOOD: (&str, &[u8]) = ("good.yaml", DIAMOND.as_bytes());
const CLUSTER: (&str, &[u8]) = ("pair.toml", PAIR.as_bytes());
const WITH_OUTPUT: &[&str] = &["-o", "out.json", "--gantt", "out.svg"];

const CASES: &[Case] = &[
    // workflows
    (&[], &["plan", "missing.json"], &["missing.json", "check the path"]),
    (&[("a.json", b"")], &["plan", "a.json"], &["a.json", "empty"]),
    (&[("a.json", b"{\"workflow\": {")], &["plan", "a.json"], &["a.json", "line 1"]),
    (&[("a.json", b"\xff\xfe{}")], &["plan", "a.json"], &["a.json", "UTF-8"]),
    (&[("a.yaml", b"tasks: []")], &["plan", "a.yaml"], &["a.yaml", "no tasks"]),
    (&[("a.yaml", b"tasks: [{name: a, work: soon}]")], &["plan", "a.yaml"], &["a.yaml", "soon"]),
    (&[("a.yaml", b"tasks: [{name: a, work: -1}]")], &["plan", "a.yaml"], &["a.yaml", "'a'", "-1"]),
    (&[("a.yaml", b"tasks: [{name: a}, {name: a}]")], &["plan", "a.yaml"], &["a.yaml", "'a'", "unique"]),
    (&[("a.yaml", b"tasks: [{name: a, after: [bb]}]")], &["plan", "a.yaml"], &["a.yaml", "'bb'"]),
    (
        &[("a.yaml", b"tasks: [{name: a, after: [b]}, {name: b, after: [a]}]")],
        &["plan", "a.yaml"],
        &["a.yaml", "cycle", "a -> b -> a"],
    ),
    (&[("a.dag", b"?")], &["plan", "a.dag"], &["a.dag", "format"]),
    (
        &[("a.dax", b"<!DOCTYPE x [<!ENTITY a \"aa\"><!ENTITY b \"&a;&a;\">]><adag>&b;</adag>")],
        &["plan", "a.dax"],
        &["a.dax"],
    ),
    (&[("a.yaml.gz", b"\x1f\x8b\x08\x00junk")], &["plan", "a.yaml.gz"], &["a.yaml.gz"]),
    // clusters
    (&[GOOD], &["plan", "good.yaml", "--cluster", "none.toml"], &["none.toml", "check the path"]),
    (
        &[GOOD, ("c.toml", b"")],
        &["plan", "good.yaml", "--cluster", "c.toml"],
        &["c.toml", "at least one node"],
    ),
    (
        &[GOOD, ("c.toml", b"[[node]]\nname = \"a\"\nspeed = 0.0\n")],
        &["plan", "good.yaml", "--cluster", "c.toml"],
        &["c.toml", "'a'", "speed is 0", "expected a number from 1e-9 to 1e9"],
    ),
    (
        &[GOOD, ("c.toml", b"[[node]]\nname = \"a\"\ncores = 0\n")],
        &["plan", "good.yaml", "--cluster", "c.toml"],
        &["c.toml", "'a'", "cores is 0"],
    ),
    (
        &[GOOD, ("c.toml", b"[[node]]\nname = \n")],
        &["plan", "good.yaml", "--cluster", "c.toml"],
        &["c.toml", "line 2"],
    ),
    (
        &[CLUSTER, ("a.yaml", b"tasks: [{name: big, work: 1, gpus: 4}]")],
        &["plan", "a.yaml", "--cluster", "pair.toml"],
        &["a.yaml", "'big'", "4 gpus", "pair.toml"],
    ),
    (
        &[CLUSTER, ("a.yaml", b"tasks: [{name: a, times: {P9: 1}}]")],
        &["plan", "a.yaml", "--cluster", "pair.toml"],
        &["a.yaml", "'P9'", "pair.toml"],
    ),
    // settings and flags
    (&[GOOD], &["plan", "good.yaml", "--policy", "hefft"], &["'hefft'", "did you mean 'heft'?"]),
    (&[GOOD], &["compare", "good.yaml", "--policies", "heft,ramdom"], &["did you mean 'random'?"]),
    (&[GOOD], &["compare", "good.yaml", "--policies", ","], &["--policies", "all"]),
    (&[GOOD], &["compare", "good.yaml", "--noise", "-1"], &["noise is -1"]),
    (&[GOOD], &["compare", "good.yaml", "--affinity", "1.5"], &["affinity is 1.5"]),
    (&[GOOD], &["compare", "good.yaml", "--failures", "NaN"], &["failures is NaN"]),
    // budgets
    (&[GOOD], &["plan", "good.yaml", "--budget", "0"], &["'0'", "--budget", "more than 0", "for example 10"]),
    (&[GOOD], &["plan", "good.yaml", "--budget", "-1"], &["'-1'", "--budget", "more than 0"]),
    (&[GOOD], &["plan", "good.yaml", "--budget", "NaN"], &["'NaN'", "--budget", "more than 0"]),
    (&[GOOD], &["plan", "good.yaml", "--budget", "inf"], &["'inf'", "--budget", "at most 1e9"]),
    (&[GOOD], &["plan", "good.yaml", "--budget", "1e300"], &["'1e300'", "--budget", "at most 1e9"]),
    (&[GOOD], &["plan", "good.yaml", "--budget", "1h"], &["'1h'", "--budget", "seconds", "for example 10"]),
    (&[GOOD], &["run", "good.yaml", "--budget", "0"], &["--budget", "more than 0"]),
    (&[GOOD], &["compare", "good.yaml", "--budget", "-5"], &["'-5'", "--budget", "more than 0"]),
    (&[GOOD], &["plan", "good.yaml", "--iterations", "0"], &["'0'", "--iterations", "at least 1"]),
    (&[GOOD], &["plan", "good.yaml", "--iterations", "-7"], &["'-7'", "--iterations", "at least 1"]),
    (&[GOOD], &["plan", "good.yaml", "--iterations", "1.5"], &["'1.5'", "--iterations", "whole number"]),
    (
        &[GOOD],
        &["plan", "good.yaml", "--iterations", "9", "--budget", "9"],
        &["--iterations", "cannot be used with", "--budget"],
    ),
    (
        &[GOOD, ("c.toml", b"[network]\nbandwidth = 0\n[[node]]\nname = \"a\"\n")],
        &["plan", "good.yaml", "--cluster", "c.toml", "--budget", "1"],
        &["c.toml", "bandwidth is 0"],
    ),
    (&[GOOD], &["run", "good.yaml", "--emulate", "-2"], &["-2", "at least 0"]),
    (&[GOOD], &["run", "good.yaml"], &["good.yaml", "no command", "--emulate"]),
    (&[("mdts.toml", b"polcy = 1")], &["plan"], &["mdts.toml", "'polcy'", "did you mean 'policy'?"]),
    (
        &[("mdts.toml", b"slots = \"both\"")],
        &["plan"],
        &["mdts.toml", "slots", "'both'", "exclusive or resources"],
    ),
    (&[("mdts.toml", b"seed = \"x\"")], &["plan"], &["mdts.toml", "seed", "whole number"]),
    (&[("mdts.toml", b"seed = true")], &["plan"], &["mdts.toml", "seed", "'true'", "whole number"]),
    (&[("mdts.toml", b"seed = ")], &["plan"], &["mdts.toml", "line 1"]),
    // outputs
    (
        &[("a.yaml", b"tasks: [{name: a, work: 1, command: [\"true\"]}]")],
        &["run", "a.yaml", "--logs", "a.yaml/logs"],
        &["a.yaml/logs", "cannot be written"],
    ),
    (&[GOOD], &["plan", "good.yaml", "-o", "no/such/plan.json"], &["no/such/plan.json", "cannot be written"]),
    (&[GOOD], &["plan", "good.yaml", "--gantt", "no/such/a.svg"], &["no/such/a.svg", "cannot be written"]),
    (&[GOOD], &["plan", "good.yaml", "--gantt", "a.png"], &["a.png", ".svg or .html"]),
    (&[GOOD], &["plan", "good.yaml", "-o", "."], &["cannot be written"]),
    (&[GOOD], &["compare", "good.yaml", "--plot", "a.pdf"], &["a.pdf", ".svg or .html"]),
    (&[GOOD], &["convert", "good.yaml", "no/such/a.json"], &["no/such/a.json", "cannot be written"]),
    (&[GOOD], &["convert", "good.yaml", "a.xls"], &["a.xls", ".dot"]),
    (&[GOOD], &["convert", "good.yaml", "a.dax"], &["DAX", "only read"]),
    (&[GOOD], &["convert", "good.yaml"], &["IN OUT"]),
    (&[GOOD], &["convert", "good.yaml", "-"], &["--to"]),
    (&[], &["convert", "--generate", "fftt", "a.json"], &["did you mean 'fft'?"]),
];

#[test]
fn bad_input_is_told_on_one_line() {
    for (files, args, parts) in CASES {
        let folder = Folder::new();
        files.iter().for_each(|(name, content)| _ = folder.write(name, content));
        let before = folder.files();
        let more = if args[0] == "plan" && !args.contains(&"-o") && !args.contains(&"--gantt") {
            WITH_OUTPUT
        } else {
            &[]
        };
        let called = folder.mdts(&[args, more].concat());
        let message = called.stderr.as_str();
        assert_eq!(called.status, 2, "{args:?}: {message}");
        assert_eq!(called.stdout, "", "{args:?}");
        assert!(message.starts_with("error: ") && message.lines().count() == 1, "{args:?}: {message}");
        for part in *parts {
            assert!(message.contains(part), "{args:?}: no {part:?} in {message}");
        }
        assert_eq!(folder.files(), before, "{args:?}: something was left behind");
    }
}

#[test]
fn usage_errors_have_status_2() {
    let folder = Folder::new();
    for args in
        [&["fly"][..], &["plan", "--fly"], &["plan", "--slots", "both"], &["plan", "--seed", "x"], &[]]
    {
        assert_eq!(folder.mdts(args).status, 2, "{args:?}");
    }
}

#[test]
fn an_old_file_survives_a_failure() {
    let folder = Folder::new();
    folder.write("plan.json", "old").write("bad.yaml", "tasks: []");
    assert_eq!(folder.mdts(&["plan", "bad.yaml", "-o", "plan.json"]).status, 2);
    assert_eq!(folder.read("plan.json"), "old");
}

#[test]
fn deep_nesting_is_refused() {
    let folder = Folder::new();
    let deep = "[".repeat(200_000);
    for name in ["deep.json", "deep.yaml", "deep.toml"] {
        folder.write(name, if name.ends_with("toml") { format!("a = {deep}") } else { deep.clone() });
        let called = folder.mdts(&["inspect", name]);
        assert_eq!((called.status, called.stderr.lines().count()), (2, 1), "{name}: {}", called.stderr);
    }
}
