//! What the jobs run: a batch script for every wave, and for every element a file with its commands.
//!
//! Both are for any POSIX shell. Nothing in them is built from data without quoting it.

use std::fmt::Write as _;
use std::path::Path;

use mdts_core::runner::{Assignment, LogFiles, log_files};
use mdts_dag::Execution;

use super::folder::RunFolder;
use super::wave::Ticket;
use crate::executor::SlurmOptions;
use crate::{Error, Result};

/// The batch script ends with this status if it does not see the folder of the run.
pub(crate) const NO_FOLDER: i32 = 121;
/// If it cannot write there.
pub(crate) const NOT_WRITTEN: i32 = 122;
/// If a task that must have succeeded has not.
pub(crate) const NO_PARENT: i32 = 123;
/// If it is told to end.
pub(crate) const TERMINATED: i32 = 124;
/// A command's, if its folder cannot be entered.
const NO_DIRECTORY: i32 = 120;

/// The functions that the files of elements call.
const FUNCTIONS: &str = r#"element=${SLURM_ARRAY_TASK_ID:-0}
node=${SLURMD_NODENAME:-unknown}
bad=0
now() { date +%s.%N; }

# parents ATTEMPT...: goes on when all have succeeded
parents() {
  for parent; do
    tries=0
    until [ -e "$run/results/$parent.ok" ]; do
      tries=$((tries + 1))
      [ "$tries" -le 15 ] || exit 123
      sleep 1
    done
  done
}

# begin ATTEMPT: takes the right to run it, unless somebody else has it
begin() {
  if mkdir "$run/claims/$1" 2>/dev/null; then
    began=$(now) used=
    return 0
  fi
  [ -d "$run/claims/$1" ] || exit 122
  bad=1
  return 1
}

# end ATTEMPT WHAT NUMBER: writes down how it ended
end() {
  if [ "$2 $3" = 'exit 0' ]; then kind=ok; else kind=bad bad=1; fi
  printf '%s ' "$2" "$3" "$began" "$(now)" "$node" $used >"$run/results/$1.tmp" &&
    mv "$run/results/$1.tmp" "$run/results/$1.$kind" || exit 122
}

trap 'exit 124' TERM
[ -r "$run/waves/$wave/$element.sh" ] || exit 121
. "$run/waves/$wave/$element.sh"
exit "$bad"
"#;

/// The batch script of a wave.
///
/// # Errors
/// [`Error::Usage`] if the path of the folder cannot be told to a shell.
pub(crate) fn batch(folder: &RunFolder, wave: u32) -> Result<String> {
    let run = quoted_path(folder.path())?;
    Ok(format!(
        "#!/bin/sh\n# tasks that mdts runs; what they are is in the folder below\nrun={run}\nwave={wave}\n{FUNCTIONS}"
    ))
}

/// What an element runs; `parents` must have succeeded, `produced` are the files that some task writes.
///
/// # Errors
/// [`Error::Usage`] if a text cannot be told to a shell.
pub(crate) fn element(
    tasks: &[(Ticket, &Assignment)],
    parents: &[Ticket],
    produced: &[bool],
    options: &SlurmOptions,
) -> Result<String> {
    let mut script = String::new();
    if !parents.is_empty() {
        let parents: Vec<String> = parents.iter().map(ToString::to_string).collect();
        _ = writeln!(script, "parents {}", parents.join(" "));
    }
    for (ticket, assignment) in tasks {
        script.push_str(&attempt(*ticket, assignment, produced, options)?);
    }
    Ok(script)
}

