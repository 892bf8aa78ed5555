//! A run's folder: its journal, and beside it copies of workflow and cluster, so that it can be resumed and understood
//! from there alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mdts_core::journal::{Durability, Folder, Journal, Manifest, digest, events_file, read_folder};
use mdts_core::runner::Standing;
use mdts_core::{Cluster, Instance, SlotModel};
use mdts_dag::{DataModel, JobGraph, TaskId, format};
use mdts_local::was_kept;

use crate::choice::Choice;
use crate::error::{Error, Result, did_you_mean};
use crate::input::{Job, Machines};
use crate::on_slurm::{self, OnSlurm};
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
const HISTORY: &str = "history";
const DURABILITY: &str = "durability";

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
    pub(crate) history: Option<PathBuf>,
    pub(crate) slurm: Option<OnSlurm>,
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
    /// Flags that hold for those who resume the run, too, by the names of their notes.
    pub(crate) flags: &'a [Note],
}

/// A name and its value.
pub(crate) type Note = (&'static str, String);

impl New<'_> {
    /// What the journal is to begin with; writes the copy of the workflow.
    ///
    /// # Errors
    /// [`Error::Output`] if the copy cannot be written, [`Error::Usage`] if a path cannot be kept.
    pub(crate) fn manifest(&self, journal: &Path) -> Result<Manifest> {
        let path = journal.join(WORKFLOW);
        format::write_path(&self.job.graph, &path).map_err(|error| match error {
            mdts_dag::Error::Io { path, source } => Error::Output { path, source },
            other => other.into(),
        })?;
        let (cluster, syntax) = cluster_text(self.machines);
        let settings = self.settings;
        // What is in the folder moves with it.
        let logs =
            settings.logs.strip_prefix(journal).map_or_else(|_| path_text(&settings.logs), plain_text)?;
        let mut notes = vec![
            (SOURCE, fingerprint(self.source)?),
            (LABEL, self.job.label.clone()),
            (CLUSTER, cluster),
            (CLUSTER_SYNTAX, syntax),
            (CLUSTER_LABEL, self.machines.label.clone()),
            (SLOTS, self.instance.slots().word().to_owned()),
            (DATA, self.instance.data().word().to_owned()),
            (FOLDER, path_text(self.folder)?),
            (LOGS, logs),
            (DURABILITY, settings.durability.word().to_owned()),
        ];
        let paths = [(WEIGHTS, &settings.weights), (CACHE, &settings.cache), (HISTORY, &settings.history)];
        for (name, path) in paths {
            notes.extend(path.as_deref().map(path_text).transpose()?.map(|path| (name, path)));
        }
        notes.extend(self.emulate.map(|scale| (EMULATE, scale.to_string())));
        notes.extend_from_slice(self.flags);
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

/// A path that holds wherever it is read.
pub(crate) fn path_text(path: &Path) -> Result<String> {
    plain_text(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

fn plain_text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::Usage(format!(
            "{}: a journal can only keep paths that are UTF-8; rename it, or run without --journal",
            path.display()
        ))
    })
}

/// The cluster as text, and its syntax.
fn cluster_text(machines: &Machines) -> (String, String) {
    if let Some(text) = &machines.text {
        return text.clone();
    }
    let node = |node: &mdts_core::Node| {
        let mut table =
            serde_json::json!({"name": node.name, "speed": node.speed, "resources": node.capacity.other});
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
    (serde_json::json!({"node": nodes}).to_string(), "json".to_owned())
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
        let slurm = manifest.note(on_slurm::NOTE);
        let slurm =
            slurm.map(|note| OnSlurm::of_note(note).ok_or_else(|| strange(on_slurm::NOTE))).transpose()?;
        let mut cluster = Cluster::from_text(&note(CLUSTER)?, &note(CLUSTER_SYNTAX)?)?.with_slots(slots);
        if let Some(slurm) = &slurm {
            cluster = slurm.fill(&cluster)?;
        }
        let emulate = manifest.note(EMULATE).map(|scale| scale.parse().map_err(|_| strange(EMULATE)));
        Ok(Self {
            job: Job { graph, label: note(LABEL)? },
            machines: Machines {
                cluster: cluster.into(),
                label: note(CLUSTER_LABEL)?,
                is_default: false,
                text: None,
            },
            data: DataModel::of_word(&note(DATA)?).ok_or_else(|| strange(DATA))?,
            seed: manifest.seed,
            policy: manifest.policy.clone(),
            folder: note(FOLDER)?.into(),
            logs: journal.join(note(LOGS)?),
            emulate: emulate.transpose()?,
            weights: manifest.note(WEIGHTS).map(PathBuf::from),
            cache: manifest.note(CACHE).map(PathBuf::from),
            history: manifest.note(HISTORY).map(PathBuf::from),
            slurm,
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
                let cluster = match &self.slurm {
                    Some(slurm) => slurm.fill(&cluster)?,
                    None => cluster,
                };
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
        if flags.seed.is_some_and(|seed| seed != self.seed) {
            return differs("--seed");
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

/// Sees to it that a folder holds no run, and makes none.
///
/// # Errors
/// As for [`lock_new`].
pub(crate) fn check_new(folder: &Path) -> Result<()> {
    if events_file(folder).exists() || was_kept(folder) || has_jobs(folder) {
        lock_new(folder)?;
    }
    Ok(())
}

/// Whether jobs of Slurm may belong to a folder.
fn has_jobs(folder: &Path) -> bool {
    mdts_slurm::SlurmExecutor::has_run_in(&on_slurm::run_folder(folder))
}

/// Locks a folder for a new run.
///
/// # Errors
/// [`Error::Usage`] if it holds a run already, or what is left of one; those of [`Folder`].
pub(crate) fn lock_new(folder: &Path) -> Result<Folder> {
    let (locked, place) = (Folder::lock(folder)?, folder.display());
    if locked.has_journal() {
        return Err(Error::Usage(format!(
            "{place}: it holds the journal of an earlier run; go on with that run with --resume, or name another folder"
        )));
    }
    // Attempts are known by their numbers, which are those of the other run, too.
    if was_kept(folder) || has_jobs(folder) {
        return Err(Error::Usage(format!(
            "{place}: it holds tasks of an earlier run whose journal is gone, and some may still run; \
             name another folder, or remove this one"
        )));
    }
    Ok(locked)
}

/// Opens a folder's journal to go on with its run, as durable as asked for, or else as before.
///
/// # Errors
/// Those of [`Folder`].
pub(crate) fn resume(folder: &Path, asked: Option<Durability>, settings: &mut Settings) -> Result<Journal> {
    // Locking would make a folder.
    let begun_with = read_folder(folder)?.manifest().note(DURABILITY).and_then(Durability::of_word);
    settings.durability = asked.or(begun_with).unwrap_or(settings.durability);
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
