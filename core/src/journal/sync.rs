//! Group commit: a thread that hands what was written to the disk, at most every 50 ms.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(50);

/// The thread; dropping it syncs once more and ends it.
#[derive(Debug)]
pub(super) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    file: Arc<File>,
    is_dirty: bool,
    is_over: bool,
    error: Option<io::Error>,
}

impl Syncer {
    pub(super) fn new(file: Arc<File>) -> io::Result<Self> {
        let state = State { file, is_dirty: false, is_over: false, error: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let worker = shared.clone();
        let thread =
            std::thread::Builder::new().name("mdts-journal".to_owned()).spawn(move || worker.work())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Something was written. Returns an error of an earlier sync.
    pub(super) fn touch(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        if !std::mem::replace(&mut state.is_dirty, true) {
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    /// From here on another file is meant.
    pub(super) fn follow(&self, file: Arc<File>) {
        let mut state = self.shared.lock();
        (state.file, state.is_dirty) = (file, false);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if state.is_dirty {
                state.is_dirty = false;
                let file = state.file.clone();
                drop(state);
                let synced = file.sync_data();
                state = self.lock();
                state.error = state.error.take().or(synced.err());
            }
            if state.is_over && !state.is_dirty {
                return;
            }
            // After a sync wait for the period; then for something to sync.
            let is_over = |state: &mut State| !state.is_over;
            let wait = self.changed.wait_timeout_while(state, PERIOD, is_over);
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
            let idle = |state: &mut State| !state.is_dirty && !state.is_over;
            state = self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().ok(); // an error says that it panicked
        }
    }
}
