//! Whether a task needs to run, and why.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use blake3::{Hash, Hasher};
use mdts_dag::{JobGraph, TaskId};

use super::parts::Parts;
use super::store::{self, Record, Store, Written};
use super::tree::{Extra, Tree};
use crate::error::Result;

/// A cache for the tasks that run in one folder.
#[derive(Debug)]
pub(crate) struct Cache {
    store: Store,
    /// Where files are named from.
    folder: PathBuf,
}

/// What a look at a task found.
#[derive(Debug)]
pub(super) struct Look {
    /// What it depends on; `None` if that cannot be told or it is never cached.
    pub(super) parts: Option<Parts>,
    pub(super) verdict: Verdict,
}

/// Whether a task needs to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does not: its outputs are there, but for these, whose contents are kept.
    Current(Vec<Lacking>),
    /// It does.
    Runs(Why),
}

/// An output that is not there, or not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lacking {
    pub(crate) name: String,
    hash: Hash,
    mode: u32,
    is_folder: bool,
}

/// Why a task runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    /// It declares no outputs, or has no command.
    NeverCached,
    /// An input is not there, or cannot be read.
    NoInput(String, String),
    /// Nothing is known of it.
    NoRecord,
    /// Its command, environment or folder was another.
    Command,
    /// This input was another, and so many more.
    Input(String, usize),
    /// It declares other inputs or outputs than before.
    Files,
    /// This output is gone or was changed, and its contents are not kept.
    Output(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverCached => f.write_str("it declares no outputs"),
            Self::NoInput(name, why) => write!(f, "input '{name}': {why}"),
            Self::NoRecord => f.write_str("no record of an earlier success"),
            Self::Command => f.write_str("its command or environment changed"),
            Self::Input(name, 0) => write!(f, "input '{name}' changed"),
            Self::Input(name, more) => write!(f, "input '{name}' and {more} more changed"),
            Self::Files => f.write_str("its declared files changed"),
            Self::Output(name) => write!(f, "output '{name}' is missing or changed"),
        }
    }
}

