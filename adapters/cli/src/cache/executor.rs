//! An executor around another one that answers for tasks whose outputs are there.
//!
//! Files are read and written on blocking threads. A task waits for the look at its own files alone, and its success is
//! told when its outputs are kept, so that what it says of a task holds after a kill.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use mdts_core::Result;
use mdts_core::engine::TaskRun;
use mdts_core::runner::{Assignment, Executor, Outcome, Report, Reports, Stopping};
use mdts_dag::JobGraph;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::task::{JoinHandle, spawn_blocking};

use super::look::{Cache, Verdict};
use super::parts::Parts;

/// Runs only what the cache does not answer for.
pub(crate) struct Cached {
    shared: Arc<Shared>,
    queues: bool,
    survives: bool,
    /// What the executor inside reports to, from the first call on.
    proxy: Option<Reports>,
    /// Looks under way at once at most.
    looks: Arc<Semaphore>,
}

struct Shared {
    inside: AsyncMutex<Box<dyn Executor>>,
    cache: Cache,
    attempts: Mutex<Attempts>,
    hits: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Attempts {
    /// Those whose files are looked at, with what stops that.
    looking: HashMap<TaskRun, (Arc<AtomicBool>, JoinHandle<()>)>,
    /// Those that run and are to be recorded.
    running: HashMap<TaskRun, (Arc<JobGraph>, Parts)>,
}

impl Cached {
    /// Around `inside`; `hits` counts the tasks that did not run.
    pub(crate) fn new(inside: Box<dyn Executor>, cache: Cache, hits: Arc<AtomicUsize>) -> Self {
        let (queues, survives) = (inside.queues(), inside.survives());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (inside, attempts) = (AsyncMutex::new(inside), Mutex::default());
        let shared = Arc::new(Shared { inside, cache, attempts, hits });
        Self { shared, queues, survives, proxy: None, looks: Arc::new(Semaphore::new(2 * threads)) }
    }

    fn proxy(&mut self, reports: &Reports) -> Reports {
        let make = || {
            let (proxy, heard) = Reports::channel();
            tokio::spawn(pass_on(self.shared.clone(), heard, reports.clone()));
            proxy
        };
        self.proxy.get_or_insert_with(make).clone()
    }

    /// Looks at the files of an attempt, then answers for it or lets it run.
    fn look_at(&self, assignment: Assignment, reports: Reports, proxy: Reports) {
        let (run, stop) = (assignment.run, Arc::new(AtomicBool::new(false)));
        let (shared, looks, stopped) = (self.shared.clone(), self.looks.clone(), stop.clone());
        let mut attempts = self.shared.attempts();
        let handle = tokio::spawn(async move {
            let permit = looks.acquire().await;
            let (looking, job) = (shared.clone(), assignment.job.clone());
            let looked = spawn_blocking(move || looking.look(&job, run, &stopped)).await;
            drop(permit);
            match looked.unwrap_or(Looked::Miss(None)) {
                Looked::Hit => shared.answer(run, &reports),
                Looked::Miss(parts) => shared.let_run(assignment, parts, &reports, &proxy).await,
            }
        });
        attempts.looking.insert(run, (stop, handle));
    }
}

enum Looked {
    Hit,
    /// With what is to be recorded after a success.
    Miss(Option<Parts>),
}

impl Shared {
    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, job: &JobGraph, run: TaskRun, stop: &AtomicBool) -> Looked {
        let look = self.cache.look(job, run.task, stop);
        match look.verdict {
            Verdict::Current(lacking) if self.cache.restore(&lacking, stop) => Looked::Hit,
            Verdict::Current(_) => Looked::Miss(look.parts),
            Verdict::Runs(why) => {
                tracing::info!(task = %job.task(run.task).name, %why, "runs");
                Looked::Miss(look.parts)
            }
        }
    }

    fn answer(&self, run: TaskRun, reports: &Reports) {
        if self.attempts().looking.remove(&run).is_some() {
            self.hits.fetch_add(1, Ordering::Relaxed);
            reports.send(Report::Started(run));
            reports.send(Report::Ended(run, Outcome::Success));
        }
    }

