//! Bodies of requests: bounded in size, time and in what all of them together may take.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, HeaderName};
use axum::http::{HeaderMap, Request};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::Problem;
use crate::keys::Key;

/// Largest body that is no graph.
pub(super) const LARGEST: usize = 1 << 20;
/// Bytes of every body that count for nothing.
const FREE: usize = 16 << 10;
/// What all bodies that are being read may take beyond that, in KiB: graphs, and others.
const GRAPHS: usize = 256 << 10;
const OTHERS: usize = 64 << 10;
/// Batches at a time.
const BATCHES: usize = 8;
/// What is read of a body that nobody wants, so that its sender reads the answer instead of a broken connection.
const UNWANTED: usize = 1 << 20;
/// Longest idempotency key, in bytes.
const LONGEST_KEY: usize = 200;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const CLIENT: HeaderName = HeaderName::from_static("mdts-client");

/// Reads bodies within limits.
#[derive(Debug, Clone)]
pub(super) struct Bodies {
    graphs: Arc<Semaphore>,
    others: Arc<Semaphore>,
    /// Graphs that are read at a time: short texts, and others.
    short_readers: Arc<Semaphore>,
    long_readers: Arc<Semaphore>,
    /// Batches that are carried out at a time, whose answers are in memory.
    pub(super) batches: Arc<Semaphore>,
    patience: Duration,
    pub(super) largest_graph: usize,
}

/// What a body takes of the budget, until nobody needs it any more.
pub(super) type Room = Option<Arc<OwnedSemaphorePermit>>;

/// A request whose body was read.
pub(super) struct Content {
    pub(super) bytes: Bytes,
    pub(super) key: Option<Key>,
    /// The key as it was sent.
    pub(super) sent_key: Option<String>,
    pub(super) client: Option<String>,
    pub(super) room: Room,
}

impl Bodies {
    pub(super) fn new(patience: Duration, largest_graph: usize) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            graphs: semaphore(GRAPHS),
            others: semaphore(OTHERS),
            short_readers: semaphore(2),
            long_readers: semaphore(1),
            batches: semaphore(BATCHES),
            patience,
            largest_graph,
        }
    }

    /// Reads a text on another thread, when it is its turn: few at a time, and what a long or a packed one takes is taken once at
    /// a time. Turn and room are kept until the reader is done, also when nobody waits for it any more.
    pub(super) async fn beside<T: Send + 'static>(
        &self,
        (text, room): (Bytes, Room),
        reader: impl FnOnce(&[u8]) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let is_long = text.len() > LARGEST || text.starts_with(b"\x1f\x8b");
        let readers = if is_long { &self.long_readers } else { &self.short_readers };
        let turn = readers.clone().acquire_owned().await; // an error never comes: nobody closes it
        let read = move || {
            let _kept = (turn, room);
            reader(&text)
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| Problem::internal(error.to_string()))?
    }

    pub(super) async fn read(&self, request: Request<Body>, limit: usize) -> Result<Content, Problem> {
        let (parts, body) = request.into_parts();
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        let late = |_| {
            let seconds = self.patience.as_secs_f64();
            Problem::timeout(format!("the body did not arrive within {seconds} seconds"))
        };
        let collected = tokio::time::timeout(self.patience, self.collect(body, limit)).await;
        let (bytes, room) = collected.map_err(late)??;
        let client = header(&parts.headers, &CLIENT)?;
        let sent_key = header(&parts.headers, &IDEMPOTENCY_KEY)?;
        let key = sent_key.as_ref().map(|key| {
            let owner = client.as_deref().unwrap_or_default();
            let uri = parts.uri.to_string();
            let request = hash([parts.method.as_str().as_bytes(), uri.as_bytes(), &bytes]);
            Key { key: format!("{owner}\n{key}"), request }
        });
        Ok(Content { bytes, key, sent_key, client, room: room.map(Arc::new) })
    }

    /// Takes room for what has arrived, not for what was announced.
    async fn collect(
        &self,
        mut body: Body,
        limit: usize,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Problem> {
        let budget = if limit > LARGEST { &self.graphs } else { &self.others };
        let (mut bytes, mut room): (BytesMut, Option<OwnedSemaphorePermit>) = Default::default();
        while let Some(frame) = body.frame().await {
            let broken = |error| Problem::bad_request(format!("the body broke off: {error}"));
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            let length = bytes.len() + data.len();
            if length > limit {
                return Err(too_large(limit));
            }
            let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let more = (length.saturating_sub(FREE).div_ceil(1024)).saturating_sub(held);
            if more > 0 {
                let taken = budget.clone().try_acquire_many_owned(more as u32);
                let taken = taken.map_err(|_| Problem::busy("too many large bodies arrive at a time"))?;
                match &mut room {
                    Some(room) => room.merge(taken),
                    None => room = Some(taken),
                }
            }
            bytes.extend_from_slice(&data);
        }
        Ok((bytes.freeze(), room))
    }
}