fn attempt(
    ticket: Ticket,
    assignment: &Assignment,
    produced: &[bool],
    options: &SlurmOptions,
) -> Result<String> {
    let (task, run) = (assignment.task(), assignment.run);
    let execution = task.run.as_deref();
    let execution = execution.filter(|execution| !execution.command.is_empty());
    let execution = execution.ok_or_else(|| Error::Usage(format!("task '{}' has no command", task.name)))?;
    let LogFiles { out, err } = log_files(&options.log_directory, &assignment.job, run.task, run.attempt);
    let (out, err) = (quoted_path(&out)?, quoted_path(&err)?);
    let directory = match &execution.directory {
        Some(directory) => options.working_directory.join(directory),
        None => options.working_directory.clone(),
    };
    let file = |file: mdts_dag::FileId| {
        quoted_path(&options.working_directory.join(&*assignment.job.file(file).name))
    };
    let mut script = format!("if begin {ticket}; then\n  set -- exit 0\n");
    for (at, input) in task.inputs.iter().enumerate().filter(|(_, input)| !produced[input.index()]) {
        _ = writeln!(script, "  [ -e {} ] || set -- input {at}", file(*input)?);
    }
    _ = writeln!(script, "  if [ \"$1\" = exit ]; then");
    _ = writeln!(script, "    used=$( (cd {} 2>/dev/null || exit {NO_DIRECTORY}", quoted_path(&directory)?);
    _ = writeln!(
        script,
        "      exec {}) </dev/null >{out} 2>{err}; echo \"$?\"; times)",
        command(assignment, execution)?
    );
    _ = writeln!(script, "    set -- exit \"${{used%%[!0-9]*}}\"");
    _ = writeln!(
        script,
        "    [ \"$2\" != {NO_DIRECTORY} ] || cd {} || set -- directory 0",
        quoted_path(&directory)?
    );
    for (at, output) in task.outputs.iter().enumerate() {
        _ = writeln!(
            script,
            "    [ \"$1 $2\" != 'exit 0' ] || [ -e {} ] || set -- output {at}",
            file(*output)?
        );
    }
    _ = writeln!(script, "    [ -s {out} ] || rm -f {out}\n    [ -s {err} ] || rm -f {err}");
    _ = writeln!(script, "  fi\n  end {ticket} \"$@\"\nfi");
    Ok(script)
}

/// The command with its variables.
fn command(assignment: &Assignment, execution: &Execution) -> Result<String> {
    let (task, run) = (assignment.task(), assignment.run);
    let mut words = vec!["env".to_owned()];
    for (name, value) in &execution.env {
        words.push(quoted(&format!("{name}={value}"))?);
    }
    let own = [
        ("MDTS_JOB", assignment.job.name().to_owned()),
        ("MDTS_TASK", task.name.to_string()),
        ("MDTS_ATTEMPT", run.attempt.to_string()),
    ];
    for (name, value) in own {
        words.push(quoted(&format!("{name}={value}"))?);
    }
    words.push("MDTS_NODE=\"$node\"".to_owned());
    if execution.command[0].contains('=') {
        words.push("sh -c 'exec \"$@\"' sh".to_owned()); // env would take it for a variable
    }
    for word in &execution.command {
        words.push(quoted(word)?);
    }
    Ok(words.join(" "))
}

fn quoted_path(path: &Path) -> Result<String> {
    let text = path.to_str();
    quoted(text.ok_or_else(|| Error::Usage(format!("{}: the path is not UTF-8; rename it", path.display())))?)
}

