//! Attempts that take their time to end, are lost, or are told more about than their end.

use super::*;
use crate::engine::Speculation;

/// An executor whose attempts need five seconds to end when they are cancelled.
struct Stubborn<E>(E);

#[async_trait]
impl<E: Executor> Executor for Stubborn<E> {
    async fn start(&mut self, batch: Vec<Assignment>, reports: &Reports) -> Result<()> {
        self.0.start(batch, reports).await
    }

    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping {
        let stopping = self.0.cancel(runs);
        Box::pin(async move {
            sleep(Duration::from_secs(5)).await;
            stopping.await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_does_not_end_holds_up_nobody() -> Result<()> {
    /// The chain has one node, the task that times out and what is behind it the other one.
    #[derive(Debug)]
    struct Apart;
    impl Placer for Apart {
        fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
            for &task in step.ready() {
                decisions.place(task, NodeId::new(usize::from(![0, 5].contains(&task.index()))));
            }
            Ok(())
        }
    }
    let lines: &[(&str, &[&str])] =
        &[("stuck", &[]), ("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &["c"]), ("next", &["stuck"])];
    let (job, instance) =
        job(lines, |t| if &*t.name == "stuck" { t.seconds(100.0).timeout(1.5).retries(1) } else { t })?;
    let report = Runner::new(job, instance, Apart).run(&mut Stubborn(sleeper(&[]))).await?;
    assert_eq!(outcomes(&report), "fssssb");
    for (i, finish) in [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)] {
        assert_seconds(report.tasks[i].finish, finish);
    }
    assert_eq!(report.tasks[0].attempts, 2);
    assert_seconds(report.tasks[0].finish, 2.0 * (1.5 + 5.0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_is_not_used_before_a_loser_has_left_it() -> Result<()> {
    // a is overdue after 2 s; its second attempt on the other node wins after 3 s; the first ends 5 s later.
    let (job, instance) = job(&[("a", &[]), ("b", &["a"]), ("c", &["a"])], |t| t)?;
    let inner = FnExecutor::new(|assignment| async move {
        let is_slow = assignment.run.task.index() == 0 && assignment.run.attempt == 1;
        sleep(Duration::from_secs(if is_slow { 100 } else { 1 })).await;
        Outcome::Success
    });
    let speculation = Some(Speculation { factor: 2.0, least: 0.0 });
    let options = RunOptions { speculation, ..RunOptions::default() };
    let report = Runner::new(job, instance, Spread).options(options).run(&mut Stubborn(inner)).await?;
    assert_eq!(outcomes(&report), "sss");
    for task in &report.tasks[1..] {
        let start = if task.node == Some(NodeId::new(0)) { 8.0 } else { 3.0 };
        assert_seconds(task.start, start);
    }
    assert_ne!(report.tasks[1].node, report.tasks[2].node);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_fails_when_it_has_ended_and_may_be_retried_at_once() -> Result<()> {
    let (job, instance) = job(&[("a", &[]), ("b", &[]), ("after", &["a"])], |t| t.seconds(30.0))?;
    let runner = Runner::new(job, instance, Spread);
    let stopper = runner.stopper();
    tokio::spawn(async move {
        sleep(Duration::from_secs(1)).await;
        stopper.cancel_tasks([0.into()], "by hand");
        sleep(Duration::from_secs(2)).await;
        stopper.retry_tasks([0.into()]); // it has not failed yet
        sleep(Duration::from_secs(7)).await;
        stopper.retry_tasks([0.into(), 1.into(), 99.into()]);
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let runner = runner.on_progress(move |moment| log.lock().unwrap().push((moment.failed, moment.blocked)));
    let report = runner.run(&mut Stubborn(sleeper(&[]))).await?;
    assert_eq!(
        (outcomes(&report).as_str(), report.tasks[0].attempts, report.end),
        ("sss", 2, RunEnd::Complete)
    );
    assert_seconds(report.tasks[0].start, 10.0);
    let seen = seen.lock().unwrap();
    assert!(seen.contains(&(1, 1)) && seen.last() == Some(&(0, 0)), "{seen:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_every_second() -> Result<()> {
    let (job, instance) = job(&[("a", &[])], |t| t.seconds(60.0))?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let runner = Runner::new(job, instance, Spread)
        .on_progress(move |moment| log.lock().unwrap().push((moment.now, moment.running)));
    assert!(runner.run(&mut sleeper(&[])).await?.is_success());
    let seen = seen.lock().unwrap();
    assert!(seen.windows(2).all(|pair| pair[1].0 - pair[0].0 < 1.1), "{seen:?}");
    assert!(seen.iter().filter(|(_, running)| *running == 1).count() >= 59);
    Ok(())
}

#[tokio::test]
async fn what_is_lost_runs_again_and_what_was_used_is_told() -> Result<()> {
    let (job, instance) = job(&[("a", &[])], |t| t)?;
    let usage = Usage { seconds: 2.0, cpu_seconds: 1.5, peak_memory: 1 << 20 };
    let second = vec![Report::Used(run(0, 2), usage), Report::Used(run(0, 1), usage), ended(0, 2)];
    let on_start = vec![vec![Report::Lost(run(0, 1)), ended(0, 1)], second];
    let mut executor = Scripted { on_start, ..Scripted::default() };
    let report = Runner::new(job, instance, Spread).run(&mut executor).await?;
    assert_eq!((outcomes(&report).as_str(), report.tasks[0].attempts), ("s", 2), "without any retries");
    assert_eq!(report.tasks[0].usage, Some(usage));
    Ok(())
}
