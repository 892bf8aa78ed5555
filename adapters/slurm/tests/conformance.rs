//! Both ways to a real Slurm, and the executor by the kit that any executor can be checked with.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mdts_core::testkit::{SampleTasks, check_executor};
use mdts_dag::Task;
use mdts_integration_tests::slurm::SlurmCluster;
use mdts_slurm::{
    Array, Change, Commands, CommandsOptions, Error, JobId, JobRecord, JobState, Placement, Rest,
    RestAddress, RestOptions, Result, Selection, Slurm, SlurmExecutor, SlurmOptions, Submission, discover,
};

const LIMIT: Duration = Duration::from_mins(1);

fn cluster() -> Option<&'static SlurmCluster> {
    static CLUSTER: OnceLock<Option<SlurmCluster>> = OnceLock::new();
    CLUSTER.get_or_init(|| SlurmCluster::start("conformance", &["--rest"])).as_ref()
}

fn commands(cluster: &SlurmCluster) -> Arc<dyn Slurm> {
    let configuration = Some(cluster.configuration());
    Arc::new(Commands::new(CommandsOptions { configuration, ..CommandsOptions::default() }))
}

fn user() -> String {
    let output = std::process::Command::new("id").arg("-un").output().expect("id runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn rest(cluster: &SlurmCluster) -> Arc<dyn Slurm> {
    let address = RestAddress::Unix(cluster.folder().join("rest.sock"));
    Arc::new(Rest::new(RestOptions { address, token: None, user: user(), limit: LIMIT }))
}

fn rest_with_token(cluster: &SlurmCluster) -> Arc<dyn Slurm> {
    let port = std::fs::read_to_string(cluster.folder().join("rest.port")).expect("it listens");
    let token = cluster.ask("scontrol", &["token", &format!("username={}", user())]);
    let token = token.trim().trim_start_matches("SLURM_JWT=").to_owned();
    let address = RestAddress::Tcp(format!("127.0.0.1:{}", port.trim()));
    Arc::new(Rest::new(RestOptions { address, token: Some((user(), token)), user: user(), limit: LIMIT }))
}

fn script(comment: &str, text: &str) -> Submission {
    Submission {
        script: format!("#!/bin/sh\n{text}\n"),
        name: "conformance".into(),
        comment: comment.into(),
        directory: "/tmp".into(),
        output: Some("/dev/null".into()),
        cpus: Some(1),
        ..Submission::default()
    }
}

/// The jobs with a comment, when all are so.
async fn await_jobs(
    slurm: &dyn Slurm,
    comment: &str,
    is: impl Fn(&JobRecord) -> bool,
) -> Result<Vec<JobRecord>> {
    let begin = Instant::now();
    loop {
        let mut jobs = slurm.jobs(&Selection::Own).await?;
        jobs.retain(|job| job.comment == comment);
        jobs.sort_by_key(|job| job.id);
        if !jobs.is_empty() && jobs.iter().all(&is) {
            return Ok(jobs);
        }
        assert!(begin.elapsed() < LIMIT, "it takes too long: {jobs:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn machines(slurm: &dyn Slurm) -> Result<()> {
    let nodes = slurm.nodes().await?;
    let names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["big", "fast", "middle", "slow"]));
    let fast = nodes.iter().find(|node| node.name == "fast").expect("it is there");
    assert_eq!((fast.cpus, fast.memory_mib, fast.is_usable()), (8, 32_000, true));
    assert_eq!(fast.features, ["speed_4", "quick"]);
    assert_eq!(fast.gres, [("gpu".to_owned(), String::new(), 2)]);
    let partitions = slurm.partitions().await?;
    let main = partitions.iter().find(|partition| partition.name == "main").expect("it is there");
    assert!(main.is_default && main.is_up && main.limit_seconds.is_none());
    assert!(partitions.iter().any(|partition| partition.name == "closed" && !partition.is_up));
    let found = discover(slurm, None, None).await?;
    let speeds: Vec<f64> = found.cluster.nodes().iter().map(|node| node.speed).collect();
    assert_eq!((found.partition.as_str(), speeds), ("main", vec![1.0, 4.0, 2.0, 1.0]));
    Ok(())
}

async fn an_array_that_is_placed(slurm: &dyn Slurm, way: &str) -> Result<()> {
    let tag = format!("mdts:{way}:array");
    let array = Some(Array { count: 3, throttle: None });
    let text = "exit $SLURM_ARRAY_TASK_ID";
    let job = slurm.submit(&Submission { array, held: true, ..script(&tag, text) }).await?;
    let waiting = await_jobs(slurm, &tag, |job| job.state == JobState::Pending).await?;
    let ids: Vec<JobId> = waiting.iter().map(|job| job.id).collect();
    assert_eq!(ids, [0, 1, 2].map(|element| JobId::element(job, element)));
    assert!(waiting.iter().all(|job| job.reason == "JobHeldUser" && job.cpus == 1), "{waiting:?}");
    let pin =
        |element, node: &str| Change { nodes: Some(node.into()), ..Change::of(JobId::element(job, element)) };
    let changes = [
        pin(0, "slow"),
        pin(1, "no-such-node"),
        pin(2, "middle"),
        Change { held: Some(false), ..Change::of(JobId::whole(job)) },
    ];
    let refused = slurm.update(&changes).await?;
    assert_eq!(refused.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1], "{refused:?}");
    let over = await_jobs(slurm, &tag, |job| job.state.is_over()).await?;
    assert_eq!((over[0].nodes.as_str(), over[2].nodes.as_str()), ("slow", "middle"));
    assert_eq!(over.iter().map(|job| job.exit.0).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(
        over.iter().map(|job| job.state == JobState::Completed).collect::<Vec<_>>(),
        [true, false, false]
    );
    assert_eq!(slurm.jobs(&Selection::Jobs(vec![JobId::element(job, 2)])).await?.len(), 1);
    assert_eq!(slurm.jobs(&Selection::Jobs(vec![JobId::whole(job)])).await?.len(), 3);
    Ok(())
}

async fn dependencies_and_cancelling(slurm: &dyn Slurm, way: &str) -> Result<()> {
    let tag = format!("mdts:{way}:chain");
    let first = slurm.submit(&Submission { node: Some("fast".into()), ..script(&tag, "sleep 300") }).await?;
    let after = Some(format!("afterok:{first}"));
    let second = slurm.submit(&Submission { dependency: after, ..script(&tag, "true") }).await?;
    let jobs =
        await_jobs(slurm, &tag, |job| job.state == JobState::Running || job.reason == "Dependency").await?;
    assert_eq!((jobs[0].nodes.as_str(), jobs[1].id), ("fast", JobId::whole(second)));
    assert!(jobs[1].dependency.contains(&first.to_string()), "{jobs:?}");
    // One that is not there is no error.
    slurm.cancel(&[JobId::whole(first), JobId::whole(60_000_000)]).await?;
    let over = await_jobs(slurm, &tag, |job| job.state.is_over()).await?;
    assert_eq!(over.iter().map(|job| job.state).collect::<Vec<_>>(), [JobState::Cancelled; 2]);
    assert_eq!(over[1].reason, "DependencyNeverSatisfied");
    slurm.cancel(&[JobId::whole(first)]).await
}

async fn refusals(slurm: &dyn Slurm) -> Result<()> {
    let nowhere = Submission { partition: Some("nowhere".into()), ..script("x", "true") };
    assert!(matches!(slurm.submit(&nowhere).await, Err(Error::Refused { .. })));
    assert_eq!(slurm.jobs(&Selection::Jobs(vec![JobId::whole(60_000_000)])).await?, []);
    Ok(())
}

async fn conforms(slurm: Arc<dyn Slurm>, way: &str) -> Result<()> {
    machines(&*slurm).await?;
    an_array_that_is_placed(&*slurm, way).await?;
    dependencies_and_cancelling(&*slurm, way).await?;
    refusals(&*slurm).await
}

#[tokio::test]
async fn programs_conform() -> Result<()> {
    let Some(cluster) = cluster() else { return Ok(()) };
    conforms(commands(cluster), "programs").await
}

#[tokio::test]
async fn the_rest_daemon_conforms_on_its_socket() -> Result<()> {
    let Some(cluster) = cluster() else { return Ok(()) };
    conforms(rest(cluster), "socket").await
}

#[tokio::test]
async fn the_rest_daemon_conforms_with_a_token() -> Result<()> {
    let Some(cluster) = cluster() else { return Ok(()) };
    conforms(rest_with_token(cluster), "token").await?;
    let wrong = Rest::new(RestOptions {
        address: RestAddress::Unix(cluster.folder().join("nowhere.sock")),
        token: None,
        user: user(),
        limit: LIMIT,
    });
    assert!(wrong.nodes().await.is_err_and(|error| error.is_outage()));
    Ok(())
}

#[tokio::test]
async fn a_controller_that_is_not_there_is_an_outage() -> Result<(), Box<dyn std::error::Error>> {
    let Some(cluster) = cluster() else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let text = std::fs::read_to_string(cluster.configuration())?;
    let text =
        text.lines().map(|line| if line.starts_with("SlurmctldPort=") { "SlurmctldPort=1" } else { line });
    let configuration = folder.path().join("slurm.conf");
    std::fs::write(&configuration, text.collect::<Vec<_>>().join("\n"))?;
    let slurm =
        Commands::new(CommandsOptions { configuration: Some(configuration), ..CommandsOptions::default() });
    let failed = slurm.submit(&script("x", "true")).await;
    assert!(failed.is_err_and(|error| error.is_outage()));
    Ok(())
}

/// A task that lingers in its first attempt alone.
fn linger_once(task: Task) -> Task {
    task.command(["sh", "-c", "[ \"$MDTS_ATTEMPT\" != 1 ] || sleep 600"])
}

#[tokio::test]
async fn the_executor_conforms() -> Result<(), Box<dyn std::error::Error>> {
    let Some(cluster) = cluster() else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let tasks = SampleTasks { linger_once: Some(linger_once), ..SampleTasks::default() };
    for (way, slurm) in [("programs", commands(cluster)), ("socket", rest(cluster))] {
        let mut number = 0;
        let make = |nodes: &Arc<mdts_core::Cluster>| {
            number += 1;
            let run = folder.path().join(format!("{way}-{number}"));
            // The kit's nodes are not Slurm's.
            let options = SlurmOptions {
                placement: Placement::None,
                ..SlurmOptions::new(&run, run.join("logs"), folder.path())
            };
            SlurmExecutor::new(slurm.clone(), options, nodes.clone())
        };
        check_executor(make, &tasks, LIMIT).await.map_err(|error| format!("{way}: {error}"))?;
    }
    Ok(())
}
