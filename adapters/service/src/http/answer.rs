//! Answers: JSON, and problems.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::api::Problem;
use crate::keys::Answered;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// What handlers return.
pub(super) type Told = Result<Response, Problem>;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, PROBLEM)], body).into_response();
        let headers = response.headers_mut();
        match self.status {
            401 => drop(headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            503 => drop(headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"))),
            _ => {}
        }
        response
    }
}

impl IntoResponse for Answered {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        (status, [(header::CONTENT_TYPE, JSON)], self.body).into_response()
    }
}

/// 200 with a body.
pub(super) fn ok(body: &impl Serialize) -> Told {
    let body = serde_json::to_vec(body).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(Answered { status: 200, body }.into_response())
}
