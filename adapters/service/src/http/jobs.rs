//! `/v1/jobs`.

#![allow(unused_qualifications)] // in what utoipa makes of parameters

use std::cell::Cell;
use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::IntoResponse;
use mdts_core::engine::JobId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Told, ok};
use super::body::LARGEST;
use super::router::{Shared, job_id, path, query};
use crate::api::{Extension, Job, Jobs, Problem, Submitted, Task, Tasks};
use crate::brain::{Brain, Change, NewJob, Outcome, format_of, read_graph};

/// Graphs of more bytes are read beside other requests.
const LARGE: usize = 64 << 10;

/// How a job is to be treated.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Submission {
    /// json, yaml, toml, wfformat, dax, stg or dot; absent: told by Content-Type, or by how the text begins.
    format: Option<String>,
    /// Name of the job, if the graph has none.
    name: Option<String>,
    /// Jobs of higher priority come first.
    #[serde(default)]
    priority: i32,
    /// Weight of the client among others, 0.001 to 1000.
    #[serde(default = "one")]
    #[param(minimum = 0.001, maximum = 1000.0)]
    share: f64,
    /// Seconds of silence after which the job loses its nodes; 0: never.
    #[param(minimum = 0.0)]
    lease_seconds: Option<f64>,
}

fn one() -> f64 {
    1.0
}

/// Submit a graph in any format that mdts reads, gzipped or not. The header Mdts-Client says whose it is.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs", params(Submission),
    request_body(content = String, content_type = "application/json"),
    responses((status = 201, body = Submitted), (status = 400, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn submit(
    State(shared): State<Arc<Shared>>,
    submission: Result<Query<Submission>, QueryRejection>,
    request: Request,
) -> Told {
    let submission = query(submission)?;
    if !(0.001..=1000.0).contains(&submission.share) {
        return Err(Problem::unusable("share must be 0.001 to 1000"));
    }
    if submission.lease_seconds.is_some_and(|s| !(0.0..=1e9).contains(&s)) {
        return Err(Problem::unusable("lease_seconds must be 0 to 1e9"));
    }
    let format = match &submission.format {
        Some(format) => format_of(format).map(|_| format.clone())?,
        None => format_by_type(request.headers()).to_owned(),
    };
    let content = shared.bodies.read(request, shared.bodies.largest_graph).await?;
    let job = NewJob {
        name: submission.name.unwrap_or_else(|| "job".to_owned()),
        client: content.client,
        priority: submission.priority,
        share: submission.share,
        lease_seconds: submission
            .lease_seconds
            .unwrap_or_else(|| shared.desk.look(|brain| brain.job_lease())),
        format,
        text: content.bytes.to_vec(),
        ..NewJob::default()
    };
    let mut job = parsed(job).await?;
    let plan = |brain: &mut Brain| {
        job.predicted = job.parsed.as_deref().map_or_else(Vec::new, |graph| brain.predict(graph));
        Ok(Some(Change::Submitted(job)))
    };
    let view = |brain: &Brain, outcome: Outcome| match outcome {
        Outcome::Submitted(job) => Ok((201, brain.submitted(job)?)),
        _ => Err(Problem::internal("the job was not submitted")),
    };
    let answered = shared.desk.carry_out(content.key, plan, view)?;
    let location = serde_json::from_slice::<Submitted>(&answered.body)
        .ok()
        .and_then(|job| HeaderValue::from_str(&format!("/v1/jobs/{}", job.id)).ok());
    let mut response = answered.into_response();
    if let Some(location) = location {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Reads the graph; a large one on another thread.
async fn parsed(mut job: NewJob) -> Result<NewJob, Problem> {
    let is_small = job.text.len() <= LARGE;
    let read = move || {
        job.parsed = Some(Arc::new(read_graph(&job)?));
        Ok(job)
    };
    if is_small {
        return read();
    }
    tokio::task::spawn_blocking(read).await.map_err(|error| Problem::internal(error.to_string()))?
}

fn format_by_type(headers: &HeaderMap) -> &'static str {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/yaml" | "application/x-yaml" | "text/yaml" => "yaml",
        "application/toml" => "toml",
        "application/xml" | "text/xml" => "dax",
        "text/vnd.graphviz" => "dot",
        _ => "",
    }
}

/// List the newest jobs.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", responses((status = 200, body = Jobs)))]
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Told {
    ok(&Jobs { jobs: shared.desk.look(|brain| brain.job_views()) })
}

type Id = Result<Path<String>, PathRejection>;

/// Show a job.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path)),
    responses((status = 200, body = Job), (status = 404, body = Problem)))]
