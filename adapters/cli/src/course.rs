//! Flags about the course of a run: when failed tasks are repeated, late ones doubled, and the whole given up.

use std::time::Duration;

use mdts_core::engine::Backoff;
use mdts_core::runner::RunOptions;
use mdts_dag::units::parse_seconds;

use crate::error::{Error, Result};
use crate::journal::Note;
use crate::speculate::SpeculateFlags;

/// Seconds between a failure and the next attempt, where nobody says anything.
const RETRY_DELAY: f64 = 1.0;

/// How many times as long a task waits after every further failure.
const RETRY_FACTOR: f64 = 2.0;

/// Seconds that it waits at most.
const RETRY_DELAY_MAX: f64 = 300.0;

// Names of notes in the manifest.
const FACTOR: &str = "retry_factor";
const MOST: &str = "retry_delay_max";
const FAIL_FAST: &str = "fail_fast";

/// The flags. All but the deadline hold for those who resume the run, too.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CourseFlags {
    /// Wait so many times as long after every further failure of a task [default: 2]
    #[arg(long, value_name = "FACTOR")]
    retry_factor: Option<f64>,
    /// Wait so long between two attempts at most [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    retry_delay_max: Option<f64>,
    /// Start nothing more once a task has failed for good; what runs may finish
    #[arg(long)]
    fail_fast: bool,
    /// Run all that does not depend on failed tasks; this is the default
    #[arg(long, conflicts_with = "fail_fast")]
    keep_going: bool,
    /// Cancel what runs after this time, and end; the run can be resumed
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    deadline: Option<f64>,
    #[command(flatten)]
    speculate: SpeculateFlags,
}

impl CourseFlags {
    /// What is to be kept of them for those who resume the run.
    pub(crate) fn notes(&self) -> impl Iterator<Item = Note> {
        let numbers = [(FACTOR, self.retry_factor), (MOST, self.retry_delay_max)];
        let numbers = numbers.into_iter().filter_map(|(name, number)| Some((name, number?.to_string())));
        let fail_fast = self.fail_fast.then(|| (FAIL_FAST, self.fail_fast.to_string()));
        numbers.chain(fail_fast).chain(self.speculate.notes())
    }

    /// These flags, or what the run began with where they say nothing.
    pub(crate) fn or_kept(&self, note: impl Fn(&str) -> Option<String>) -> Self {
        let kept = |name: &str| note(name)?.parse().ok();
        Self {
            retry_factor: self.retry_factor.or_else(|| kept(FACTOR)),
            retry_delay_max: self.retry_delay_max.or_else(|| kept(MOST)),
            fail_fast: self.fail_fast || (!self.keep_going && note(FAIL_FAST).is_some()),
            speculate: self.speculate.or_kept(&note),
            ..self.clone()
        }
    }

    /// How the run behaves that has this seed.
    ///
    /// # Errors
    /// Numbers out of range.
    pub(crate) fn options(&self, seed: u64) -> Result<RunOptions> {
        let factor = self.retry_factor.unwrap_or(RETRY_FACTOR);
        let most = self.retry_delay_max.unwrap_or(RETRY_DELAY_MAX);
        let backoff = Backoff { first: RETRY_DELAY, factor, most, seed };
        backoff.check()?;
        let deadline = self.deadline.map(|seconds| {
            let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
            limit.ok_or_else(|| Error::Usage(format!("--deadline is {seconds} s; expected more than 0")))
        });
        Ok(RunOptions {
            deadline: deadline.transpose()?,
            fail_fast: self.fail_fast,
            backoff,
            speculation: self.speculate.speculation()?,
            ..RunOptions::default()
        })
    }
}
