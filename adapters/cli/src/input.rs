//! Workflow and cluster: from files, from standard input, or the ones that come with the program.

use std::io;
use std::path::Path;
use std::sync::Arc;

use mdts_core::{Cluster, Instance};
use mdts_dag::{DataModel, JobGraph, format};

use crate::error::{Error, Result};
use crate::settings::Settings;

/// The workflow that commands use when none is given.
const EXAMPLE: &str = include_str!("../../../examples/workflows/pi.yaml");

/// Stands for standard input.
const STDIN: &str = "-";

/// A workflow and where it came from.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) graph: Arc<JobGraph>,
    /// What messages call it.
    pub(crate) label: String,
}

/// Reads a workflow; without a path, the built-in example.
///
/// # Errors
/// Those of [`format::read_path`].
pub(crate) fn job(path: Option<&Path>) -> Result<Job> {
    let (graph, label) = match path {
        None => {
            (format::read(EXAMPLE.as_bytes(), format::Format::Yaml, "pi.yaml")?, "built-in example".into())
        }
        Some(path) if path == Path::new(STDIN) => {
            (format::read_from(io::stdin(), None, STDIN)?, "standard input".into())
        }
        Some(path) => (format::read_path(path)?, path.display().to_string()),
    };
    tracing::info!(tasks = graph.len(), edges = graph.dependency_count(), "read {label}");
    Ok(Job { graph: Arc::new(graph), label })
}

/// A cluster and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Machines {
    pub(crate) cluster: Arc<Cluster>,
    /// What messages call it.
    pub(crate) label: String,
    /// Nobody named a cluster, so this machine is it.
    pub(crate) is_default: bool,
}

/// Reads the cluster; without a path, this machine.
///
/// # Errors
/// Those of [`Cluster::read`].
pub(crate) fn machines(settings: &Settings) -> Result<Machines> {
    let (cluster, label) = match &settings.cluster {
        None => (mdts_local::this_machine()?, "this machine".into()),
        Some(path) => {
            let read = Cluster::read(path).map_err(|error| settings.blame("cluster", error))?;
            (read, path.display().to_string())
        }
    };
    let slots = settings.slots.unwrap_or(cluster.slots());
    let is_default = settings.cluster.is_none();
    Ok(Machines { cluster: Arc::new(cluster.with_slots(slots)), label, is_default })
}

/// The costs of a job on the machines.
///
/// # Errors
/// [`Error::Usage`] if some task fits no node, or a time is given for a node that is not there; it names the
/// workflow and the cluster.
pub(crate) fn instance(job: &Job, machines: &Machines, data: DataModel) -> Result<Arc<Instance>> {
    match Instance::new(job.graph.freeze().into(), machines.cluster.clone(), data) {
        Ok(instance) => Ok(Arc::new(instance)),
        Err(error) => {
            let remedy = if machines.is_default {
                "; no cluster was given, name one with --cluster FILE".to_owned()
            } else {
                format!("; change the workflow or the cluster {}", machines.label)
            };
            Err(Error::Usage(format!("{}: {error}{remedy}", job.label)))
        }
    }
}
