//! What a journal tells of a run is what the run knew, also where the executor queues.

use super::*;
use crate::engine::Event;
use crate::journal::tests::Memory;
use crate::journal::{Durability, Entry};
use crate::runner::drive::Run;
use crate::runner::replay::Replay;

/// Runs until it is drained after so many seconds; the journal and the attempts as the runner knew them at the end.
async fn drained(
    seconds: f64,
    compact_after: u64,
) -> Result<(Memory, Arc<JobGraph>, Arc<Instance>, Vec<u8>, RunEnd)> {
    let (job, instance) = job(&[("a", &[]), ("b", &[]), ("c", &["a"]), ("d", &["a"])], |t| t)?;
    let memory = Memory::new();
    let journal = memory.create(&instance, Durability::Process)?.compact_after(compact_after);
    let runner = Runner::new(job.clone(), instance.clone(), Spread).journal(journal);
    let stopper = runner.stopper();
    tokio::spawn(async move {
        sleep(Duration::from_secs_f64(seconds)).await;
        stopper.stop(Stop::Drain);
    });
    let mut executor = OneByOne::new();
    let mut run = Run::new(runner, &mut executor)?;
    let end = run.drive().await?;
    let attempts = postcard::to_stdvec(&run.attempts).expect("encoded");
    Ok((memory, job, instance, attempts, end))
}

#[tokio::test(start_paused = true)]
async fn replaying_gives_the_attempts_that_the_runner_knew() -> Result<()> {
    for seconds in [0.5, 1.5, 2.5, 3.5, 9.0] {
        for compact_after in [0, 1 << 20] {
            let (memory, job, instance, live, end) = drained(seconds, compact_after).await?;
            let mut replay = Replay::new(instance.clone(), true, "memory".to_owned());
            let mut reader = memory.reader()?;
            while let Some(entry) = reader.next()? {
                replay.take(entry)?;
            }
            let replayed = postcard::to_stdvec(&replay.attempts).expect("encoded");
            assert_eq!(replayed, live, "{seconds} s, {compact_after}");
            assert_eq!(end == RunEnd::Complete, seconds > 3.0);
            assert_eq!(replay.attempts.live(), 0, "what had not begun was taken back");
            let runner = Runner::new(job, instance, Spread).journal(memory.open()?);
            let report = runner.run(&mut OneByOne::new()).await?;
            assert!(report.is_success());
            assert_eq!(report.retried(), 0, "nothing that had begun ended without success");
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_snapshot_is_taken_while_something_is_to_be_told() -> Result<()> {
    // After every entry of the journal, a kill: no attempt of the engine is unknown to the runner.
    let (memory, ..) = drained(1.5, 0).await?;
    let mut reader = memory.reader()?;
    let Some(Entry::Snapshot(_)) = reader.next()? else { panic!("a snapshot is the first") };
    let (memory, job, instance, ..) = drained(1.5, 1 << 20).await?;
    let bytes = memory.bytes();
    for cut in 300..bytes.len() {
        let memory = Memory::holding(bytes[..cut].to_vec());
        if memory.open().is_err() {
            continue; // cut in the manifest
        }
        let runner = Runner::new(job.clone(), instance.clone(), Spread).journal(memory.open()?);
        assert!(runner.run(&mut OneByOne::new()).await?.is_success(), "cut at {cut}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_cannot_be_written_is_done_without() -> Result<()> {
    let (job, instance) = job(DIAMOND, |t| t)?;
    for refuses in [false, true] {
        let memory = Memory::new();
        let journal = memory.create(&instance, Durability::Process)?.compact_after(100);
        memory.refuse_snapshots(refuses);
        let runner = Runner::new(job.clone(), instance.clone(), Spread).journal(journal);
        assert!(runner.run(&mut sleeper(&[])).await?.is_success());
        let is_snapshot = matches!(memory.reader()?.next()?, Some(Entry::Snapshot(_)));
        assert_eq!(is_snapshot, !refuses);
        let standing = Standing::read(&mut memory.reader()?, &instance, false, "memory")?;
        assert_eq!((standing.process(), standing.end()), (Some(std::process::id()), Some("complete")));
        assert!((0..4).all(|task| standing.phase(task.into()) == crate::engine::Phase::Done));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_a_killed_run_is_a_second_old_at_most() -> Result<()> {
    let (job, instance) = job(&[("a", &[])], |t| t.seconds(100.0).timeout(80.0))?;
    let memory = Memory::new();
    let runner = Runner::new(job.clone(), instance.clone(), Spread)
        .journal(memory.create(&instance, Durability::Process)?);
    let mut executor = sleeper(&[]);
    let running = runner.run(&mut executor);
    assert!(tokio::time::timeout(Duration::from_secs_f64(50.5), running).await.is_err(), "killed");
    let standing = Standing::read(&mut memory.reader()?, &instance, false, "memory")?;
    assert!((49.0..=50.5).contains(&standing.state().now()), "{}", standing.state().now());
    let live = standing.live(&instance, &job);
    assert_eq!((live.len(), live[0].run), (1, run(0, 1)));
    let ticks = |entry: &Entry| match entry {
        Entry::Step(step) => step.record(&instance).events.iter().any(|event| matches!(event, Event::Tick)),
        _ => false,
    };
    let mut reader = memory.reader()?;
    let mut count = 0;
    while let Some(entry) = reader.next()? {
        count += usize::from(ticks(&entry));
    }
    assert!((40..=51).contains(&count), "{count} times told");
    Ok(())
}
