//! What a run is told from outside: to stop, to cancel tasks, to let failed ones run again.

use mdts_dag::TaskId;

use super::drive::{JOB, Run};
use super::options::{Stop, TaskOrder};
use super::report::RunEnd;
use super::stopping::Why;
use super::{Executor, Outcome, Report};
use crate::Result;
use crate::engine::{Event, Phase, TaskRun};
use crate::policy::Placer;

impl<P: Placer, E: Executor + ?Sized> Run<'_, P, E> {
    /// Does what was ordered from outside.
    pub(super) async fn obey(&mut self) -> Result<()> {
        let (stop, new) = {
            let orders = self.orders.borrow_and_update();
            (orders.stop, orders.of_tasks[self.orders_seen..].to_vec())
        };
        self.orders_seen += new.len();
        for order in new {
            match order {
                TaskOrder::Cancel(task, reason) => self.cancel_task(task, reason),
                TaskOrder::Retry(task) => self.retry_task(task),
            }
        }
        if self.options.deadline.is_some_and(|limit| self.begin.elapsed() >= limit) {
            self.give_up(RunEnd::Deadline).await?;
        } else if stop == Stop::Cancel {
            self.give_up(RunEnd::Cancelled).await?;
        } else if stop == Stop::Drain {
            self.hold(RunEnd::Drained);
        }
        Ok(())
    }

    /// A task that has not come to its end fails for good; if it runs, then when it is stopped.
    fn cancel_task(&mut self, task: TaskId, reason: String) {
        let runs: Vec<TaskRun> =
            self.attempts.runs_of(task).into_iter().filter(|run| !self.stops.is_leaving(*run)).collect();
        if runs.is_empty() {
            return self.drop_task(task, &reason);
        }
        if self.options.fail_fast {
            self.hold(RunEnd::FailedFast);
        }
        self.stop(runs, Why::Dropped(task, reason));
    }

    pub(super) fn drop_task(&mut self, task: TaskId, reason: &str) {
        let is_open =
            |phase| matches!(phase, Phase::Waiting | Phase::Ready | Phase::Running | Phase::Blocked);
        let state = self.engine.state();
        if task.index() >= self.job.len() || state.job_count() > 0 && !is_open(state.phase(JOB, task)) {
            return;
        }
        self.ledger.note(TaskRun { job: JOB, task, attempt: self.attempts.of(task).number }, reason);
        self.attempts.blame(task, reason);
        self.events.push(Event::Dropped { job: JOB, task });
        if !self.ended.contains(&task) {
            self.ended.push(task);
        }
        if self.options.fail_fast {
            self.hold(RunEnd::FailedFast);
        }
    }

    /// A task that has failed for good gets another chance.
    fn retry_task(&mut self, task: TaskId) {
        let state = self.engine.state();
        if task.index() < self.job.len() && state.job_count() > 0 && state.phase(JOB, task) == Phase::Failed {
            self.events.push(Event::Retried { job: JOB, task });
            self.retried.push(task);
        }
    }

    /// From here on nothing new starts.
    pub(super) fn hold(&mut self, end: RunEnd) {
        if self.drain.is_none() {
            self.drain = Some(end);
            self.events.push(Event::Held);
        }
    }

    /// Stops what runs, so that the run ends; whoever resumes it runs it again.
    async fn give_up(&mut self, end: RunEnd) -> Result<()> {
        self.hold(end);
        self.drain = Some(end);
        let live = self.attempts.live_runs();
        if live.is_empty() && self.stops.is_empty() {
            return Ok(());
        }
        self.cancel(&live).await?;
        self.finish_stopping().await?;
        self.now = self.clock();
        // Some may have succeeded in time. Failures are the work of the cancelling.
        while let Ok(report) = self.inbox.try_recv() {
            if matches!(report, Report::Ended(_, Outcome::Success)) {
                self.take(report);
            }
        }
        for run in self.attempts.live_runs() {
            self.interrupt(run);
        }
        Ok(())
    }
}
