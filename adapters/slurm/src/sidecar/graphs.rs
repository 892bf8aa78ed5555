//! Workflow files that jobs name in their comments: `mdts:graph=FILE:task=NAME`.
//!
//! A file is read for a user only if it is the user's own, so that nobody reads others' files through the sidecar; it must be an
//! ordinary file of bounded size. Reading happens beside the answers, and what was read is kept until the file changes.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::{Arc, Mutex, PoisonError};

use mdts_dag::{DataModel, FlatGraph, analysis, format};
use rustix::fs::OFlags;
use tokio::sync::Semaphore;

use crate::brain::Standing;

/// Larger files, and texts that stand for more, are not read.
const LARGEST: u64 = 16 << 20;
/// So many workflows are kept, the last ones used.
const KEPT: usize = 64;
/// So many files are read at a time.
const READERS: usize = 4;

/// The ranks of one workflow.
#[derive(Debug)]
struct Ranks {
    /// Modification time and length of the file.
    stamp: (i64, i64, u64),
    owner: u32,
    tasks: BTreeMap<String, (f64, Option<f64>)>,
    longest: f64,
    used: u64,
}

/// The workflows read so far.
#[derive(Debug, Clone)]
pub struct Graphs {
    known: Arc<Mutex<(u64, BTreeMap<String, Ranks>)>>,
    readers: Arc<Semaphore>,
}

impl Default for Graphs {
    fn default() -> Self {
        Self { known: Arc::default(), readers: Arc::new(Semaphore::new(READERS)) }
    }
}

impl Graphs {
    /// Where a task of a user's workflow file stands. None if it cannot be told; the reason is logged.
    pub async fn find(&self, file: &str, task: &str, user: u32) -> Option<Standing> {
        let permit = self.readers.clone().acquire_owned().await.ok()?;
        let (this, file, task) = (self.clone(), file.to_owned(), task.to_owned());
        // A file system that hangs keeps a reader, never an answer.
        let found = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            this.look_up(&file, &task, user)
        });
        match found.await.ok()? {
            Ok(standing) => Some(standing),
            Err(why) => {
                tracing::info!(user, why, "a workflow named by a job is not used");
                None
            }
        }
    }

    fn look_up(&self, file: &str, task: &str, user: u32) -> Result<Standing, String> {
        if !file.starts_with('/') {
            return Err(format!("'{file}' does not begin with /"));
        }
        let told = |error: std::io::Error| format!("'{file}': {error}");
        // Opening a pipe must not wait for a writer.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC).bits();
        let opened =
            OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(file).map_err(told)?;
        let about = opened.metadata().map_err(told)?;
        if !about.is_file() || about.uid() != user && user != 0 || about.len() > LARGEST {
            return Err(format!("'{file}' is no ordinary file of user {user} of at most {LARGEST} bytes"));
        }
        let stamp = (about.mtime(), about.mtime_nsec(), about.len());
        if let Some(standing) = self.known_standing(file, task, stamp, about.uid())? {
            return Ok(standing);
        }
        let mut bytes = Vec::new();
        opened.take(LARGEST).read_to_end(&mut bytes).map_err(told)?;
        let job = format::read_within(&bytes, None, file, LARGEST).map_err(|error| error.to_string())?;
        self.keep(file, &job.freeze(), stamp, about.uid());
        self.known_standing(file, task, stamp, about.uid())?.ok_or_else(|| format!("'{file}' has changed"))
    }

    fn known_standing(
        &self,
        file: &str,
        task: &str,
        stamp: (i64, i64, u64),
        owner: u32,
    ) -> Result<Option<Standing>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.0 += 1;
        let now = known.0;
        let Some(ranks) = known.1.get_mut(file).filter(|r| r.stamp == stamp && r.owner == owner) else {
            return Ok(None);
        };
        ranks.used = now;
        let (rank, seconds) =
            ranks.tasks.get(task).ok_or_else(|| format!("'{file}' has no task '{task}'"))?;
        Ok(Some(Standing { rank: Some((*rank, ranks.longest)), seconds: *seconds }))
    }

    fn keep(&self, file: &str, graph: &FlatGraph, stamp: (i64, i64, u64), owner: u32) {
        let seconds = |task| Some(graph.work(task)).filter(|work| !work.is_nan());
        let ranks =
            analysis::upward_rank(graph, DataModel::Edges, |task| seconds(task).unwrap_or(1.0), |_| 0.0);
        let longest = ranks.iter().copied().fold(0.0, f64::max);
        let tasks = graph.tasks().map(|t| (graph.task_name(t).to_owned(), (ranks[t.index()], seconds(t))));
        let ranks = Ranks { stamp, owner, tasks: tasks.collect(), longest, used: 0 };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.1.len() >= KEPT
            && let Some(oldest) = known.1.iter().min_by_key(|(_, r)| r.used).map(|(name, _)| name.clone())
        {
            known.1.remove(&oldest);
        }
        known.1.insert(file.to_owned(), ranks);
    }
}
