//! Second attempts of tasks that run for too long.

use mdts_core::engine::Speculation;

use crate::error::Result;
use crate::journal::Note;

/// When tasks get a second attempt.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SpeculateFlags {
    /// Give a task that runs FACTOR times as long as predicted a second attempt on an idle node; the first success counts.
    /// Tasks must write their outputs in one piece, as by renaming
    #[arg(long, value_name = "FACTOR", num_args = 0..=1, default_missing_value = "2", require_equals = true)]
    speculate: Option<f64>,
    /// How long every task may run before it gets a second attempt [default: 10]
    #[arg(long, value_name = "SECONDS", requires = "speculate")]
    speculate_after: Option<f64>,
}

// Names of notes in the manifest.
const FACTOR: &str = "speculate";
const LEAST: &str = "speculate_after";

impl SpeculateFlags {
    /// What holds for those who resume the run, too.
    pub(crate) fn notes(&self) -> impl Iterator<Item = Note> {
        let numbers = [(FACTOR, self.speculate), (LEAST, self.speculate_after)];
        numbers.into_iter().filter_map(|(name, number)| Some((name, number?.to_string())))
    }

    /// These flags, or what the run began with where they say nothing.
    pub(crate) fn or_kept(&self, note: impl Fn(&str) -> Option<String>) -> Self {
        let kept = |name: &str| note(name)?.parse().ok();
        Self {
            speculate: self.speculate.or_else(|| kept(FACTOR)),
            speculate_after: self.speculate_after.or_else(|| kept(LEAST)),
        }
    }

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
