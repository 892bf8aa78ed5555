//! `mdts retry --journal DIR [TASK...]`: failed tasks, and what is blocked behind them, may run again.

use std::path::PathBuf;

use mdts_core::engine::{Event, JobId, Phase};
use mdts_core::journal::{Durability, Folder, holder, read_folder};
use mdts_core::runner::{Obstacle, Standing, amend};
use mdts_dag::TaskId;
use serde::Serialize;

use super::cancel::wait;
use crate::control::{self, Request};
use crate::error::{Error, Result};
use crate::journal::{Shown, remedy};
use crate::output;
use crate::text::count;

/// Arguments of `mdts retry`.
#[derive(Debug, clap::Args)]
pub(crate) struct Retry {
    /// Folder of the run
    #[arg(long, value_name = "DIR")]
    journal: PathBuf,
    /// These tasks; default: all that have failed
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    /// Failed tasks that may run again, with all their retries.
    retried: Vec<&'a str>,
    /// Number of tasks that were blocked behind them.
    unblocked: usize,
}

impl Retry {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<()> {
        drop(read_folder(&self.journal)?); // locking would make a folder
        if let Some(process) = holder(&self.journal)?
            && let Some((shown, tasks, after)) = self.tell(process)?
        {
            return self.say(&shown, &tasks, after, &format!("process {process} goes on with them"), quiet);
        }
        let locked = Folder::lock(&self.journal)?;
        let shown = Shown::read(&self.journal)?;
        let tasks = self.chosen(&shown)?;
        let after = if tasks.is_empty() {
            shown.standing.count(Phase::Blocked)
        } else {
            let job = JobId::default();
            let events: Vec<Event> = tasks.iter().map(|task| Event::Retried { job, task: *task }).collect();
            let journal = locked.resume(Durability::Process)?;
            amend(journal, &shown.instance, shown.kept.emulate.is_none(), &events, Vec::new(), "retried")?;
            Shown::read(&self.journal)?.standing.count(Phase::Blocked)
        };
        self.say(&shown, &tasks, after, &remedy(&self.journal), quiet)
    }

    /// Asks the process that is at the run; tells how it stood before, which tasks may run again, and how many are blocked
    /// now. `None` if the process ended before it did so.
    fn tell(&self, process: u32) -> Result<Option<(Shown, Vec<TaskId>, usize)>> {
        let shown = Shown::read(&self.journal)?;
        let tasks = self.chosen(&shown)?;
        let mut after = shown.standing.count(Phase::Blocked);
        if tasks.is_empty() {
            return Ok(Some((shown, tasks, after)));
        }
        let request = Request::RetryTasks(tasks.iter().map(|task| task.get()).collect());
        let is_there = || Ok::<_, Error>(holder(&self.journal)? == Some(process));
        if let Err(error) = control::ask(&self.journal, &request) {
            let told = format!("{}: process {process} cannot be told ({error})", self.journal.display());
            return if is_there()? { Err(Error::Failed(told)) } else { Ok(None) };
        }
        let mut is_done = false;
        let look = || {
            let was_there = is_there()?;
            let now = Shown::read(&self.journal)?.standing;
            let attempts = |standing: &Standing, task| standing.attempt(task).map_or(0, |a| a.number);
            // It may have failed again by now.
            is_done = tasks.iter().all(|task| {
                now.phase(*task) != Phase::Failed || attempts(&now, *task) > attempts(&shown.standing, *task)
            });
            after = now.count(Phase::Blocked);
            Ok(is_done || !was_there)
        };
        wait(look, || format!("process {process} has not let them run again"))?;
        Ok(is_done.then_some((shown, tasks, after)))
    }

    fn say(&self, shown: &Shown, tasks: &[TaskId], blocked: usize, then: &str, quiet: bool) -> Result<()> {
        let unblocked = shown.standing.count(Phase::Blocked).saturating_sub(blocked);
        let report = Report { retried: tasks.iter().map(|task| shown.name(*task)).collect(), unblocked };
        match (self.json, quiet) {
            (true, _) => output::print_json(&report),
            (false, true) => Ok(()),
            (false, false) if tasks.is_empty() => output::print("nothing to retry: no task has failed\n"),
            (false, false) => output::print(&format!(
                "{} that failed and {unblocked} blocked behind may run again; {}\n",
                count(tasks.len(), "task"),
                then
            )),
        }
    }

    fn chosen(&self, shown: &Shown) -> Result<Vec<TaskId>> {
        let has_failed = |task: &TaskId| shown.standing.phase(*task) == Phase::Failed;
        if self.tasks.is_empty() {
            return Ok(shown.kept.job.graph.task_ids().filter(has_failed).collect());
        }
        let mut tasks = self.tasks.iter().map(|name| shown.task(name)).collect::<Result<Vec<_>>>()?;
        tasks.sort_unstable();
        tasks.dedup();
        match tasks.iter().find(|task| !has_failed(task)) {
            None => Ok(tasks),
            Some(task) => Err(Error::Usage(format!(
                "'{}' has not failed: {}; name tasks that have, or none for all of them",
                shown.name(*task),
                why(shown, *task)
            ))),
        }
    }
}

/// What a task does that has not failed.
fn why(shown: &Shown, task: TaskId) -> String {
    match shown.standing.phase(task) {
        Phase::Done => "it has succeeded".to_owned(),
        Phase::Blocked => {
            Obstacle::of(shown.standing.state(), &shown.instance, task, shown.standing.state().now())
                .map_or_else(String::new, |obstacle| obstacle.explain(&shown.instance).to_string())
        }
        _ => "it has not come to its end".to_owned(),
    }
}
