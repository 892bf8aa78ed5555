//! Slurm through its own programs: `sbatch`, `squeue`, `scancel`, `scontrol`.
//!
//! One process per call, whatever the number of jobs. What the caller's environment says to these programs (`SLURM_*`,
//! `SBATCH_*` and so on) is left out, but for `SLURM_CONF`: it would change what is asked for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::parse::{self, FIELD, FIELDS, RECORD};
use super::{Change, JobId, JobRecord, NodeRecord, PartitionRecord, Selection, Slurm, Submission};
use crate::{Error, Result};

/// How Slurm's programs are called.
#[derive(Debug, Clone)]
pub struct CommandsOptions {
    /// Where they are; `None`: in `PATH`.
    pub directory: Option<PathBuf>,
    /// The file `slurm.conf`; `None`: what `SLURM_CONF` says, or else where Slurm looks.
    pub configuration: Option<PathBuf>,
    /// How long a call may take. Default: 30 seconds, which is more than Slurm's own limits.
    pub limit: Duration,
}

impl Default for CommandsOptions {
    fn default() -> Self {
        Self { directory: None, configuration: None, limit: Duration::from_secs(30) }
    }
}

/// Slurm through its own programs. Needs a tokio runtime with timers and input/output.
#[derive(Debug, Clone)]
pub struct Commands {
    options: CommandsOptions,
}

/// Beginnings of variables that change what Slurm's programs do.
const CLEARED: [&str; 8] =
    ["SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SCANCEL_", "SINFO_", "SACCT_"];
/// The one that stays.
const CONFIGURATION: &str = "SLURM_CONF";

/// What Slurm's programs say when the controller does not answer.
const OUTAGE: [&str; 9] = [
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Connection reset",
    "Zero Bytes were transmitted",
    "Transport endpoint is not connected",
    "controller in standby mode",
    "Unable to establish controller machine",
    "Resource temporarily unavailable",
];

impl Commands {
    /// With these options.
    pub fn new(options: CommandsOptions) -> Self {
        Self { options }
    }

    fn command(&self, program: &str) -> Command {
        let path = match &self.options.directory {
            Some(directory) => directory.join(program),
            None => program.into(),
        };
        let mut command = Command::new(path);
        for (name, _) in std::env::vars_os() {
            if is_cleared(&name) {
                command.env_remove(name);
            }
        }
        if let Some(path) = &self.options.configuration {
            command.env(CONFIGURATION, path);
        }
        command.env("LC_ALL", "C").env("SLURM_TIME_FORMAT", "%s");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs a command to its end, whatever its exit status.
    async fn run(&self, what: &str, mut command: Command, input: &str) -> Result<Output> {
        let program = || what.split(' ').next().unwrap_or_default().to_owned();
        let ends = async {
            let child = command.spawn();
            let mut child = child.map_err(|source| Error::NoProgram { program: program(), source })?;
            let stdin = child.stdin.take();
            let write = async {
                if let Some(mut stdin) = stdin {
                    // A program that does not read to the end says why by its own words.
                    stdin.write_all(input.as_bytes()).await.ok();
                }
            };
            let ((), output) = tokio::join!(write, child.wait_with_output());
            output.map_err(|source| Error::NoProgram { program: program(), source })
        };
        let limit = self.options.limit;
        let output = tokio::time::timeout(limit, ends).await;
        output.map_err(|_| Error::Timeout { what: what.to_owned(), limit })?
    }

    /// Standard output of a command that must succeed.
    async fn ask(&self, what: &str, command: Command, input: &str) -> Result<String> {
        let output = self.run(what, command, input).await?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(refusal(what, &output))
    }

    async fn show(&self, what: &str) -> Result<String> {
        let mut command = self.command("scontrol");
        command.args(["-o", "show", what]);
        self.ask(&format!("scontrol show {what}"), command, "").await
    }

    /// Gives lines to one scontrol; what it complains of.
    async fn dictate(&self, lines: &str) -> Result<String> {
        let what = "scontrol update";
        let output = self.run(what, self.command("scontrol"), lines).await?;
        let complaints = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if is_outage(&complaints) {
            return Err(refusal(what, &output));
        }
        if complaints.is_empty() && !output.status.success() {
            return Ok(output.status.to_string());
        }
        Ok(complaints)
    }
}

impl Default for Commands {
    fn default() -> Self {
        Self::new(CommandsOptions::default())
    }
}

#[async_trait]
impl Slurm for Commands {
    async fn submit(&self, submission: &Submission) -> Result<u32> {
        let mut command = self.command("sbatch");
        command.arg("--parsable").args(arguments(submission));
        let what = "sbatch";
        let mut input = submission.script.as_str();
        if let Some(path) = &submission.spool {
            command.stdin(spooled(path, input).map_err(Error::io(path))?);
            input = "";
        }
        let answer = self.ask(what, command, input).await?;
        // JOB or JOB;CLUSTER
        let number = answer.trim().split(';').next().unwrap_or_default();
        number
            .parse()
            .map_err(|_| Error::Strange { what: what.to_owned(), message: format!("'{}'", answer.trim()) })
    }

