//! Signals that stop a run: Ctrl-C by degrees, a polite kill and the terminal going away at once.

use mdts_core::runner::{Stop, Stopper};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{Error, Result};

/// Ctrl-C, a polite kill, and the terminal going away.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None under nohup, which asks for it to be ignored.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Watches for them from now on, within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(crate) fn listen() -> Result<Self> {
        let listen =
            |kind| signal(kind).map_err(|source| Error::System { what: "cannot watch signals", source });
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: if ignores_hang_up() { None } else { Some(listen(SignalKind::hangup())?) },
        })
    }

    /// Stops a run when they come; goes on until it is aborted.
    pub(crate) async fn obey(mut self, stopper: Stopper) {
        loop {
            let (what, degree) = tokio::select! {
                _ = self.interrupt.recv() => ("interrupted", stopper.escalate()),
                _ = self.terminate.recv() => ("terminated", Stop::Cancel),
                () = hung_up(&mut self.hang_up) => ("the terminal is gone", Stop::Cancel),
            };
            stopper.stop(degree);
            match (what, degree) {
                ("interrupted", Stop::Cancel) => tracing::warn!("interrupted again: cancelling what runs"),
                (what, Stop::Cancel) => tracing::warn!("{what}: cancelling what runs"),
                _ => {
                    tracing::warn!("interrupted: nothing new starts; press Ctrl-C again to cancel what runs");
                }
            }
        }
    }
}

/// Whether the process was started with SIGHUP ignored; where the system does not tell, it was not.
fn ignores_hang_up() -> bool {
    const SIGHUP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (SIGHUP - 1)) != 0
}

async fn hung_up(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
