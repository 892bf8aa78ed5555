//! Placements, grants, reports, and several calls in one.

#![allow(unused_qualifications)] // in what utoipa makes of parameters

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, Request, State};
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use mdts_core::engine::JobId;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tower_service::Service;
use utoipa::IntoParams;

use super::answer::{Told, ok};
use super::body::LARGEST;
use super::router::{Shared, job_id, path, query};
use crate::api::{Batch, BatchAnswer, Events, EventsAnswer, Grants, Place, PlaceAnswer, Problem, object};
use crate::brain::{Brain, Change, Outcome};

/// Most calls in a batch.
const MOST_CALLS: usize = 1000;
/// Calls of a batch are made until their answers have so many bytes.
const MOST_BYTES: usize = 8 << 20;
/// Longest wait for grants, in seconds, and as a part of the job's lease: who waits asks again before the lease is over.
const LONGEST_WAIT: f64 = 60.0;
const LONGEST_PART: f64 = 0.5;

/// A [`Batch`](crate::api::Batch) whose bodies remain texts: as values they would take many times as much memory.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRead {
    #[serde(deserialize_with = "calls")]
    calls: Vec<CallRead>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallRead {
    method: String,
    path: String,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    body: Option<Box<RawValue>>,
}

/// Reads no more calls than a batch may have, and one.
fn calls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CallRead>, D::Error> {
    object::first(deserializer, MOST_CALLS + 1)
}

/// A [`BatchAnswer`], likewise.
#[derive(Debug, Serialize)]
struct BatchAnswered {
    answers: Vec<CallAnswered>,
}

#[derive(Debug, Serialize)]
struct CallAnswered {
    status: u16,
    body: Box<RawValue>,
}

/// Marks the calls of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct InBatch;

type Id = Result<Path<String>, PathRejection>;

