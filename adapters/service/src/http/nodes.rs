//! `/v1/nodes`.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse;

use super::answer::{Told, ok};
use super::body::LARGEST;
use super::router::{Shared, path};
use crate::api::{Heartbeats, HeartbeatsAnswer, Node, NodeSpec, Nodes, Problem, Registration};
use crate::brain::{Brain, Change, Outcome};

type Name = Result<Path<String>, PathRejection>;

/// List the nodes.
#[utoipa::path(get, path = "/v1/nodes", tag = "nodes", responses((status = 200, body = Nodes)))]
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Told {
    ok(&Nodes { nodes: shared.desk.look(|brain| brain.node_views()) })
}

/// Show a node.
#[utoipa::path(get, path = "/v1/nodes/{node}", tag = "nodes", params(("node" = String, Path)),
    responses((status = 200, body = Node), (status = 404, body = Problem)))]
pub(super) async fn show(State(shared): State<Arc<Shared>>, name: Name) -> Told {
    let name = path(name)?;
    ok(&shared.desk.look(|brain| brain.node(&name).map(|node| brain.node_view(node)))?)
}

/// Register a node, or tell that it is alive. With another offer than before it is another node: what ran there is
/// placed anew.
#[utoipa::path(put, path = "/v1/nodes/{node}", tag = "nodes", params(("node" = String, Path)),
    request_body = NodeSpec,
    responses((status = 200, body = Node), (status = 400, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn register(State(shared): State<Arc<Shared>>, name: Name, request: Request) -> Told {
    let content = shared.bodies.read(request, LARGEST).await?;
    let name = path(name)?;
    let spec: NodeSpec = content.json()?;
    let wanted = [(name.clone(), spec)];
    let view = |brain: &Brain, _: Outcome| Ok((200, brain.node(&name).map(|node| brain.node_view(node))?));
    Ok(shared
        .open_desk()?
        .carry_out(content.key, |brain| Ok(registration(brain, &wanted)), view)?
        .into_response())
}

/// Register many nodes at once.
#[utoipa::path(post, path = "/v1/nodes", tag = "nodes", request_body = Registration,
    responses((status = 200, body = Nodes), (status = 400, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn register_all(State(shared): State<Arc<Shared>>, request: Request) -> Told {
    let content = shared.bodies.read(request, LARGEST).await?;
    let wanted: Vec<(String, NodeSpec)> = content.json::<Registration>()?.nodes.into_iter().collect();
    let view = |brain: &Brain, _: Outcome| {
        let nodes: Result<Vec<Node>, Problem> =
            wanted.iter().map(|(name, _)| brain.node(name).map(|node| brain.node_view(node))).collect();
        Ok((200, Nodes { nodes: nodes? }))
    };
    Ok(shared
        .open_desk()?
        .carry_out(content.key, |brain| Ok(registration(brain, &wanted)), view)?
        .into_response())
}

/// What a registration changes; of nodes that are known as they are it is a heartbeat.
fn registration(brain: &mut Brain, wanted: &[(String, NodeSpec)]) -> Option<Change> {
    let pairs = || wanted.iter().map(|(name, spec)| (name, spec));
    if brain.knows(pairs()) {
        for (name, _) in wanted {
            if let Ok(node) = brain.node(name) {
                brain.hear_node(node);
            }
        }
        return None;
    }
    Some(Change::nodes(pairs()))
}

/// Tell that a node is alive. One that was lost must be registered again.
#[utoipa::path(post, path = "/v1/nodes/{node}/heartbeat", tag = "nodes", params(("node" = String, Path)),
    responses((status = 200, body = Node), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn heartbeat(State(shared): State<Arc<Shared>>, name: Name) -> Told {
    let name = path(name)?;
    let view = shared.desk.look(|brain| {
        let node = brain.node(&name)?;
        if brain.hear_node(node) {
            return Ok(brain.node_view(node));
        }
        Err(Problem::conflict(format!("node '{}' was lost; register it again", name.escape_debug())))
    });
    ok(&view?)
}

/// Tell that many nodes are alive.
#[utoipa::path(post, path = "/v1/heartbeats", tag = "nodes", request_body = Heartbeats,
    responses((status = 200, body = HeartbeatsAnswer), (status = 400, body = Problem)))]
pub(super) async fn heartbeats(State(shared): State<Arc<Shared>>, request: Request) -> Told {
    let content = shared.bodies.read(request, LARGEST).await?;
    let mut nodes = content.json::<Heartbeats>()?.nodes;
    shared.desk.look(|brain| nodes.retain(|name| !brain.node(name).is_ok_and(|node| brain.hear_node(node))));
    ok(&HeartbeatsAnswer { unknown: nodes })
}

/// Place nothing more on a node; what runs there goes on.
#[utoipa::path(post, path = "/v1/nodes/{node}/drain", tag = "nodes", params(("node" = String, Path)),
    responses((status = 200, body = Node), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn drain(State(shared): State<Arc<Shared>>, name: Name, request: Request) -> Told {
    told(&shared, name, request, |node| Change::NodeDrained(node.get())).await
}

/// Place tasks on a drained node again.
#[utoipa::path(delete, path = "/v1/nodes/{node}/drain", tag = "nodes", params(("node" = String, Path)),
    responses((status = 200, body = Node), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn undrain(State(shared): State<Arc<Shared>>, name: Name, request: Request) -> Told {
    told(&shared, name, request, |node| Change::NodeUndrained(node.get())).await
}

async fn told(
    shared: &Shared,
    name: Name,
    request: Request,
    change: impl FnOnce(mdts_core::NodeId) -> Change,
) -> Told {
    let content = shared.bodies.read(request, LARGEST).await?;
    let name = path(name)?;
    let plan = |brain: &mut Brain| {
        let node = brain.node(&name)?;
        if !brain.hear_node(node) {
            return Err(Problem::conflict(format!("node '{}' is lost", name.escape_debug())));
        }
        Ok(Some(change(node)))
    };
    let view = |brain: &Brain, _: Outcome| Ok((200, brain.node(&name).map(|node| brain.node_view(node))?));
    Ok(shared.open_desk()?.carry_out(content.key, plan, view)?.into_response())
}

/// Remove a node; what runs there is placed anew.
#[utoipa::path(delete, path = "/v1/nodes/{node}", tag = "nodes", params(("node" = String, Path)),
    responses((status = 200, body = Nodes), (status = 404, body = Problem)))]
pub(super) async fn remove(State(shared): State<Arc<Shared>>, name: Name, request: Request) -> Told {
    let content = shared.bodies.read(request, LARGEST).await?;
    let name = path(name)?;
    let plan = |brain: &mut Brain| brain.node(&name).map(|node| Some(Change::node_gone(node, true)));
    let view = |brain: &Brain, _: Outcome| Ok((200, Nodes { nodes: brain.node_views() }));
    Ok(shared.open_desk()?.carry_out(content.key, plan, view)?.into_response())
}
