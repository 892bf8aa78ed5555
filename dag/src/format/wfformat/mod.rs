//! `WfCommons` `WfFormat`: executed or generated workflows as JSON.
//!
//! Source: the `WfCommons` JSON schema, versions 1.0 to 1.6 (1.4 keeps all of a task in one place; from 1.5 on
//! `specification` and `execution` are apart and joined by id). A task's name here is its id, in files up to 1.4
//! its name (unless names repeat); the kind is `category`, else the name without its trailing number. Parents and
//! children both give dependencies, each once. `memoryInBytes` becomes the demand for memory: it is what the
//! traced task was measured to use at its peak.

mod names;
mod read;
mod schema;
mod write;

pub(super) use read::read;
pub(super) use write::write;
