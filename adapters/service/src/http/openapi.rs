//! The interface as an `OpenAPI` document, generated from the code.

use serde_json::{Value, json, to_value};
use utoipa::OpenApi;

use super::{jobs, nodes, operation, place};

/// Names have no control characters.
const NAME: &str = r"^[^\u0000-\u001F\u007F-\u009F]+$";

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
pub fn openapi() -> Value {
    let mut document = to_value(Document::openapi()).unwrap_or_default();
    document["components"]["securitySchemes"] = json!({"token": {"type": "http", "scheme": "bearer"}});
    document["security"] = json!([{"token": []}, {}]);
    let offers = &mut document["components"]["schemas"]["NodeSpec"]["properties"];
    let name = json!({"minLength": 1, "maxLength": 255, "pattern": NAME});
    for (field, low, high) in [("speeds", 1e-9, 1e9), ("resources", 0.0, 1e12)] {
        offers[field]["propertyNames"] = name.clone();
        offers[field]["additionalProperties"]["minimum"] = json!(low);
        offers[field]["additionalProperties"]["maximum"] = json!(high);
    }
    document["components"]["schemas"]["Registration"]["properties"]["nodes"]["propertyNames"] = name;
    if let Some(body) = document["components"]["schemas"]["Call"]["properties"]["body"].as_object_mut() {
        body.retain(|key, _| key == "description"); // any JSON, or a text
    }
    let paths = document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.iter_mut());
    for (path, methods) in paths {
        for (method, call) in methods.as_object_mut().into_iter().flat_map(|methods| methods.iter_mut()) {
            complete(path, method, call);
        }
    }
    document
}

/// Adds to a call what all calls have in common: headers, and the problems that each can meet.
fn complete(path: &str, method: &str, call: &mut Value) {
    let is_change = method != "get" && !path.contains("heartbeat");
    let bodies = matches!(method, "post" | "put" | "delete");
    let problem = json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
    let mut common = vec![
        (401, "The token is missing or wrong (TCP)"),
        (503, "The service cannot take this now; Retry-After says when to try again"),
    ];
    if path.contains('{') || bodies {
        common.push((400, "The request makes no sense"));
    }
    if bodies {
        common.extend([
            (408, "The body did not arrive in time"),
            (413, "The request is too large"),
            (422, "The request can be read but not used"),
        ]);
    }
    if path.ends_with("/grants") {
        common.push((422, "The request can be read but not used"));
    }
    if is_graph(path) {
        common.push((415, "The format is not known"));
    }
    for (status, description) in common {
        let known = &mut call["responses"][status.to_string()]; // made if it is missing
        if known.is_null() {
            *known = json!({"description": description});
        }
    }
    for (status, answer) in call["responses"].as_object_mut().into_iter().flat_map(|all| all.iter_mut()) {
        if !status.starts_with('2') {
            answer["content"] = problem.clone();
            if answer["description"] == "" {
                answer["description"] = json!(TITLES.iter().find(|(known, _)| known == status).map(|t| t.1));
            }
        }
    }
    if is_change {
        let header = |name: &str, description: &str, most: usize| {
            json!({"name": name, "in": "header", "required": false, "description": description,
                "schema": {"type": "string", "minLength": 1, "maxLength": most, "pattern": "^[!-~]([ -~]*[!-~])?$"}})
        };
        let key = header("Idempotency-Key", "Sent again with the same key a request has one effect", 200);
        let client = header("Mdts-Client", "Whose it is; keys are known per client", 200);
        if call["parameters"].is_null() {
            call["parameters"] = json!([]);
        }
        call["parameters"]
            .as_array_mut()
            .into_iter()
            .for_each(|list| list.extend([key.clone(), client.clone()]));
    }
    for parameter in call.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        if parameter["name"] == "after" {
            parameter["schema"] = json!({"type": "integer", "minimum": 0, "maximum": u64::MAX});
        }
    }
    if call["requestBody"].is_object() && !is_graph(path) {
        call["requestBody"]["required"] = json!(false);
    }
    if method == "post" && is_graph(path) {
        // Other formats are texts to this document.
        for kind in ["application/yaml", "application/toml", "application/xml", "text/vnd.graphviz"] {
            call["requestBody"]["content"][kind] = json!({"schema": {"type": "string"}});
        }
    }
}

fn is_graph(path: &str) -> bool {
    path == "/v1/jobs" || path.ends_with("/extend")
}

/// What problems are called where the code does not say.
const TITLES: [(&str, &str); 8] = [
    ("400", "The request makes no sense"),
    ("404", "There is no such thing"),
    ("405", "This path knows other methods"),
    ("409", "It cannot be done as things are"),
    ("413", "The request is too large"),
    ("415", "The format is not known"),
    ("422", "The request can be read but not used"),
    ("503", "The service cannot take this now"),
];
