//! Which path leads where, behind tokens, measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use mdts_core::engine::JobId;
use tracing::Instrument;

use super::body::{Bodies, pass_over};
use super::metrics::Metrics;
use super::room::{Rooms, keep};
use super::strangers::Guest;
use super::{jobs, nodes, operation, place};
use crate::Desk;
use crate::api::Problem;

/// How the header with a token begins.
const BEARER: &[u8] = b"Bearer ";

/// What all handlers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) desk: Arc<Desk>,
    pub(super) bodies: Bodies,
    pub(super) metrics: Metrics,
    pub(super) rooms: Rooms,
}

/// The router; with a token, all but health needs it.
pub(super) fn router(shared: Arc<Shared>, token: Option<&str>) -> Router {
    let measured = |router: Router| router.layer(middleware::from_fn_with_state(shared.clone(), measure));
    let kept = |router: Router| router.layer(middleware::from_fn_with_state(shared.clone(), keep));
    let plain = kept(routes().with_state(shared.clone()));
    let batch = Router::new()
        .route("/v1/batch", post(place::batch))
        .method_not_allowed_fallback(wrong_method)
        .with_state((shared.clone(), measured(plain.clone())));
    let settled = plain.merge(kept(batch)).layer(middleware::from_fn_with_state(shared.clone(), settle));
    let all = measured(settled);
    match token {
        Some(token) => {
            let digest = blake3::hash(token.as_bytes());
            all.layer(middleware::from_fn_with_state((shared, digest), authorize))
        }
        None => all,
    }
}

fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/healthz", get(operation::health))
        .route("/readyz", get(operation::readiness))
        .route("/metrics", get(operation::metrics))
        .route("/openapi.json", get(operation::document))
        .route("/v1/nodes", get(nodes::list).post(nodes::register_all))
        .route("/v1/nodes/{node}", put(nodes::register).get(nodes::show).delete(nodes::remove))
        .route("/v1/nodes/{node}/heartbeat", post(nodes::heartbeat))
        .route("/v1/nodes/{node}/drain", post(nodes::drain).merge(delete(nodes::undrain)))
        .route("/v1/heartbeats", post(nodes::heartbeats))
        .route("/v1/jobs", post(jobs::submit).get(jobs::list))
        .route("/v1/jobs/{job}", get(jobs::show).delete(jobs::cancel))
        .route("/v1/jobs/{job}/extend", post(jobs::extend))
        .route("/v1/jobs/{job}/tasks", get(jobs::tasks))
        .route("/v1/jobs/{job}/tasks/{task}", get(jobs::task))
        .route("/v1/jobs/{job}/place", post(place::place))
        .route("/v1/jobs/{job}/grants", get(place::grants))
        .route("/v1/jobs/{job}/events", post(place::events))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
}

async fn unknown(request: Request) -> Problem {
    let path = request.uri().path().chars().take(200).collect::<String>();
    pass_over(request).await;
    Problem::not_found(format!("there is no path {}; /openapi.json lists all", path.escape_debug()))
}

async fn wrong_method(request: Request) -> Problem {
    let method = request.method().clone();
    pass_over(request).await;
    Problem::method_not_allowed(format!("{method} is none of them; /openapi.json lists all"))
}

/// Lets through who knows the token. Digests are compared, in the same time wherever they differ, so that the time tells neither how
/// a wrong token begins nor how long the right one is.
async fn authorize(
    State((shared, token)): State<(Arc<Shared>, blake3::Hash)>,
    request: Request,
    next: Next,
) -> Response {
    let is_open = matches!(request.uri().path(), "/healthz" | "/readyz");
    let sent = request.headers().get(AUTHORIZATION).map(axum::http::HeaderValue::as_bytes);
    let sent = sent.and_then(|value| value.split_at_checked(BEARER.len()));
    let sent = sent.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(BEARER)).map(|(_, token)| token);
    let is_known = sent.is_some_and(|sent| blake3::hash(sent) == token);
    if let Some(guest) = request.extensions().get::<Arc<Guest>>().filter(|_| is_known) {
        guest.introduce();
    }
    if is_open || is_known {
        return next.run(request).await;
    }
    let detail = match sent {
        None => "send the header Authorization: Bearer TOKEN, with the token of the service's token file",
        Some(_) => "the token is not that of the service's token file",
    };
    pass_over(request).await;
    shared.metrics.answered("other", "other", 401, Duration::ZERO);
    Problem::unauthorized(detail).into_response()
}

/// Answers when what is told has been made to last; what could not be recorded is not told. Health and numbers do not wait.
async fn settle(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let tells_state = !matches!(request.uri().path(), "/healthz" | "/metrics" | "/openapi.json");
    let response = next.run(request).await;
    if !tells_state {
        return response;
    }
    let settled = match shared.desk.settled() {
        Some(settled) => settled.await,
        None => Ok(()),
    };
    match settled.and_then(|()| shared.desk.readiness()) {
        Ok(()) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn measure(State(shared): State<Arc<Shared>>, request: Request<Body>, next: Next) -> Response {
    let begin = Instant::now();
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = request.method().clone();
    let caller = request.headers().get("traceparent").and_then(|caller| caller.to_str().ok());
    let span = tracing::debug_span!(
        "request",
        method = method.as_str(),
        path = request.uri().path(),
        route = path.as_deref(),
        traceparent = caller,
        status = tracing::field::Empty
    );
    let response = next.run(request).instrument(span.clone()).await;
    let (status, took) = (response.status().as_u16(), begin.elapsed());
    span.record("status", status);
    span.in_scope(|| tracing::debug!(status, seconds = took.as_secs_f64(), "answered"));
    shared.metrics.answered(method.as_str(), path.as_deref().unwrap_or("other"), status, took);
    response
}

/// The job that a path names, as in `j12`.
pub(super) fn job_id(text: &str) -> Result<JobId, Problem> {
    let number = text.strip_prefix('j').filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let number = number.and_then(|n| n.parse::<u32>().ok()).map(JobId::from);
    number.ok_or_else(|| {
        Problem::not_found(format!("'{}' names no job; job ids look like j12", text.escape_debug()))
    })
}

pub(super) fn path<T>(found: Result<axum::extract::Path<T>, PathRejection>) -> Result<T, Problem> {
    found.map(|found| found.0).map_err(|error| Problem::bad_request(format!("the path: {error}")))
}

pub(super) fn query<T>(found: Result<axum::extract::Query<T>, QueryRejection>) -> Result<T, Problem> {
    found
        .map(|found| found.0)
        .map_err(|error| Problem::bad_request(format!("the query: {}", error.body_text())))
}
