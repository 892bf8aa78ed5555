//! Attempts that are being stopped, which may take its time: the run goes on beside it.
//!
//! An attempt that has run out of time, or whose task was cancelled, keeps its place on its node until it is gone; only
//! then the engine hears of it. The loser of two attempts has left its place already: what starts on its node waits for its
//! end here.

use mdts_dag::{Failing, TaskId};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::task::JoinSet;

use super::drive::{Run, within};
use super::{Assignment, Executor};
use crate::engine::{Event, TaskRun};
use crate::policy::Placer;
use crate::{Error, NodeId, Result};

/// Why attempts are stopped.
#[derive(Debug)]
pub(super) enum Why {
    /// They have run out of time.
    TimedOut,
    /// Their task is cancelled for this reason.
    Dropped(TaskId, String),
    /// The engine does not count on them any more; the node that others wait for.
    Over(Option<NodeId>),
}

/// What was stopped, and whether it could be.
pub(super) type Stopped = (Vec<TaskRun>, Why, Result<()>);

/// Attempts that are being stopped, and those that wait for it.
#[derive(Debug, Default)]
pub(super) struct Stops {
    under_way: JoinSet<Stopped>,
    /// Those of which the engine does not know yet.
    leaving: FxHashSet<TaskRun>,
    /// How many attempts that are over have not left each node.
    left_on: FxHashMap<NodeId, usize>,
    /// Commanded, and not given to the executor.
    waiting: Vec<(TaskRun, NodeId)>,
}

impl Stops {
    /// Whether nothing is being stopped.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether this attempt is being stopped, and what it reports does not count.
    pub(super) fn is_leaving(&self, run: TaskRun) -> bool {
        self.leaving.contains(&run)
    }

    /// Whether an attempt must not begin on this node yet; it is then begun later.
    pub(super) fn hold_back(&mut self, run: TaskRun, node: NodeId) -> bool {
        let waits = self.left_on.contains_key(&node);
        if waits {
            self.waiting.push((run, node));
        }
        waits
    }

    /// The next that is stopped; never if nothing is being stopped.
    pub(super) async fn next(&mut self) -> Result<Stopped> {
        match self.under_way.join_next().await {
            Some(stopped) => stopped.map_err(|error| Error::Executor(error.to_string())),
            None => std::future::pending().await,
        }
    }

    /// An attempt that is over has left its node.
    fn leave(&mut self, node: NodeId) {
        let left = self.left_on.get(&node).map_or(0, |left| left - 1);
        if left == 0 {
            self.left_on.remove(&node);
        } else {
            self.left_on.insert(node, left);
        }
    }

    /// Those that had to wait and may begin now.
    fn released(&mut self) -> Vec<(TaskRun, NodeId)> {
        let (now, later) = self.waiting.drain(..).partition(|(_, node)| !self.left_on.contains_key(node));
        self.waiting = later;
        now
    }
}

impl<P: Placer, E: Executor + ?Sized> Run<'_, P, E> {
    /// Begins to stop attempts.
    pub(super) fn stop(&mut self, runs: Vec<TaskRun>, why: Why) {
        match &why {
            Why::Over(Some(node)) => *self.stops.left_on.entry(*node).or_default() += 1,
            Why::Over(None) => {}
            Why::TimedOut | Why::Dropped(..) => self.stops.leaving.extend(&runs),
        }
        let (stopping, limit) = (self.executor.cancel(&runs), self.options.call_limit);
        self.stops.under_way.spawn(async move { (runs, why, within(limit, "cancelling", stopping).await) });
    }

    /// Attempts are gone.
    ///
    /// # Errors
    /// That of the executor, if they are not.
    pub(super) fn stopped(&mut self, (runs, why, outcome): Stopped) -> Result<()> {
        for run in &runs {
            self.stops.leaving.remove(run);
        }
        outcome?;
        match why {
            Why::TimedOut => runs.into_iter().for_each(|run| self.time_out(run)),
            Why::Dropped(task, reason) => {
                for run in runs {
                    self.attempts.cancel(run, self.now);
                }
                self.drop_task(task, &reason);
            }
            Why::Over(node) => node.into_iter().for_each(|node| self.stops.leave(node)),
        }
        Ok(())
    }

    /// An attempt that ran out of time is gone; it may have been lost with its node meanwhile.
    fn time_out(&mut self, run: TaskRun) {
        if self.attempts.running(run).is_none() {
            return;
        }
        let seconds = self.timeout(run.task).unwrap_or_default();
        let execution = self.job.task(run.task).run.as_ref();
        let for_good = execution.is_some_and(|execution| !execution.retry.repeats(Failing::Timeout));
        self.fail(run, format!("timed out after {seconds} s"), for_good);
    }

    /// Waits until all that is being stopped is gone.
    pub(super) async fn finish_stopping(&mut self) -> Result<()> {
        while !self.stops.is_empty() {
            let stopped = self.stops.next().await?;
            self.now = self.clock();
            self.stopped(stopped)?;
        }
        Ok(())
    }

    /// The assignments of attempts that had to wait for their node.
    pub(super) fn begin_released(&mut self) -> Vec<Assignment> {
        let mut batch = Vec::new();
        for (run, node) in self.stops.released() {
            if self.attempts.running(run).is_none() {
                continue; // cancelled, or lost with its node
            }
            if !self.executor.queues() {
                self.attempts.started(run, self.now);
                self.events.push(Event::Started(run));
                self.start_clocks(run, node, 0.0);
            }
            batch.push(self.assignment(run, node));
        }
        batch
    }
}
