//! Flags about the course of a run: when failed tasks are repeated, late ones doubled, and the whole given up. They hold
//! for the process that they are given to.

use std::time::Duration;

use mdts_core::engine::Backoff;
use mdts_core::runner::RunOptions;
use mdts_dag::units::parse_seconds;

use crate::error::{Error, Result};
use crate::speculate::SpeculateFlags;

/// Seconds between a failure and the next attempt, where nobody says anything.
const RETRY_DELAY: f64 = 1.0;

/// The flags.
#[derive(Debug, clap::Args)]
pub(crate) struct CourseFlags {
    /// Wait so many times as long after every further failure of a task
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0)]
    retry_factor: f64,
    /// Wait so long between two attempts at most
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "5m")]
    retry_delay_max: f64,
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
    /// How the run behaves that has this seed.
    ///
    /// # Errors
    /// Numbers out of range.
    pub(crate) fn options(&self, seed: u64) -> Result<RunOptions> {
        let (factor, most) = (self.retry_factor, self.retry_delay_max);
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
