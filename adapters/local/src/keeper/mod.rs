//! The keeper: a small process between the runner and its tasks, which outlives the runner.
//!
//! ```text
//!   runner -- Unix socket: launch --> keeper -- fork, wait --> tasks
//!     ^------- ended --------------------|
//!                                        `--> DIR/attempts: began, ended
//! ```
//! The parent of a process alone learns how it ends. With the keeper as their parent, tasks go on when the runner is
//! killed, and the runner that resumes the run finds in [`register`] what became of them: it connects to the same
//! keeper if that still lives. A keeper ends when it has neither a runner nor tasks.

mod client;
mod protocol;
mod register;
mod server;

pub(crate) use client::{Found, Keeper};
pub(crate) use protocol::{Ended, Ending};
pub use server::keep;

/// Whether a keeper has worked, or works, in this folder.
pub fn was_kept(folder: &std::path::Path) -> bool {
    [SOCKET, REGISTER].iter().any(|name| folder.join(name).exists())
}

/// The names in a keeper's folder: its socket, what it complains of, and the register of attempts.
const SOCKET: &str = "keeper.sock";
const COMPLAINTS: &str = "keeper.log";
const REGISTER: &str = "attempts";