/// Place tasks in one decision step. A request that is sent again gets the present state of the same placements.
#[utoipa::path(post, path = "/v1/jobs/{job}/place", tag = "placement", params(("job" = String, Path)), request_body = Place,
    responses((status = 200, body = PlaceAnswer), (status = 400, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn place(State(shared): State<Arc<Shared>>, id: Id, request: Request) -> Told {
    let content = shared.bodies.read(request, LARGEST).await?;
    let job = job_id(&path(id)?)?;
    let wanted: Place = content.json()?;
    if wanted.ahead && wanted.tasks.is_some() {
        return Err(Problem::unusable("give either tasks or ahead: tasks may always be named ahead of time"));
    }
    let tasks = std::cell::RefCell::new(Vec::new());
    let plan = |brain: &mut Brain| {
        brain.hear_job(job)?;
        let (all, new) = brain.wanted(job, &wanted)?;
        tasks.replace(all);
        Ok((!new.is_empty()).then(|| Change::asked(job, &new)))
    };
    let view = |brain: &Brain, _: Outcome| {
        let placements = tasks.take().into_iter().map(|task| brain.placement(job, task));
        let placements = placements.collect::<Result<_, _>>()?;
        Ok((200, PlaceAnswer { placements, after: brain.latest_grant(job)? }))
    };
    Ok(shared.open_desk()?.carry_out_anew(content.key, plan, view)?.into_response())
}

/// From which grant on, and how long to wait for one.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct From {
    /// Grants after this number.
    #[serde(default)]
    after: u64,
    /// Seconds to wait until there is one or the job has ended, at most 60. No wait is longer than half the job's lease, which begins
    /// anew when the request arrives.
    #[serde(default)]
    #[param(minimum = 0.0, maximum = 60.0)]
    wait: f64,
}

/// List what was granted and what lost its node, and wait for it if there is nothing.
#[utoipa::path(get, path = "/v1/jobs/{job}/grants", tag = "placement", params(("job" = String, Path), From),
    responses((status = 200, body = Grants), (status = 400, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn grants(
    State(shared): State<Arc<Shared>>,
    id: Id,
    from: Result<Query<From>, QueryRejection>,
    in_batch: Option<Extension<InBatch>>,
) -> Told {
    let (job, from) = (job_id(&path(id)?)?, query(from)?);
    if !(0.0..=LONGEST_WAIT).contains(&from.wait) {
        return Err(Problem::unusable("wait must be 0 to 60 seconds"));
    }
    if from.wait > 0.0 && in_batch.is_some() {
        return Err(Problem::unusable("a call of a batch does not wait"));
    }
    // Only that it has come is a sign of life: nobody can tell whether a client that waits is still there.
    let lease = heard(&shared, job, |brain| brain.lease(job))?;
    let wait = if lease > 0.0 { from.wait.min(lease * LONGEST_PART) } else { from.wait };
    let deadline = tokio::time::Instant::now() + Duration::from_secs_f64(wait);
    loop {
        let bell = shared.desk.bell(job);
        let mut rings = std::pin::pin!(bell.notified());
        rings.as_mut().enable(); // what happens from here on is not missed
        let grants = shared.desk.look(|brain| brain.grants(job, from.after))?;
        let is_over = tokio::time::Instant::now() >= deadline;
        if !grants.grants.is_empty() || grants.ended || is_over {
            return ok(&grants);
        }
        _ = tokio::time::timeout_at(deadline, rings).await;
    }
}

/// Report what has happened to attempts. A report that is sent again counts once.
#[utoipa::path(post, path = "/v1/jobs/{job}/events", tag = "placement", params(("job" = String, Path)), request_body = Events,
    responses((status = 200, body = EventsAnswer), (status = 400, body = Problem), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn events(State(shared): State<Arc<Shared>>, id: Id, request: Request) -> Told {
    let content = shared.bodies.read(request, LARGEST).await?;
    let job = job_id(&path(id)?)?;
    let told: Events = content.json()?;
    heard(&shared, job, |_| Ok(()))?; // also when it was answered before
    let reports = std::cell::RefCell::new(Vec::new());
    let plan = |brain: &mut Brain| {
        let events = brain.reports(job, &told.events)?;
        reports.replace(events.clone());
        Ok((!events.is_empty()).then_some(Change::Events { job: job.get(), events }))
    };
    let view = |brain: &Brain, outcome: Outcome| {
        let results = match outcome {
            Outcome::Heard(results) => results,
            _ => Vec::new(),
        };
        Ok((200, brain.events_answer(job, &reports.borrow(), results)))
    };
    Ok(shared.open_desk()?.carry_out(content.key, plan, view)?.into_response())
}

/// Make several calls, one after the other, in one request.
#[utoipa::path(post, path = "/v1/batch", tag = "placement", request_body = Batch,
    responses((status = 200, body = BatchAnswer), (status = 400, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn batch(State((shared, router)): State<(Arc<Shared>, Router)>, request: Request) -> Told {
    let content = shared.bodies.read(request, shared.bodies.largest_graph).await?;
    let batch: BatchRead = content.json()?;
    if batch.calls.len() > MOST_CALLS {
        return Err(Problem::unusable(format!("a batch has at most {MOST_CALLS} calls")));
    }
    let _turn = shared.bodies.batches.acquire().await; // an error never comes: nobody closes it
    let mut answers = Vec::with_capacity(batch.calls.len());
    let mut bytes = 0;
    for (number, mut call) in batch.calls.into_iter().enumerate() {
        if let (None, Some(key)) = (&call.key, &content.sent_key) {
            call.key = Some(format!("{key}/{number}"));
        }
        let answer = if bytes > MOST_BYTES {
            let what = format!("the answers before this one have {MOST_BYTES} bytes; make it by itself");
            Err(Problem::too_large(what))
        } else {
            carry_out(router.clone(), call, content.client.as_deref()).await
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(problem) => CallAnswered {
                status: problem.status,
                body: to_raw_value(&problem).map_err(|error| unwritable(&error))?,
            },
        };
        bytes += answer.body.get().len();
        answers.push(answer);
        tokio::task::yield_now().await;
    }
    ok(&BatchAnswered { answers })
}

fn unwritable(error: &serde_json::Error) -> Problem {
    Problem::internal(error.to_string())
}

async fn carry_out(
    mut router: Router,
    call: CallRead,
    client: Option<&str>,
) -> Result<CallAnswered, Problem> {
    if !call.path.starts_with("/v1/") {
        return Err(Problem::unusable("a call's path begins with /v1/"));
    }
    let body = match call.body {
        None => Body::empty(),
        Some(text) if text.get().starts_with('"') => {
            let text = serde_json::from_str::<String>(text.get());
            Body::from(text.map_err(|error| Problem::bad_request(format!("the call: {error}")))?)
        }
        Some(body) => Body::from(String::from(Box::<str>::from(body))),
    };
    let mut request =
        axum::http::Request::builder().method(call.method.as_str()).uri(&call.path).extension(InBatch);
    if let Some(key) = &call.key {
        request = request.header("idempotency-key", key);
    }
    if let Some(client) = client {
        request = request.header("mdts-client", client);
    }
    let request = request.body(body).map_err(|error| Problem::unusable(format!("the call: {error}")))?;
    let response = match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.map_err(|error| Problem::internal(error.to_string()))?;
    let text = String::from_utf8(body.to_bytes().into()).unwrap_or_default();
    let body = RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned()); // what is no JSON
    Ok(CallAnswered { status, body })
}

/// Looks at a job, whose client has thereby spoken.
fn heard<T>(
    shared: &Shared,
    job: JobId,
    look: impl FnOnce(&Brain) -> Result<T, Problem>,
) -> Result<T, Problem> {
    shared.desk.look(|brain| {
        brain.hear_job(job)?;
        look(brain)
    })
}
