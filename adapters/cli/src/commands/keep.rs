//! `mdts keep DIR`: the process between a run and its tasks. Runs start it themselves.

use std::path::PathBuf;

use crate::error::{Error, Result};

/// Arguments of `mdts keep`.
#[derive(Debug, clap::Args)]
pub(crate) struct Keep {
    /// Folder of the run
    folder: PathBuf,
}

impl Keep {
    pub(super) fn carry_out(&self) -> Result<()> {
        mdts_local::keep(&self.folder).map_err(|source| Error::System {
            what: "the keeper of tasks cannot begin; mdts run starts it",
            source,
        })
    }
}
