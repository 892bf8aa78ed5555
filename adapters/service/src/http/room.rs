//! What answers take until they are taken: a budget for all of them together.
//!
//! Every answer beyond [`FREE`] bytes takes its size from a budget and gives it back when its last byte has been handed to the system.
//! Looks and changes have a budget each, so that slow readers of lists keep nobody from making changes. A look that finds no room is
//! refused. A change must not be refused when it has been made: it is refused beforehand when no room is left, and otherwise takes what
//! there is.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::router::Shared;
use crate::Desk;
use crate::api::Problem;

/// Bytes of every answer that count for nothing.
const FREE: usize = 16 << 10;
/// What the answers to looks, and those to changes, may take beyond that, in KiB.
const LOOKS: usize = 128 << 10;
const CHANGES: usize = 128 << 10;

/// What is left for answers.
#[derive(Debug)]
pub(super) struct Rooms {
    looks: Arc<Semaphore>,
    changes: Arc<Semaphore>,
}

/// An answer, for as long as it is kept.
struct Kept {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Rooms {
    fn default() -> Self {
        Self { looks: Arc::new(Semaphore::new(LOOKS)), changes: Arc::new(Semaphore::new(CHANGES)) }
    }
}

impl Rooms {
    /// Takes room for an answer of so many bytes; none is needed for a short one.
    fn take(&self, bytes: usize, is_look: bool) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        let wanted = bytes.saturating_sub(FREE).div_ceil(1024);
        if wanted == 0 {
            return Ok(None);
        }
        let (budget, all) = if is_look { (&self.looks, LOOKS) } else { (&self.changes, CHANGES) };
        loop {
            let most = if is_look { all } else { budget.available_permits() };
            match budget.clone().try_acquire_many_owned(wanted.min(most) as u32) {
                Ok(room) => return Ok(Some(room)),
                Err(_) if is_look => return Err(full()),
                Err(_) => {} // another one was faster
            }
        }
    }
}

fn full() -> Problem {
    Problem::busy("the answers that their clients have not taken yet are too many")
}

impl Shared {
    /// The desk, to make a change, if there is room for its answer.
    pub(super) fn open_desk(&self) -> Result<&Desk, Problem> {
        if self.rooms.changes.available_permits() == 0 { Err(full()) } else { Ok(&self.desk) }
    }
}

/// Counts what an answer takes until it has been taken.
pub(super) async fn keep(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let is_look = request.method() == Method::GET;
    let (parts, body) = next.run(request).await.into_parts();
    let bytes = body.size_hint().lower() as usize;
    let room = match shared.rooms.take(bytes, is_look) {
        Ok(None) => return Response::from_parts(parts, body),
        Ok(Some(room)) => room,
        Err(problem) => return problem.into_response(),
    };
    match body.collect().await {
        Ok(body) => {
            let kept = Kept { bytes: body.to_bytes(), _room: room };
            Response::from_parts(parts, Body::from(Bytes::from_owner(kept)))
        }
        Err(error) => Problem::internal(error.to_string()).into_response(),
    }
}
