//! A run's folder: its journal, and beside it copies of workflow and cluster, so that it can be resumed and understood
//! from there alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mdts_core::journal::{Folder, Journal, Manifest, digest, read_folder};
use mdts_core::runner::Standing;
use mdts_core::{Cluster, Instance, SlotModel};
use mdts_dag::{DataModel, JobGraph, TaskId, format};

use crate::choice::Choice;
use crate::error::{Error, Result, did_you_mean};
use crate::input::{Job, Machines};
use crate::settings::{ModelFlags, Settings};

/// The copy of the workflow.
const WORKFLOW: &str = "workflow.mdts.json.gz";

// Names of notes in the manifest.
const SOURCE: &str = "source";
const LABEL: &str = "workflow";
const CLUSTER: &str = "cluster";
const CLUSTER_LABEL: &str = "cluster_label";
const CLUSTER_SYNTAX: &str = "cluster_syntax";
const SLOTS: &str = "slots";
const DATA: &str = "data_model";
const FOLDER: &str = "folder";
const LOGS: &str = "logs";
const EMULATE: &str = "emulate";
const WEIGHTS: &str = "weights";
const CACHE: &str = "cache";

/// What a run is made of, as its folder keeps it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) job: Job,
    pub(crate) machines: Machines,
    pub(crate) data: DataModel,
    pub(crate) seed: u64,
    pub(crate) policy: String,
    /// Where commands run.
    pub(crate) folder: PathBuf,
    pub(crate) logs: PathBuf,
    pub(crate) emulate: Option<f64>,
    pub(crate) weights: Option<PathBuf>,
    pub(crate) cache: Option<PathBuf>,
    source: String,
}

/// What a new run's folder is to keep beside what is in the settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct New<'a> {
    pub(crate) job: &'a Job,
    /// The workflow as it was read, before run times were predicted.
    pub(crate) source: &'a JobGraph,
    pub(crate) machines: &'a Machines,
    pub(crate) instance: &'a Instance,
    pub(crate) settings: &'a Settings,
    pub(crate) policy: &'a str,
    pub(crate) folder: &'a Path,
    pub(crate) emulate: Option<f64>,
}

impl New<'_> {
    /// What the journal is to begin with; writes the copy of the workflow.
    ///
    /// # Errors
    /// [`Error::Output`] if the copy cannot be written, [`Error::Input`] if the cluster cannot be read again.
    pub(crate) fn manifest(&self, journal: &Path) -> Result<Manifest> {
        let path = journal.join(WORKFLOW);
        format::write_path(&self.job.graph, &path).map_err(|error| match error {
            mdts_dag::Error::Io { path, source } => Error::Output { path, source },
            other => other.into(),
        })?;
        let (cluster, syntax) = cluster_text(self.machines, self.settings)?;
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let path = |path: &Path| absolute(path).to_string_lossy().into_owned();
        let mut notes = vec![
            (SOURCE, fingerprint(self.source)?),
            (LABEL, self.job.label.clone()),
            (CLUSTER, cluster),
            (CLUSTER_SYNTAX, syntax),
            (CLUSTER_LABEL, self.machines.label.clone()),
            (SLOTS, self.instance.slots().word().to_owned()),
            (DATA, self.instance.data().word().to_owned()),
            (FOLDER, path(self.folder)),
            (LOGS, path(&self.settings.logs)),
        ];
        notes.extend(self.settings.weights.as_deref().map(|file| (WEIGHTS, path(file))));
        notes.extend(self.settings.cache.as_deref().map(|folder| (CACHE, path(folder))));
        notes.extend(self.emulate.map(|scale| (EMULATE, scale.to_string())));
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_millis() as u64);
        Ok(Manifest {
            job: self.job.graph.name().to_owned(),
            tasks: self.job.graph.len() as u64,
            digest: digest(self.instance),
            policy: self.policy.to_owned(),
            seed: self.settings.seed,
            created_ms: created,
            notes: notes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        })
    }
}

/// The cluster as text, and its syntax.
fn cluster_text(machines: &Machines, settings: &Settings) -> Result<(String, String)> {
    if let Some(path) = &settings.cluster {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|source| Error::Input { path: path.clone(), source })?;
        let syntax = path.extension().and_then(|e| e.to_str()).unwrap_or("toml");
        return Ok((text, syntax.to_owned()));
    }
    let node = |node: &mdts_core::Node| {
        let mut table = serde_json::json!({"name": node.name});
        if let Some(cores) = node.capacity.cores {
            table["cores"] = cores.into();
        }
        if node.capacity.gpus > 0.0 {
            table["gpus"] = node.capacity.gpus.into();
        }
        if let Some(memory) = node.capacity.memory {
            table["memory"] = memory.into();
        }
        table
    };
    let nodes: Vec<_> = machines.cluster.nodes().iter().map(node).collect();
    Ok((serde_json::json!({"node": nodes}).to_string(), "json".to_owned()))
}

/// Tells one workflow from another.
fn fingerprint(job: &JobGraph) -> Result<String> {
    let mut text = Vec::new();
    format::write(job, format::Format::Json, &mut text)?;
    Ok(format!("{:08x}-{}", crc32fast::hash(&text), text.len()))
}

