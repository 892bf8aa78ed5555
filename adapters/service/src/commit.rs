//! Group commit: with [`Durability::Power`](mdts_core::journal::Durability) a thread hands records to the disk, and answers wait
//! for it. One sync serves all records that were written until it began.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use mdts_core::journal::Syncing;
use tokio::sync::watch;

/// The thread; dropping it syncs once more and ends it.
#[derive(Debug)]
pub(crate) struct Commit {
    shared: Arc<Shared>,
    done: watch::Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

/// How far the disk is.
#[derive(Debug, Clone, Default)]
struct Done {
    /// Number of the last record on disk.
    synced: u64,
    syncs: u64,
    fault: Option<String>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("written", &self.lock().written).finish_non_exhaustive()
    }
}

struct State {
    /// Number of the last record that was written.
    written: u64,
    syncing: Syncing,
    is_over: bool,
}

impl Commit {
    pub(crate) fn new(syncing: Syncing) -> std::io::Result<Self> {
        let state = Mutex::new(State { written: 0, syncing, is_over: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let (tell, done) = watch::channel(Done::default());
        let worker = shared.clone();
        let thread = std::thread::Builder::new().name("mdts-commit".to_owned());
        let thread = thread.spawn(move || worker.work(&tell))?;
        Ok(Self { shared, done, thread: Some(thread) })
    }

    /// A record was written.
    pub(crate) fn written(&self) {
        self.shared.lock().written += 1;
        self.shared.changed.notify_one();
    }

    /// From here on another file is meant; all before is on disk.
    pub(crate) fn follow(&self, syncing: Syncing) {
        self.shared.lock().syncing = syncing;
    }

    /// How often the disk was waited for.
    pub(crate) fn syncs(&self) -> u64 {
        self.done.borrow().syncs
    }

    /// Returns when all that is written now is on disk.
    ///
    /// # Errors
    /// Why it will never be.
    pub(crate) fn settled(&self) -> impl Future<Output = Result<(), String>> + Send + use<> {
        let written = self.shared.lock().written;
        let mut done = self.done.clone();
        async move {
            let reached = done.wait_for(|done| done.synced >= written || done.fault.is_some()).await;
            let reached = reached.map_err(|_| "the service stops".to_owned())?;
            match &reached.fault {
                Some(fault) if reached.synced < written => Err(fault.clone()),
                _ => Ok(()),
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, tell: &watch::Sender<Done>) {
        let mut synced = 0;
        let mut state = self.lock();
        loop {
            state = self
                .changed
                .wait_while(state, |state| state.written == synced && !state.is_over)
                .unwrap_or_else(PoisonError::into_inner);
            if state.written == synced {
                return;
            }
            let (written, syncing) = (state.written, state.syncing.clone());
            drop(state);
            let outcome = syncing();
            synced = written;
            let has_failed = outcome.is_err();
            tell.send_modify(|done| match outcome {
                Ok(()) => (done.synced, done.syncs) = (written, done.syncs + 1),
                Err(error) => done.fault = Some(format!("the journal cannot be synced: {error}")),
            });
            if has_failed {
                return; // what the disk holds is not known any more
            }
            state = self.lock();
        }
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().ok(); // an error says that it panicked
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn one_sync_serves_many_records() -> std::io::Result<()> {
        let count = Arc::new(AtomicU64::new(0));
        let counted = count.clone();
        let commit = Commit::new(Arc::new(move || {
            std::thread::sleep(Duration::from_millis(20));
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }))?;
        assert_eq!(commit.settled().await, Ok(()), "nothing was written");
        commit.written();
        let first = commit.settled();
        tokio::time::sleep(Duration::from_millis(10)).await; // the first sync has begun
        for _ in 0..100 {
            commit.written();
        }
        assert_eq!(first.await, Ok(()));
        assert_eq!(commit.settled().await, Ok(()));
        assert_eq!((count.load(Ordering::SeqCst), commit.syncs()), (2, 2));
        Ok(())
    }

    #[tokio::test]
    async fn what_is_not_on_disk_is_not_answered() -> std::io::Result<()> {
        let commit = Commit::new(Arc::new(|| Err(std::io::ErrorKind::StorageFull.into())))?;
        commit.written();
        assert!(commit.settled().await.is_err_and(|fault| fault.contains("synced")));
        Ok(())
    }
}
