//! What runs tasks: this machine, Slurm, a test double, or an embedder's own.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use mdts_dag::{JobGraph, Task};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::engine::TaskRun;
use crate::{NodeId, Result};

/// One attempt that the executor is to run.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The attempt.
    pub run: TaskRun,
    /// Where it is to run.
    pub node: NodeId,
    /// How long it should take there by the cost model, in seconds.
    pub expected_seconds: f64,
    /// The job, for the task's command and files.
    pub job: Arc<JobGraph>,
}

impl Assignment {
    /// The task.
    pub fn task(&self) -> &Task {
        self.job.task(self.run.task)
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it should.
    Success,
    /// It did not; the reason is for people.
    Failure(String),
    /// It did not, and another attempt would not either, whatever retries are left; the reason is for people.
    Final(String),
}

/// What an attempt has used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds from its beginning to its end.
    pub seconds: f64,
    /// Seconds of processor time, of all its processes.
    pub cpu_seconds: f64,
    /// Most bytes of memory at a time.
    pub peak_memory: u64,
}

/// What an executor tells the runner.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// An attempt has begun: optional, and at most once, unless the executor [queues](Executor::queues).
    Started(TaskRun),
    /// An attempt that was [found again](Executor::recover) has run for so many seconds, also while no process was at the run:
    /// optional, once. Its timeout counts them.
    RanFor(TaskRun, f64),
    /// What an attempt has used: optional, and at most once, before its end is told.
    Used(TaskRun, Usage),
    /// An attempt has ended.
    Ended(TaskRun, Outcome),
    /// An attempt was lost through no fault of its own: the task will run again, and no retry is used up. Instead of
    /// [`Report::Ended`].
    Lost(TaskRun),
    /// A node is (again) there.
    NodeJoined(NodeId),
    /// A node is gone, with all that runs there.
    NodeLost(NodeId),
    /// The executor as a whole cannot go on, for this reason; the run then ends with an error.
    Broken(String),
}

/// Where an executor sends its reports. Cheap to clone; never blocks.
#[derive(Debug, Clone)]
pub struct Reports {
    sender: UnboundedSender<Report>,
}

impl Reports {
    /// A sender and its receiver, for drivers other than [`super::Runner`], wrappers and tests.
    pub fn channel() -> (Self, UnboundedReceiver<Report>) {
        let (sender, receiver) = unbounded_channel();
        (Self { sender }, receiver)
    }

    /// Sends a report. Reports to a run that is over are dropped.
    pub fn send(&self, report: Report) {
        self.sender.send(report).ok();
    }
}

/// Ends when attempts are stopped.
pub type Stopping = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Runs attempts.
///
/// **An implementer** begins every attempt of a batch without waiting for its end, and later sends exactly one
/// [`Report::Ended`] per attempt that was not cancelled, from any thread. It starts no attempt twice and decides
/// nothing: node and moment are the runner's. With [speculation](super::RunOptions::speculation) two attempts of one task
/// run at once; they differ in their number. A batch holds all attempts that may start now, so that an engine
/// with expensive submissions can submit them as one. **A caller** gives the next batch only after the last call
/// has returned.
#[async_trait]
pub trait Executor: Send {
    /// Begins all attempts of a batch.
    ///
    /// # Errors
    /// [`crate::Error::Executor`] if the executor as a whole cannot go on; the run then ends. A single attempt
    /// that cannot begin is reported as failed instead.
    async fn start(&mut self, batch: Vec<Assignment>, reports: &Reports) -> Result<()>;

    /// Finds attempts again that were given to an executor of an earlier process and of whose end nothing is recorded.
    /// Returns those that it has or whose end it knows: it reports on them as if it had started them. Of the others
    /// nothing may run any more when this returns; they will run again. Called once, before everything else, and only
    /// if a run is resumed. Default: none is found, which is right where attempts end with the process.
    ///
    /// # Errors
    /// [`crate::Error::Executor`] if it cannot be told what became of them.
    async fn recover(&mut self, _attempts: Vec<Assignment>, _reports: &Reports) -> Result<Vec<TaskRun>> {
        Ok(Vec::new())
    }

    /// Begins to stop attempts, with all that they started. What it returns ends when they are stopped; reports about them
    /// may come meanwhile and follow. Until then other attempts may be started and cancelled. An attempt that is not
    /// running is no error: it may just have ended. The error of the returned future is [`crate::Error::Executor`], if they
    /// cannot be stopped.
    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping;

    /// Whether attempts go on without this process, so that the executor of a later one can [find](Executor::recover) them. They
    /// are then left alone when the run ends because it cannot be recorded, or the executor is [broken](Report::Broken). Default: no.
    fn survives(&self) -> bool {
        false
    }

    /// Whether attempts may begin later than told. Such an executor reports [`Report::Started`] once for every
    /// attempt that it begins: timeouts count from there, and attempts that have not begun are cancelled when nothing
    /// new is to start. An executor around another one passes its answer on. Default: no.
    fn queues(&self) -> bool {
        false
    }
}
