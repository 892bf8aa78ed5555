//! The executor: begins attempts as tokio tasks that each look after one process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mdts_core::engine::TaskRun;
use mdts_core::runner::{Assignment, Executor, Report, Reports, Stopping};
use mdts_core::{Cluster, Error, Result};
use mdts_dag::JobGraph;
use rustc_hash::FxHashMap;
use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::care::Care;
use crate::cgroup;
use crate::cut::SMALLEST;
use crate::keeper::{Ended, Found, Keeper};
use crate::process::{self, Setting};

pub(crate) const NO_COMMAND: &str = "the task has no command; use --emulate to run a trace";

/// How processes are run.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools)] // each is a switch of its own
pub struct LocalOptions {
    /// Where the output of every attempt goes, see [`crate::log_files`]. It is made if it is not there.
    pub log_directory: PathBuf,
    /// Where commands run and files are looked for.
    pub working_directory: PathBuf,
    /// Time between asking a cancelled attempt to end and killing it. Default: 5 seconds.
    pub grace: Duration,
    /// Processes at a time at most; further attempts wait, and their time does not run. Fewer where this process may not
    /// open enough files (`ulimit -n`). Default: 512.
    pub max_processes: usize,
    /// Who is the parent of the processes; `None`: this process. When it is killed they go on then, and nobody hears of their
    /// ends. Default: none.
    pub keeper: Option<KeeperOptions>,
    /// Whether an attempt does not begin when a declared input that no task writes is missing. Default: yes.
    pub check_inputs: bool,
    /// Whether an attempt that leaves a declared output missing has failed. Default: yes.
    pub check_outputs: bool,
    /// Bytes that are kept of each stream of an attempt's output, 256 KiB at least: of more, beginning and end are kept and a
    /// line between them says how much is left out. `None`: all is kept. Default: 64 MiB.
    pub output_limit: Option<u64>,
    /// Whether an attempt is killed that uses more memory than its task demands, if it demands any. Default: yes.
    pub limit_memory: bool,
    /// A control group of version 2 in which attempts that demand memory get groups of their own, so that the system itself
    /// limits them; it must be delegated and hold no processes. Empty: the one that holds this process, which must be alone in it.
    /// `None`: memory is watched by looking at processes. Default: none.
    pub cgroup: Option<PathBuf>,
    /// Whether every attempt is bound to as many processors as its task demands, disjoint while they last. Default: no.
    pub pin: bool,
}

impl LocalOptions {
    /// The defaults, with these directories.
    pub fn new(log_directory: impl Into<PathBuf>, working_directory: impl Into<PathBuf>) -> Self {
        Self {
            log_directory: log_directory.into(),
            working_directory: working_directory.into(),
            grace: Duration::from_secs(5),
            max_processes: 512,
            keeper: None,
            check_inputs: true,
            check_outputs: true,
            output_limit: Some(64 << 20),
            limit_memory: true,
            cgroup: None,
            pin: false,
        }
    }
}

/// A process that starts the tasks in the place of this one and outlives it: for runs that are to be resumed.
///
/// Tasks go on when the runner is killed, and a runner that resumes the run finds them and how they ended. Tasks have the
/// environment of the runner that starts them.
#[derive(Debug, Clone)]
pub struct KeeperOptions {
    /// Where it writes down what becomes of its tasks; a folder of this run alone. It is made if it is not there.
    pub folder: PathBuf,
    /// A command that calls [`keep`](crate::keep) with the folder, which is added as the last argument.
    pub command: Vec<OsString>,
}

/// Runs attempts as processes of this machine, whatever node they are placed on.
///
/// Two attempts of one task that run at once (speculation) share the working directory: such tasks must write their outputs
/// elsewhere and rename them.
///
/// Each process leads a process group of its own and finds `MDTS_JOB`, `MDTS_TASK`, `MDTS_ATTEMPT` and `MDTS_NODE`
/// in its environment, and the GPUs that are its own in `CUDA_VISIBLE_DEVICES` if it demands any; its input is empty. What it
/// writes is in [log files](crate::log_files) within a tenth of a second; there are none for what it does not write. An attempt has ended when its process has; what it leaves in its group is
/// killed then. Cancelling asks the group to end (SIGTERM) and kills it after the grace. So does dropping the
/// executor, as long as the tokio runtime lives; the end of the runtime kills at once.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use mdts_core::{Instance, Placer, Result, runner::{RunReport, Runner}};
/// # use mdts_dag::{DataModel, JobGraph};
/// # use mdts_local::{LocalExecutor, LocalOptions, this_machine};
/// # async fn run(job: Arc<JobGraph>, policy: impl Placer) -> Result<RunReport> {
/// LocalExecutor::check(&job)?;
/// let cluster = Arc::new(this_machine()?);
/// let instance = Instance::new(job.freeze().into(), cluster.clone(), DataModel::Files)?;
/// let mut executor = LocalExecutor::new(LocalOptions::new("logs", "."), cluster)?;
/// Runner::new(job, instance.into(), policy).run(&mut executor).await
/// # }
/// ```
#[derive(Debug)]
pub struct LocalExecutor {
    setting: Arc<Setting>,
    keeper: Option<Arc<Keeper>>,
    permits: Arc<Semaphore>,
    running: FxHashMap<TaskRun, Running>,
}

