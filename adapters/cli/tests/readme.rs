//! The README's main job does what the README says.

use std::path::Path;
use std::process::Command;

/// The arguments of the first indented command line of the README for this command.
fn job<'a>(readme: &'a str, command: &str) -> Option<Vec<&'a str>> {
    let beginning = format!("    cargo run --release -- {command} ");
    let line = readme.lines().find_map(|line| line.strip_prefix(&beginning))?;
    Some(line.split_whitespace().collect())
}

#[test]
fn the_main_job_prints_what_the_readme_shows() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md"))?;
    let folder = tempfile::tempdir()?;
    let chart = folder.path().join("chart.html");
    let logs = folder.path().join("logs");
    let arguments = job(&readme, "run").ok_or("the README has no main job")?;
    let arguments =
        arguments.iter().map(|a| if a.contains(".html") { chart.as_os_str() } else { a.as_ref() });
    let output = Command::new(env!("CARGO_BIN_EXE_mdts"))
        .current_dir(&root)
        .arg("run")
        .args(arguments)
        .arg("--logs")
        .arg(&logs)
        .output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout)?;
    // All that does not depend on this machine's speed stands in the README word for word.
    let steady = |line: &&str| {
        !line.trim().is_empty()
            && !["planned by", "makespan  ", "overhead", "wrote"].iter().any(|w| line.contains(w))
    };
    for line in printed.lines().filter(steady) {
        assert!(readme.lines().any(|shown| shown == line), "the README does not show: {line}");
    }
    assert!(std::fs::read_to_string(chart)?.contains("mProject"));
    Ok(())
}

#[test]
fn the_search_finds_what_the_readme_shows() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md"))?;
    let arguments = job(&readme, "plan").ok_or("the README has no search")?;
    let output =
        Command::new(env!("CARGO_BIN_EXE_mdts")).current_dir(&root).arg("plan").args(arguments).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout)?;
    // The table of nodes is left out, and so is the time.
    let summary: Vec<&str> = printed.lines().take_while(|line| !line.is_empty()).collect();
    assert!(summary.len() >= 5, "{printed}");
    for line in summary.iter().filter(|line| !line.contains("planned in")) {
        assert!(readme.lines().any(|shown| shown == *line), "the README does not show: {line}");
    }
    Ok(())
}
