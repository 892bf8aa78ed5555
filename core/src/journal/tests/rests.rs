//! Runs whose tasks rest between attempts, in paused time.

use std::sync::Arc;
use std::time::Duration;

use mdts_dag::{DataModel, JobGraph, Task};
use tokio::time::{Instant, sleep};

use super::Memory;
use crate::engine::{Backoff, Phase, Step};
use crate::journal::Durability;
use crate::policy::Placer;
use crate::runner::{FnExecutor, Obstacle, Outcome, RunEnd, RunOptions, Runner, Standing, Stop};
use crate::{Cluster, Decisions, Instance, Result, SlotModel};

/// Everything on the only node.
#[derive(Debug)]
struct One;

impl Placer for One {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        step.ready().iter().for_each(|task| decisions.place(*task, 0.into()));
        Ok(())
    }
}

/// `flaky` fails twice, `other` runs for a second; one node for both.
fn job() -> Result<(Arc<JobGraph>, Arc<Instance>)> {
    let mut job = JobGraph::builder("rests");
    job.task(Task::new("flaky").seconds(1.0).retries(5))?;
    job.task(Task::new("other").seconds(1.0))?;
    let job = Arc::new(job.build()?);
    let cluster = Arc::new(Cluster::identical(1, SlotModel::Exclusive)?);
    Ok((job.clone(), Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Edges)?)))
}

fn executor() -> impl crate::runner::Executor {
    FnExecutor::new(|assignment| async move {
        sleep(Duration::from_secs(1)).await;
        let fails = assignment.run.task.index() == 0 && assignment.run.attempt < 3;
        if fails { Outcome::Failure("not yet".to_owned()) } else { Outcome::Success }
    })
}

fn patient() -> RunOptions {
    let backoff = Backoff { first: 100.0, factor: 10.0, most: 5000.0, seed: 1 };
    RunOptions { backoff, ..RunOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn the_place_is_free_while_a_task_rests() -> Result<()> {
    let (job, instance) = job()?;
    let report = Runner::new(job, instance, One).options(patient()).run(&mut executor()).await?;
    assert!(report.is_success());
    assert_eq!((report.tasks[0].attempts, report.retried()), (3, 2));
    let other = &report.tasks[1];
    assert!((1.0..1.1).contains(&other.start), "the other task ran meanwhile, from {} s", other.start);
    // 50 to 100 s after the first failure, 500 to 1000 s after the second.
    assert!((552.0..=1103.5).contains(&report.tasks[0].start), "{} s", report.tasks[0].start);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_resumed_waits_for_the_rest_of_the_time() -> Result<()> {
    for degree in [Stop::Drain, Stop::Cancel] {
        let ((job, instance), memory) = (job()?, Memory::new());
        let journal = memory.create(&instance, Durability::Process)?;
        let runner = Runner::new(job.clone(), instance.clone(), One).options(patient()).journal(journal);
        let stopper = runner.stopper();
        tokio::spawn(async move {
            sleep(Duration::from_secs(20)).await;
            stopper.stop(degree);
        });
        let report = runner.run(&mut executor()).await?;
        let end = if degree == Stop::Drain { RunEnd::Drained } else { RunEnd::Cancelled };
        assert_eq!(
            (report.end, report.succeeded(), report.cancelled()),
            (end, 1, 1),
            "nothing is waited for"
        );

        let standing = Standing::read(&mut memory.reader()?, &instance, false, "memory")?;
        assert_eq!(standing.phase(0.into()), Phase::Waiting);
        let now = standing.state().now();
        assert!((20.0..20.1).contains(&now), "{now}");
        let obstacle = Obstacle::of(standing.state(), &instance, 0.into(), now);
        let told = obstacle.as_ref().map(|obstacle| obstacle.explain(&instance).to_string());
        assert!(told.as_deref().is_some_and(|told| told.ends_with(" s before attempt 2")), "{told:?}");
        let Some(Obstacle::Resting { seconds, attempt: 2 }) = obstacle else { panic!("{obstacle:?}") };
        assert!((30.0..=81.0).contains(&seconds), "{seconds} of 50 to 100 s are left after 19");

        sleep(Duration::from_hours(1)).await; // no process is at it, and its clock stands still
        let begin = Instant::now();
        let journal = memory.open()?;
        let runner = Runner::new(job, instance, One).options(patient()).journal(journal);
        let report = runner.run(&mut executor()).await?;
        assert!(report.is_success());
        let waited = begin.elapsed().as_secs_f64();
        let second = Backoff::seconds(&patient().backoff, 0.into(), 2, None);
        assert!(
            (waited - (seconds + 1.0 + second + 1.0)).abs() < 0.5,
            "{waited} s, of which {seconds} were left"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_task_may_ask_for_a_time_of_its_own_or_be_cancelled_while_it_rests() -> Result<()> {
    let mut job = JobGraph::builder("own");
    job.task(Task::new("flaky").seconds(1.0).retries(2).retry_delay(0.0))?;
    job.task(Task::new("long").seconds(1.0).retries(2).retry_delay(1e9))?;
    let job = Arc::new(job.build()?);
    let cluster = Arc::new(Cluster::identical(1, SlotModel::Exclusive)?);
    let instance = Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Edges)?);
    let runner = Runner::new(job, instance, One).options(patient());
    let stopper = runner.stopper();
    tokio::spawn(async move {
        sleep(Duration::from_secs(1000)).await;
        stopper.cancel_tasks([1.into()], "enough");
    });
    let mut executor = FnExecutor::new(|assignment| async move {
        sleep(Duration::from_secs(1)).await;
        if assignment.run.attempt < 3 { Outcome::Failure("not yet".to_owned()) } else { Outcome::Success }
    });
    let begin = Instant::now();
    let report = runner.run(&mut executor).await?;
    assert_eq!(report.failures().collect::<Vec<_>>(), [(1.into(), "enough")]);
    assert_eq!((report.tasks[0].attempts, report.tasks[1].attempts), (3, 1));
    assert!(report.tasks[0].finish < 10.0, "no rest");
    assert!((1000.0..1001.0).contains(&begin.elapsed().as_secs_f64()));
    Ok(())
}
