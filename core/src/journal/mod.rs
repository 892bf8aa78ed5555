//! The journal: what happened in a run, kept so that another process can go on with it.
//!
//! ```text
//!   Runner -- Entry --> Journal -- frame --> Storage (a file; a double in tests)
//!   Runner <-- Entry -- Journal <- Reader -- Storage
//! ```
//! A journal is one file: a file header, a [`Manifest`], at most one snapshot, then one [`Entry`] per step of the
//! engine. An entry is handed to the operating system before the commands that follow from it are carried out.
//! `docs/journal.md` describes the format and what it guarantees.

mod digest;
mod entry;
mod folder;
mod frame;
mod log;
mod reader;
mod snapshot;
mod storage;
mod sync;
#[cfg(test)]
pub(crate) mod tests;

pub use digest::digest;
pub(crate) use entry::wall_ms;
pub use entry::{Entry, Happening, Manifest, Snapshot, StepEntry};
pub use folder::{Folder, events_file, holder, read_folder};
pub use log::{Durability, Journal};
pub use reader::{Reader, Torn};
pub use snapshot::SnapshotWriter;
pub use storage::{Storage, Syncing};
