//! `mdts cancel --journal DIR [TASK...]`: stops a run, or tasks of it, from another terminal.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mdts_core::engine::{Event, JobId, Phase, Step, TaskRun};
use mdts_core::journal::{Durability, Folder, events_file, holder};
use mdts_core::runner::{Executor, Reports, Runner, Stop, amend};
use mdts_core::{Decisions, Placer};
use mdts_dag::TaskId;
use mdts_slurm::SlurmHandle;
use serde::Serialize;
use tokio::runtime::Runtime;

use super::run::executor;
use crate::control::{self, CANCELLED, Request};
use crate::error::{Error, Result};
use crate::journal::{Shown, remedy};
use crate::life::LifeFlags;
use crate::output;
use crate::text::count;

/// Longest time until what was cancelled has ended.
const PATIENCE: Duration = Duration::from_mins(1);
/// Longest time until a run that has just begun listens.
const BEGINNING: Duration = Duration::from_secs(5);
/// Shortest time between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// Most tasks that are named.
const MOST: usize = 10;

/// Arguments of `mdts cancel`.
#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    /// Folder of the run
    #[arg(long, value_name = "DIR")]
    journal: PathBuf,
    /// Cancel these tasks alone: they count as failed, without further retries
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,
    /// Start nothing more, but let finish what runs
    #[arg(long, conflicts_with = "tasks")]
    drain: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Number of the process that was told; null if none runs the job.
    process: Option<u32>,
    /// Names of tasks that were cancelled; of all that ran if the whole run was.
    cancelled: Vec<String>,
    /// Whether what was asked for has come to its end.
    ended: bool,
    #[serde(skip)]
    said: String,
}

impl Cancel {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<()> {
        let process = holder(&self.journal)?;
        let shown = Shown::read(&self.journal).map_err(|error| match process {
            Some(process) if !events_file(&self.journal).exists() => Error::Usage(format!(
                "{}: process {process} plans and has begun nothing; stop it with kill {process}",
                self.journal.display()
            )),
            _ => error,
        })?;
        let tasks = self.tasks.iter().map(|name| shown.task(name)).collect::<Result<Vec<_>>>()?;
        let report = match process {
            Some(process) if tasks.is_empty() => self.stop(&shown, process)?,
            Some(process) => self.stop_tasks(&shown, process, &tasks)?,
            None if tasks.is_empty() => self.end_what_is_left()?,
            None => self.record(&tasks)?,
        };
        match (self.json, quiet) {
            (true, _) => output::print_json(&report),
            (false, true) => Ok(()),
            (false, false) => output::print(&report.said),
        }
    }

    /// Stops a run that a process is at.
    fn stop(&self, shown: &Shown, process: u32) -> Result<Report> {
        self.tell(process, if self.drain { &Request::Drain } else { &Request::Cancel })?;
        let running = running(shown);
        let folder = &self.journal;
        if self.drain {
            let said = format!(
                "process {process} starts nothing more; it ends when what runs has finished ({})\n",
                count(running.len(), "task")
            );
            return Ok(Report { process: Some(process), cancelled: Vec::new(), ended: false, said });
        }
        wait(|| Ok(holder(folder)? != Some(process)), || format!("process {process} still runs"))?;
        let said = format!("cancelled; {}\n", remedy(folder));
        Ok(Report { process: Some(process), cancelled: names(shown, &running), ended: true, said })
    }

    /// Cancels tasks of a run that a process is at.
    fn stop_tasks(&self, shown: &Shown, process: u32, tasks: &[TaskId]) -> Result<Report> {
        let open = self.open(shown, tasks)?;
        self.tell(process, &Request::CancelTasks(open.iter().map(|task| task.get()).collect()))?;
        let open_still = || -> Result<Vec<TaskId>> {
            let shown = Shown::read(&self.journal)?;
            Ok(open.iter().copied().filter(|task| is_open(shown.standing.phase(*task))).collect())
        };
        let has_ended = || Ok(open_still()?.is_empty() || holder(&self.journal)? != Some(process));
        wait(has_ended, || format!("process {process} has not cancelled them"))?;
        // What the process did not come to before it ended.
        let left = open_still()?;
        if !left.is_empty() {
            self.record(&left)?;
        }
        Ok(self.cancelled(shown, Some(process), &open))
    }

