//! What operators look at.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::answer::Told;
use super::openapi::openapi;
use super::router::Shared;
use crate::api::Problem;

/// Whether the service is alive.
#[utoipa::path(get, path = "/healthz", tag = "operation", responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn health() -> &'static str {
    "alive\n"
}

/// Whether the service can make and record changes.
#[utoipa::path(get, path = "/readyz", tag = "operation",
    responses((status = 200, body = String, content_type = "text/plain"), (status = 503, body = Problem)))]
pub(super) async fn readiness(State(shared): State<Arc<Shared>>) -> Told {
    shared.desk.readiness()?;
    Ok("ready\n".into_response())
}

/// Numbers for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operation", responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let (figures, measures) = shared.desk.figures();
    let text = shared.metrics.show(&figures, &measures);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "operation", responses((status = 200, body = Object)))]
pub(super) async fn document() -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| openapi().to_string());
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}
