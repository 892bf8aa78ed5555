//! `mdts train`: what it writes, keeps and refuses, kills and interrupts; and `--weights`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Called, Folder, assert_keys, diamond};

/// Rounds of a few milliseconds.
const TINY: &str = "imitation = 0\nsearch = 50\ngenerations = 0\ntrials = 10\njobs = 2\nupdates = 1\nbatch = 8\nmemory = 60\nnodes = 8\n";
const DEADLINE: Duration = Duration::from_mins(2);

fn folder(rounds: u32) -> Folder {
    let folder = diamond();
    folder.write("tiny.toml", format!("rounds = {rounds}\n{TINY}"));
    folder
}

/// Weights of a short training.
fn trained() -> Folder {
    let folder = folder(1);
    folder.json(&["train", "w.st", "--config", "tiny.toml", "--json"]);
    folder
}

fn bytes(folder: &Folder, name: &str) -> Vec<u8> {
    std::fs::read(folder.path(name)).expect("there")
}

fn refused(folder: &Folder, args: &[&str], parts: &[&str]) {
    let called = folder.mdts(args);
    assert_eq!((called.status, called.stdout.as_str()), (2, ""), "{args:?}: {}", called.stderr);
    assert_eq!(called.stderr.lines().count(), 1, "{args:?}: {}", called.stderr);
    for part in parts {
        assert!(called.stderr.contains(part), "{args:?}: no {part:?} in {}", called.stderr);
    }
}

#[test]
fn a_training_writes_weights_curve_and_picture() {
    let folder = folder(2);
    let args =
        ["train", "w.st", "--config", "tiny.toml", "--measure", "2", "--curve", "c.csv", "--plot", "c.svg"];
    let phases = ["--imitation", "2", "--generations", "2"];
    let report = folder.json(&[&args[..], &phases, &["--jobs", "diamond.yaml", "--json"]].concat());
    assert_keys(
        &report,
        &["out", "state", "rounds", "round", "best", "score", "replaced", "curve", "seconds"],
    );
    assert_eq!((&report["round"], &report["replaced"]), (&6.into(), &true.into()));
    let rounds: Vec<_> = report["curve"].as_array().expect("a list").iter().map(|r| &r["round"]).collect();
    assert_eq!(rounds, [0, 2, 4, 6]);
    assert!((report["curve"][0]["plan"].as_f64().expect("measured") - 1.0).abs() < 1e-9, "it begins as HEFT");
    let csv = folder.read("c.csv");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][..3], ["round", "phase", "reward"]);
    let phases: Vec<&str> = lines[1..].iter().map(|line| line[1]).collect();
    assert_eq!(phases, ["imitation", "imitation", "lessons", "runs"]);
    assert!(lines.len() == 5 && lines.iter().all(|line| line.len() == lines[0].len()), "{csv}");
    let mut numbers = lines[1..].iter().flat_map(|line| [&line[..1], &line[2..]].concat());
    assert!(numbers.all(|cell| cell.parse::<f64>().is_ok_and(f64::is_finite)), "{csv}");
    let picture = folder.read("c.svg");
    assert!(crate::pictures::elements(&picture).len() > 20);
    assert!(picture.contains("runs / online EFT"));
    let files = ["c.csv", "c.svg", "diamond.yaml", "pair.toml", "tiny.toml", "w.st", "w.st.state"];
    assert_eq!(folder.files(), files);
}

#[test]
fn progress_is_told_unless_nobody_wants_it() {
    let folder = folder(2);
    let args = ["train", "--config", "tiny.toml", "--measure", "1"];
    let called = folder.mdts(&args);
    assert_eq!(called.status, 0, "{}", called.stderr);
    for part in ["round 1 of 2: reward ", " x HEFT", " x EFT", "lessons"] {
        assert!(called.stderr.contains(part), "no {part:?} in {}", called.stderr);
    }
    assert!(called.stdout.contains("mdts.safetensors has the weights of round"), "{}", called.stdout);
    let again = folder.mdts(&[&args[..], &["--resume", "-q"]].concat());
    assert_eq!((again.status, again.stdout.as_str(), again.stderr.as_str()), (0, "", ""));
}

