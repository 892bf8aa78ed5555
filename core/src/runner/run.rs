//! What an embedder sees of a run: how it is set up and started.

use std::sync::Arc;
use std::time::Duration;

use mdts_dag::JobGraph;

use super::Executor;
use super::drive::Run;
use super::options::{RunOptions, Snapshot, Stopper};
use super::report::RunReport;
use crate::engine::Step;
use crate::journal::Journal;
use crate::policy::{Decisions, Placer};
use crate::{Error, Instance, Result};

pub(super) type Progress = Box<dyn FnMut(&Snapshot<'_>) + Send>;

/// Runs one job through an executor, in real time.
///
/// The policy decides, the executor executes; the runner keeps time, repeats failed attempts, enforces the timeout
/// of every attempt and sees to it that every wait has an end.
///
/// ```
/// use std::sync::Arc;
/// use mdts_core::engine::Step;
/// use mdts_core::runner::{FnExecutor, Outcome, Runner};
/// use mdts_core::{Cluster, Decisions, Instance, Placer, SlotModel};
/// use mdts_dag::{DataModel, JobGraph, Task};
///
/// #[derive(Debug)]
/// struct First;
/// impl Placer for First {
///     fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<(), mdts_core::Error> {
///         step.ready().iter().for_each(|task| decisions.place(*task, 0.into()));
///         Ok(())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mdts_core::Error> {
/// let mut job = JobGraph::builder("one");
/// job.task(Task::new("a"))?;
/// let job = Arc::new(job.build()?);
/// let cluster = Arc::new(Cluster::identical(2, SlotModel::Exclusive)?);
/// let instance = Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Edges)?);
/// let mut executor = FnExecutor::new(|_| async { Outcome::Success });
/// let report = Runner::new(job, instance, First).run(&mut executor).await?;
/// assert!(report.is_success());
/// # Ok(())
/// # }
/// ```
pub struct Runner<P> {
    pub(super) job: Arc<JobGraph>,
    pub(super) instance: Arc<Instance>,
    pub(super) policy: P,
    pub(super) options: RunOptions,
    pub(super) progress: Option<Progress>,
    pub(super) stopper: Stopper,
    pub(super) journal: Option<Journal>,
}

impl<P: Placer> std::fmt::Debug for Runner<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner")
            .field("job", &self.job.name())
            .field("policy", &self.policy)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<P: Placer> Runner<P> {
    /// A run of `job` with the costs of `instance`, placed by `policy`.
    pub fn new(job: Arc<JobGraph>, instance: Arc<Instance>, policy: P) -> Self {
        let options = RunOptions::default();
        Self { job, instance, policy, options, progress: None, stopper: Stopper::new(), journal: None }
    }

    /// Records the run in a journal. If the journal has a past, the run goes on from there: finished tasks stay
    /// finished, attempts that ran are found again or run again.
    #[must_use]
    pub fn journal(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Sets how the run behaves.
    #[must_use]
    pub fn options(mut self, options: RunOptions) -> Self {
        self.options = options;
        self
    }

    /// Calls `progress` after every step and at least once a second, within the run: it should be quick.
    #[must_use]
    pub fn on_progress(mut self, progress: impl FnMut(&Snapshot<'_>) + Send + 'static) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Stops the run from outside, before or while it runs.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Runs the job to its end. Needs a tokio runtime with timers.
    ///
    /// Failed tasks are no error of the run: see [`RunReport::failures`]. After an error, all that still ran was
    /// cancelled, unless another run can go on with it: see [`Executor::survives`]. If the future is dropped, stopping what runs is up to the executor.
    ///
    /// # Errors
    /// [`Error::Executor`] if the executor cannot go on, [`Error::BadDecision`] if the policy places a task where
    /// it cannot be, whatever else the policy fails with, [`Error::Stuck`] if nothing runs and nothing will, [`Error::BadSetting`] if the instance is
    /// not of this job or an option is out of range, [`Error::Journal`] if the journal cannot be gone on with, [`Error::NotRecorded`] if it cannot be written.
    pub async fn run<E: Executor + ?Sized>(self, executor: &mut E) -> Result<RunReport> {
        if self.job.len() != self.instance.tasks() {
            return Err(Error::BadSetting {
                what: "number of tasks of the instance",
                value: self.instance.tasks().to_string(),
                expected: "that of the job",
            });
        }
        let mut run = Run::new(self, executor)?;
        match run.drive().await {
            Ok(end) => Ok(run.report(end)),
            Err(error) => {
                if !run.may_be_left(&error) {
                    run.abandon().await;
                }
                Err(error)
            }
        }
    }
}

/// A policy whose work is counted.
#[derive(Debug)]
pub(super) struct Counted<P> {
    policy: P,
    pub(super) steps: usize,
    pub(super) decisions: usize,
    pub(super) spent: Duration,
}

impl<P> Counted<P> {
    pub(super) fn new(policy: P) -> Self {
        Self { policy, steps: 0, decisions: 0, spent: Duration::ZERO }
    }
}

impl<P: Placer> Placer for Counted<P> {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        let begin = std::time::Instant::now();
        let placed = self.policy.place(step, decisions);
        self.spent += begin.elapsed();
        self.steps += 1;
        self.decisions += decisions.as_slice().len();
        placed
    }

    fn watches_progress(&self) -> bool {
        self.policy.watches_progress()
    }
}