pub(super) async fn show(State(shared): State<Arc<Shared>>, id: Id) -> Told {
    let job = job_id(&path(id)?)?;
    ok(&heard(&shared, job, |brain| brain.job_view(job))?)
}

/// Cancel a job; what runs is to be stopped. One that has ended is forgotten.
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path)),
    responses((status = 200, body = Job), (status = 404, body = Problem)))]
pub(super) async fn cancel(State(shared): State<Arc<Shared>>, id: Id, request: Request) -> Told {
    let job = job_id(&path(id)?)?;
    let content = shared.bodies.read(request, LARGEST).await?;
    let last = Cell::new(None);
    let plan = |brain: &mut Brain| {
        brain.hear_job(job)?;
        if !brain.has_ended(job)? {
            return Ok(Some(Change::Cancelled(job.get())));
        }
        last.set(Some(brain.job_view(job)?));
        Ok(Some(Change::Forgotten(vec![job.get()])))
    };
    let view = |brain: &Brain, _: Outcome| Ok((200, last.take().map_or_else(|| brain.job_view(job), Ok)?));
    Ok(shared.desk.carry_out(content.key, plan, view)?.into_response())
}

/// Add tasks to a job; they may depend on those that it has.
#[utoipa::path(post, path = "/v1/jobs/{job}/extend", tag = "jobs", params(("job" = String, Path)), request_body = Extension,
    responses((status = 200, body = Job), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn extend(State(shared): State<Arc<Shared>>, id: Id, request: Request) -> Told {
    let job = job_id(&path(id)?)?;
    let content = shared.bodies.read(request, shared.bodies.largest_graph).await?;
    let tasks = String::from_utf8(content.bytes.to_vec())
        .map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
    serde_json::from_str::<Extension>(&tasks)
        .map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
    let plan = |brain: &mut Brain| {
        brain.hear_job(job)?;
        let parsed = Some(Arc::new(brain.extended(job, &tasks)?));
        Ok(Some(Change::Extended { job: job.get(), tasks, parsed }))
    };
    let view = |brain: &Brain, _: Outcome| Ok((200, brain.job_view(job)?));
    Ok(shared.desk.carry_out(content.key, plan, view)?.into_response())
}

/// Where to begin.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// Tasks to pass over.
    #[serde(default)]
    offset: usize,
}

/// List the tasks of a job.
#[utoipa::path(get, path = "/v1/jobs/{job}/tasks", tag = "jobs", params(("job" = String, Path), Page),
    responses((status = 200, body = Tasks), (status = 400, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn tasks(
    State(shared): State<Arc<Shared>>,
    id: Id,
    page: Result<Query<Page>, QueryRejection>,
) -> Told {
    let (job, page) = (job_id(&path(id)?)?, query(page)?);
    ok(&heard(&shared, job, |brain| brain.task_views(job, page.offset))?)
}

/// Explain a task: why it is where it is, or why it waits.
#[utoipa::path(get, path = "/v1/jobs/{job}/tasks/{task}", tag = "jobs", params(("job" = String, Path), ("task" = String, Path)),
    responses((status = 200, body = Task), (status = 404, body = Problem)))]
pub(super) async fn task(
    State(shared): State<Arc<Shared>>,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Told {
    let (job, task) = path(names)?;
    let job = job_id(&job)?;
    ok(&heard(&shared, job, |brain| brain.task(job, &task).and_then(|task| brain.explain(job, task)))?)
}

/// Looks at a job, whose client has thereby spoken.
pub(super) fn heard<T>(
    shared: &Shared,
    job: JobId,
    look: impl FnOnce(&Brain) -> Result<T, Problem>,
) -> Result<T, Problem> {
    shared.desk.look(|brain| {
        brain.hear_job(job)?;
        look(brain)
    })
}
