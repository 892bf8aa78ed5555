//! An executor from an asynchronous function: for embedders and tests.

use std::sync::Arc;

use async_trait::async_trait;
use rustc_hash::FxHashMap;
use tokio::task::JoinHandle;

use super::{Assignment, Executor, Outcome, Report, Reports, Stopping};
use crate::Result;
use crate::engine::TaskRun;

/// Runs every attempt as a tokio task that calls a function. A panic of the function is a failure of the attempt.
///
/// An attempt is cancelled at its next await; work that never awaits belongs on a blocking thread. One executor serves
/// one run after the other: what an abandoned run has left running ends when the same attempt begins in the next one,
/// or with the executor.
///
/// ```
/// use mdts_core::runner::{FnExecutor, Outcome};
/// let executor = FnExecutor::new(|assignment| async move {
///     println!("{} on {:?}", assignment.task().name, assignment.node);
///     Outcome::Success
/// });
/// # drop(executor);
/// ```
pub struct FnExecutor<F> {
    function: Arc<F>,
    /// Attempts begun; those that have ended are removed when their number has doubled.
    handles: FxHashMap<TaskRun, JoinHandle<()>>,
    clean_at: usize,
}

impl<F> std::fmt::Debug for FnExecutor<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FnExecutor").field("handles", &self.handles.len()).finish_non_exhaustive()
    }
}

const CLEAN_AT_LEAST: usize = 256;

impl<F, A> FnExecutor<F>
where
    F: Fn(Assignment) -> A + Send + Sync + 'static,
    A: Future<Output = Outcome> + Send + 'static,
{
    /// An executor that calls `function` once per attempt.
    pub fn new(function: F) -> Self {
        Self { function: Arc::new(function), handles: FxHashMap::default(), clean_at: CLEAN_AT_LEAST }
    }
}

#[async_trait]
impl<F, A> Executor for FnExecutor<F>
where
    F: Fn(Assignment) -> A + Send + Sync + 'static,
    A: Future<Output = Outcome> + Send + 'static,
{
    async fn start(&mut self, batch: Vec<Assignment>, reports: &Reports) -> Result<()> {
        if self.handles.len() + batch.len() > self.clean_at {
            self.handles.retain(|_, handle| !handle.is_finished());
            self.clean_at = CLEAN_AT_LEAST.max(2 * (self.handles.len() + batch.len()));
        }
        for assignment in batch {
            let run = assignment.run;
            let guard = PanicGuard { run, reports: reports.clone() };
            let function = self.function.clone();
            let handle = tokio::spawn(async move {
                let outcome = function(assignment).await;
                guard.reports.send(Report::Ended(run, outcome));
            });
            if let Some(abandoned) = self.handles.insert(run, handle) {
                abandoned.abort();
            }
        }
        Ok(())
    }

    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping {
        let handles: Vec<_> = runs.iter().filter_map(|run| self.handles.remove(run)).collect();
        handles.iter().for_each(JoinHandle::abort);
        Box::pin(async move {
            for handle in handles {
                handle.await.ok(); // the error says that it was aborted
            }
            Ok(())
        })
    }
}

impl<F> Drop for FnExecutor<F> {
    fn drop(&mut self) {
        self.handles.values().for_each(JoinHandle::abort);
    }
}

/// Reports the attempt as failed when the function panics.
struct PanicGuard {
    run: TaskRun,
    reports: Reports,
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let outcome = Outcome::Failure("the function of the task panicked".to_owned());
            self.reports.send(Report::Ended(self.run, outcome));
        }
    }
}
