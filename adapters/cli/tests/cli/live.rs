//! The live view of a run on a terminal, which the program `script` makes.

use std::process::Command;

use crate::{Called, Folder};

#[test]
fn a_terminal_shows_what_runs_where_and_until_when() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: a_terminal_shows_what_runs_where_and_until_when needs the program script");
        return;
    }
    let folder = Folder::new();
    folder.write(
        "flow.yaml",
        "tasks: [{name: quick, work: 1}, {name: slow, work: 4}, {name: last, work: 1, after: [slow]}]",
    );
    folder.write("two.toml", "[[node]]\nname = \"left\"\n[[node]]\nname = \"right\"\n");
    let run = format!(
        "{} run flow.yaml --cluster two.toml --emulate 0.5 --json > report.json",
        env!("CARGO_BIN_EXE_mdts")
    );
    let mut command = Command::new("script");
    command.args(["-qec", &run, "/dev/null"]).current_dir(folder.path("")).env("TERM", "xterm");
    command.stdin(std::process::Stdio::null());
    let called = Called::from(command.output().expect("script runs"));
    assert_eq!(called.status, 0, "{}", called.stdout);
    let shown = &called.stdout;
    for expected in ["/3 tasks", "running", "slow", "left: ", " left"] {
        assert!(shown.contains(expected), "{expected} in {shown:?}");
    }
    let frames = shown.matches("/3 tasks").count();
    assert!((3..=20).contains(&frames), "{frames} updates in three seconds");
    assert!(folder.read("report.json").contains("\"succeeded\":3"));
}
