//! The executor: what runs attempts as jobs of Slurm.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mdts_core::engine::TaskRun;
use mdts_core::runner::{Assignment, Executor, Reports, Stopping};
use mdts_core::{Cluster, Error, Instance, NodeId, Result, Schedule};
use mdts_dag::JobGraph;
use tokio::sync::{mpsc, oneshot};

use crate::Slurm;
use crate::run::{Conductor, Order, RunFolder};

/// How binding the node is on which the policy places a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// The job needs that node. If it can never begin there it may begin anywhere, which is told.
    #[default]
    Hard,
    /// The job gets that node if it can begin there soon, and any other if not.
    Soft,
    /// Slurm chooses the node.
    None,
}

/// How many tasks run one after the other in one job.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Packing {
    /// One.
    #[default]
    Off,
    /// So many at most.
    Tasks(usize),
    /// As many as should be done after so many seconds.
    Seconds(f64),
}

impl Packing {
    /// Whether so many tasks may be in one job that should take so many seconds.
    pub(crate) fn allows(self, tasks: usize, seconds: f64) -> bool {
        match self {
            Self::Off => tasks <= 1,
            Self::Tasks(most) => tasks <= most,
            Self::Seconds(most) => seconds <= most,
        }
    }
}

/// How jobs are submitted and watched.
#[derive(Debug, Clone)]
pub struct SlurmOptions {
    /// Where the run keeps what it shares with its jobs: a folder of this run alone, which every node sees under the same
    /// name. It is made if it is not there.
    pub run_directory: PathBuf,
    /// Where the output of every attempt goes, see [`mdts_core::runner::log_files`]; seen by every node.
    pub log_directory: PathBuf,
    /// Where commands run and files are looked for; seen by every node.
    pub working_directory: PathBuf,
    /// The partition; `None`: Slurm's default.
    pub partition: Option<String>,
    /// How binding placements are. Default: hard.
    pub placement: Placement,
    /// Whether tasks that ask for the same are submitted as one array. Default: yes.
    pub arrays: bool,
    /// How many elements of an array run at a time at most. Default: any number.
    pub throttle: Option<u32>,
    /// How many tasks a job runs. Default: one.
    pub packing: Packing,
    /// Memory in MiB per core of jobs whose tasks demand none; see [`crate::Discovered::memory_per_core_mib`]. Default: what
    /// Slurm gives.
    pub memory_per_core_mib: Option<u64>,
    /// Further options of `sbatch`, such as `--account=x`.
    pub submit_options: Vec<String>,
    /// How long a job may wait for a reason that cannot pass by itself. Default: one minute.
    pub patience: Duration,
    /// How long a job waits for the node that it would like. Default: ten seconds.
    pub soft_patience: Duration,
    /// How long Slurm may be out of reach. Default: one hour.
    pub outage_limit: Duration,
    /// Shortest and longest time between two looks at the queue. Default: a quarter of a second and ten seconds.
    pub poll: (Duration, Duration),
    /// How long a result may stay unseen after its job has ended, as file systems shared by nodes may be late. Default:
    /// 30 seconds.
    pub result_patience: Duration,
    /// How often a task may be lost before it counts as failed. Default: 10.
    pub most_losses: u32,
}

impl SlurmOptions {
    /// The defaults, with these directories.
    pub fn new(
        run_directory: impl Into<PathBuf>,
        log_directory: impl Into<PathBuf>,
        working_directory: impl Into<PathBuf>,
    ) -> Self {
        Self {
            run_directory: run_directory.into(),
            log_directory: log_directory.into(),
            working_directory: working_directory.into(),
            partition: None,
            placement: Placement::Hard,
            arrays: true,
            throttle: None,
            packing: Packing::Off,
            memory_per_core_mib: None,
            submit_options: Vec::new(),
            patience: Duration::from_mins(1),
            soft_patience: Duration::from_secs(10),
            outage_limit: Duration::from_hours(1),
            poll: (Duration::from_millis(250), Duration::from_secs(10)),
            result_patience: Duration::from_secs(30),
            most_losses: 10,
        }
    }
}

/// What an executor has done.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct SlurmSummary {
    /// Waves: parts of the job that were submitted as one.
    pub waves: u64,
    /// Submissions: calls of `sbatch`.
    pub submissions: u64,
    /// Looks at the queue.
    pub polls: u64,
    /// Tasks that did not run where the policy had placed them, each with the reason.
    pub moved: Vec<String>,
}

