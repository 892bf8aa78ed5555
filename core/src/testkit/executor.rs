//! Checks of executors: small jobs run through them while everything said is written down.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mdts_dag::{DataModel, JobGraph, JobGraphBuilder, Task, TaskId};
use tokio::time::{Instant, sleep};

use crate::engine::{JobId, Speculation, Step, TaskRun};
use crate::runner::{
    Assignment, Executor, Outcome, Report, Reports, RunEnd, RunOptions, RunReport, Runner, Stop, Stopping,
    TaskOutcome,
};
use crate::{Cluster, Decisions, Instance, Placer, Result, SlotModel};

/// How to make tasks that an executor under test treats in a known way.
#[derive(Clone)]
pub struct SampleTasks {
    /// Gives a task what makes it succeed soon.
    pub succeed: fn(Task) -> Task,
    /// Gives a task what makes it fail soon.
    pub fail: fn(Task) -> Task,
    /// Gives a task what makes it run for much longer than the check, unless it is cancelled.
    pub linger: fn(Task) -> Task,
    /// Gives a task what makes its first attempt linger and all others succeed soon, if there is such a thing: two
    /// attempts of it then run at once.
    pub linger_once: Option<fn(Task) -> Task>,
    /// How many tasks of the executor run now, if that can be told from outside.
    pub running: Option<Arc<dyn Fn() -> usize + Send + Sync>>,
}

impl Default for SampleTasks {
    /// The commands `true`, `false` and `sleep 600`; none lingers once.
    fn default() -> Self {
        Self {
            succeed: |task| task.command(["true"]),
            fail: |task| task.command(["false"]),
            linger: |task| task.command(["sleep", "600"]),
            linger_once: None,
            running: None,
        }
    }
}

impl std::fmt::Debug for SampleTasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SampleTasks").field("running", &self.running.is_some()).finish_non_exhaustive()
    }
}

/// Checks an executor by running small jobs through it, each of which may take `limit`.
///
/// Every attempt that is not cancelled, also one of two of a task at once, must be reported as ended exactly once, failures with a reason; `start` must
/// not wait for tasks; cancelled attempts must not succeed, and with [`SampleTasks::running`] must be seen to be
/// gone; cancelling what has ended must be no error. `make` gives a fresh executor for a cluster of three nodes.
///
/// # Errors
/// What is wrong, and in which job.
pub async fn check_executor<E: Executor>(
    mut make: impl FnMut(&Arc<Cluster>) -> Result<E>,
    tasks: &SampleTasks,
    limit: Duration,
) -> Result<(), String> {
    for story in STORIES.iter().filter(|story| !story.speculate || tasks.linger_once.is_some()) {
        check_story(story, &mut make, tasks, limit).await.map_err(|e| format!("{}: {e}", story.name))?;
    }
    Ok(())
}

/// A job, and what must come of it.
struct Story {
    name: &'static str,
    build: fn(&mut JobGraphBuilder, &SampleTasks) -> mdts_dag::Result<()>,
    /// Per task: `s`ucceeded, `f`ailed, `b`locked, `c`ancelled, and the number of attempts.
    expected: &'static [(char, u32)],
    cancel: bool,
    /// A second attempt begins soon.
    speculate: bool,
}

const STORIES: &[Story] = &[
    Story {
        name: "a diamond",
        build: |job, tasks| {
            let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| job.task((tasks.succeed)(Task::new(name))));
            let (a, b, c, d) = (a?, b?, c?, d?);
            for (child, parent) in [(b, a), (c, a), (d, b), (d, c)] {
                job.depend(child, parent, 0.0);
            }
            Ok(())
        },
        expected: &[('s', 1); 4],
        cancel: false,
        speculate: false,
    },
    Story {
        name: "forty tasks at once",
        build: |job, tasks| {
            (0..40).try_for_each(|i| job.task((tasks.succeed)(Task::new(format!("t{i}")))).map(drop))
        },
        expected: &[('s', 1); 40],
        cancel: false,
        speculate: false,
    },
    Story {
        name: "failing and repeating",
        build: |job, tasks| {
            let a = job.task((tasks.fail)(Task::new("a")).retries(2))?;
            let b = job.task((tasks.succeed)(Task::new("b")))?;
            job.task((tasks.succeed)(Task::new("c")))?;
            job.depend(b, a, 0.0);
            Ok(())
        },
        expected: &[('f', 3), ('b', 0), ('s', 1)],
        cancel: false,
        speculate: false,
    },
    Story {
        name: "timing out",
        build: |job, tasks| {
            let a = job.task((tasks.linger)(Task::new("a")).timeout(0.3).retries(1))?;
            let b = job.task((tasks.succeed)(Task::new("b")))?;
            job.depend(b, a, 0.0);
            Ok(())
        },
        expected: &[('f', 2), ('b', 0)],
        cancel: false,
        speculate: false,
    },
    Story {
        name: "cancelling",
        build: |job, tasks| {
            (0..3).try_for_each(|i| job.task((tasks.linger)(Task::new(format!("t{i}")))).map(drop))
        },
        expected: &[('c', 1); 3],
        cancel: true,
        speculate: false,
    },
    Story {
        name: "two attempts at once",
        build: |job, tasks| {
            let linger_once = tasks.linger_once.unwrap_or(tasks.succeed);
            for i in 0..3 {
                let a = job.task(linger_once(Task::new(format!("a{i}"))).seconds(0.1))?;
                let b = job.task((tasks.succeed)(Task::new(format!("b{i}"))))?;
                job.depend(b, a, 0.0);
            }
            Ok(())
        },
        expected: &[('s', 2), ('s', 1), ('s', 2), ('s', 1), ('s', 2), ('s', 1)],
        cancel: false,
        speculate: true,
    },
];