/// An attempt under way. Dropping the sender cancels it, too.
#[derive(Debug)]
struct Running {
    cancel: oneshot::Sender<()>,
    handle: JoinHandle<()>,
}

impl LocalExecutor {
    /// An executor for jobs placed on `cluster`, whose node names the tasks are told.
    ///
    /// # Errors
    /// [`Error::Io`] if the log directory cannot be made or the working directory is not there,
    /// [`Error::BadSetting`] if not even one process may run, [`Error::Executor`] if the keeper does not begin.
    pub fn new(mut options: LocalOptions, cluster: Arc<Cluster>) -> Result<Self> {
        if let Some(limit) = options.output_limit.filter(|limit| *limit < SMALLEST) {
            return Err(Error::BadSetting {
                what: "limit of output",
                value: limit.to_string(),
                expected: "at least 262144 bytes",
            });
        }
        if options.max_processes == 0 {
            return Err(Error::BadSetting {
                what: "number of processes",
                value: "0".to_owned(),
                expected: "at least 1",
            });
        }
        if let Some(folder) = &mut options.cgroup {
            let ready = if folder.as_os_str().is_empty() {
                cgroup::own().map(|own| *folder = own)
            } else {
                cgroup::prepare(folder)
            };
            ready.map_err(Error::Executor)?;
        }
        options.working_directory = in_place(&options.working_directory, Path::canonicalize)?;
        in_place(&options.log_directory, |path| std::fs::create_dir_all(path))?;
        // The keeper may have another current directory.
        options.log_directory = in_place(&options.log_directory, Path::canonicalize)?;
        let keeper = options.keeper.as_ref().map(open_keeper).transpose()?;
        let at_once = options.max_processes.min(processes_by_files()).min(Semaphore::MAX_PERMITS);
        let care = Care::new(false, |error| tracing::warn!("{error}"));
        let care = care.map_err(|error| Error::Executor(format!("a thread cannot start: {error}")))?;
        let (programs, produced, own_peak) = Default::default();
        let setting = Setting { options, cluster, care, programs, produced, own_peak };
        let permits = Arc::new(Semaphore::new(at_once));
        Ok(Self { setting: Arc::new(setting), keeper, permits, running: FxHashMap::default() })
    }

    /// Checks before a run that every task has a command.
    ///
    /// # Errors
    /// [`Error::Executor`] that names the first task without one.
    pub fn check(job: &JobGraph) -> Result<()> {
        let mut without =
            job.tasks().filter(|task| task.run.as_ref().is_none_or(|run| run.command.is_empty()));
        let Some(first) = without.next() else { return Ok(()) };
        let name = &first.name;
        Err(Error::Executor(match without.count() {
            0 => format!("task '{name}': {NO_COMMAND}"),
            others => format!("task '{name}' and {others} more: {NO_COMMAND}"),
        }))
    }
}

impl Drop for LocalExecutor {
    fn drop(&mut self) {
        self.setting.care.clear();
    }
}

/// How many processes there may be at once, as this process may not open more files.
fn processes_by_files() -> usize {
    /// Files per process, two of output and one to wait by, and those that are open anyway.
    const EACH: u64 = 3;
    const OTHERS: u64 = 64;
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(most.saturating_sub(OTHERS) / EACH).unwrap_or(usize::MAX).max(1)
}

fn open_keeper(options: &KeeperOptions) -> Result<Arc<Keeper>> {
    let keeper = Keeper::open(&options.folder, &options.command);
    keeper.map(Arc::new).map_err(|error| Error::Executor(format!("{}: {error}", options.folder.display())))
}