    /// Ends what a run has left behind whose process is dead.
    fn end_what_is_left(&self) -> Result<Report> {
        let folder = &self.journal;
        let nothing = |said: String| Report { process: None, cancelled: Vec::new(), ended: true, said };
        let locked = Folder::lock(folder)?;
        let shown = Shown::read(folder)?;
        let left = running(&shown);
        let runtime = runtime()?;
        let slurm = shown.kept.slurm.is_some() && !self.drain;
        if left.is_empty() && !slurm {
            let state = shown.standing.end().unwrap_or("killed");
            return Ok(nothing(format!("nothing runs: no process is at it, and it stands at '{state}'\n")));
        }
        if self.drain {
            let tasks = count(left.len(), "task");
            let said = format!("no process starts anything; {tasks} may go on, and end without --drain\n");
            return Ok(Report { ended: false, ..nothing(said) });
        }
        let kept = &shown.kept;
        let end = async {
            let mut left_behind = LeftBehind::new(&shown, folder)?;
            if !left.is_empty() {
                let runner = Runner::new(kept.job.graph.clone(), shown.instance.clone(), Nobody)
                    .journal(locked.resume(Durability::Process)?);
                runner.stopper().stop(Stop::Cancel);
                runner.run(&mut *left_behind.executor as &mut dyn Executor).await?;
            }
            match &left_behind.slurm {
                // Jobs may wait there of which the journal does not know that they were begun.
                Some(slurm) => Ok(slurm.cancel_all().await?),
                None => Ok::<_, Error>(()),
            }
        };
        let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, end).await });
        ended.map_err(|_| {
            Error::Failed(format!("what is left does not end within {} s", PATIENCE.as_secs()))
        })??;
        if left.is_empty() {
            return Ok(nothing(format!(
                "no process is at the run, and nothing of it is left in Slurm; {}\n",
                remedy(folder)
            )));
        }
        let cancelled = names(&shown, &left);
        let said = format!(
            "the run was killed; {} that it left behind ended now; {}\n",
            count(cancelled.len(), "task"),
            remedy(folder)
        );
        Ok(Report { process: None, cancelled, ended: true, said })
    }

    /// Cancels tasks of a run that no process is at.
    fn record(&self, tasks: &[TaskId]) -> Result<Report> {
        let locked = Folder::lock(&self.journal)?;
        let shown = Shown::read(&self.journal)?;
        let open = self.open(&shown, tasks)?;
        let job = JobId::default();
        let events: Vec<Event> = open.iter().map(|task| Event::Dropped { job, task: *task }).collect();
        let reason = |task: &TaskId| {
            let attempt = shown.standing.attempt(*task).map_or(0, |attempt| attempt.number);
            (TaskRun { job, task: *task, attempt }, CANCELLED.to_owned())
        };
        let reasons = open.iter().map(reason).collect();
        let journal = locked.resume(Durability::Process)?;
        let queues = shown.kept.emulate.is_none();
        let locked = amend(journal, &shown.instance, queues, &events, reasons, "cancelled")?;
        self.end(&shown, &open)?;
        drop(locked);
        Ok(self.cancelled(&shown, None, &open))
    }

    /// Ends what a killed run has left behind of these tasks; what it has left of others goes on.
    fn end(&self, shown: &Shown, tasks: &[TaskId]) -> Result<()> {
        let live = shown.standing.live(&shown.instance, &shown.kept.job.graph);
        let runs: Vec<TaskRun> =
            live.iter().map(|assignment| assignment.run).filter(|run| tasks.contains(&run.task)).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let runtime = runtime()?;
        let inside = runtime.enter();
        let LeftBehind { mut executor, .. } = LeftBehind::new(shown, &self.journal)?;
        drop(inside);
        let ended = runtime.block_on(async {
            let end = async {
                let (reports, _inbox) = Reports::channel();
                executor.recover(live, &reports).await?;
                executor.cancel(&runs).await
            };
            tokio::time::timeout(PATIENCE, end).await
        });
        drop(runtime); // before the executor, whose end must end nothing else
        ended.map_err(|_| Error::Failed(format!("they do not end within {} s", PATIENCE.as_secs())))??;
        Ok(())
    }

    /// Those of the tasks that have not come to their end.
    fn open(&self, shown: &Shown, tasks: &[TaskId]) -> Result<Vec<TaskId>> {
        let mut open: Vec<TaskId> =
            tasks.iter().copied().filter(|task| is_open(shown.standing.phase(*task))).collect();
        open.sort_unstable();
        open.dedup();
        match (open.is_empty(), tasks.first()) {
            (true, Some(task)) => Err(Error::Usage(format!(
                "'{}' has come to its end already; mdts status --journal {} '{0}' tells how",
                shown.name(*task),
                self.journal.display()
            ))),
            _ => Ok(open),
        }
    }

    fn cancelled(&self, shown: &Shown, process: Option<u32>, tasks: &[TaskId]) -> Report {
        let cancelled = names(shown, tasks);
        let named = cancelled.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = match cancelled.len().saturating_sub(MOST) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let folder = self.journal.display();
        let said = format!(
            "cancelled: {named}{more}; they count as failed until mdts retry --journal {folder} lets them run again\n"
        );
        Report { process, cancelled, ended: true, said }
    }

    /// Tells the process that is at the run.
    fn tell(&self, process: u32, request: &Request) -> Result<()> {
        let begin = Instant::now();
        loop {
            let error = match control::ask(&self.journal, request) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(Error::Failed(format!(
                        "process {process} has not answered for 10 s; it will do what it was asked for when it goes on"
                    )));
                }
                Err(error) => error,
            };
            // It may have just begun, or just ended.
            if begin.elapsed() >= BEGINNING || holder(&self.journal)? != Some(process) {
                let place = self.journal.display();
                return Err(Error::Failed(format!(
                    "{place}: process {process} cannot be told ({error}); if it still runs, stop it with kill {process}"
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// What runs the tasks of a run whose process is dead.
struct LeftBehind {
    executor: Box<dyn Executor>,
    slurm: Option<SlurmHandle>,
}

impl LeftBehind {
    /// Within a runtime.
    fn new(shown: &Shown, folder: &Path) -> Result<Self> {
        let kept = &shown.kept;
        let cluster = &kept.machines.cluster;
        if let Some(slurm) = &kept.slurm {
            let (executor, handle) = slurm.executor(&kept.logs, &kept.folder, cluster, Some(folder))?;
            return Ok(Self { executor: Box::new(executor), slurm: Some(handle) });
        }
        let life = LifeFlags::default();
        let executor = executor(kept.emulate, &life, &kept.logs, &kept.folder, cluster, Some(folder))?;
        Ok(Self { executor, slurm: None })
    }
}

fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| Error::System { what: "the runtime cannot start", source })
}

/// A policy that is not asked.
#[derive(Debug)]
struct Nobody;

impl Placer for Nobody {
    fn place(&mut self, _: &Step<'_>, _: &mut Decisions) -> mdts_core::Result<()> {
        Ok(())
    }
}

fn is_open(phase: Phase) -> bool {
    matches!(phase, Phase::Waiting | Phase::Ready | Phase::Running)
}

fn running(shown: &Shown) -> Vec<TaskId> {
    let tasks = shown.kept.job.graph.task_ids();
    tasks.filter(|task| shown.standing.phase(*task) == Phase::Running).collect()
}

fn names(shown: &Shown, tasks: &[TaskId]) -> Vec<String> {
    tasks.iter().map(|task| shown.name(*task).to_owned()).collect()
}

/// Waits until it is so; a look that takes long is followed by a longer pause.
pub(super) fn wait(mut is: impl FnMut() -> Result<bool>, or_else: impl FnOnce() -> String) -> Result<()> {
    let begin = Instant::now();
    loop {
        let look = Instant::now();
        if is()? {
            return Ok(());
        }
        if begin.elapsed() >= PATIENCE {
            return Err(Error::Failed(format!("{} after {} s", or_else(), PATIENCE.as_secs())));
        }
        std::thread::sleep(PAUSE.max(look.elapsed() * 4));
    }
}