/// How long to let tasks run before they are cancelled, and to listen for reports that should not come.
const A_WHILE: Duration = Duration::from_millis(300);

async fn check_story<E: Executor>(
    story: &Story,
    make: &mut impl FnMut(&Arc<Cluster>) -> Result<E>,
    tasks: &SampleTasks,
    limit: Duration,
) -> Result<(), String> {
    let text = |error: crate::Error| error.to_string();
    let (job, instance, cluster) = prepare(story, tasks).map_err(text)?;
    let speculation = story.speculate.then_some(Speculation { factor: 1.0, least: A_WHILE.as_secs_f64() });
    let options =
        RunOptions { deadline: Some(limit), call_limit: limit, speculation, ..RunOptions::default() };
    let runner = Runner::new(job.clone(), instance, InTurn::default()).options(options);
    if story.cancel {
        let stopper = runner.stopper();
        tokio::spawn(async move {
            sleep(A_WHILE).await;
            stopper.stop(Stop::Cancel);
        });
    }
    let mut recorder = Recorder::new(make(&cluster).map_err(text)?);
    let report = runner.run(&mut recorder).await.map_err(text)?;
    sleep(A_WHILE).await;
    check_report(story, &job, &report, limit)?;
    check_log(&job, &recorder.log())?;
    let ended: Vec<TaskRun> =
        job.task_ids().map(|task| TaskRun { job: JobId::default(), task, attempt: 1 }).collect();
    let again = tokio::time::timeout(limit, recorder.cancel(&ended)).await;
    match again {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(format!("cancelling attempts that have ended is an error: {error}")),
        Err(_) => return Err("cancelling attempts that have ended does not return".to_owned()),
    }
    check_gone(tasks, limit).await
}

fn prepare(story: &Story, tasks: &SampleTasks) -> Result<(Arc<JobGraph>, Arc<Instance>, Arc<Cluster>)> {
    let mut builder = JobGraph::builder(story.name);
    (story.build)(&mut builder, tasks)?;
    let job = Arc::new(builder.build()?);
    let cluster = Cluster::identical(3, SlotModel::Resources)?;
    let nodes = cluster.nodes().iter().map(|node| node.clone().cores(100.0)).collect();
    let cluster = Arc::new(Cluster::new(nodes, cluster.network().clone(), SlotModel::Resources)?);
    let instance = Instance::new(job.freeze().into(), cluster.clone(), DataModel::Edges)?;
    Ok((job, instance.into(), cluster))
}

/// Places tasks on all nodes in turn.
#[derive(Debug, Default)]
struct InTurn {
    next: usize,
}

impl Placer for InTurn {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        for &task in step.ready() {
            decisions.place(task, crate::NodeId::new(self.next));
            self.next = (self.next + 1) % step.instance().nodes();
        }
        Ok(())
    }
}

fn check_report(story: &Story, job: &JobGraph, report: &RunReport, limit: Duration) -> Result<(), String> {
    if report.end == RunEnd::Deadline {
        return Err(format!("it did not end within {} s", limit.as_secs_f64()));
    }
    for ((task, found), (outcome, attempts)) in job.task_ids().zip(&report.tasks).zip(story.expected) {
        let is_right = match &found.outcome {
            TaskOutcome::Succeeded => *outcome == 's',
            TaskOutcome::Failed(_) => *outcome == 'f',
            TaskOutcome::Blocked => *outcome == 'b',
            TaskOutcome::Cancelled => *outcome == 'c',
        };
        if !is_right || found.attempts != *attempts {
            let name = &job.task(task).name;
            let meant = match outcome {
                's' => "succeed",
                'f' => "fail",
                'b' => "be blocked",
                _ => "be cancelled",
            };
            return Err(format!(
                "task '{name}' should {meant} after {attempts} attempts; it is {:?} after {}",
                found.outcome, found.attempts
            ));
        }
    }
    Ok(())
}