    async fn let_run(
        &self,
        assignment: Assignment,
        parts: Option<Parts>,
        reports: &Reports,
        proxy: &Reports,
    ) {
        let mut inside = self.inside.lock().await;
        {
            // Whoever cancels it from here on asks the executor inside.
            let mut attempts = self.attempts();
            if attempts.looking.remove(&assignment.run).is_none() {
                return;
            }
            if let Some(parts) = parts {
                attempts.running.insert(assignment.run, (assignment.job.clone(), parts));
            }
        }
        if let Err(error) = inside.start(vec![assignment], proxy).await {
            reports.send(Report::Broken(error.to_string()));
        }
    }
}

/// Passes on what the executor inside reports; successes when they are recorded.
async fn pass_on(shared: Arc<Shared>, mut heard: UnboundedReceiver<Report>, reports: Reports) {
    while let Some(report) = heard.recv().await {
        let Report::Ended(run, outcome) = &report else {
            reports.send(report);
            continue;
        };
        let recorded = shared.attempts().running.remove(run).filter(|_| *outcome == Outcome::Success);
        let Some((job, parts)) = recorded else {
            reports.send(report);
            continue;
        };
        let (shared, reports, task) = (shared.clone(), reports.clone(), run.task);
        tokio::spawn(async move {
            let recorded = spawn_blocking(move || {
                if let Err(error) = shared.cache.record(&job, task, &parts) {
                    tracing::warn!(task = %job.task(task).name, "not kept in the cache: {error}");
                }
            });
            recorded.await.ok(); // an error says that the runtime is ending
            reports.send(report);
        });
    }
}

#[async_trait]
impl Executor for Cached {
    async fn start(&mut self, batch: Vec<Assignment>, reports: &Reports) -> Result<()> {
        let proxy = self.proxy(reports);
        let (looked_at, others): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|assignment| !assignment.task().outputs.is_empty());
        for assignment in looked_at {
            self.look_at(assignment, reports.clone(), proxy.clone());
        }
        if others.is_empty() {
            return Ok(());
        }
        self.shared.inside.lock().await.start(others, &proxy).await
    }

    /// What is found again is not recorded: what it depended on is not known.
    async fn recover(&mut self, attempts: Vec<Assignment>, reports: &Reports) -> Result<Vec<TaskRun>> {
        let proxy = self.proxy(reports);
        self.shared.inside.lock().await.recover(attempts, &proxy).await
    }

    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping {
        let mut looks = Vec::new();
        {
            let mut attempts = self.shared.attempts();
            for run in runs {
                attempts.running.remove(run);
                if let Some((stop, handle)) = attempts.looking.remove(run) {
                    stop.store(true, Ordering::Relaxed);
                    looks.push(handle);
                }
            }
        }
        let (shared, runs) = (self.shared.clone(), runs.to_vec());
        Box::pin(async move {
            for look in looks {
                look.await.ok(); // an error says that the runtime is ending
            }
            let stopping = shared.inside.lock().await.cancel(&runs);
            stopping.await
        })
    }

    fn queues(&self) -> bool {
        self.queues
    }

    fn survives(&self) -> bool {
        self.survives
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mdts_core::testkit::{SampleTasks, check_executor};
    use mdts_local::{LocalExecutor, LocalOptions};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn it_conforms() -> std::result::Result<(), String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let make = |cluster: &Arc<mdts_core::Cluster>| {
            let mut options = LocalOptions::new(folder.path().join("logs"), folder.path());
            options.grace = Duration::from_millis(300);
            let inside = LocalExecutor::new(options, cluster.clone())?;
            let cache = Cache::open(&folder.path().join("kept"), folder.path(), true);
            let cache = cache.map_err(|error| mdts_core::Error::Executor(error.to_string()))?;
            Ok(Cached::new(Box::new(inside), cache, Arc::default()))
        };
        let tasks = SampleTasks {
            linger_once: Some(|task| {
                task.command(["sh", "-c", "test $MDTS_ATTEMPT -gt 1 || exec sleep 600"])
            }),
            ..SampleTasks::default()
        };
        check_executor(make, &tasks, Duration::from_mins(1)).await
    }
}
