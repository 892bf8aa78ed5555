//! The kit passes what keeps the contracts and finds what breaks them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;

use super::*;
use crate::engine::{Step, TaskRun};
use crate::roles::{Planned, Simulated};
use crate::runner::{Assignment, Executor, FnExecutor, Outcome, Report, Reports, Stopping};
use crate::{
    Decisions, Instance, NodeId, PartialSchedule, Placement, Placer, Planner, Result, Rng, Schedule,
};
use rand::SeedableRng;

/// Earliest finish time in topological order, with faults on demand.
#[derive(Debug, Clone, Copy)]
enum Plans {
    Well,
    IntoThePast,
    Differently,
    TooFast,
}

impl Planner for Plans {
    fn plan(&self, instance: &Instance, rng: &mut Rng) -> Result<Schedule> {
        let forgetful = Instance::new(
            Arc::new(instance.graph().clone()),
            Arc::new(instance.cluster().clone()),
            instance.data(),
        )?;
        let instance = if matches!(self, Self::IntoThePast) { &forgetful } else { instance };
        let mut partial = PartialSchedule::new(instance)?;
        for &task in instance.graph().topological_order() {
            if partial.is_open(task) {
                let slot = partial.best_insertion(task);
                partial.place(task, slot);
            }
        }
        let mut plan = partial.finish().placements().to_vec();
        match self {
            Self::Differently => {
                static CALLS: AtomicUsize = AtomicUsize::new(0);
                let delay = CALLS.fetch_add(1, Ordering::Relaxed) as f64 + rand::Rng::random::<f64>(rng);
                if let Some(Placement { start, finish, .. }) =
                    plan.iter_mut().max_by(|a, b| a.finish.total_cmp(&b.finish))
                {
                    (*start, *finish) = (*start + delay, *finish + delay);
                }
            }
            Self::TooFast => plan.iter_mut().for_each(|p| p.finish -= 0.01),
            Self::Well | Self::IntoThePast => {}
        }
        Ok(Schedule::new(plan))
    }
}

/// The least occupied node, with faults on demand.
#[derive(Debug, Clone, Copy)]
enum Places {
    Well,
    OnTheFirstNode,
    OnlyTheFirstTask,
}

impl Placer for Places {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        for &task in step.ready() {
            let nodes = step.instance().cluster().node_ids().filter(|n| step.can_run(task, *n));
            match (*self, nodes.min_by_key(|n| step.running(*n) + step.waiting(*n))) {
                (Self::OnTheFirstNode, _) => decisions.place(task, 0.into()),
                (Self::OnlyTheFirstTask, _) if task.index() > 0 => {}
                (_, Some(node)) => decisions.place(task, node),
                (_, None) => {}
            }
        }
        Ok(())
    }
}

#[test]
fn planners_are_judged() {
    assert_eq!(check_planner(&Plans::Well), Ok(()));
    assert_eq!(check_planner(&Simulated::new(|_: &mut Rng| Places::Well)), Ok(()));
    for (planner, reason) in [
        (Plans::IntoThePast, "s, but it is "),
        (Plans::Differently, "two plans from the same seed differ"),
        (Plans::TooFast, "takes"),
    ] {
        let found = check_planner(&planner).err().unwrap_or_default();
        assert!(found.contains(reason), "{planner:?}: {found}");
    }
}

#[test]
fn placers_are_judged() {
    assert_eq!(check_placer(|| Places::Well), Ok(()));
    assert_eq!(check_placer(|| Planned::new(Plans::Well, Rng::seed_from_u64(1))), Ok(()));
    for (placer, reason) in
        [(Places::OnTheFirstNode, "fault of the policy"), (Places::OnlyTheFirstTask, "the run is stuck")]
    {
        let found = check_placer(|| placer).err().unwrap_or_default();
        assert!(found.contains(reason), "{placer:?}: {found}");
    }
}

#[test]
fn the_same_seed_gives_the_same_instances() -> Result<()> {
    let (a, b) = (instances(7)?, instances(7)?);
    assert_eq!(a.len(), 60);
    for ((name, a), (other, b)) in a.iter().zip(&b) {
        assert_eq!(name, other);
        let times =
            |i: &Instance| i.graph().tasks().map(|t| i.exec(t, NodeId::new(0)).to_bits()).collect::<Vec<_>>();
        assert_eq!(times(a), times(b));
    }
    Ok(())
}

