//! Second attempts of tasks that run for too long.

use mdts_core::engine::Speculation;

use crate::error::Result;

/// When tasks get a second attempt.
#[derive(Debug, clap::Args)]
pub(crate) struct SpeculateFlags {
    /// Give a task that runs FACTOR times as long as predicted a second attempt on an idle node; the first success counts.
    /// Tasks must write their outputs in one piece, as by renaming
    #[arg(long, value_name = "FACTOR", num_args = 0..=1, default_missing_value = "2", require_equals = true)]
    speculate: Option<f64>,
    /// How long every task may run before it gets a second attempt [default: 10]
    #[arg(long, value_name = "SECONDS", requires = "speculate")]
    speculate_after: Option<f64>,
}

impl SpeculateFlags {
    /// When attempts are late, if that is to count.
    ///
    /// # Errors
    /// Numbers out of range.
    pub(crate) fn speculation(&self) -> Result<Option<Speculation>> {
        let Some(factor) = self.speculate else { return Ok(None) };
        let least = self.speculate_after.unwrap_or(Speculation::default().least);
        let speculation = Speculation { factor, least };
        speculation.check()?;
        Ok(Some(speculation))
    }
}