#[test]
fn worse_weights_never_replace_better_ones() {
    let folder = trained();
    refused(&folder, &["train", "w.st", "--config", "tiny.toml"], &["w.st", "--resume", "--force"]);
    // Steps so long that what is learnt does not last.
    folder.write("wild.toml", format!("rounds = 8\nrate = 0.9\nshare = 1.0\n{TINY}"));
    let args = ["train", "w.st", "--config", "wild.toml", "--measure", "1", "--force", "--json"];
    let report = folder.json(&args);
    let scores: Vec<f64> = report["curve"].as_array().expect("a list").iter().map(score).collect();
    let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(scores.len() == 9 && scores[8] > least, "the last is worse than the best: {scores:?}");
    assert_eq!(score(&report["best"]), least);
    // An untrained network is as good as the first of them at best.
    let best = bytes(&folder, "w.st");
    let args = ["train", "w.st", "--config", "tiny.toml", "--seed", "2", "--force", "--json"];
    let report = folder.json(&args);
    assert_eq!(report["replaced"], Value::Bool(false));
    assert!((score(&report["best"]) - least).abs() < 1e-12, "{report}");
    assert_eq!(bytes(&folder, "w.st"), best);
    // The state now belongs to the other training.
    let args = ["train", "w.st", "--config", "tiny.toml", "--resume"];
    refused(&folder, &args, &["w.st.state", "resumed training", "--force"]);
    folder.write("w.st", "something else");
    refused(&folder, &["train", "w.st", "--force"], &["w.st", "cannot be compared"]);
    assert_eq!(folder.read("w.st"), "something else");
}

fn score(round: &Value) -> f64 {
    let ratio = |key: &str| round[key].as_f64().expect("measured");
    (ratio("plan") * ratio("run")).sqrt()
}

fn spawn(folder: &Folder, args: &[&str]) -> Child {
    folder.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mdts runs")
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < DEADLINE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn assert_whole(folder: &Folder, weights: &Path) {
    let weights = weights.to_str().expect("UTF-8");
    folder.json(&["plan", "diamond.yaml", "--policy", "mdts-raw", "--weights", weights, "--json"]);
}

#[test]
fn killed_trainings_resume_and_end_as_if_nothing_had_happened() {
    let (killed, whole) = (folder(8), folder(8));
    let args = ["train", "w.st", "--config", "tiny.toml", "--measure", "1", "--curve", "c.csv", "--json"];
    let expected = whole.json(&args);
    let state = killed.path("w.st.state");
    for (i, pause) in [0, 30, 60].into_iter().enumerate() {
        let before = std::fs::read(&state).ok();
        let resume: &[&str] = if i == 0 { &[] } else { &["--resume"] };
        let mut child = spawn(&killed, &[&args[..], resume].concat());
        let has_ended = |child: &mut Child| child.try_wait().expect("a status").is_some();
        let begin = Instant::now();
        while std::fs::read(&state).ok() == before && !has_ended(&mut child) {
            assert!(begin.elapsed() < DEADLINE, "no state comes");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(pause));
        child.kill().expect("killed"); // SIGKILL
        child.wait().expect("gone");
        assert_whole(&killed, &killed.path("w.st"));
    }
    let report = killed.json(&[&args[..], &["--resume"]].concat());
    for key in ["round", "best", "score", "curve"] {
        assert_eq!(report[key], expected[key], "{key}");
    }
    assert_eq!(bytes(&killed, "w.st"), bytes(&whole, "w.st"));
    assert_eq!(bytes(&killed, "w.st.state"), bytes(&whole, "w.st.state"));
    assert_eq!(killed.read("c.csv"), whole.read("c.csv"));
}

#[test]
fn ctrl_c_ends_after_the_round_with_everything_saved() {
    let folder = folder(1_000_000);
    let child = spawn(&folder, &["train", "w.st", "--config", "tiny.toml", "--json"]);
    until("the state", || folder.path("w.st.state").exists());
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.expect("kill runs").success());
    let called = Called::from(child.wait_with_output().expect("ended"));
    assert_eq!(called.status, 0, "{}", called.stderr);
    let report = called.json();
    assert_eq!(report["interrupted"], Value::Bool(true));
    assert_whole(&folder, &folder.path("w.st"));
    refused(&folder, &["train", "w.st", "--resume", "--seed", "9"], &["'seed'", "found 9, expected 1"]);
    refused(&folder, &["train", "w.st", "--resume", "--jobs", "diamond.yaml"], &["graphs", "--jobs"]);
    refused(
        &folder,
        &["train", "w.st", "--resume", "--measure", "7"],
        &["'measure'", "found 7, expected 20"],
    );
}

#[test]
fn the_seed_may_come_from_the_environment() {
    let folder = folder(1);
    let output = folder.command(&["train", "w.st", "--config", "tiny.toml"]).env("MDTS_SEED", "9").output();
    assert!(output.expect("mdts runs").status.success());
    refused(&folder, &["train", "w.st", "--resume", "--seed", "1"], &["'seed'", "found 1, expected 9"]);
    assert_eq!(folder.mdts(&["train", "w.st", "--resume"]).status, 0);
}