async fn check_gone(tasks: &SampleTasks, limit: Duration) -> Result<(), String> {
    let Some(running) = &tasks.running else { return Ok(()) };
    let begin = Instant::now();
    while running() > 0 {
        if begin.elapsed() > limit {
            return Err(format!("{} tasks still run after the end", running()));
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// What was said between runner and executor, in order.
#[derive(Debug, Clone, PartialEq)]
enum Said {
    Start(TaskRun),
    Cancel(TaskRun),
    Report(Report),
}

fn check_log(job: &JobGraph, log: &[Said]) -> Result<(), String> {
    let show = |run: TaskRun| match job.task_ids().nth(run.task.index()) {
        Some(task) => format!("attempt {} of '{}'", run.attempt, job.task(task).name),
        None => format!("{run:?}"),
    };
    let success = |task: TaskId| move |said: &Said| matches!(said, Said::Report(Report::Ended(run, Outcome::Success)) if run.task == task);
    for (at, said) in log.iter().enumerate() {
        match said {
            Said::Report(
                Report::Started(run)
                | Report::RanFor(run, _)
                | Report::Used(run, _)
                | Report::Lost(run)
                | Report::Ended(run, _),
            ) if !log[..at].contains(&Said::Start(*run)) => {
                return Err(format!("{} is reported, but was not started", show(*run)));
            }
            Said::Report(Report::Ended(run, Outcome::Success)) if log[..at].contains(&Said::Cancel(*run)) => {
                return Err(format!("{} is reported as a success after it was cancelled", show(*run)));
            }
            Said::Report(Report::Ended(run, Outcome::Failure(reason))) if reason.trim().is_empty() => {
                return Err(format!("{} failed without a reason", show(*run)));
            }
            Said::Start(run) => {
                if let Some(parent) = job.parents(run.task).find(|p| !log[..at].iter().any(success(*p))) {
                    let parent = &job.task(parent).name;
                    return Err(format!("{} was started before '{parent}' had ended", show(*run)));
                }
                let is_end = |said: &&Said| matches!(said, Said::Report(Report::Ended(r, _) | Report::Lost(r)) if r == run);
                let ends = log.iter().filter(is_end).count();
                if ends > 1 || (ends == 0 && !log.contains(&Said::Cancel(*run))) {
                    return Err(format!("{} is reported as ended {ends} times", show(*run)));
                }
            }
            Said::Cancel(_) | Said::Report(_) => {}
        }
    }
    Ok(())
}

/// Writes down what passes between a runner and the executor in it.
struct Recorder<E> {
    executor: E,
    log: Arc<Mutex<Vec<Said>>>,
    /// The executor's side of the reports, from the first start on.
    reports: Option<Reports>,
}

impl<E> Recorder<E> {
    fn new(executor: E) -> Self {
        Self { executor, log: Arc::default(), reports: None }
    }

    fn log(&self) -> Vec<Said> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn note(log: &Mutex<Vec<Said>>, said: impl IntoIterator<Item = Said>) {
    log.lock().unwrap_or_else(PoisonError::into_inner).extend(said);
}

#[async_trait]
impl<E: Executor> Executor for Recorder<E> {
    async fn start(&mut self, batch: Vec<Assignment>, reports: &Reports) -> Result<()> {
        let tapped = self.reports.get_or_insert_with(|| {
            let (tapped, mut inbox) = Reports::channel();
            let (log, reports) = (self.log.clone(), reports.clone());
            tokio::spawn(async move {
                while let Some(report) = inbox.recv().await {
                    note(&log, [Said::Report(report.clone())]);
                    reports.send(report);
                }
            });
            tapped
        });
        note(&self.log, batch.iter().map(|assignment| Said::Start(assignment.run)));
        self.executor.start(batch, tapped).await
    }

    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping {
        let (stopping, runs, log) = (self.executor.cancel(runs), runs.to_vec(), self.log.clone());
        Box::pin(async move {
            stopping.await?;
            note(&log, runs.iter().map(|run| Said::Cancel(*run)));
            Ok(())
        })
    }

    fn queues(&self) -> bool {
        self.executor.queues()
    }
}
