//! Something to look at: four unequal nodes and a client whose jobs never end.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::Result;
use crate::api::{Grant, NodeSpec, Place, Registration, TaskEvent, What};
use crate::client::{Client, Submission};

/// The job that is submitted again and again.
const JOB: &str = "
name: demo
tasks:
  - {name: fetch, work: 2}
  - {name: align_1, work: 6, after: [fetch]}
  - {name: align_2, work: 8, after: [fetch]}
  - {name: align_3, work: 4, after: [fetch]}
  - {name: align_4, work: 10, after: [fetch]}
  - {name: merge, work: 3, after: [align_1, align_2, align_3, align_4]}
  - {name: report, work: 1, after: [merge]}
";

/// Registers the nodes and plays the client until an error; tasks take the time that they are expected to take.
///
/// # Errors
/// Those of the client.
pub async fn play(client: Client) -> Result<()> {
    let nodes = [("small-1", 1.0), ("small-2", 1.0), ("large", 2.0), ("huge", 4.0)];
    let spec = |speed| NodeSpec { speed, lease_seconds: Some(0.0), ..NodeSpec::default() };
    let nodes = nodes.into_iter().map(|(name, speed)| (name.to_owned(), spec(speed))).collect();
    client.register_all(&Registration { nodes }).await?;
    loop {
        let job = client.submit(JOB.as_bytes(), &Submission::default()).await?.id;
        tracing::info!(job, "the demo submits a job");
        client.place(&job, &Place { ahead: true, ..Place::default() }).await?;
        follow(&client, &job).await?;
    }
}

/// Runs what is granted until the job has ended.
async fn follow(client: &Client, job: &str) -> Result<()> {
    let mut running = JoinSet::new();
    let mut after = 0;
    loop {
        let wait = if running.is_empty() { 30.0 } else { 0.0 };
        let grants = client.grants(job, after, wait).await?;
        after = grants.after;
        for grant in grants.grants.into_iter().filter(|grant| grant.start) {
            let seconds = client.task(job, &grant.task).await?.placement.expected_seconds.unwrap_or(1.0);
            running.spawn(sleep(grant, seconds));
        }
        if grants.ended {
            return Ok(());
        }
        if let Some(Ok(grant)) = running.join_next().await {
            client.events(job, vec![TaskEvent::new(&grant, What::Finished)]).await?;
        }
    }
}

async fn sleep(grant: Grant, seconds: f64) -> Grant {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    grant
}
