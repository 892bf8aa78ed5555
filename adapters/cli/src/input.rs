//! Workflow and cluster: from files, from standard input, or the ones that come with the program.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mdts_core::{Cluster, Instance};
use mdts_dag::{DataModel, JobGraph, format};
use mdts_slurm::{Selection, import};

use crate::error::{Error, Result};
use crate::on_slurm::{self, SlurmFlags};
use crate::settings::Settings;

/// The workflow that commands use when none is given.
const EXAMPLE: &str = include_str!("../../../examples/workflows/pi.yaml");

/// Stands for the jobs that Slurm has now.
const QUEUE: &str = "slurm:queue";

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
        Some(path) if path == Path::new(QUEUE) => (queue()?, "the queue of Slurm".into()),
        Some(path) if path.is_dir() => (import::read_scripts(path)?, path.display().to_string()),
        Some(path) if is_log(path) => (import::read_swf(path)?.graph()?, path.display().to_string()),
        Some(path) => (format::read_path(path)?, path.display().to_string()),
    };
    tracing::info!(tasks = graph.len(), edges = graph.dependency_count(), "read {label}");
    Ok(Job { graph: Arc::new(graph), label })
}

/// Whether a file is the log of a cluster.
pub(crate) fn is_log(path: &Path) -> bool {
    let ends = |path: &Path, end: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(end));
    ends(path, "swf") || ends(path, "gz") && path.file_stem().is_some_and(|stem| ends(Path::new(stem), "swf"))
}

/// The jobs of a cluster that have not ended.
fn queue() -> Result<JobGraph> {
    let jobs = on_slurm::ask(|slurm| async move { slurm.jobs(&Selection::All).await })?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let queued = mdts_slurm::queue::graph(&jobs, now, |_| None)?;
    queued.map(|queued| queued.graph).ok_or_else(|| Error::Usage("Slurm's queue is empty".to_owned()))
}

/// A cluster and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Machines {
    pub(crate) cluster: Arc<Cluster>,
    /// What messages call it.
    pub(crate) label: String,
    /// Nobody named a cluster, so this machine is it.
    pub(crate) is_default: bool,
    /// The text of its file and the syntax, if it has just been read from one.
    pub(crate) text: Option<(String, String)>,
}

/// Reads the cluster; without a path, this machine.
///
/// # Errors
/// Those of [`Cluster::read`].
pub(crate) fn machines(settings: &Settings) -> Result<Machines> {
    let (cluster, label, text) = match &settings.cluster {
        None => (mdts_local::this_machine()?, "this machine".into(), None),
        Some(path) => {
            let read = Cluster::read_with_text(path).map_err(|error| settings.blame("cluster", error));
            let (cluster, text, syntax) = read?;
            (cluster, path.display().to_string(), Some((text, syntax)))
        }
    };
    let slots = settings.slots.unwrap_or(cluster.slots());
    let is_default = settings.cluster.is_none();
    Ok(Machines { cluster: Arc::new(cluster.with_slots(slots)), label, is_default, text })
}

/// The same for these workflows: the queue of Slurm is on Slurm's own nodes, if no cluster is named.
///
/// # Errors
/// Those of [`machines`], and of Slurm.
pub(crate) fn machines_for<'a>(
    settings: &Settings,
    of: impl IntoIterator<Item = &'a Path>,
) -> Result<Machines> {
    if settings.cluster.is_none() && of.into_iter().any(|path| path == Path::new(QUEUE)) {
        return Ok(on_slurm::machines(settings, &SlurmFlags::default())?.0);
    }
    machines(settings)
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
