//! The placement service: one scheduler that any workflow engine can ask over HTTP.
//!
//! ```text
//!   http (paths, limits, tokens, TLS) --> Desk (lock, clock, journal, keys) --> brain (no I/O) --> mdts_core's engine
//! ```
//! Engines submit jobs, ask for placements of their ready tasks, start what is granted and report what comes of it; nodes
//! register and send heartbeats. `docs/service.md` describes the interface with a curl line for every call, and what it
//! promises across versions.
//!
//! - [`api`]: the bodies of requests and answers
//! - [`Desk`]: the state behind a lock, recorded in a journal
//! - [`serve`]: the listeners
//! - [`client`]: a small client, blocking and async
//! - [`demo`]: something to look at

pub mod api;
mod brain;
pub mod client;
mod commit;
pub mod demo;
mod desk;
mod error;
mod histogram;
mod http;
mod keys;
mod options;
mod record;

pub use desk::Desk;
pub use error::{Error, Result};
pub use http::{Server, openapi, serve};
pub use options::{Listen, Options, Tls};