    async fn jobs(&self, which: &Selection) -> Result<Vec<JobRecord>> {
        let mut command = self.command("squeue");
        let fields = FIELDS.map(|field| format!("{field}:{FIELD}")).join(",");
        command.args(["-h", "-r", "-t", "all", "-O"]).arg(fields + RECORD);
        match which {
            Selection::All => {}
            Selection::Own => {
                command.arg("--me");
            }
            Selection::Jobs(jobs) if jobs.is_empty() => return Ok(Vec::new()),
            Selection::Jobs(jobs) => {
                command.arg("-j").arg(list(jobs));
            }
        }
        match self.ask("squeue", command, "").await {
            Ok(text) => parse::jobs(&text),
            Err(Error::Refused { message, .. }) if message.contains("Invalid job id") => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn update(&self, changes: &[Change]) -> Result<Vec<(usize, String)>> {
        let lines: Vec<String> = changes.iter().map(lines).collect::<Result<_>>()?;
        let all = lines.concat();
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let complaints = self.dictate(&all).await?;
        if complaints.is_empty() {
            return Ok(Vec::new());
        }
        // It does not always tell whom it speaks of; what was done once can be done twice.
        let mut refused = Vec::new();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            let complaints = self.dictate(line).await?;
            if !complaints.is_empty() {
                refused.push((at, one_line(&complaints)));
            }
        }
        Ok(refused)
    }

    async fn cancel(&self, jobs: &[JobId]) -> Result<()> {
        /// So many go into one command line.
        const AT_ONCE: usize = 1000;
        for some in jobs.chunks(AT_ONCE) {
            let mut command = self.command("scancel");
            command.arg("-Q").args(some.iter().map(ToString::to_string));
            self.ask("scancel", command, "").await?;
        }
        Ok(())
    }

    /// From sacct, where the site keeps accounts.
    async fn history(&self, jobs: &[JobId]) -> Result<Vec<JobRecord>> {
        let mut command = self.command("sacct");
        command.args(["-X", "-n", "-P", "-o", "jobid,state,exitcode,nodelist", "-j"]).arg(list(jobs));
        match self.ask("sacct", command, "").await {
            Ok(text) => Ok(parse::history(&text)),
            Err(error) => {
                tracing::debug!("{error}");
                Ok(Vec::new())
            }
        }
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>> {
        parse::nodes(&self.show("node").await?)
    }

    async fn partitions(&self) -> Result<Vec<PartitionRecord>> {
        parse::partitions(&self.show("partition").await?)
    }

    async fn config(&self) -> Result<BTreeMap<String, String>> {
        Ok(parse::config(&self.show("config").await?))
    }
}

pub(super) fn is_cleared(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    name != CONFIGURATION && CLEARED.iter().any(|beginning| name.starts_with(beginning))
}

pub(super) fn is_outage(message: &str) -> bool {
    OUTAGE.iter().any(|outage| message.contains(outage))
}

fn refusal(what: &str, output: &Output) -> Error {
    let complaints = String::from_utf8_lossy(&output.stderr);
    let message = match complaints.trim() {
        "" => output.status.to_string(),
        complaints => one_line(complaints),
    };
    let what = what.to_owned();
    if is_outage(&message) { Error::Unreachable { what, message } } else { Error::Refused { what, message } }
}

/// A file with this text, locked for whoever has it open, which is the program that reads it, too.
fn spooled(path: &Path, text: &str) -> io::Result<File> {
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.lock()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// The words of a program without its own name before them.
fn one_line(complaints: &str) -> String {
    let lines = complaints.lines().map(|line| {
        let line = line.trim();
        ["sbatch: ", "squeue: ", "scancel: ", "scontrol: ", "slurm_load_jobs "]
            .iter()
            .fold(line, |line, name| line.strip_prefix(name).unwrap_or(line))
            .trim_start_matches("error: ")
    });
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

fn list(jobs: &[JobId]) -> String {
    jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The options of sbatch for a submission.
fn arguments(of: &Submission) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |name: &str, value: &dyn AsRef<std::ffi::OsStr>| {
        let mut argument = OsString::from(format!("--{name}="));
        argument.push(value);
        arguments.push(argument);
    };
    add("job-name", &of.name);
    add("comment", &of.comment);
    add("chdir", &of.directory);
    if let Some(output) = &of.output {
        add("output", output);
    }
    let numbers = [
        ("cpus-per-task", of.cpus.map(|cpus| cpus.to_string())),
        ("mem", of.memory_mib.map(|mib| format!("{mib}M"))),
        ("time", of.minutes.map(|minutes| minutes.to_string())),
        ("nice", of.nice.map(|nice| nice.to_string())),
        ("partition", of.partition.clone()),
        ("nodelist", of.node.clone()),
        ("constraint", of.features.clone()),
        ("prefer", of.prefer.clone()),
        ("dependency", of.dependency.clone()),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            add(name, &value);
        }
    }
    if !of.gres.is_empty() {
        let gres: Vec<String> = of.gres.iter().map(|(name, count)| format!("{name}:{count}")).collect();
        add("gres", &gres.join(","));
    }
    if let Some(array) = of.array {
        let last = array.count.saturating_sub(1);
        let throttle = array.throttle.map_or_else(String::new, |most| format!("%{most}"));
        add("array", &format!("0-{last}{throttle}"));
    }
    add("nodes", &"1");
    add("ntasks", &"1");
    add("kill-on-invalid-dep", &"yes");
    if of.held {
        arguments.push("--hold".into());
    }
    arguments.extend(of.options.iter().map(OsString::from));
    arguments
}

/// The lines that tell scontrol of a change.
fn lines(change: &Change) -> Result<String> {
    let Some(job) = change.job else { return Ok(String::new()) };
    let text = |name: &str, value: &Option<String>| Some((name.to_owned(), value.clone()?));
    let number = |name: &str, value: Option<String>| Some((name.to_owned(), value?));
    let settings = [
        text("ReqNodeList", &change.nodes),
        text("Features", &change.features),
        text("Partition", &change.partition),
        text("Dependency", &change.dependency),
        text("Comment", &change.comment),
        text("AdminComment", &change.admin_comment),
        number("Nice", change.nice.map(|nice| nice.to_string())),
        number("Priority", change.priority.map(|priority| priority.to_string())),
        number("TimeLimit", change.minutes.map(|minutes| minutes.to_string())),
    ];
    let mut line = String::new();
    for (name, value) in settings.into_iter().flatten() {
        if value.contains(|c: char| c.is_control() || c == '"') {
            return Err(Error::Usage(format!(
                "job {job}: {name} has a character that Slurm's programs cannot be told"
            )));
        }
        let quoted = if value.contains(char::is_whitespace) { format!("\"{value}\"") } else { value };
        _ = write!(line, " {name}={quoted}");
    }
    if !line.is_empty() {
        line = format!("update JobId={job}{line}\n");
    }
    match change.held {
        Some(true) => _ = writeln!(line, "hold {job}"),
        Some(false) => _ = writeln!(line, "release {job}"),
        None => {}
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::super::Array;
    use super::*;

    #[test]
    fn a_submission_becomes_options() {
        let submission = Submission {
            name: "a b".into(),
            comment: "mdts:1".into(),
            directory: "/work".into(),
            array: Some(Array { count: 4, throttle: Some(2) }),
            held: true,
            cpus: Some(2),
            memory_mib: Some(100),
            gres: vec![("gpu".into(), 1), ("fpga:big".into(), 2)],
            options: vec!["--account=x".into()],
            ..Submission::default()
        };
        let expected = "--job-name=a b|--comment=mdts:1|--chdir=/work|--cpus-per-task=2|--mem=100M|--gres=gpu:1,fpga:big:2\
                        |--array=0-3%2|--nodes=1|--ntasks=1|--kill-on-invalid-dep=yes|--hold|--account=x";
        let found: Vec<_> = arguments(&submission).into_iter().filter_map(|a| a.into_string().ok()).collect();
        assert_eq!(found.join("|"), expected);
    }

    #[test]
    fn a_change_becomes_lines() -> Result<()> {
        let change = |change: fn(&mut Change)| {
            let mut of = Change::of(JobId::element(7, 3));
            change(&mut of);
            of
        };
        let table = [
            (change(|_| {}), ""),
            (change(|c| c.nodes = Some(String::new())), "update JobId=7_3 ReqNodeList=\n"),
            (change(|c| c.held = Some(false)), "release 7_3\n"),
            (
                change(|c| (c.comment, c.held) = (Some("a b".into()), Some(true))),
                "update JobId=7_3 Comment=\"a b\"\nhold 7_3\n",
            ),
        ];
        for (change, expected) in table {
            assert_eq!(lines(&change)?, expected);
        }
        assert!(lines(&change(|c| c.comment = Some("a\nrelease 1".into()))).is_err());
        Ok(())
    }

    #[test]
    fn only_what_speaks_to_slurm_is_cleared() {
        let table = [
            ("SLURM_JOB_ID", true),
            ("SBATCH_PARTITION", true),
            ("SLURM_JWT", true),
            ("SLURM_CONF", false),
            ("PATH", false),
        ];
        for (name, expected) in table {
            assert_eq!(is_cleared(&name.into()), expected, "{name}");
        }
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_given_up() -> Result<(), Box<dyn std::error::Error>> {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("squeue");
        std::fs::write(&path, "#!/bin/sh\nexec sleep 600\n")?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        let options = CommandsOptions {
            directory: Some(folder.path().into()),
            limit: Duration::from_millis(100),
            ..CommandsOptions::default()
        };
        let slurm = Commands::new(options);
        assert!(matches!(slurm.jobs(&Selection::All).await, Err(Error::Timeout { .. })));
        let missing = slurm.submit(&Submission::default()).await;
        assert!(matches!(missing, Err(Error::NoProgram { program, .. }) if program == "sbatch"));
        Ok(())
    }
}