/// Reads what nobody wants piece by piece, if it is not much and comes at once.
pub(super) async fn pass_over(request: Request<Body>) {
    let mut body = request.into_body();
    let read = async {
        let mut left = UNWANTED;
        while let Some(Ok(frame)) = body.frame().await {
            let Some(less) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { break };
            left = less;
        }
    };
    _ = tokio::time::timeout(Duration::from_secs(2), read).await;
}

fn too_large(limit: usize) -> Problem {
    Problem::too_large(format!("the body may have {limit} bytes"))
}

impl Content {
    pub(super) fn json<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.bytes.is_empty() {
            return Ok(T::default());
        }
        if !self.bytes.trim_ascii_start().starts_with(b"{") {
            return Err(Problem::bad_request("the body: expected a JSON object"));
        }
        serde_json::from_slice(&self.bytes)
            .map_err(|error| Problem::bad_request(format!("the body: {error}")))
    }
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let value = value.to_str().ok().filter(|value| !value.is_empty() && value.len() <= LONGEST_KEY);
    let wrong =
        || Problem::bad_request(format!("the header {name} must have 1 to {LONGEST_KEY} ASCII characters"));
    value.map(|value| Some(value.to_owned())).ok_or_else(wrong)
}

/// FNV-1a: kept in journals, so it must not change. It tells mistakes apart, not malice.
fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.iter().chain(&[0]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn readers_that_nobody_waits_for_count() -> Result<(), Box<dyn std::error::Error>> {
        let bodies = Bodies::new(Duration::from_secs(30), 64 << 20);
        let permit = bodies.graphs.clone().try_acquire_many_owned(1000)?;
        let room = Some(Arc::new(permit));
        let text = || Bytes::from(vec![b' '; LARGEST + 1]);
        let (begun, begins) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        let reader = move |_: &[u8]| {
            begun.send(()).ok(); // the test waits
            goes.recv().map_err(|error| Problem::internal(error.to_string()))
        };
        let first = tokio::spawn({
            let bodies = bodies.clone();
            async move { bodies.beside((text(), room), reader).await }
        });
        tokio::task::spawn_blocking(move || begins.recv()).await??;
        first.abort();
        assert!(first.await.is_err_and(|error| error.is_cancelled()), "its client has hung up");
        assert_eq!(bodies.graphs.available_permits(), GRAPHS - 1000);
        let second = bodies.beside((text(), None), |text| Ok(text.len()));
        let mut second = std::pin::pin!(second);
        let early = tokio::time::timeout(Duration::from_millis(100), second.as_mut()).await;
        assert!(early.is_err(), "the first one is still being read");
        go.send(())?;
        assert_eq!(second.await.map_err(|problem| problem.detail)?, LARGEST + 1);
        assert_eq!(bodies.graphs.available_permits(), GRAPHS);
        Ok(())
    }
}
