//! Bodies of requests: bounded in size, time and in what all of them together may take.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, HeaderName};
use axum::http::{HeaderMap, Request};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::api::Problem;
use crate::keys::Key;

/// Largest body that is no graph.
pub(super) const LARGEST: usize = 1 << 20;
/// What all bodies that are being read may take, in KiB.
const BUDGET: usize = 256 << 10;
/// Longest idempotency key, in bytes.
const LONGEST_KEY: usize = 200;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const CLIENT: HeaderName = HeaderName::from_static("mdts-client");

/// Reads bodies within limits.
#[derive(Debug, Clone)]
pub(super) struct Bodies {
    budget: Arc<Semaphore>,
    patience: Duration,
    pub(super) largest_graph: usize,
}

/// A request whose body was read.
pub(super) struct Content {
    pub(super) bytes: Bytes,
    pub(super) key: Option<Key>,
    pub(super) client: Option<String>,
}

impl Bodies {
    pub(super) fn new(patience: Duration, largest_graph: usize) -> Self {
        Self { budget: Arc::new(Semaphore::new(BUDGET)), patience, largest_graph }
    }

    pub(super) async fn read(&self, request: Request<Body>, limit: usize) -> Result<Content, Problem> {
        let (parts, body) = request.into_parts();
        let too_large = || Problem::too_large(format!("the body may have {limit} bytes"));
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let wanted = (length.unwrap_or(limit) / 1024 + 1).min(BUDGET) as u32;
        let read = async {
            let _permit = self.budget.acquire_many(wanted).await.ok();
            Limited::new(body, limit).collect().await
        };
        let late = |_| {
            let seconds = self.patience.as_secs_f64();
            Problem::timeout(format!("the body did not arrive within {seconds} seconds"))
        };
        let collected = tokio::time::timeout(self.patience, read).await.map_err(late)?;
        let bytes = collected.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => too_large(),
            None => Problem::bad_request(format!("the body broke off: {error}")),
        })?;
        let bytes = bytes.to_bytes();
        let client = header(&parts.headers, &CLIENT)?;
        let key = header(&parts.headers, &IDEMPOTENCY_KEY)?.map(|key| {
            let owner = client.as_deref().unwrap_or_default();
            let uri = parts.uri.to_string();
            let request = hash([parts.method.as_str().as_bytes(), uri.as_bytes(), &bytes]);
            Key { key: format!("{owner}\n{key}"), request }
        });
        Ok(Content { bytes, key, client })
    }
}

impl Content {
    pub(super) fn json<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.bytes.is_empty() {
            return Ok(T::default());
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
