//! `/v1/jobs`.

#![allow(unused_qualifications)] // in what utoipa makes of parameters

use std::cell::Cell;
use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::IntoResponse;
use bytes::Bytes;
use mdts_core::engine::JobId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Told, ok};
use super::body::{LARGEST, Room};
use super::router::{Shared, job_id, path, query};
use crate::api::{Extension, Job, Jobs, Problem, Submitted, Task, Tasks};
use crate::brain::{Brain, Change, NewJob, Outcome, named, read_extension, read_graph};

/// Graphs of more bytes are read beside other requests: a short text can stand for a large graph.
const LARGE: usize = 4 << 10;
/// Longest name of a job, in bytes.
const LONGEST_NAME: usize = 1000;

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
    let kind = format_by_type(request.headers()).to_owned();
    let content = shared.bodies.read(request, shared.bodies.largest_graph).await?;
    let submission = query(submission)?;
    if !(0.001..=1000.0).contains(&submission.share) {
        return Err(Problem::unusable("share must be 0.001 to 1000"));
    }
    if submission.lease_seconds.is_some_and(|s| !(0.0..=1e9).contains(&s)) {
        return Err(Problem::unusable("lease_seconds must be 0 to 1e9"));
    }
    let name = submission.name.unwrap_or_else(|| "job".to_owned());
    if name.len() > LONGEST_NAME {
        return Err(Problem::unusable(format!("the name of a job may have {LONGEST_NAME} bytes")));
    }
    let format = submission.format.unwrap_or(kind);
    named(&format)?;
    let job = NewJob {
        name,
        client: content.client.clone(),
        priority: submission.priority,
        share: submission.share,
        lease_seconds: submission
            .lease_seconds
            .unwrap_or_else(|| shared.desk.look(|brain| brain.job_lease())),
        format,
        ..NewJob::default()
    };
    let mut job = parsed(&shared, job, (content.bytes, content.room.clone())).await?;
    let plan = |brain: &mut Brain| {
        job.predicted = job.parsed.as_ref().map_or_else(Vec::new, |graph| brain.predict(graph, 0));
        Ok(Some(Change::Submitted(job)))
    };
    let view = |brain: &Brain, outcome: Outcome| match outcome {
        Outcome::Submitted(job) => Ok((201, brain.submitted(job)?)),
        _ => Err(Problem::internal("the job was not submitted")),
    };
    let answered = shared.open_desk()?.carry_out(content.key, plan, view)?;
    let location = serde_json::from_slice::<Submitted>(&answered.body)
        .ok()
        .and_then(|job| HeaderValue::from_str(&format!("/v1/jobs/{}", job.id)).ok());
    let mut response = answered.into_response();
    if let Some(location) = location {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Reads the graph of a job; a large one on another thread, few at a time.
async fn parsed(shared: &Shared, mut job: NewJob, (text, room): (Bytes, Room)) -> Result<NewJob, Problem> {
    let limit = shared.bodies.largest_graph;
    if text.len() <= LARGE {
        job.parsed = Some(read_graph(&text, &job.format, &job.name, limit)?);
        job.text = text.into();
        return Ok(job);
    }
    let (format, name) = (job.format.clone(), job.name.clone());
    let reader = move |text: &[u8]| read_graph(text, &format, &name, limit);
    job.parsed = Some(shared.bodies.beside((text.clone(), room), reader).await?);
    job.text = text.into();
    Ok(job)
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
    ok(&shared.desk.look(|brain| brain.job_view(job))?)
}

/// What else to do about a job that is cancelled.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Cancel {
    /// Also forget it, if it has ended already.
    #[serde(default)]
    forget: bool,
}

/// Cancel a job; what runs is to be stopped. Nothing happens to one that has ended, unless it is to be forgotten.
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path), Cancel),
    responses((status = 200, body = Job), (status = 404, body = Problem)))]
pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    id: Id,
    how: Result<Query<Cancel>, QueryRejection>,
    request: Request,
) -> Told {
    let content = shared.bodies.read(request, LARGEST).await?;
    let (job, how) = (job_id(&path(id)?)?, query(how)?);
    let last = Cell::new(None);
    let plan = |brain: &mut Brain| {
        brain.hear_job(job)?;
        if !brain.has_ended(job)? {
            return Ok(Some(Change::Cancelled(job.get())));
        }
        last.set(Some(brain.job_view(job)?));
        Ok(how.forget.then(|| Change::Forgotten(vec![job.get()])))
    };
    let view = |brain: &Brain, _: Outcome| Ok((200, last.take().map_or_else(|| brain.job_view(job), Ok)?));
    Ok(shared.open_desk()?.carry_out(content.key, plan, view)?.into_response())
}

/// In which format tasks are added.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct How {
    /// json, yaml, toml, wfformat, dax, stg or dot; absent: told by Content-Type, or by how the text begins.
    #[param(inline)]
    format: Option<String>,
}

/// Add tasks to a job; they may depend on those that it has. Of a graph in another format than the own one, the tasks are
/// added whose names the job does not have; the others stand for those that it has.
#[utoipa::path(post, path = "/v1/jobs/{job}/extend", tag = "jobs", params(("job" = String, Path), How), request_body = Extension,
    responses((status = 200, body = Job), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn extend(
    State(shared): State<Arc<Shared>>,
    id: Id,
    how: Result<Query<How>, QueryRejection>,
    request: Request,
) -> Told {
    let kind = format_by_type(request.headers()).to_owned();
    let content = shared.bodies.read(request, shared.bodies.largest_graph).await?;
    let (job, how) = (job_id(&path(id)?)?, query(how)?);
    let format = how.format.unwrap_or(kind);
    let tasks = extension(&shared, job, (content.bytes, content.room.clone()), format).await;
    let plan = |brain: &mut Brain| {
        brain.hear_job(job)?;
        brain.extension(job, tasks?).map(Some)
    };
    let view = |brain: &Brain, _: Outcome| Ok((200, brain.job_view(job)?));
    Ok(shared.open_desk()?.carry_out(content.key, plan, view)?.into_response())
}

/// Reads tasks that are to be added to a job as it is now; a long text on another thread, few at a time.
async fn extension(
    shared: &Shared,
    job: JobId,
    (text, room): (Bytes, Room),
    format: String,
) -> Result<String, Problem> {
    let (limit, graph) = (shared.bodies.largest_graph, shared.desk.look(|brain| brain.graph(job))?);
    if text.len() <= LARGE {
        return read_extension(&graph, &text, &format, limit);
    }
    let reader = move |text: &[u8]| read_extension(&graph, text, &format, limit);
    shared.bodies.beside((text, room), reader).await
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
    ok(&shared.desk.look(|brain| brain.task_views(job, page.offset))?)
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
    ok(&shared.desk.look(|brain| brain.task(job, &task).and_then(|task| brain.explain(job, task)))?)
}
