//! What changes the state: each change is recorded before it is answered, and applied again when the service restarts.

use mdts_core::NodeId;
use mdts_core::engine::JobId;
use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

use super::graphs::Graph;
use crate::api::{NodeSpec, What};

/// One change. Encoded with postcard: variants and fields are only added at their ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Change {
    /// The service has begun or gone on.
    Opened,
    /// Nodes by name, each with its [`NodeSpec`] as JSON.
    Nodes(Vec<(String, String)>),
    /// A node's lease is over, or it was removed.
    NodeGone {
        node: u32,
        removed: bool,
    },
    NodeDrained(u32),
    NodeUndrained(u32),
    Submitted(NewJob),
    /// The tasks as an [`Extension`](crate::api::Extension) in JSON.
    Extended {
        job: u32,
        tasks: String,
        /// As of a new job, for the new tasks alone.
        predicted: Vec<f64>,
        /// The whole graph with these tasks and run times, if it was made already.
        #[serde(skip)]
        parsed: Option<Graph>,
    },
    /// Tasks per job that are wanted.
    Asked(Vec<(u32, Vec<u32>)>),
    Events {
        job: u32,
        events: Vec<Report>,
    },
    Cancelled(u32),
    /// A job's lease is over.
    Lapsed(u32),
    Forgotten(Vec<u32>),
    /// Nothing is changed; there is an answer to remember.
    Nothing,
}

/// A job as it was submitted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct NewJob {
    pub(crate) name: String,
    pub(crate) client: Option<String>,
    pub(crate) priority: i32,
    pub(crate) share: f64,
    pub(crate) lease_seconds: f64,
    /// Name of the format; empty to detect it.
    pub(crate) format: String,
    #[serde(with = "serde_bytes")]
    pub(crate) text: Vec<u8>,
    /// Predicted seconds of the tasks whose run times are not stated, in order.
    pub(crate) predicted: Vec<f64>,
    /// Made from `text`, if that was done already.
    #[serde(skip)]
    pub(crate) parsed: Option<Graph>,
}

/// One report about an attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) task: u32,
    pub(crate) attempt: u32,
    pub(crate) what: What,
    pub(crate) seconds: Option<f64>,
    pub(crate) reason: Option<String>,
}

impl Change {
    pub(crate) fn nodes<'a>(nodes: impl IntoIterator<Item = (&'a String, &'a NodeSpec)>) -> Self {
        let json = |spec| serde_json::to_string(spec).unwrap_or_default(); // plain data
        Self::Nodes(nodes.into_iter().map(|(name, spec)| (name.clone(), json(spec))).collect())
    }

    pub(crate) fn node_gone(node: NodeId, removed: bool) -> Self {
        Self::NodeGone { node: node.get(), removed }
    }

    pub(crate) fn asked(job: JobId, tasks: &[TaskId]) -> Self {
        Self::Asked(vec![(job.get(), tasks.iter().map(|t| t.get()).collect())])
    }
}