#[test]
fn what_cannot_be_trained_is_refused_before_it_begins() {
    let folder = folder(1);
    folder.write("odd.toml", "layers = 3").write("none.toml", "rounds = 0").write("text.toml", "rounds = [");
    folder.write("big.yaml", "tasks: [{name: a, work: 1, gpus: 4}]");
    let table: [(&[&str], &[&str]); 9] = [
        (&["no/such/w.st"], &["no/such/w.st", "folder that exists"]),
        (&["."], &["cannot be written"]),
        (&["w.st", "--curve", "w.st"], &["w.st", "twice"]),
        (&["w.st", "--plot", "c.png"], &["c.png", ".svg"]),
        (&["w.st", "--config", "odd.toml"], &["odd.toml", "layers"]),
        (&["w.st", "--config", "none.toml"], &["rounds", "at least 1"]),
        (&["w.st", "--config", "text.toml"], &["text.toml"]),
        (&["w.st", "--jobs", "missing.json"], &["missing.json"]),
        (&["w.st", "--jobs", "big.yaml"], &["big.yaml", "'a'", "leave this one out"]),
    ];
    for (args, parts) in table {
        refused(&folder, &[&["train"], args].concat(), parts);
    }
    assert!(!folder.files().iter().any(|name| name.contains("w.st") || name.contains("tmp")));
}

#[test]
fn learned_policies_take_their_weights_from_a_file() {
    let folder = trained();
    let base = ["--cluster", "pair.toml", "--weights", "w.st", "--json"];
    let plan =
        |policy: &str| folder.json(&[&["plan", "diamond.yaml", "--policy", policy], &base[..]].concat());
    let heft = folder.json(&["plan", "diamond.yaml", "--cluster", "pair.toml", "--json"]);
    // The weights of the first round are those of an untrained network, which plans like HEFT.
    assert_eq!(plan("mdts-raw")["makespan"], heft["makespan"]);
    assert_eq!(plan("mdts")["policy"], "mdts");
    let compared = ["compare", "diamond.yaml", "--policies", "heft,mdts-raw", "--noise", "0.2"];
    assert_eq!(folder.json(&[&compared[..], &base].concat())["rows"].as_array().expect("rows").len(), 2);
    let run = ["run", "diamond.yaml", "--emulate", "0", "--policy", "mdts", "--iterations", "5"];
    assert_eq!(folder.json(&[&run[..], &base].concat())["succeeded"], 4);
    // From the environment and from the file of settings, where a policy without weights is no fault.
    let plan = ["plan", "diamond.yaml", "--policy", "mdts-raw"];
    let called = folder.command(&plan).env("MDTS_WEIGHTS", "none.st").output().expect("mdts runs");
    assert!(String::from_utf8_lossy(&called.stderr).contains("none.st: cannot be read"));
    folder.write("mdts.toml", "weights = \"none.st\"");
    refused(&folder, &plan, &["none.st: cannot be read"]);
    assert_eq!(folder.mdts(&["plan", "diamond.yaml"]).status, 0);
    refused(&folder, &["plan", "diamond.yaml", "--weights", "w.st"], &["mdts and mdts-raw", "not for heft"]);
}

#[test]
fn every_bad_file_of_weights_gets_its_error() {
    let folder = trained();
    let good = bytes(&folder, "w.st");
    folder.write("half.st", &good[..good.len() / 2]).write("text.st", "weights").write("empty.st", "");
    let mut broken = good.clone();
    let end = broken.len();
    broken[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    folder.write("nan.st", &broken);
    let version = b"\\\"features\\\":";
    let at = good.windows(version.len()).position(|part| part == version).expect("a version") + version.len();
    let mut other = good;
    other[at] = b'9';
    folder.write("other.st", &other);
    let table: [(&str, &[&str]); 7] = [
        ("half.st", &["half.st", "not a whole checkpoint"]),
        ("text.st", &["text.st", "not a whole checkpoint"]),
        ("empty.st", &["empty.st", "not a whole checkpoint"]),
        ("nan.st", &["nan.st", "is not finite"]),
        ("other.st", &["other.st", "feature version 9", "train it again"]),
        ("w.st.state", &["is missing in the checkpoint"]),
        ("missing.st", &["missing.st", "check the path"]),
    ];
    for (file, parts) in table {
        refused(&folder, &["plan", "diamond.yaml", "--policy", "mdts", "--weights", file], parts);
        refused(
            &folder,
            &["compare", "diamond.yaml", "--policies", "heft,mdts-raw", "--weights", file],
            parts,
        );
        refused(
            &folder,
            &["run", "diamond.yaml", "--policy", "mdts-raw", "--emulate", "0", "--weights", file],
            parts,
        );
    }
}