/// What is wrong with an executor.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    ReportsTwice,
    NeverReports,
    SucceedsAlways,
    GivesNoReason,
    WaitsInStart,
    RunsOnAfterCancel,
    RefusesToCancelTwice,
    IgnoresSecondAttempts,
}

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Counts an attempt as running until it is dropped.
struct Counted;

impl Counted {
    fn new() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Faulty<E> {
    inner: E,
    fault: Fault,
}

#[async_trait]
impl<E: Executor> Executor for Faulty<E> {
    async fn start(&mut self, batch: Vec<Assignment>, reports: &Reports) -> Result<()> {
        match self.fault {
            Fault::ReportsTwice => {
                for a in &batch {
                    let reports = reports.clone();
                    let again = Report::Ended(a.run, Outcome::Success);
                    tokio::spawn(async move {
                        sleep(Duration::from_millis(100)).await;
                        reports.send(again);
                    });
                }
            }
            Fault::WaitsInStart => sleep(Duration::from_secs(100)).await,
            _ => {}
        }
        self.inner.start(batch, reports).await
    }

    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping {
        let done = |result| Box::pin(std::future::ready(result));
        match self.fault {
            Fault::RefusesToCancelTwice => done(Err(crate::Error::Executor("it has ended".to_owned()))),
            Fault::RunsOnAfterCancel => done(Ok(())),
            _ => self.inner.cancel(runs),
        }
    }
}

async fn judge(fault: Fault) -> Result<(), String> {
    let tasks = SampleTasks {
        succeed: |t| t.kind("succeed"),
        fail: |t| t.kind("fail"),
        linger: |t| t.kind("linger"),
        linger_once: Some(|t| t.kind("once")),
        running: Some(Arc::new(|| RUNNING.load(Ordering::SeqCst))),
    };
    let make = |_: &Arc<crate::Cluster>| {
        let inner = FnExecutor::new(move |a: Assignment| async move {
            let _counted = Counted::new();
            match (fault, &*a.task().kind) {
                (Fault::IgnoresSecondAttempts, "once") => std::future::pending().await,
                (_, "once") if a.run.attempt > 1 => Outcome::Success,
                (Fault::NeverReports, _) => std::future::pending().await,
                (Fault::SucceedsAlways, _) | (_, "succeed") => Outcome::Success,
                (Fault::GivesNoReason, "fail") => Outcome::Failure(" ".to_owned()),
                (_, "fail") => Outcome::Failure("as told".to_owned()),
                _ => std::future::pending().await,
            }
        });
        Ok(Faulty { inner, fault })
    };
    check_executor(make, &tasks, Duration::from_secs(20)).await
}

#[tokio::test(start_paused = true)]
async fn executors_are_judged() {
    for (fault, reason) in [
        (Fault::ReportsTwice, "a diamond: attempt 1 of 'a' is reported as ended 2 times"),
        (Fault::NeverReports, "a diamond: it did not end within 20 s"),
        (Fault::SucceedsAlways, "failing and repeating: task 'a' should fail after 3 attempts"),
        (Fault::GivesNoReason, "failing and repeating: attempt 1 of 'a' failed without a reason"),
        (Fault::WaitsInStart, "a diamond: executor: starting tasks did not return within 20 s"),
        (Fault::RunsOnAfterCancel, "timing out: 2 tasks still run after the end"),
        (Fault::RefusesToCancelTwice, "a diamond: cancelling attempts that have ended is an error"),
        (Fault::IgnoresSecondAttempts, "two attempts at once: it did not end within 20 s"),
        (Fault::None, ""),
    ] {
        let found = judge(fault).await.err().unwrap_or_default();
        assert!(found.starts_with(reason) && found.is_empty() == reason.is_empty(), "{fault:?}: {found}");
        while RUNNING.load(Ordering::SeqCst) > 0 {
            sleep(Duration::from_millis(1)).await; // dropping an executor stops its tasks soon
        }
    }
}
