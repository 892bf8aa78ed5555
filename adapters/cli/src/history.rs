//! The history of run times that `--history` names: unknown run times are predicted from it, runs are added to it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mdts_core::Cluster;
use mdts_core::runner::RunReport;
use mdts_dag::Work;
use mdts_policies::mdts::Experience;
use mdts_policies::predict::{Error as PredictError, Predictor};

use crate::error::{Error, Result};
use crate::input::Job;
use crate::output::OutputFile;
use crate::settings::Settings;

/// The flag.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HistoryFlag {
    /// Predict unknown run times from earlier ones, see mdts predict; run adds its own when all tasks have succeeded, and
    /// mdts and mdts-raw begin with what it tells of the nodes
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

impl HistoryFlag {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.history.as_deref()
    }
}

/// The job with all run times known, if there is a history.
///
/// # Errors
/// [`Error::Input`] or [`Error::Predict`] if the history cannot be read or is empty.
pub(crate) fn fill(job: Job, settings: &Settings) -> Result<Job> {
    let unknown = job.graph.tasks().filter(|task| task.work == Work::Unknown).count();
    let Some(path) = settings.history.as_deref().filter(|_| unknown > 0) else { return Ok(job) };
    let predictor = Predictor::load(path, settings.seed).map_err(|error| settings.blame("history", error))?;
    let filled = predictor.fill(&job.graph)?;
    let [kind, name, looks] = filled.predicted;
    tracing::info!(
        kind,
        name,
        looks,
        "predicted {unknown} run times of {} from {}",
        job.label,
        path.display()
    );
    Ok(Job { graph: Arc::new(filled.job), ..job })
}

/// The same for a history that the run itself may begin.
///
/// # Errors
/// As for [`fill`].
pub(crate) fn fill_if_there(job: Job, settings: &Settings) -> Result<Job> {
    match settings.history.as_deref() {
        Some(path) if !path.exists() => Ok(job),
        _ => fill(job, settings),
    }
}

/// What the runs in the history have taught of these nodes; nothing if there is no history yet.
///
/// # Errors
/// [`Error::Input`] or [`Error::Predict`] if the history cannot be read.
pub(crate) fn experience(cluster: &Cluster, settings: &Settings) -> Result<Experience> {
    let Some(path) = settings.history.as_deref().filter(|path| path.exists()) else {
        return Ok(Experience::default());
    };
    let predictor = Predictor::load(path, settings.seed).map_err(|error| settings.blame("history", error))?;
    Ok(predictor.experience(cluster))
}

/// Sees to it before a run that its run times can be added.
///
/// # Errors
/// [`Error::Output`].
pub(crate) fn check(settings: &Settings) -> Result<()> {
    let file = OutputFile::create_if(settings.history.as_deref());
    file.map(drop).map_err(|error| settings.blame("history", error))
}

/// Adds a run to the history, if one is named. It is read again, since other runs may have ended meanwhile.
///
/// # Errors
/// As for [`open`] and [`save`].
pub(crate) fn learn(job: &Job, cluster: &Cluster, report: &RunReport, settings: &Settings) -> Result<()> {
    let Some(path) = settings.history.as_deref() else { return Ok(()) };
    let _locked = lock(path)?;
    let mut predictor = open(path, settings.seed)?;
    predictor.learn_run(&job.graph, cluster, report)?;
    save(&predictor, path)
}

/// Keeps others from adding to a history until what is returned is dropped. The folder is locked, as the file is replaced.
///
/// # Errors
/// [`Error::Output`].
pub(crate) fn lock(path: &Path) -> Result<File> {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let locked = File::open(folder).and_then(|folder| folder.lock().map(|()| folder));
    locked.map_err(|source| Error::Output { path: path.to_owned(), source })
}

/// The history of this file, or a new one if there is no such file.
///
/// # Errors
/// [`Error::Input`] or [`Error::Predict`] if there is one that cannot be read.
pub(crate) fn open(path: &Path, seed: u64) -> Result<Predictor> {
    if path.exists() { Ok(Predictor::load(path, seed)?) } else { Ok(Predictor::new(seed)) }
}

/// Writes the history.
///
/// # Errors
/// [`Error::Output`].
pub(crate) fn save(predictor: &Predictor, path: &Path) -> Result<()> {
    predictor.save(path).map_err(|error| match error {
        PredictError::Io { path, source } => Error::Output { path, source },
        other => other.into(),
    })
}