impl Kept {
    /// Reads what a folder keeps beside its journal.
    ///
    /// # Errors
    /// [`Error::Usage`] if something is missing or makes no sense, [`Error::Input`] if the workflow cannot be read.
    pub(crate) fn read(journal: &Path, manifest: &Manifest) -> Result<Self> {
        let strange = |what: &str| {
            Error::Usage(format!(
                "{}: the journal does not tell {what}; was it written by mdts run?",
                journal.display()
            ))
        };
        let note = |name: &str| manifest.note(name).map(str::to_owned).ok_or_else(|| strange(name));
        let graph = Arc::new(format::read_path(journal.join(WORKFLOW))?);
        let slots = SlotModel::of_word(&note(SLOTS)?).ok_or_else(|| strange(SLOTS))?;
        let cluster = Cluster::from_text(&note(CLUSTER)?, &note(CLUSTER_SYNTAX)?)?.with_slots(slots);
        let emulate = manifest.note(EMULATE).map(|scale| scale.parse().map_err(|_| strange(EMULATE)));
        Ok(Self {
            job: Job { graph, label: note(LABEL)? },
            machines: Machines { cluster: cluster.into(), label: note(CLUSTER_LABEL)?, is_default: false },
            data: DataModel::of_word(&note(DATA)?).ok_or_else(|| strange(DATA))?,
            seed: manifest.seed,
            policy: manifest.policy.clone(),
            folder: note(FOLDER)?.into(),
            logs: note(LOGS)?.into(),
            emulate: emulate.transpose()?,
            weights: manifest.note(WEIGHTS).map(PathBuf::from),
            cache: manifest.note(CACHE).map(PathBuf::from),
            source: note(SOURCE)?,
        })
    }

    /// Sees to it that what was given on the command line is what the run began with.
    ///
    /// # Errors
    /// [`Error::Usage`] that names what is not.
    pub(crate) fn check(
        &self,
        given: Option<&JobGraph>,
        flags: &ModelFlags,
        emulate: Option<f64>,
    ) -> Result<()> {
        let differs = |what: &str| {
            Err(Error::Usage(format!(
                "--resume: {what} is not what the run began with; leave it out, or begin a new run in another folder"
            )))
        };
        if let Some(job) = given
            && fingerprint(job)? != self.source
        {
            return differs("the workflow");
        }
        if let Some(path) = &flags.cluster {
            let digest_of = |cluster: Cluster| -> Result<u64> {
                let cluster = Arc::new(cluster.with_slots(self.machines.cluster.slots()));
                Ok(digest(&Instance::new(self.job.graph.freeze().into(), cluster, self.data)?))
            };
            if digest_of(Cluster::read(path)?)? != digest_of((*self.machines.cluster).clone())? {
                return differs("--cluster");
            }
        }
        if flags.slots.is_some_and(|slots| slots != self.machines.cluster.slots()) {
            return differs("--slots");
        }
        if flags.data.is_some_and(|data| data != self.data) {
            return differs("--data");
        }
        if emulate.is_some() && emulate != self.emulate {
            return differs("--emulate");
        }
        Ok(())
    }

    /// The costs of the job on the machines.
    ///
    /// # Errors
    /// Those of [`Instance::new`].
    pub(crate) fn instance(&self) -> Result<Arc<Instance>> {
        let graph = self.job.graph.freeze().into();
        Ok(Arc::new(Instance::new(graph, self.machines.cluster.clone(), self.data)?))
    }
}

/// Locks a folder for a new run.
///
/// # Errors
/// [`Error::Usage`] if it holds a run already; those of [`Folder`].
pub(crate) fn lock_new(folder: &Path) -> Result<Folder> {
    let locked = Folder::lock(folder)?;
    if locked.has_journal() {
        return Err(Error::Usage(format!(
            "{}: it holds the journal of an earlier run; go on with that run with --resume, or name another folder",
            folder.display()
        )));
    }
    Ok(locked)
}

/// Opens a folder's journal to go on with its run.
///
/// # Errors
/// Those of [`Folder`].
pub(crate) fn resume(folder: &Path, settings: &Settings) -> Result<Journal> {
    Ok(Folder::lock(folder)?.resume(settings.durability)?)
}

/// How to go on with the run in a folder.
pub(crate) fn remedy(folder: &Path) -> String {
    format!("go on with mdts run --resume --journal {}", folder.display())
}

/// A run as its folder shows it, without touching it.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) kept: Kept,
    pub(crate) instance: Arc<Instance>,
    pub(crate) standing: Standing,
}

impl Shown {
    /// Reads a folder.
    ///
    /// # Errors
    /// Those of [`read_folder`] and [`Kept::read`].
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let mut reader = read_folder(folder)?;
        let kept = Kept::read(folder, reader.manifest())?;
        let instance = kept.instance()?;
        let queues = kept.emulate.is_none();
        let standing = Standing::read(&mut reader, &instance, queues, &folder.display().to_string())?;
        Ok(Self { kept, instance, standing })
    }

    /// The task of this name.
    ///
    /// # Errors
    /// [`Error::Usage`] with the nearest name there is.
    pub(crate) fn task(&self, name: &str) -> Result<TaskId> {
        let graph = &self.kept.job.graph;
        let found = graph.task_ids().find(|task| &*graph.task(*task).name == name);
        found.ok_or_else(|| {
            let names = graph.tasks().map(|task| &*task.name);
            Error::Usage(format!("{}: there is no task '{name}'{}", graph.name(), did_you_mean(name, names)))
        })
    }

    /// The name of a task.
    pub(crate) fn name(&self, task: TaskId) -> &str {
        &self.kept.job.graph.task(task).name
    }
}
