//! The interface as an `OpenAPI` document, generated from the code.

use utoipa::OpenApi;

use super::{jobs, nodes, operation, place};

/// Collects all paths.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "mdts placement service",
        description = "One scheduler that any workflow engine can ask. Under /v1 fields are only added. Errors are application/problem+json."
    ),
    paths(
        nodes::list,
        nodes::register_all,
        nodes::show,
        nodes::register,
        nodes::remove,
        nodes::heartbeat,
        nodes::drain,
        nodes::undrain,
        nodes::heartbeats,
        jobs::submit,
        jobs::list,
        jobs::show,
        jobs::cancel,
        jobs::extend,
        jobs::tasks,
        jobs::task,
        place::place,
        place::grants,
        place::events,
        place::batch,
        operation::health,
        operation::readiness,
        operation::metrics,
        operation::document,
    )
)]
struct Document;

/// The document; `docs/openapi.json` is the same.
pub fn openapi() -> serde_json::Value {
    serde_json::to_value(Document::openapi()).unwrap_or_default()
}
