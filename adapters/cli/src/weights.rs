//! `--weights`: what the learned policies know, from a file that `mdts train` wrote.

use std::path::{Path, PathBuf};

use mdts_policies::mdts::Weights;

use crate::error::{Error, Result};
use crate::settings::Settings;

/// The policies that have weights.
pub(crate) const LEARNED: [&str; 2] = ["mdts", "mdts-raw"];

/// The flag.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WeightsFlag {
    /// Weights of mdts and mdts-raw, from mdts train [default: those that come with the program]
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
}

impl WeightsFlag {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.weights.as_deref()
    }

    /// The weights for policies of these names, if they are not those of the program.
    ///
    /// # Errors
    /// [`Error::Usage`] if the flag is given for policies that have none; [`Error::Input`] or [`Error::Checkpoint`] if
    /// the file cannot be used.
    pub(crate) fn load(&self, names: &[&str], settings: &Settings) -> Result<Option<Weights>> {
        let is_learned = names.iter().any(|name| LEARNED.contains(name));
        match (&settings.weights, is_learned) {
            (Some(path), true) => {
                let weights = Weights::read(path).map_err(Error::reading);
                let weights = weights.map_err(|error| settings.blame("weights", error))?;
                tracing::info!(round = weights.training().round, "weights of {}", path.display());
                Ok(Some(weights))
            }
            (_, false) if self.weights.is_some() => Err(Error::Usage(format!(
                "--weights are for the policies {}, not for {}; name one of them, or leave --weights out",
                LEARNED.join(" and "),
                names.join(", ")
            ))),
            _ => Ok(None),
        }
    }
}