/// Runs attempts as batch jobs of Slurm.
///
/// What is to begin at once and asks for the same is submitted as one array, with a node for every element. Commands run in
/// [`SlurmOptions::working_directory`] with the environment that this process has, and find `MDTS_JOB`, `MDTS_TASK`, `MDTS_ATTEMPT` and
/// `MDTS_NODE` in it beside Slurm's own variables; what they write is in [log files](mdts_core::runner::log_files). Jobs go on
/// without this process; an executor on the same folder finds them again. No attempt runs twice, whatever becomes of
/// this process, of Slurm's controller or of a submission whose answer is lost: a job has to claim what it runs.
#[derive(Debug)]
pub struct SlurmExecutor {
    handle: SlurmHandle,
}

/// What can be asked of an executor beside what a runner asks, also while one uses it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SlurmHandle {
    orders: mpsc::UnboundedSender<Order>,
    summary: Arc<Mutex<SlurmSummary>>,
    id: Arc<str>,
}

impl SlurmExecutor {
    /// An executor for jobs placed on `cluster`, whose nodes have Slurm's names. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Io`] if a directory cannot be made or is not there, [`Error::Executor`] if the folder of the run cannot be
    /// understood, or there is no runtime.
    pub fn new(slurm: Arc<dyn Slurm>, mut options: SlurmOptions, cluster: Arc<Cluster>) -> Result<Self> {
        let in_place = |path: PathBuf| path.canonicalize().map_err(|source| Error::Io { path, source });
        std::fs::create_dir_all(&options.log_directory)
            .map_err(|source| Error::Io { path: options.log_directory.clone(), source })?;
        options.log_directory = in_place(options.log_directory)?;
        options.working_directory = in_place(options.working_directory)?;
        let folder = RunFolder::open(&options.run_directory)?;
        let id = folder.id().into();
        let summary = Arc::new(Mutex::new(SlurmSummary::default()));
        let (orders, inbox) = mpsc::unbounded_channel();
        let conductor = Conductor::new(slurm, options, cluster, folder, summary.clone())?;
        let runtime = tokio::runtime::Handle::try_current();
        runtime.map_err(|error| Error::Executor(error.to_string()))?.spawn(conductor.run(inbox));
        Ok(Self { handle: SlurmHandle { orders, summary, id } })
    }

    /// Whether a folder is that of a run, of which jobs may still run.
    pub fn has_run_in(folder: &Path) -> bool {
        RunFolder::is_one(folder)
    }

    /// For what a runner does not ask.
    pub fn handle(&self) -> SlurmHandle {
        self.handle.clone()
    }
}

impl SlurmHandle {
    /// What tells the jobs of this run from all others: their comment is `mdts:ID:WAVE`.
    pub fn run_id(&self) -> &str {
        &self.id
    }

    /// What was done so far.
    pub fn summary(&self) -> SlurmSummary {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Submits all tasks of a job at once, each to the node that the schedule gives it, to begin when those before it have
    /// succeeded. What a runner then starts on that node is not submitted again. A graph of which a part was submitted by
    /// an earlier process is completed as it was begun, whatever the schedule. Returns the nodes, by task.
    ///
    /// # Errors
    /// [`Error::Executor`] if Slurm refuses it or cannot be reached.
    pub async fn submit_graph(
        &self,
        job: &Arc<JobGraph>,
        instance: &Arc<Instance>,
        schedule: &Schedule,
    ) -> Result<Vec<Option<NodeId>>> {
        let (job, instance, schedule) = (job.clone(), instance.clone(), schedule.clone());
        self.ask(|reply| Order::SubmitGraph { job, instance, schedule, reply }).await
    }

    /// Cancels all jobs of the run that have not ended, also those of which no runner knows, and nothing else.
    ///
    /// # Errors
    /// [`Error::Executor`] if Slurm cannot be reached.
    pub async fn cancel_all(&self) -> Result<()> {
        self.ask(Order::CancelAll).await
    }

    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<Result<T>>) -> Order) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(order(reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn gone() -> Error {
    Error::Executor("what watches Slurm's jobs has ended; the log tells why".to_owned())
}

#[async_trait]
impl Executor for SlurmExecutor {
    async fn start(&mut self, batch: Vec<Assignment>, reports: &Reports) -> Result<()> {
        self.handle.orders.send(Order::Start(batch, reports.clone())).map_err(|_| gone())
    }

    async fn recover(&mut self, attempts: Vec<Assignment>, reports: &Reports) -> Result<Vec<TaskRun>> {
        self.handle.ask(|reply| Order::Recover(attempts, reports.clone(), reply)).await
    }

    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping {
        let (reply, answer) = oneshot::channel();
        let sent = self.handle.orders.send(Order::Cancel(runs.to_vec(), reply));
        Box::pin(async move {
            sent.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        })
    }

    /// Always.
    fn survives(&self) -> bool {
        true
    }

    /// Slurm begins jobs when it has room.
    fn queues(&self) -> bool {
        true
    }
}