fn in_place<T>(path: &Path, act: impl FnOnce(&Path) -> std::io::Result<T>) -> Result<T> {
    act(path).map_err(|source| Error::Io { path: path.to_owned(), source })
}

impl LocalExecutor {
    /// Lets an attempt run, or follows one that was found.
    fn look_after(
        &mut self,
        assignment: Assignment,
        ends: Option<oneshot::Receiver<Ended>>,
        reports: &Reports,
    ) {
        let (cancel, cancelled) = oneshot::channel();
        let run = assignment.run;
        let setting = self.setting.clone();
        let (keeper, permits, reports) = (self.keeper.clone(), self.permits.clone(), reports.clone());
        // What runs already has a place among the processes, if there are so many.
        let found = ends.map(|ends| (ends, permits.clone().try_acquire_owned().ok()));
        let attempt = attempt(assignment, found, setting, keeper, permits, cancelled, reports);
        self.running.insert(run, Running { cancel, handle: tokio::spawn(attempt) });
    }

    /// Starts another keeper if there was one and it is dead, and listens to it.
    fn mend_keeper(&mut self) -> Result<()> {
        let (Some(keeper), Some(options)) = (&mut self.keeper, &self.setting.options.keeper) else {
            return Ok(());
        };
        if keeper.is_over() {
            *keeper = open_keeper(options)?;
        }
        keeper.listen().map_err(|error| Error::Executor(format!("{}: {error}", options.folder.display())))
    }
}

#[async_trait]
impl Executor for LocalExecutor {
    async fn start(&mut self, batch: Vec<Assignment>, reports: &Reports) -> Result<()> {
        self.running.retain(|_, running| !running.handle.is_finished());
        self.mend_keeper()?;
        for assignment in batch {
            self.look_after(assignment, None, reports);
        }
        Ok(())
    }

    /// With a keeper, attempts are found again, or how they ended; what cannot be found is ended.
    async fn recover(&mut self, attempts: Vec<Assignment>, reports: &Reports) -> Result<Vec<TaskRun>> {
        self.mend_keeper()?;
        let Some(keeper) = self.keeper.clone() else { return Ok(Vec::new()) };
        let runs: Vec<TaskRun> = attempts.iter().map(|assignment| assignment.run).collect();
        let found = keeper.find(&runs, self.setting.options.grace).await;
        let found = found.map_err(|error| Error::Executor(format!("tasks cannot be found: {error}")))?;
        let mut kept = Vec::new();
        for (assignment, found) in attempts.into_iter().zip(found) {
            if let Found::Ends(ends, ran_for) = found {
                kept.push(assignment.run);
                if let Some(seconds) = ran_for {
                    reports.send(Report::RanFor(assignment.run, seconds));
                }
                self.look_after(assignment, Some(ends), reports);
            }
        }
        Ok(kept)
    }

    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping {
        let stopping: Vec<JoinHandle<()>> = runs
            .iter()
            .filter_map(|run| self.running.remove(run))
            .map(|running| {
                running.cancel.send(()).ok(); // an error says that it has just ended
                running.handle
            })
            .collect();
        Box::pin(async move {
            for handle in stopping {
                handle.await.map_err(|error| Error::Executor(error.to_string()))?;
            }
            Ok(())
        })
    }

    /// With a keeper.
    fn survives(&self) -> bool {
        self.keeper.is_some()
    }

    /// Attempts beyond the processes allowed wait.
    fn queues(&self) -> bool {
        true
    }
}

async fn attempt(
    assignment: Assignment,
    found: Option<(oneshot::Receiver<Ended>, Option<OwnedSemaphorePermit>)>,
    setting: Arc<Setting>,
    keeper: Option<Arc<Keeper>>,
    permits: Arc<Semaphore>,
    mut cancelled: oneshot::Receiver<()>,
    reports: Reports,
) {
    let run = assignment.run;
    let outcome = match (found, keeper.as_deref()) {
        (Some((ends, _permit)), Some(keeper)) => {
            process::follow(&assignment, &setting, keeper, ends, cancelled, &reports).await
        }
        (_, keeper) => {
            let _permit = tokio::select! {
                biased;
                _ = &mut cancelled => return,
                permit = permits.acquire() => permit,
            };
            reports.send(Report::Started(run));
            process::run(&assignment, &setting, keeper, cancelled, &reports).await
        }
    };
    if let Some(outcome) = outcome {
        reports.send(Report::Ended(run, outcome));
    }
}
