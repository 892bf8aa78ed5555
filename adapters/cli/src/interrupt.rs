//! Ctrl-C that asks work to end itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Error, Result};

/// Status of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// From now on the first Ctrl-C raises `stop` and says so, and one while it is raised ends the process.
///
/// # Errors
/// [`Error::System`] if signals cannot be watched.
pub(crate) fn obey(stop: Arc<AtomicBool>, said: &'static str) -> Result<()> {
    let error = |source| Error::System { what: "cannot watch signals", source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(error)?;
    let mut interrupts = {
        let _inside = runtime.enter();
        signal(SignalKind::interrupt()).map_err(error)?
    };
    let watch = async move {
        while interrupts.recv().await.is_some() {
            if stop.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED);
            }
            tracing::warn!("{said}");
        }
    };
    thread::spawn(move || runtime.block_on(watch));
    Ok(())
}
