//! Clients that share nodes, over HTTP and in real time.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{DEADLINE, DIAMOND, Outcome, Service, node, started, submit};
use hyper::Method;
use mdts_service::api::{JobState, Place, PlacementState, TaskEvent, Tasks, What};
use mdts_service::client::{Client, Submission};
use mdts_service::{Listen, Options};
use tokio::task::JoinSet;

const SPEEDS: [f64; 4] = [1.0, 1.0, 2.0, 4.0];
/// For how long clients share nodes; neither of them comes to the end of its tasks.
const WINDOW: Duration = Duration::from_secs(4);

type Done = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Runs what a job is granted, as long as it takes at the speed of its node.
async fn run(client: Arc<Client>, job: String, work: f64, stop: Arc<AtomicBool>) -> Done {
    client.place(&job, &Place { ahead: true, ..Place::default() }).await?;
    let (mut after, mut running) = (0, JoinSet::<Done>::new());
    while !stop.load(Ordering::Relaxed) {
        let grants = client.grants(&job, after, 0.2).await?;
        after = grants.after;
        for grant in grants.grants.into_iter().filter(|grant| grant.start) {
            let (client, job) = (client.clone(), job.clone());
            let speed = SPEEDS[grant.node[1..].parse::<usize>()?];
            running.spawn(async move {
                tokio::time::sleep(Duration::from_secs_f64(work / speed)).await;
                client.events(&job, vec![TaskEvent::new(&grant, What::Finished)]).await?;
                Ok(())
            });
        }
        while let Some(ended) = running.try_join_next() {
            ended??;
        }
    }
    Ok(())
}

/// For how many seconds attempts of a job have held nodes, by the service's accounts.
async fn node_seconds(client: &Client, job: &str) -> Outcome<f64> {
    let (mut sum, mut offset) = (0.0, Some(0));
    while let Some(at) = offset {
        let path = format!("/v1/jobs/{job}/tasks?offset={at}");
        let page: Tasks = client.send(Method::GET, &path, None::<&()>, None).await?;
        offset = page.next;
        for done in page.tasks.iter().filter(|task| task.state == PlacementState::Done) {
            sum += client.task(job, &done.task).await?.seconds.ok_or("no time is told")?;
        }
    }
    Ok(sum)
}

/// Two clients, one with two jobs of many short tasks and one with a job of fewer long ones, share four unequal nodes. Returns
/// the node seconds that each has had.
async fn share(policy: &str, shares: [f64; 2]) -> Outcome<[f64; 2]> {
    let service = Service::with(tempfile::tempdir()?, policy, Listen::default(), Options::default())?;
    for (i, speed) in SPEEDS.iter().enumerate() {
        service.client().register(&format!("m{i}"), &node(*speed)).await?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut running = JoinSet::<Done>::new();
    let mut jobs: [Vec<String>; 2] = Default::default();
    for (i, (number, tasks, work)) in [(2, 300, 0.06), (1, 400, 0.12)].into_iter().enumerate() {
        let client = Arc::new(service.client().named(format!("client {i}")));
        let list: Vec<String> = (0..tasks).map(|t| format!("{{name: t{t}, work: {work}}}")).collect();
        let graph = format!("tasks: [{}]", list.join(", "));
        let how = Submission { share: Some(shares[i]), ..Submission::default() };
        for _ in 0..number {
            let job = client.submit(graph.clone(), &how).await?.id;
            running.spawn(run(client.clone(), job.clone(), work, stop.clone()));
            jobs[i].push(job);
        }
    }
    tokio::time::sleep(WINDOW).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = running.join_next().await {
        ended?.map_err(|error| error.to_string())?;
    }
    let mut got = [0.0; 2];
    for (i, job) in jobs.iter().enumerate().flat_map(|(i, jobs)| jobs.iter().map(move |job| (i, job))) {
        assert!(service.client().job(job).await?.ready > 0, "{job} had tasks until the end");
        got[i] += node_seconds(&service.client(), job).await?;
    }
    service.stop().await?;
    Ok(got)
}

async fn shares_hold(policy: &str) -> Outcome {
    let (even, uneven) = tokio::try_join!(share(policy, [1.0, 1.0]), share(policy, [1.0, 3.0]))?;
    for ([a, b], expected) in [(even, 1.0), (uneven, 3.0)] {
        println!("{policy}, shares 1 : {expected}: {a:.2} and {b:.2} node seconds, 1 : {:.2}", b / a);
        let ratio = b / a / expected;
        assert!((0.8..1.25).contains(&ratio), "{policy}, shares 1 : {expected}: {a} and {b} node seconds");
        let most = WINDOW.as_secs_f64() * SPEEDS.len() as f64;
        assert!(a + b > most / 2.0, "the nodes were in use: {a} and {b} of {most} node seconds");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_share_four_unequal_nodes_fairly() -> Outcome {
    shares_hold("eft").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_share_fairly_where_the_policy_keeps_tasks_back() -> Outcome {
    shares_hold("mdts").await
}

/// The client is a process that asks for grants again and again, which is a sign of life, until it is killed.
#[tokio::test]
async fn a_client_that_is_killed_loses_its_nodes_within_its_lease() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let how = Submission { lease_seconds: Some(1.0), ..Submission::default() };
    let job = client.submit(DIAMOND, &how).await?.id;
    client.place(&job, &Place::default()).await?;
    let other = submit(&client, DIAMOND).await?;
    client.place(&other, &Place::default()).await?;
    let url = format!("http://mdts/v1/jobs/{job}/grants?after=1&wait=60");
    let mut process = tokio::process::Command::new("sh")
        .args(["-c", &format!("while curl -sS --unix-socket \"$S\" '{url}' > /dev/null; do :; done")])
        .env("S", &service.socket)
        .kill_on_drop(true)
        .spawn()?;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(client.job(&job).await?.state, JobState::Open, "who waits is alive");
    assert_eq!(client.grants(&other, 0, 0.0).await?.grants, []);
    let killed = Instant::now();
    process.kill().await?;
    let grants = tokio::time::timeout(DEADLINE, client.grants(&other, 0, 25.0)).await??.grants;
    let took = killed.elapsed();
    assert_eq!(started(&grants), [("a".to_owned(), 1, "m".to_owned(), true)]);
    // The lease of a second begins with the last request; leases are looked after five times a second, and this machine may have more
    // to do.
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert_eq!(client.job(&job).await?.state, JobState::Lapsed);
    let lost = client.grants(&job, 1, 0.0).await?.grants;
    assert_eq!(started(&lost), [("a".to_owned(), 1, "m".to_owned(), false)]);
    service.stop().await?;
    Ok(())
}

/// The host of a client has died: its connection is open, and a request of it waits.
#[tokio::test]
async fn who_waits_is_not_alive_beyond_the_lease() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let how = Submission { lease_seconds: Some(2.0), ..Submission::default() };
    let job = client.submit(DIAMOND, &how).await?.id;
    client.place(&job, &Place::default()).await?;
    let mut stream = tokio::net::UnixStream::connect(&service.socket).await?;
    let request = format!("GET /v1/jobs/{job}/grants?after=1&wait=60 HTTP/1.1\r\nHost: x\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await?;
    let lapses = async {
        while client.job(&job).await?.state != JobState::Lapsed {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok::<_, mdts_service::Error>(())
    };
    tokio::time::timeout(Duration::from_secs(20), lapses).await??;
    drop(stream);
    service.stop().await?;
    Ok(())
}
