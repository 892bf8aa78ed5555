//! What changes of a large job and its nodes take.

use std::time::Instant;

use mdts_service::Error;
use mdts_service::api::{Extension, NodeSpec, Place, TaskEvent, What};
use mdts_service::client::{Client, Submission};

use super::Outcome;

const EXTENSIONS: usize = 200;
const NEW_NODES: usize = 100;
const LOOKS: usize = 200;
/// Tasks that are left when all others are done.
const LEFT: usize = 50;

/// A job of so many tasks grows by single tasks; nodes join while it is open; and what is left of one that is nearly done is asked
/// for.
pub(super) async fn run(client: &Client, tasks: usize) -> Outcome {
    let list: Vec<String> = (0..tasks).map(|i| format!(r#"{{"name": "t{i}", "work": 1}}"#)).collect();
    let graph = format!(r#"{{"tasks": [{}]}}"#, list.join(", "));
    let job = client.submit(graph.clone(), &Submission::default()).await?.id;
    let begin = Instant::now();
    for i in 0..EXTENSIONS {
        let task = serde_json::json!({"name": format!("more{i}"), "work": 1, "after": ["t0"]});
        let more = Extension { tasks: vec![task], files: serde_json::Map::new() };
        client.extend(&job, &more).await?;
    }
    tell("extend by one task", begin, EXTENSIONS);
    let begin = Instant::now();
    for i in 0..NEW_NODES {
        let spec = NodeSpec { speed: 2.0, lease_seconds: Some(0.0), ..NodeSpec::default() };
        client.register(&format!("new{i}"), &spec).await?;
    }
    tell("register a node", begin, NEW_NODES);
    client.cancel(&job).await?;
    let job = client.submit(graph, &Submission::default()).await?.id;
    finish(client, &job, tasks - LEFT).await?;
    let begin = Instant::now();
    for _ in 0..LOOKS {
        client.place(&job, &Place::default()).await?;
    }
    tell("place what is ready of a job that is nearly done", begin, LOOKS);
    Ok(())
}

/// Runs so many tasks of a job.
async fn finish(client: &Client, job: &str, tasks: usize) -> Result<(), Error> {
    const AT_A_TIME: usize = 1000;
    let mut after = 0;
    for first in (0..tasks).step_by(AT_A_TIME) {
        let names: Vec<String> = (first..(first + AT_A_TIME).min(tasks)).map(|i| format!("t{i}")).collect();
        let mut left = names.len();
        client.place(job, &Place { tasks: Some(names), ahead: false }).await?;
        while left > 0 {
            let grants = client.grants(job, after, 10.0).await?;
            after = grants.after;
            let events = grants.grants.iter().map(|grant| TaskEvent::new(grant, What::Finished));
            left -= grants.grants.len();
            client.events(job, events.collect()).await?;
        }
    }
    Ok(())
}

fn tell(what: &str, begin: Instant, count: usize) {
    println!("{what}: {count} times, {:.3} ms each", begin.elapsed().as_secs_f64() * 1e3 / count as f64);
}
