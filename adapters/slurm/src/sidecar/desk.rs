//! What is asked of the sidecar, and its answers.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Graphs;
use crate::brain::{Brain, Decision, Request, Settings, Standing, Tag, Verdict, View};
use crate::escape::escape;
use crate::queue::Standings;

/// A submission waits so long for a workflow file that is not known yet.
const PATIENCE: Duration = Duration::from_millis(8);

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Number of the user at the other end.
    pub user: u32,
    /// It speaks for others: root, and the user of the sidecar itself.
    pub is_trusted: bool,
}

/// Shared by all connections and the watch.
#[derive(Debug)]
pub struct Desk {
    brain: Mutex<Brain>,
    standings: Mutex<Arc<Standings>>,
    graphs: Graphs,
    clock: Instant,
    answered: AtomicU64,
    placed: AtomicU64,
    refused: AtomicU64,
    malformed: AtomicU64,
}

impl Desk {
    /// A desk that has seen nothing: everybody passes.
    pub fn new(settings: Settings) -> Self {
        Self {
            brain: Mutex::new(Brain::new(settings)),
            standings: Mutex::default(),
            graphs: Graphs::default(),
            clock: Instant::now(),
            answered: AtomicU64::new(0),
            placed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
        }
    }

    /// Seconds since it was opened: the clock of everything here.
    pub fn now(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }

    /// Takes what was seen of the cluster and its queue, in a look that began at `began`.
    pub fn see(&self, view: View, standings: Standings, began: f64) {
        self.brain().refresh(view, began);
        *self.standings.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(standings);
    }

    /// The answer to a message, both in lines; the answer ends in an empty one.
    pub async fn answer(&self, message: &str, peer: Peer) -> String {
        if message.lines().any(|line| line == "ask=status") {
            return self.status();
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
        match Request::from_wire(message) {
            Ok(mut request) => {
                if !peer.is_trusted || request.user.is_none() {
                    request.user = Some(peer.user);
                }
                self.decide(&request).await.to_wire()
            }
            Err(error) => {
                self.malformed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%error, user = peer.user, "a request cannot be read");
                Verdict::Go(Decision::none(format!("the request cannot be read: {error}"))).to_wire()
            }
        }
    }

    /// The verdict on a request whose user is known.
    pub async fn decide(&self, request: &Request) -> Verdict {
        let standing = self.standing(request).await;
        let verdict = self.brain().decide(request, &standing, self.now());
        match &verdict {
            Verdict::Hopeless(message) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                tracing::info!(name = request.name, user = request.user, message, "refused");
            }
            Verdict::Go(decision) => {
                self.placed.fetch_add(u64::from(!decision.is_none()), Ordering::Relaxed);
                tracing::debug!(name = request.name, user = request.user, ?decision, "answered");
            }
        }
        verdict
    }

    async fn standing(&self, request: &Request) -> Standing {
        if let (Some(Tag::Graph { file, task }), Some(user)) =
            (request.comment.as_deref().and_then(Tag::read), request.user)
        {
            let found = tokio::time::timeout(PATIENCE, self.graphs.find(file, task, user)).await;
            if let Ok(Some(standing)) = found {
                return standing;
            }
        }
        let Some(dependency) = request.dependency.as_deref() else { return Standing::default() };
        let standings = self.standings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        standings.of_new(dependency, request.minutes.map(|minutes| minutes as f64 * 60.0))
    }

    fn status(&self) -> String {
        let (age, nodes) = {
            let brain = self.brain();
            (brain.seen_at().map(|at| self.now() - at), brain.view().nodes.len())
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
        let lines = [
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("age", age.map_or_else(|| "none".to_owned(), |age| format!("{age:.3}"))),
            ("nodes", nodes.to_string()),
            ("answered", count(&self.answered)),
            ("placed", count(&self.placed)),
            ("refused", count(&self.refused)),
            ("malformed", count(&self.malformed)),
        ];
        let mut text = String::new();
        for (key, value) in lines {
            _ = writeln!(text, "{key}={}", escape(&value));
        }
        text + "\n"
    }

    /// A decision that panicked has left nothing half-done that the next view would not replace.
    fn brain(&self) -> MutexGuard<'_, Brain> {
        self.brain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
