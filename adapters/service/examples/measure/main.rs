//! Measures a running service from a client's side: `measure SOCKET latency|throughput|answers|large|soak [COUNT]`.
//!
//! latency: COUNT times, `place` of 64 ready tasks on 100 nodes, from request to answer.
//! throughput: COUNT tasks in jobs of 1,000 on 100 nodes, each granted and reported as finished; one client.
//! answers: COUNT changes from 64 clients at a time, each answered before the client sends the next.
//! large: a job of COUNT tasks grows task by task, nodes join meanwhile, and another one of that size comes to its end.
//! soak: for COUNT seconds, four clients run jobs with failures, extensions, cancellations and silent clients while nodes come
//! and go; every minute one line with the latencies of its calls.

mod large;
mod soak;

use std::time::Instant;

use mdts_service::api::{NodeSpec, Place, PlacementState, Registration, TaskEvent, What};
use mdts_service::client::{Client, Submission};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const NODES: u32 = 100;
const CHILDREN: usize = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(socket), Some(what)) = (arguments.first(), arguments.get(1)) else {
        return Err("usage: measure SOCKET latency|throughput|answers|large|soak [COUNT]".into());
    };
    let count = arguments.get(2).map(|count| count.parse()).transpose()?;
    let client = Client::unix(socket);
    let spec =
        |i: u32| NodeSpec { speed: f64::from(1 + i % 4), lease_seconds: Some(0.0), ..NodeSpec::default() };
    let nodes = (0..NODES).map(|i| (format!("m{i}"), spec(i))).collect();
    client.register_all(&Registration { nodes }).await?;
    match what.as_str() {
        "latency" => latency(&client, count.unwrap_or(200)).await,
        "throughput" => throughput(&client, count.unwrap_or(100_000)).await,
        "answers" => answers(socket, count.unwrap_or(20_000)).await,
        "large" => large::run(&client, count.unwrap_or(20_000)).await,
        "soak" => soak::run(socket, count.unwrap_or(600)).await,
        _ => Err("latency, throughput, answers, large or soak?".into()),
    }
}

async fn latency(client: &Client, rounds: usize) -> Outcome {
    let children: Vec<String> = (0..CHILDREN).map(|i| format!("t{i}")).collect();
    let list: Vec<String> = children
        .iter()
        .enumerate()
        .map(|(i, name)| {
            format!(r#"{{"name": "{name}", "kind": "k{}", "work": {}, "after": ["root"]}}"#, i % 4, 5 + i % 7)
        })
        .collect();
    let graph = format!(r#"{{"tasks": [{{"name": "root", "work": 1}}, {}]}}"#, list.join(", "));
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let job = client.submit(graph.clone(), &Submission::default()).await?.id;
        client.place(&job, &Place::default()).await?;
        let event = |task: &str| TaskEvent {
            task: task.to_owned(),
            attempt: 1,
            event: What::Finished,
            seconds: None,
            reason: None,
        };
        client.events(&job, vec![event("root")]).await?;
        let wanted = Place { tasks: Some(children.clone()), ahead: false };
        let begin = Instant::now();
        let placed = client.place(&job, &wanted).await?;
        times.push(begin.elapsed().as_secs_f64());
        let started = placed.placements.iter().filter(|p| p.state == PlacementState::Start).count();
        if placed.placements.len() != CHILDREN || started == 0 {
            return Err(format!("{started} of {} were placed", placed.placements.len()).into());
        }
        client.cancel(&job).await?;
        client.forget(&job).await?;
    }
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] * 1e3;
    println!(
        "place of {CHILDREN} tasks on {NODES} nodes: median {:.3} ms, 90 % {:.3} ms, 99 % {:.3} ms",
        at(0.5),
        at(0.9),
        at(0.99)
    );
    Ok(())
}

async fn throughput(client: &Client, tasks: usize) -> Outcome {
    const OF_JOB: usize = 1000;
    let list: Vec<String> = (0..OF_JOB).map(|i| format!(r#"{{"name": "t{i}", "work": 1}}"#)).collect();
    let graph = format!(r#"{{"tasks": [{}]}}"#, list.join(", "));
    let begin = Instant::now();
    let mut done = 0;
    while done < tasks {
        let job = client.submit(graph.clone(), &Submission::default()).await?.id;
        client.place(&job, &Place { ahead: true, ..Place::default() }).await?;
        let mut after = 0;
        loop {
            let grants = client.grants(&job, after, 10.0).await?;
            after = grants.after;
            let begun = grants.grants.iter().filter(|grant| grant.start);
            let events: Vec<TaskEvent> = begun.map(|grant| TaskEvent::new(grant, What::Finished)).collect();
            if grants.ended {
                break;
            }
            client.events(&job, events).await?;
        }
        done += OF_JOB;
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("{done} tasks in {seconds:.2} s: {:.0} tasks/s from one client", done as f64 / seconds);
    Ok(())
}

/// Every change is a job of one task, with a key.
async fn answers(socket: &str, count: usize) -> Outcome {
    const CLIENTS: usize = 64;
    let begin = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let client = Client::unix(socket);
        clients.spawn(async move {
            let job =
                client.submit(r#"{"tasks": [{"name": "t", "work": 1}]}"#, &Submission::default()).await?.id;
            for number in 0..count / CLIENTS {
                let submission = Submission { key: Some(format!("{job}/{number}")), ..Submission::default() };
                client.submit(r#"{"tasks": [{"name": "t", "work": 1}]}"#, &submission).await?;
            }
            Ok::<_, mdts_service::Error>(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{count} changes from {CLIENTS} clients in {seconds:.2} s: {:.0} per second",
        count as f64 / seconds
    );
    Ok(())
}
