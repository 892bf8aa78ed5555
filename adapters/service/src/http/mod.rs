//! The desk over HTTP/1.1.

mod answer;
mod body;
mod jobs;
mod listen;
mod metrics;
mod nodes;
mod openapi;
mod operation;
mod patient;
mod place;
mod room;
mod router;
mod strangers;
mod tls;

pub use listen::{Server, serve};
pub use openapi::openapi;
