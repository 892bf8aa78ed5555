//! The brain as bytes, for snapshots.

use std::io::Write;
use std::sync::Arc;

use mdts_core::engine::{Engine, JobId, State};
use mdts_core::{Cluster, Instance, NodeId};
use mdts_dag::TaskId;
use mdts_dag::format::{self, Format};
use mdts_policies::predict::Predictor;
use rustc_hash::FxHashMap;
use serde::ser::{self, SerializeSeq as _};
use serde::{Deserialize, Serialize, Serializer};

use super::grants::Granting;
use super::graphs::Graph;
use super::guard::{Comparison, Guarded, Reasons};
use super::jobs::JobEntry;
use super::nodes::{self, NodeEntry};
use super::{Brain, Totals};

/// An image that was read.
pub(crate) type ImageRead = Image<Vec<JobImage>, Vec<(u32, u32, Comparison)>>;

/// Everything but the engine's state. `J` is a list of [`JobImage`]s, `R` one of jobs, tasks and what was compared for them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Image<J, R> {
    now: f64,
    /// Name, offer as JSON, whether it was removed, whether another has its name.
    nodes: Vec<(String, String, bool, bool)>,
    jobs: J,
    ended: Vec<u32>,
    clients: Vec<(String, u32)>,
    next_client: u32,
    totals: Totals,
    seen: Vec<(String, u64)>,
    /// What was learnt of run times, and by the policy.
    history: String,
    #[serde(with = "serde_bytes")]
    memory: Vec<u8>,
    reasons: R,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct JobImage {
    id: u32,
    client: Option<String>,
    priority: i32,
    share: f64,
    lease_seconds: f64,
    /// In the own format.
    #[serde(with = "serde_bytes")]
    graph: Vec<u8>,
    grants: Granting,
    lapsed: bool,
    submitted: f64,
    ended: Option<(f64, bool)>,
    cancelled: bool,
    started: Vec<(u32, u32)>,
    failures: Vec<(u32, String)>,
}

impl Brain {
    /// Time of the latest change.
    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    /// The engine's state as bytes; none before there are nodes.
    pub(crate) fn write_engine(&self, to: impl Write) -> postcard::Result<()> {
        self.engine.as_ref().map_or(Ok(()), |engine| engine.state().write(to))
    }

    /// All the rest, which becomes bytes job by job.
    pub(crate) fn image(&self) -> impl Serialize {
        let node = |node: &NodeEntry| {
            let spec = serde_json::to_string(&node.spec).unwrap_or_default(); // plain data
            (node.name.clone(), spec, node.removed, node.renamed)
        };
        let policy = self.engine.as_ref().map(Engine::policy).or(self.policy.as_ref());
        Image {
            now: self.now,
            nodes: self.nodes.iter().map(node).collect(),
            jobs: Written(&self.jobs),
            ended: self.ended.iter().map(|id| id.get()).collect(),
            clients: self.clients.iter().map(|(name, id)| (name.clone(), *id)).collect(),
            next_client: self.next_client,
            totals: self.totals,
            seen: self.seen.iter().map(|(kind, n)| (kind.to_string(), *n)).collect(),
            history: self.predictor.to_json(),
            memory: policy.map(Guarded::memory).unwrap_or_default(),
            reasons: Reasons(policy),
        }
    }

    /// Puts what an [image](Brain::image) and an engine's bytes say in the place of everything.
    pub(crate) fn restore(&mut self, engine: &[u8], image: ImageRead) -> Result<(), String> {
        self.now = image.now;
        self.restore_nodes(image.nodes)?;
        for job in image.jobs {
            let (id, entry) = job_entry(job)?;
            self.bytes += entry.bytes;
            self.jobs.insert(id, entry);
        }
        self.predictor = Predictor::from_json(&image.history, 0).map_err(|error| error.to_string())?;
        if let Some(policy) = &mut self.policy {
            policy.recall(&image.memory);
            policy.recall_reasons(image.reasons);
        }
        self.ended = image.ended.into_iter().map(JobId::from).collect();
        let tasks = |id: &JobId| self.jobs.get(id).map_or(0, |job| job.graph.len());
        self.ended_tasks = self.ended.iter().map(tasks).sum();
        self.clients = image.clients.into_iter().collect();
        (self.next_client, self.totals) = (image.next_client, image.totals);
        self.seen = image.seen.into_iter().map(|(kind, n)| (kind.into(), n)).collect();
        self.restore_engine(engine)
    }

