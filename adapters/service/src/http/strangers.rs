//! Connections that have not shown the token yet: few at a time, and not for long, so that they keep nobody out who has it.
//!
//! Whoever comes while there are [`MOST`] takes the place of the one that has been there longest. So who sends the token at once
//! gets in however many others come and say nothing. O(log of their number) per connection.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Strangers at a time.
const MOST: usize = 256;

/// All that have not shown the token, by when they came.
#[derive(Debug)]
pub(super) struct Strangers {
    list: Mutex<BTreeMap<u64, Arc<Guest>>>,
    next: AtomicU64,
    most: usize,
    patience: Duration,
}

/// Whoever is at the other end of a connection.
#[derive(Debug)]
pub(super) struct Guest {
    number: u64,
    strangers: Arc<Strangers>,
    is_known: AtomicBool,
    sent_away: Notify,
}

/// A guest, for as long as the connection lasts.
#[derive(Debug)]
pub(super) struct Visit(Arc<Guest>);

impl Strangers {
    /// Of `connections` at a time, strangers are a quarter at most.
    pub(super) fn new(connections: usize, patience: Duration) -> Arc<Self> {
        let most = MOST.min(connections / 4).max(1);
        Arc::new(Self { list: Mutex::default(), next: AtomicU64::new(0), most, patience })
    }

    pub(super) fn welcome(self: &Arc<Self>) -> Visit {
        let guest = Arc::new(Guest {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            strangers: self.clone(),
            is_known: AtomicBool::new(false),
            sent_away: Notify::new(),
        });
        let mut list = self.list();
        list.insert(guest.number, guest.clone());
        if list.len() > self.most
            && let Some((_, oldest)) = list.pop_first()
        {
            oldest.sent_away.notify_one();
        }
        Visit(guest)
    }

    fn list(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Guest>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// It has shown the token.
    pub(super) fn introduce(&self) {
        // Those that are not in the list any more were sent away a moment ago.
        if !self.is_known.load(Ordering::Relaxed) && self.strangers.list().remove(&self.number).is_some() {
            self.is_known.store(true, Ordering::Relaxed);
        }
    }
}

impl Visit {
    /// Talks until the end, or until the guest has been a stranger for too long.
    pub(super) async fn lasts(&self, talk: impl Future<Output = ()>) {
        let patience = async {
            tokio::select! {
                () = tokio::time::sleep(self.0.strangers.patience) => {},
                () = self.0.sent_away.notified() => return,
            }
            if self.0.is_known.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = talk => {},
            () = patience => tracing::debug!("a connection did not show the token in time"),
        }
    }

    /// To be put into every request of the connection.
    pub(super) fn guest(&self) -> Arc<Guest> {
        self.0.clone()
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.strangers.list().remove(&self.0.number);
    }
}