/// A text as one word of a shell.
pub(crate) fn quoted(text: &str) -> Result<String> {
    if text.contains('\0') {
        return Err(Error::Usage(format!("'{}' has a zero byte", text.replace('\0', "\\0"))));
    }
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;
    use std::sync::Arc;

    use mdts_core::engine::{JobId, TaskRun};
    use mdts_dag::{JobGraph, Task};

    use super::super::folder::Ending;
    use super::*;

    type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

    /// Runs tasks as one element, as Slurm would; the exit status of the batch script.
    fn run(place: &Path, job: JobGraph, parents: &[Ticket]) -> Outcome<(RunFolder, Option<i32>)> {
        let folder = RunFolder::open(&place.join("it's a run"))?;
        fs::create_dir_all(place.join("logs"))?;
        let options = SlurmOptions::new(folder.path(), place.join("logs"), place);
        let job = Arc::new(job);
        let mut produced = vec![false; job.files().len()];
        job.tasks().flat_map(|task| &task.outputs).for_each(|file| produced[file.index()] = true);
        let assignments: Vec<Assignment> = job
            .task_ids()
            .map(|task| Assignment {
                run: TaskRun { job: JobId::default(), task, attempt: 1 },
                node: 0.into(),
                expected_seconds: 1.0,
                job: job.clone(),
            })
            .collect();
        let tasks: Vec<_> = assignments.iter().map(|of| (Ticket::first(of.run), of)).collect();
        let text = element(&tasks, parents, &produced, &options)?;
        fs::create_dir_all(folder.wave_folder(0))?;
        fs::write(folder.wave_folder(0).join("0.sh"), text)?;
        let status = Command::new("sh")
            .args(["-c", &batch(&folder, 0)?])
            .env("SLURMD_NODENAME", "node7")
            .env_remove("SLURM_ARRAY_TASK_ID")
            .status()?;
        Ok((folder, status.code()))
    }

    fn attempt_of(task: u32) -> Ticket {
        Ticket { task, attempt: 1, again: 0 }
    }

    fn endings(folder: &RunFolder, tasks: u32) -> Result<Vec<Option<Ending>>> {
        (0..tasks).map(|task| Ok(folder.result(attempt_of(task))?.map(|result| result.ending))).collect()
    }

    #[test]
    fn commands_get_exactly_their_arguments() -> Outcome {
        let place = tempfile::tempdir()?;
        let mut job = JobGraph::builder("a 'job'");
        let show = "for a; do printf '<%s>' \"$a\"; done; printf '%s' \"$MDTS_TASK|$MDTS_NODE|$X|$PWD\"";
        let words = ["sh", "-c", show, "sh", "it's", "a\nb", "$HOME", "", "-n", "`id`", "\\"];
        let task =
            Task::new("näme").command(words).with_execution(|run| run.env.push(("X".into(), "y z".into())));
        job.task(task)?;
        let (folder, status) = run(place.path(), job.build()?, &[])?;
        assert_eq!(status, Some(0));
        assert_eq!(folder.result(attempt_of(0))?.map(|result| result.node), Some("node7".to_owned()));
        let here = place.path().canonicalize()?;
        let written = fs::read_to_string(place.path().join("logs/n_me~0.1.out"))?;
        let expected = format!("<it's><a\nb><$HOME><><-n><`id`><\\>näme|node7|y z|{}", here.display());
        assert_eq!(written.replace("/private", ""), expected);
        assert!(!place.path().join("logs/n_me~0.1.err").exists(), "it wrote nothing there");
        Ok(())
    }

    #[test]
    fn endings_are_told_apart() -> Outcome {
        let place = tempfile::tempdir()?;
        let mut job = JobGraph::builder("job");
        let missing = job.file("missing", 0.0)?;
        let unwritten = job.file("unwritten", 0.0)?;
        let sh = |name: &str, script: &str| Task::new(name).command(["sh", "-c", script]);
        job.task(sh("fails", "exit 3"))?;
        let mut task = sh("lacks its input", "true");
        task.inputs.push(missing);
        job.task(task)?;
        let mut task = sh("leaves its output out", "true");
        task.outputs.push(unwritten);
        job.task(task)?;
        job.task(sh("has no folder", "true").with_execution(|run| run.directory = Some("nowhere".into())))?;
        job.task(sh("is killed", "kill -9 $$"))?;
        job.task(sh("succeeds", "true"))?;
        job.task(Task::new("is not there").command(["no-such-program"]))?;
        job.task(sh("has a status of its own", "exit 120"))?;
        let (folder, status) = run(place.path(), job.build()?, &[])?;
        assert_eq!(status, Some(1), "some have failed");
        let expected = [
            Ending::Exit(3),
            Ending::Input(0),
            Ending::Output(0),
            Ending::Directory,
            Ending::Exit(137),
            Ending::Exit(0),
            Ending::Exit(127),
            Ending::Exit(120),
        ];
        assert_eq!(endings(&folder, 8)?, expected.map(Some));
        Ok(())
    }

    #[test]
    fn what_is_claimed_is_not_run() -> Outcome {
        let place = tempfile::tempdir()?;
        let folder = RunFolder::open(&place.path().join("it's a run"))?;
        assert!(folder.claim(attempt_of(0))?);
        let mut job = JobGraph::builder("job");
        job.task(Task::new("a").command(["touch", "ran-a"]))?;
        job.task(Task::new("b").command(["touch", "ran-b"]))?;
        let (_, status) = run(place.path(), job.build()?, &[])?;
        assert_eq!(status, Some(1), "who waits for it must not begin");
        assert!(!place.path().join("ran-a").exists() && place.path().join("ran-b").exists());
        Ok(())
    }

    #[test]
    fn texts_become_words() {
        assert_eq!(quoted("it's").ok().as_deref(), Some(r"'it'\''s'"));
        assert!(quoted("a\0b").is_err());
    }
}