    fn restore_nodes(&mut self, nodes: Vec<(String, String, bool, bool)>) -> Result<(), String> {
        self.nodes.clear();
        self.node_names.clear();
        for (at, (name, spec, removed, renamed)) in nodes.into_iter().enumerate() {
            let spec = serde_json::from_str(&spec).map_err(|error| error.to_string())?;
            if !removed {
                self.node_names.insert(name.clone(), NodeId::new(at));
            }
            self.nodes.push(NodeEntry { name, spec, heard: self.now, removed, renamed });
        }
        Ok(())
    }

    fn restore_engine(&mut self, bytes: &[u8]) -> Result<(), String> {
        if bytes.is_empty() {
            return Ok(());
        }
        let told = |error: mdts_core::Error| error.to_string();
        let list = nodes::in_cluster(&self.nodes);
        let network = self.terms.network.resized(list.len());
        let cluster = Arc::new(Cluster::new(list, network, self.terms.slots).map_err(told)?);
        let instance = |id: JobId| {
            let job = self.jobs.get(&id)?;
            if job.ended.is_some() {
                return self.nothing.clone(); // the nodes of its time may be gone
            }
            Instance::new(job.flat.clone(), cluster.clone(), self.terms.data).map(Arc::new).ok()
        };
        let state = State::from_bytes(bytes, &cluster, instance).map_err(|error| error.to_string())?;
        let state = state.ok_or("the snapshot's engine has other nodes or jobs")?;
        let policy = self.policy.take().ok_or("a journal has one snapshot")?;
        let mut engine = Engine::with_state(state, policy);
        engine.keep_records();
        (self.engine, self.cluster) = (Some(engine), Some(cluster));
        Ok(())
    }
}

/// Jobs that become their images one after the other.
struct Written<'a>(&'a FxHashMap<JobId, JobEntry>);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut jobs = serializer.serialize_seq(Some(self.0.len()))?;
        for (id, job) in self.0 {
            jobs.serialize_element(&job_image(*id, job).map_err(ser::Error::custom)?)?;
        }
        jobs.end()
    }
}

fn job_image(id: JobId, job: &JobEntry) -> Result<JobImage, String> {
    let mut graph = Vec::new();
    format::write(&job.graph, Format::Json, &mut graph).map_err(|error| error.to_string())?;
    Ok(JobImage {
        id: id.get(),
        client: job.client.clone(),
        priority: job.priority,
        share: job.share,
        lease_seconds: job.lease_seconds,
        graph,
        grants: job.grants.clone(),
        lapsed: job.lapsed,
        submitted: job.submitted,
        ended: job.ended,
        cancelled: job.cancelled,
        started: job.started.iter().map(|(task, attempt)| (task.get(), *attempt)).collect(),
        failures: job.failures.iter().map(|(task, why)| (task.get(), why.clone())).collect(),
    })
}

fn job_entry(job: JobImage) -> Result<(JobId, JobEntry), String> {
    let graph = format::read(&job.graph, Format::Json, "job").map_err(|error| error.to_string())?;
    let Graph { job: graph, flat, bytes } = Graph::new(graph).map_err(|problem| problem.detail)?;
    let entry = JobEntry {
        client: job.client,
        priority: job.priority,
        share: job.share,
        lease_seconds: job.lease_seconds,
        flat,
        graph,
        bytes,
        grants: job.grants,
        heard: 0.0,
        lapsed: job.lapsed,
        submitted: job.submitted,
        ended: job.ended,
        cancelled: job.cancelled,
        started: job.started.into_iter().map(|(task, attempt)| (TaskId::from(task), attempt)).collect(),
        failures: job.failures.into_iter().map(|(task, why)| (TaskId::from(task), why)).collect(),
    };
    Ok((job.id.into(), entry))
}
