//! Runs in which tasks get a second attempt.

use super::*;
use crate::engine::Speculation;

/// Overdue after twice the expected time.
fn eager() -> RunOptions {
    RunOptions { speculation: Some(Speculation { factor: 2.0, least: 0.0 }), ..RunOptions::default() }
}

/// Each attempt of "a" sleeps so many seconds, then succeeds or not; all other tasks sleep one second. Counts the
/// attempts that were not stopped.
fn attempts(of_a: &'static [(f64, bool)]) -> (impl Executor, Arc<AtomicUsize>) {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = ended.clone();
    let executor = FnExecutor::new(move |assignment| {
        let ended = ended.clone();
        async move {
            let is_a = &*assignment.task().name == "a";
            let (seconds, succeeds) =
                if is_a { of_a[assignment.run.attempt as usize - 1] } else { (1.0, true) };
            sleep(Duration::from_secs_f64(seconds)).await;
            ended.fetch_add(1, Ordering::Relaxed);
            if succeeds { Outcome::Success } else { Outcome::Failure("broken".to_owned()) }
        }
    });
    (executor, count)
}

#[tokio::test(start_paused = true)]
async fn the_first_success_wins() -> Result<()> {
    for (first, node, makespan) in [(1000.0, 1, 3.0), (2.5, 0, 2.5)] {
        let (job, instance) = job(&[("a", &[]), ("b", &["a"])], |t| t)?;
        let of_a: &'static [(f64, bool)] =
            if first > 3.0 { &[(1000.0, true), (1.0, true)] } else { &[(2.5, true), (1.0, true)] };
        let (mut executor, ended) = attempts(of_a);
        let most = Arc::new(AtomicUsize::new(0));
        let seen = most.clone();
        let runner = Runner::new(job, instance.clone(), Spread)
            .options(RunOptions { keep_records: true, ..eager() })
            .on_progress(move |moment| _ = seen.fetch_max(moment.running, Ordering::Relaxed));
        let report = runner.run(&mut executor).await?;
        assert_eq!(outcomes(&report), "ss");
        assert_eq!((report.speculated, report.retried(), report.tasks[0].attempts), (1, 0, 2));
        assert_eq!(report.tasks[0].node, Some(NodeId::new(node)));
        assert_seconds(report.tasks[0].finish, makespan);
        assert_seconds(report.makespan, makespan + 1.0);
        assert_eq!(
            (ended.load(Ordering::Relaxed), most.load(Ordering::Relaxed)),
            (2, 2),
            "the loser is stopped"
        );
        assert!(State::replay(instance.cluster(), false, &report.records)?.is_finished());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn without_it_a_task_runs_once_at_a_time() -> Result<()> {
    let (job, instance) = job(&[("a", &[])], |t| t)?;
    let (mut executor, _) = attempts(&[(1000.0, true)]);
    let report = Runner::new(job, instance, Spread).run(&mut executor).await?;
    assert_eq!((outcomes(&report).as_str(), report.speculated, report.tasks[0].attempts), ("s", 0, 1));
    assert_seconds(report.makespan, 1000.0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_second_attempt_that_fails_is_no_failure_and_is_tried_again() -> Result<()> {
    let (job, instance) = job(&[("a", &[])], |t| t)?;
    // The first is overdue after 2 s, 4 s, 8 s and so on.
    let (mut executor, _) = attempts(&[(9.0, true), (0.5, false), (0.5, false), (0.5, false)]);
    let report = Runner::new(job, instance, Spread).options(eager()).run(&mut executor).await?;
    assert_eq!((outcomes(&report).as_str(), report.speculated, report.retried()), ("s", 3, 0));
    assert_eq!(report.tasks[0].node, Some(NodeId::new(0)));
    assert_seconds(report.makespan, 9.0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_last_failure_is_that_of_the_task() -> Result<()> {
    let (job, instance) = job(&[("a", &[])], |t| t)?;
    let (mut executor, _) = attempts(&[(2.5, false), (1.0, false)]);
    let options = RunOptions { fail_fast: true, ..eager() };
    let report =
        Runner::new(job.clone(), instance.clone(), Spread).options(options).run(&mut executor).await?;
    assert_eq!((outcomes(&report).as_str(), report.tasks[0].attempts), ("f", 2));
    assert_seconds(report.makespan, 3.0);

    // With retries there are two more lives; the retry is not the second attempt's business.
    let (job, instance) = self::job(&[("a", &[])], |t| t.retries(1))?;
    let (mut executor, _) = attempts(&[(2.5, false), (1.0, false), (1.0, true)]);
    let report = Runner::new(job, instance, Spread).options(eager()).run(&mut executor).await?;
    assert_eq!((outcomes(&report).as_str(), report.speculated, report.retried()), ("s", 1, 1));
    assert_seconds(report.makespan, 4.0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_attempt_has_a_timeout_of_its_own() -> Result<()> {
    let (job, instance) = job(&[("a", &[])], |t| t.timeout(2.5))?;
    let (mut executor, ended) = attempts(&[(9.0, true), (1.0, true)]);
    let report = Runner::new(job, instance, Spread).options(eager()).run(&mut executor).await?;
    assert_eq!(outcomes(&report), "s");
    assert_eq!(report.tasks[0].node, Some(NodeId::new(1)));
    assert_seconds(report.makespan, 3.0);
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn both_ends_at_once_count_once() -> Result<()> {
    let failed = |attempt| Report::Ended(run(0, attempt), Outcome::Failure("broken".to_owned()));
    for (ends, expected) in [
        ([ended(0, 1), ended(0, 2)], (1, 0, "s")),
        ([ended(0, 2), ended(0, 1)], (1, 0, "s")),
        ([failed(1), ended(0, 2)], (1, 0, "s")),
        ([ended(0, 2), failed(1)], (1, 0, "s")),
        ([failed(2), failed(1)], (0, 1, "f")),
    ] {
        let (job, instance) = job(&[("a", &[])], |t| t)?;
        let mut executor = Scripted { on_start: vec![Vec::new(), ends.to_vec()], ..Scripted::default() };
        let last = Arc::new(Mutex::new((0, 0)));
        let seen = last.clone();
        let runner = Runner::new(job, instance, Spread)
            .options(eager())
            .on_progress(move |moment| *seen.lock().unwrap() = (moment.succeeded, moment.failed));
        let report = runner.run(&mut executor).await?;
        let counts = *last.lock().unwrap();
        assert_eq!((counts.0, counts.1, outcomes(&report).as_str()), expected, "{ends:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn stopping_cancels_both() -> Result<()> {
    let (job, instance) = job(&[("a", &[]), ("b", &["a"])], |t| t)?;
    let (mut executor, ended) = attempts(&[(9.0, true), (9.0, true)]);
    let runner = Runner::new(job, instance, Spread).options(eager());
    stop_after(2.5, Stop::Cancel, &runner);
    let report = runner.run(&mut executor).await?;
    assert_eq!((outcomes(&report).as_str(), ended.load(Ordering::Relaxed)), ("cc", 0));
    assert_seconds(report.makespan, 2.5);
    Ok(())
}
