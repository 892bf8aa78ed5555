//! The sidecar: a process beside slurmctld that sees the cluster in the background and answers submissions at once.
//!
//! ```text
//!   Lua, plugin, filter --socket--> Server --> Desk (brain, queue, graphs)      <-- Watch (scontrol, squeue; plans, pins, releases)
//! ```

mod desk;
mod graphs;
mod server;

pub use desk::{Desk, Peer};
pub use graphs::Graphs;
pub use server::{Door, Server};