impl Cache {
    /// The cache in `store` for tasks that name their files from `folder`; it is made if it is not there and `create`
    /// says so.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub(crate) fn open(store: &Path, folder: &Path, create: bool) -> Result<Self> {
        Ok(Self { store: Store::open(store, create)?, folder: folder.to_owned() })
    }

    /// Whether a task needs to run. O(bytes of inputs and outputs that have changed since they were read last).
    pub(crate) fn verdict(&self, job: &JobGraph, task: TaskId) -> Verdict {
        self.look(job, task, &AtomicBool::new(false)).verdict
    }

    pub(super) fn look(&self, job: &JobGraph, task: TaskId, stop: &AtomicBool) -> Look {
        let runs = |why| Look { parts: None, verdict: Verdict::Runs(why) };
        let parts = match Parts::read(job, task, &self.folder, &self.store.hashes, stop) {
            Ok(Some(parts)) => parts,
            Ok(None) => return runs(Why::NeverCached),
            Err((name, error)) if error.kind() == io::ErrorKind::NotFound => {
                return runs(Why::NoInput(name, "it is not there".to_owned()));
            }
            Err((name, error)) => return runs(Why::NoInput(name, error.to_string())),
        };
        let verdict = match self.store.record(&parts.key()) {
            Some(record) => self.compare(&record, stop),
            None => Verdict::Runs(self.difference(&parts, &self.name(job, task))),
        };
        Look { parts: Some(parts), verdict }
    }

    /// The outputs against those of the record.
    fn compare(&self, record: &Record, stop: &AtomicBool) -> Verdict {
        let mut lacking = Vec::new();
        for Written { name, hash, mode, is_folder } in &record.outputs {
            let (mode, is_folder) = (*mode, *is_folder);
            let Ok(hash) = Hash::from_hex(hash) else { return Verdict::Runs(Why::NoRecord) };
            let path = self.folder.join(name);
            let has_mode = store::mode(&path).is_ok_and(|found| found == mode);
            let (is_as_written, can_be_had) = if is_folder {
                self.compare_folder(&path, &hash, stop)
            } else {
                (self.store.hashes.of(&path, stop).is_ok_and(|found| found == hash), self.store.has(&hash))
            };
            if is_as_written && has_mode {
                continue;
            }
            if !can_be_had {
                return Verdict::Runs(Why::Output(name.clone()));
            }
            lacking.push(Lacking { name: name.clone(), hash, mode, is_folder });
        }
        Verdict::Current(lacking)
    }

    /// Whether a folder is as it was written, and whether that can be had again, so that nothing is lost which is not kept
    /// and which the task had not written.
    fn compare_folder(&self, path: &Path, hash: &Hash, stop: &AtomicBool) -> (bool, bool) {
        let found = Tree::read(path, &mut |file| self.store.hashes.of(file, stop));
        if let Ok(found) = &found
            && found.to_bytes().is_ok_and(|list| blake3::hash(&list) == *hash)
        {
            return (true, self.store.has(hash));
        }
        let Some(kept) = self.store.tree(hash) else { return (false, false) };
        let is_whole = kept.files().all(|hash| self.store.has(&hash));
        let is_kept = |extra: Extra| matches!(extra, Extra::File(hash) if self.store.has(&hash));
        let may_go = match found {
            Ok(found) => found.beyond(&kept).all(is_kept),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        (false, is_whole && may_go)
    }

    /// What is not as it was the last time.
    fn difference(&self, now: &Parts, task: &Hash) -> Why {
        let Some(last) = self.store.last::<Parts>(task) else { return Why::NoRecord };
        if last.command != now.command {
            return Why::Command;
        }
        let names = |parts: &Parts| parts.inputs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        if names(&last) != names(now) || last.outputs != now.outputs {
            return Why::Files;
        }
        let pairs = last.inputs.iter().zip(&now.inputs);
        let mut changed = pairs.filter(|(last, now)| last != now).map(|(_, (name, _))| name);
        match changed.next() {
            Some(name) => Why::Input(name.clone(), changed.count()),
            None => Why::NoRecord,
        }
    }

    /// Brings outputs back; false if one of them cannot be had.
    pub(super) fn restore(&self, lacking: &[Lacking], stop: &AtomicBool) -> bool {
        lacking.iter().all(|output| {
            let to = self.folder.join(&output.name);
            let Lacking { hash, mode, is_folder, .. } = output;
            let restored = if *is_folder {
                self.store.restore_folder(hash, *mode, &to, stop)
            } else {
                self.store.restore(hash, *mode, &to, stop)
            };
            restored.unwrap_or_else(|error| {
                tracing::warn!("{}: cannot be brought back from the cache: {error}", to.display());
                false
            })
        })
    }

    /// Keeps what a task has written that depended on `parts`.
    ///
    /// # Errors
    /// What could not be kept, and why.
    pub(super) fn record(&self, job: &JobGraph, task: TaskId, parts: &Parts) -> io::Result<()> {
        let stop = AtomicBool::new(false);
        let mut outputs = Vec::with_capacity(parts.outputs.len());
        for name in &parts.outputs {
            let path = self.folder.join(name);
            let is_folder = path.is_dir();
            let kept = if is_folder {
                alone(job, name, &parts.outputs).and_then(|()| self.store.keep_folder(&path, &stop))
            } else {
                self.store.keep(&path, &stop)
            };
            let (hash, mode) = kept
                .and_then(|hash| Ok((hash, store::mode(&path)?)))
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            outputs.push(Written { name: name.clone(), hash: hash.to_hex().to_string(), mode, is_folder });
        }
        let record = Record { task: job.task(task).name.to_string(), outputs };
        self.store.write_record(&parts.key(), &record)?;
        self.store.write_last(&self.name(job, task), parts)
    }

    /// Stands for the task in this folder, whatever it depends on.
    fn name(&self, job: &JobGraph, task: TaskId) -> Hash {
        let folder = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        let mut hasher = Hasher::new();
        for text in [&*folder.to_string_lossy(), job.name(), &job.task(task).name] {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        hasher.finalize()
    }
}

/// That no file of other tasks is in a folder, which would be gone when the folder is brought back. O(files of the job).
fn alone(job: &JobGraph, folder: &str, own: &[String]) -> io::Result<()> {
    let is_inside = |name: &str| Path::new(name).starts_with(folder) && name != folder;
    let other =
        job.files().iter().find(|file| is_inside(&file.name) && !own.iter().any(|own| **own == *file.name));
    other.map_or(Ok(()), |file| {
        Err(io::Error::other(format!(
            "'{}', of another task, is in it; such a folder is not kept",
            file.name
        )))
    })
}
