//! Flags about the life of a single task: what its attempts may take, and when and after what time it is repeated.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use mdts_dag::{Failing, units};
use mdts_local::LocalOptions;

use crate::error::Result;
use crate::input::Job;
use crate::journal::{Note, path_text};

/// The flags.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LifeFlags {
    /// Repeat failed tasks so often, where the workflow says nothing
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    retries: Option<u32>,
    /// After which failures, where the workflow says nothing: exit statuses, or exit, signal, timeout, memory, input, output,
    /// start [default: all but memory and input]
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', conflicts_with = "resume")]
    retry_on: Vec<Failing>,
    /// After which failures not, where the workflow says nothing
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', conflicts_with = "resume")]
    never_retry_on: Vec<Failing>,
    /// Wait so long between a task's first failure and its next attempt, where the workflow says nothing; half of it at
    /// least, by chance [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = delay, conflicts_with = "resume")]
    retry_delay: Option<f64>,
    /// Keep at most so much of each stream of a task's output, beginning and end; none: keep all [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = output_limit)]
    output_limit: Option<OutputLimit>,
    /// Do not kill tasks that use more memory than they demand
    #[arg(long)]
    no_limits: bool,
    /// Limit memory by control groups (version 2) in this one, which must be delegated and empty; own: in the one of mdts itself
    #[arg(long, value_name = "DIR", conflicts_with = "no_limits")]
    cgroup: Option<PathBuf>,
    /// Run so many processes at a time at most, fewer where few files may be open [default: 512]
    #[arg(long, value_name = "N")]
    max_processes: Option<NonZeroUsize>,
    /// Bind every task to as many processors as it demands
    #[arg(long)]
    pin: bool,
}

/// The control group of mdts itself.
const OWN: &str = "own";

// Names of notes in the manifest.
const OUTPUT_LIMIT: &str = "output_limit";
const NO_LIMITS: &str = "no_limits";
const CGROUP: &str = "cgroup";
const MAX_PROCESSES: &str = "max_processes";
const PIN: &str = "pin";

/// Bytes, or no limit.
#[derive(Debug, Clone, Copy, Default)]
struct OutputLimit(Option<u64>);

fn delay(text: &str) -> std::result::Result<f64, String> {
    let seconds = units::parse_seconds(text)?;
    if (0.0..1e9).contains(&seconds) { Ok(seconds) } else { Err("expected a time of at least 0".to_owned()) }
}

fn output_limit(text: &str) -> std::result::Result<OutputLimit, String> {
    /// See [`LocalOptions::output_limit`].
    const SMALLEST: f64 = 262_144.0;
    if text == "none" {
        return Ok(OutputLimit(None));
    }
    let bytes = units::parse_bytes(text)?;
    if bytes.is_nan() || bytes < SMALLEST {
        return Err("expected 256KiB at least, or none".to_owned());
    }
    Ok(OutputLimit(Some(bytes as u64)))
}

impl LifeFlags {
    /// The job with the rules of the flags where it has none of its own.
    ///
    /// # Errors
    /// None is known: the job stays as valid as it was.
    pub(crate) fn fill(&self, job: Job) -> Result<Job> {
        let says_nothing = self.retries.is_none() && self.retry_delay.is_none();
        if says_nothing && self.retry_on.is_empty() && self.never_retry_on.is_empty() {
            return Ok(job);
        }
        let graph = job.graph.with_executions(|run| {
            run.retries = run.retries.or(self.retries);
            run.retry_delay = run.retry_delay.or(self.retry_delay);
            if run.retry.is_default() {
                run.retry.on.clone_from(&self.retry_on);
                run.retry.never_on.clone_from(&self.never_retry_on);
            }
        })?;
        Ok(Job { graph: Arc::new(graph), ..job })
    }

    /// What holds for those who resume the run, too.
    ///
    /// # Errors
    /// Those of [`path_text`].
    pub(crate) fn notes(&self) -> Result<Vec<Note>> {
        let mut notes = Vec::new();
        if let Some(OutputLimit(bytes)) = self.output_limit {
            notes.push((OUTPUT_LIMIT, bytes.map_or_else(|| "none".to_owned(), |bytes| bytes.to_string())));
        }
        if let Some(folder) = &self.cgroup {
            let is_own = folder.as_os_str() == OWN;
            notes.push((CGROUP, if is_own { OWN.to_owned() } else { path_text(folder)? }));
        }
        notes.extend(self.max_processes.map(|most| (MAX_PROCESSES, most.to_string())));
        let switches = [(NO_LIMITS, self.no_limits), (PIN, self.pin)];
        notes.extend(switches.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| (*name, String::new())));
        Ok(notes)
    }

    /// These flags, and what the run began with where they say nothing.
    pub(crate) fn or_kept(&self, note: impl Fn(&str) -> Option<String>) -> Self {
        let no_limits = self.no_limits || (self.cgroup.is_none() && note(NO_LIMITS).is_some());
        let cgroup = self.cgroup.clone().or_else(|| note(CGROUP).map(PathBuf::from));
        Self {
            output_limit: self.output_limit.or_else(|| output_limit(&note(OUTPUT_LIMIT)?).ok()),
            no_limits,
            max_processes: self.max_processes.or_else(|| note(MAX_PROCESSES)?.parse().ok()),
            cgroup: cgroup.filter(|_| !no_limits),
            pin: self.pin || note(PIN).is_some(),
            ..self.clone()
        }
    }

    /// Whether one was given that is for processes of this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.output_limit.is_some()
            || self.no_limits
            || self.cgroup.is_some()
            || self.max_processes.is_some()
            || self.pin
    }

    /// Tells the executor.
    pub(crate) fn set(&self, options: &mut LocalOptions) {
        if let Some(limit) = self.output_limit {
            options.output_limit = limit.0;
        }
        options.limit_memory = !self.no_limits;
        options.max_processes = self.max_processes.map_or(options.max_processes, NonZeroUsize::get);
        options.pin = self.pin;
        options.cgroup =
            self.cgroup.clone().map(|folder| if folder.as_os_str() == OWN { PathBuf::new() } else { folder });
    }
}
