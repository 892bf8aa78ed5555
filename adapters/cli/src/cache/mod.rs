//! `--cache DIR`: tasks whose command, environment and inputs are those of an earlier success do not run again.
//!
//! ```text
//!   Cached (an executor) --> Cache::look --> Parts (what a task depends on) --> key
//!        |  hit: outputs are there, or brought back           Store: records by key, contents by hash
//!        `- miss: the executor inside runs it; Cache::record
//! ```
//! Everything is addressed by its BLAKE3 hash, written under another name and renamed: a process that is killed leaves
//! nothing half done, and several processes may share a folder.

mod clear;
mod executor;
mod hashes;
mod look;
mod parts;
mod store;
mod tree;

pub(crate) use clear::{Leave, Size, clear, size};
pub(crate) use executor::Cached;
pub(crate) use look::{Cache, Verdict};
