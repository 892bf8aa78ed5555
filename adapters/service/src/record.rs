//! What the journal of a service holds.
//!
//! It is a journal of core, whose entries are [`Entry::Record`] with a [`Record`] in postcard; its manifest names the models
//! that the records were made under.

use mdts_core::SlotModel;
use mdts_core::journal::{Entry, Manifest};
use mdts_dag::DataModel;
use serde::{Deserialize, Serialize};

use crate::brain::{Change, Decided};
use crate::keys::{Answered, Key};
use crate::{Error, Result};

/// What the manifest calls the job.
const SERVICE: &str = "service";
const SLOTS: &str = "slots";
const DATA: &str = "data_model";

/// One change with all that is needed to repeat it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Seconds since the journal began.
    pub(crate) now: f64,
    pub(crate) change: Change,
    pub(crate) decided: Vec<Decided>,
    pub(crate) answer: Option<(Key, Answered)>,
}

impl Record {
    pub(crate) fn entry(&self) -> postcard::Result<Entry> {
        postcard::to_stdvec(self).map(Entry::Record)
    }

    pub(crate) fn read(bytes: &[u8]) -> postcard::Result<Self> {
        postcard::from_bytes(bytes)
    }
}

pub(crate) fn manifest(slots: SlotModel, data: DataModel, created_ms: u64) -> Manifest {
    Manifest {
        job: SERVICE.to_owned(),
        tasks: 0,
        digest: 0,
        policy: String::new(),
        seed: 0,
        created_ms,
        notes: vec![(SLOTS.into(), format!("{slots:?}")), (DATA.into(), format!("{data:?}"))],
    }
}

/// Whether a journal can be gone on with.
pub(crate) fn check(manifest: &Manifest, place: &str, slots: SlotModel, data: DataModel) -> Result<()> {
    let strange =
        |message: String| Error::Core(mdts_core::Error::Journal { place: place.to_owned(), message });
    if manifest.job != SERVICE {
        return Err(strange("it is the journal of a run, not of a service; name another folder".to_owned()));
    }
    for (what, now) in [(SLOTS, format!("{slots:?}")), (DATA, format!("{data:?}"))] {
        let then = manifest.note(what).unwrap_or_default();
        if then != now {
            return Err(strange(format!(
                "it was begun with {what} = {then}, which is {now} now; keep to it, or name another folder"
            )));
        }
    }
    Ok(())
}
