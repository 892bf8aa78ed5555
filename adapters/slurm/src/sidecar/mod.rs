//! The sidecar: a process beside slurmctld that sees the cluster in the background and answers submissions at once.
//!
//! ```text
//!   Lua, plugin, filter --socket--> Server --> Desk (brain, queue, graphs)      <-- Watch (looks, plans, changes jobs that wait)
//! ```

mod desk;
mod durations;
mod graphs;
mod planning;
mod server;
mod survey;
mod watch;

pub use desk::{Desk, Peer};
pub use durations::Durations;
pub use graphs::Graphs;
pub use planning::{Situation, Steps, undone};
pub use server::{Door, Server};
pub use survey::{Look, Speeds};
pub use watch::{Watch, WatchOptions, look};
