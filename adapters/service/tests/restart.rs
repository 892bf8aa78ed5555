//! What a service knows after a restart, from its records and from a snapshot.

mod common;

use std::time::Duration;

use common::{DEADLINE, Outcome, Service, node, submit};
use hyper::Method;
use mdts_core::journal::Durability;
use mdts_service::api::{Place, Task, TaskEvent, Tasks, What};
use mdts_service::client::{Client, Submission};
use mdts_service::{Listen, Options};

/// Runs a job of a task of a kind and a short one behind it, and says where the first one ran.
async fn run(client: &Client, kind: &str, number: usize, seconds: impl Fn(&str) -> f64) -> Outcome<String> {
    let graph = format!(
        "tasks: [{{name: {kind}_{number}, work: 10}}, {{name: end, work: 0.1, after: [{kind}_{number}]}}]"
    );
    let job = submit(client, &graph).await?;
    let mut first = None;
    for _ in 0..2 {
        let placed = client.place(&job, &Place::default()).await?.placements;
        let on = placed[0].node.clone().ok_or("no node")?;
        let seconds = Some(if first.is_none() { seconds(&on) } else { 0.1 });
        let task = placed[0].task.clone();
        let event = TaskEvent { task, attempt: 1, event: What::Finished, seconds, reason: None };
        client.events(&job, vec![event]).await?;
        first.get_or_insert(on);
    }
    Ok(first.ok_or("no task")?)
}

/// Why all jobs' tasks are where they are.
async fn reasons(client: &Client, jobs: usize) -> Outcome<Vec<Task>> {
    let mut all = Vec::new();
    for job in 0..jobs {
        let job = format!("j{job}");
        let path = format!("/v1/jobs/{job}/tasks");
        let page: Tasks = client.send(Method::GET, &path, None::<&()>, None).await?;
        all.push(client.task(&job, &page.tasks[0].task).await?);
    }
    Ok(all)
}

async fn learnt_state_survives(snapshot_after: u64) -> Outcome {
    let options = Options { snapshot_after, ..Options::default() };
    let service = Service::with(tempfile::tempdir()?, "mdts", Listen::default(), options.clone())?;
    let client = service.client();
    client.register("m0", &node(1.0)).await?;
    client.register("m1", &node(1.0)).await?;
    // The node that is preferred by itself turns out to be slow for this kind.
    let slow = run(&client, "align", 0, |_| 40.0).await?;
    let seconds = |on: &str| if on == slow { 40.0 } else { 10.0 };
    for number in 1..8 {
        run(&client, "align", number, seconds).await?;
    }
    let quick = run(&client, "align", 8, seconds).await?;
    assert_ne!(quick, slow, "the policy has learnt");
    let unknown = |text: &'static str| {
        let client = &client;
        async move { client.submit(text, &Submission::default()).await }
    };
    let job = unknown("tasks: [{name: align_x}]").await?.id;
    let expected = client.place(&job, &Place::default()).await?.placements[0].expected_seconds;
    let before = reasons(&client, 10).await?;
    if snapshot_after < 1000 {
        tokio::time::sleep(Duration::from_millis(600)).await; // snapshots are made when leases are looked after
        let text = client.exchange(&Method::GET, "/metrics", bytes::Bytes::new(), None).await?.1;
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains("mdts_snapshots_total 0\n"), "{text}");
    }

    let folder = service.stop().await?;
    let service = Service::with(folder, "mdts", Listen::default(), options)?;
    let client = service.client();
    let after = reasons(&client, 10).await?;
    for (a, b) in before.iter().zip(&after) {
        assert_eq!((&a.task, &a.why, &a.options, &a.placement), (&b.task, &b.why, &b.options, &b.placement));
        assert!(!a.options.is_empty());
    }
    // The same run times are known, so the same is predicted.
    client.cancel(&job).await?;
    let job = client.submit("tasks: [{name: align_y}]", &Submission::default()).await?.id;
    let again = client.place(&job, &Place::default()).await?.placements[0].expected_seconds;
    let (Some(again), Some(expected)) = (again, expected) else { return Err("nothing is predicted".into()) };
    assert!((again / expected - 1.0).abs() < 1e-9, "{again} and {expected} seconds");
    client.events(&job, vec![TaskEvent { seconds: Some(10.0), ..common::finished("align_y", 1) }]).await?;
    assert_eq!(run(&client, "align", 9, seconds).await?, quick, "the policy still knows");
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn learnt_state_comes_back_from_records() -> Outcome {
    learnt_state_survives(u64::MAX).await
}

#[tokio::test]
async fn learnt_state_comes_back_from_a_snapshot() -> Outcome {
    learnt_state_survives(1).await
}

#[tokio::test]
async fn records_of_many_clients_share_syncs() -> Outcome {
    const CLIENTS: usize = 32;
    const JOBS: usize = 10;
    let options = Options { durability: Durability::Power, snapshot_after: 2000, ..Options::default() };
    let service = Service::with(tempfile::tempdir()?, "eft", Listen::default(), options.clone())?;
    service.client().register("m", &node(1.0)).await?;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let client = service.client();
        clients.spawn(async move {
            for _ in 0..JOBS {
                submit(&client, common::DIAMOND).await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        });
    }
    while let Some(done) = tokio::time::timeout(DEADLINE, clients.join_next()).await? {
        done??;
    }
    let text = service.client().exchange(&Method::GET, "/metrics", bytes::Bytes::new(), None).await?.1;
    let text = String::from_utf8_lossy(&text).into_owned();
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<usize>().ok());
        line.ok_or_else(|| format!("no {name}: {text}"))
    };
    let (records, syncs) = (number("mdts_journal_records_total")?, number("mdts_journal_syncs_total")?);
    assert!(records > CLIENTS * JOBS && syncs > 0 && syncs < records, "{syncs} syncs of {records} records");
    let folder = service.stop().await?;
    let service = Service::with(folder, "eft", Listen::default(), options)?;
    assert_eq!(submit(&service.client(), common::DIAMOND).await?, format!("j{}", CLIENTS * JOBS));
    service.stop().await?;
    Ok(())
}
