//! Ctrl-C that asks work to end itself.
//!
//! A process can watch for Ctrl-C once for several pieces of work, one after the other. The first Ctrl-C asks the work at
//! hand to end itself; the second ends the process, as does the first where there is nothing to be asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::error::{Error, Result};

/// Status of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Watches for Ctrl-C until it is dropped; from then on nobody hears of it who has not begun to listen before.
#[derive(Debug)]
pub(crate) struct Interrupts {
    state: Arc<Mutex<State>>,
    watch: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

#[derive(Debug, Default)]
struct State {
    /// What the work at hand looks at.
    stop: Option<Arc<AtomicBool>>,
    was_pressed: bool,
}

impl Interrupts {
    /// Watches; `said` tells the user what the first Ctrl-C does.
    ///
    /// # Errors
    /// [`Error::System`] if signals cannot be watched.
    pub(crate) fn watch(said: &'static str) -> Result<Self> {
        let error = |source| Error::System { what: "cannot watch signals", source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(error)?;
        let mut interrupts = {
            let _inside = runtime.enter();
            signal(SignalKind::interrupt()).map_err(error)?
        };
        let (end, mut ended) = oneshot::channel();
        let state = Arc::new(Mutex::new(State::default()));
        let watched = state.clone();
        let watch = async move {
            loop {
                tokio::select! {
                    biased;
                    _ = &mut ended => break,
                    _ = interrupts.recv() => press(&watched, said),
                }
            }
        };
        let thread = thread::spawn(move || runtime.block_on(watch));
        Ok(Self { state, watch: Some((end, thread)) })
    }

    /// Work begins: the next Ctrl-C raises the flag, if it is the first one.
    pub(crate) fn begin(&self) -> Arc<AtomicBool> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stop = (!state.was_pressed).then(|| stop.clone());
        stop
    }

    /// The work has ended: the next Ctrl-C ends the process.
    pub(crate) fn end(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stop = None;
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.watch.take() {
            drop(end);
            thread.join().ok(); // it does not panic
        }
    }
}

fn press(state: &Mutex<State>, said: &str) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(stop) = state.stop.take() else { std::process::exit(INTERRUPTED) };
    state.was_pressed = true;
    stop.store(true, Ordering::Relaxed);
    tracing::warn!("{said}");
}
