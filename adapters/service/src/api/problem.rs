//! Errors as `application/problem+json` (RFC 9457).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What was wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:mdts:problem:` and a word that programs can match: `bad-request`, `unauthorized`, `not-found`,
    /// `method-not-allowed`, `timeout`, `conflict`, `too-large`, `unsupported-format`, `unusable`, `busy`, `internal`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What was wrong here, and what would be right.
    pub detail: String,
}

impl Problem {
    fn new(status: u16, word: &str, title: &str, detail: impl Into<String>) -> Self {
        let kind = format!("urn:mdts:problem:{word}");
        Self { kind, title: title.to_owned(), status, detail: detail.into() }
    }

    /// 400.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(400, "bad-request", "The request makes no sense", detail)
    }

    /// 401.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(401, "unauthorized", "A token is needed", detail)
    }

    /// 404.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, "not-found", "There is no such thing", detail)
    }

    /// 405.
    pub fn method_not_allowed(detail: impl Into<String>) -> Self {
        Self::new(405, "method-not-allowed", "This path knows other methods", detail)
    }

    /// 408.
    pub fn timeout(detail: impl Into<String>) -> Self {
        Self::new(408, "timeout", "The request took too long to arrive", detail)
    }

    /// 409.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(409, "conflict", "It cannot be done as things are", detail)
    }

    /// 413.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(413, "too-large", "The request is too large", detail)
    }

    /// 415.
    pub fn unsupported_format(detail: impl Into<String>) -> Self {
        Self::new(415, "unsupported-format", "The format is not known", detail)
    }

    /// 422.
    pub fn unusable(detail: impl Into<String>) -> Self {
        Self::new(422, "unusable", "The request can be read but not used", detail)
    }

    /// 503.
    pub fn busy(detail: impl Into<String>) -> Self {
        Self::new(503, "busy", "The service cannot take this now", detail)
    }

    /// 500.
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::new(500, "internal", "The service is at fault", detail)
    }
}
