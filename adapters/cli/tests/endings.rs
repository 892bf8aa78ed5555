//! How a run ends when nobody reads what it prints, when it is killed, and when the chart cannot be written.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Longest that any run here may take.
const DEADLINE: Duration = Duration::from_mins(1);

fn workflow(folder: &Path, script: &str) -> std::io::Result<()> {
    let text = format!("tasks:\n  - {{name: a, work: 0.1, command: [sh, -c, \"{script}\"]}}\n");
    std::fs::write(folder.join("w.yaml"), text)
}

fn run(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mdts"));
    command.current_dir(folder).args(["run", "w.yaml"]).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn wait(child: &mut Child) -> Result<ExitStatus, Box<dyn std::error::Error>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begin.elapsed() > DEADLINE {
            child.kill()?;
            return Err("the run does not end".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn until_exists(path: &Path) -> Outcome {
    let begin = Instant::now();
    while !path.exists() {
        if begin.elapsed() > DEADLINE {
            return Err(format!("{} does not appear", path.display()).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
fn the_work_is_done_though_nobody_reads() -> Outcome {
    for arguments in [&[][..], &["--json"]] {
        let folder = tempfile::tempdir()?;
        workflow(folder.path(), "touch RAN; exit 3")?;
        let mut child = run(folder.path(), arguments).spawn()?;
        drop(child.stdout.take());
        assert_eq!(wait(&mut child)?.code(), Some(1), "the task failed");
        assert!(folder.path().join("RAN").exists());
    }
    Ok(())
}

#[test]
fn a_polite_kill_stops_the_tasks_too() -> Outcome {
    let folder = tempfile::tempdir()?;
    workflow(folder.path(), "touch BEGUN; sleep 2; touch SURVIVED")?;
    let mut child = run(folder.path(), &["--gantt", "chart.svg"]).spawn()?;
    until_exists(&folder.path().join("BEGUN"))?;
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
    assert!(killed.success());
    assert_eq!(wait(&mut child)?.code(), Some(1));
    std::thread::sleep(Duration::from_secs(3));
    assert!(!folder.path().join("SURVIVED").exists(), "a task was left behind");
    let names: Vec<_> = std::fs::read_dir(folder.path())?.flatten().map(|e| e.file_name()).collect();
    assert!(!names.iter().any(|n| n.to_string_lossy().ends_with(".tmp")), "{names:?}");
    Ok(())
}

#[test]
fn the_report_comes_though_the_chart_cannot_be_written() -> Outcome {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("charts"))?;
    workflow(folder.path(), "rm -rf charts; exit 1")?;
    let output = run(folder.path(), &["--json", "--gantt", "charts/x.svg"]).output()?;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout)?.contains("\"failed\":1"));
    let error = String::from_utf8(output.stderr)?;
    assert!(error.contains("charts/x.svg"), "{error}");
    Ok(())
}

#[test]
fn names_cannot_command_the_terminal() -> Outcome {
    let folder = tempfile::tempdir()?;
    let text = "name: \"\\e[31mX\"\ntasks:\n  - {name: \"\\e[2Jt\", work: 1, command: [\"false\"]}\n";
    std::fs::write(folder.path().join("w.yaml"), text)?;
    let output = run(folder.path(), &[]).output()?;
    assert_eq!(output.status.code(), Some(1));
    let printed = [output.stdout, output.stderr].concat();
    assert!(!printed.contains(&0x1b), "{}", String::from_utf8_lossy(&printed));
    Ok(())
}

#[test]
fn wrong_usage_is_one_line() -> Outcome {
    let cases: [&[&str]; 5] = [
        &["nosuch"],
        &["plan", "--seed", "junk"],
        &["plan", "--slots", "x"],
        &["plan", "a", "b"],
        &["compare", "--seeds", "0"],
    ];
    for arguments in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_mdts")).args(arguments).output()?;
        let error = String::from_utf8(output.stderr)?;
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{arguments:?}: {error}");
        assert!(error.starts_with("error: "), "{error}");
    }
    Ok(())
}

#[test]
fn plan_and_chart_do_not_share_a_file() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mdts"));
    let output =
        command.current_dir(folder.path()).args(["plan", "-o", "p.svg", "--gantt", "p.svg"]).output()?;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr)?.contains("-o and --gantt both name p.svg"));
    assert!(!folder.path().join("p.svg").exists());
    Ok(())
}
