//! `mdts serve` when its journal cannot grow any more.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mdts_service::api::{Job, Jobs, Place, PlaceAnswer, Problem};
use mdts_service::client::{Client, Submission};
use mdts_service::{Error, Result};

/// Nothing in this test waits longer.
const DEADLINE: Duration = Duration::from_mins(1);
const NOTHING: Option<&()> = None;

/// The service; killed when dropped.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        self.0.kill().ok(); // it may be gone already
        self.0.wait().ok();
    }
}

impl Service {
    /// Files may grow to so many blocks of 512 bytes, beyond which a write is an error as it is on a full disk.
    fn start(folder: &std::path::Path, blocks: Option<u32>) -> std::io::Result<Self> {
        let limit = blocks.map_or(String::new(), |blocks| format!("trap '' XFSZ; ulimit -f {blocks};"));
        let command = format!(
            "{limit} exec {} serve --quiet --socket s --journal state --node-lease 0",
            env!("CARGO_BIN_EXE_mdts")
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        shell.stderr(Stdio::null()).spawn().map(Self)
    }
}

async fn begin(client: &Client) -> Result<()> {
    let begin = Instant::now();
    while let Err(error) = client.nodes().await {
        if begin.elapsed() > DEADLINE {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

#[tokio::test]
async fn what_could_not_be_recorded_is_told_to_nobody() -> std::result::Result<(), Box<dyn std::error::Error>>
{
    let folder = tempfile::tempdir()?;
    let client = Client::unix(folder.path().join("s"));
    let full = Service::start(folder.path(), Some(32))?;
    begin(&client).await?;
    client.register("m", &serde_json::from_str(r#"{"speed": 1}"#)?).await?;
    let graph = "tasks: [{name: a, work: 1}, {name: b, work: 1}]";
    let mut answered = Vec::new();
    let refused = loop {
        match client.submit(graph, &Submission::default()).await {
            Ok(job) => answered.push(job.id),
            Err(error) => break error,
        }
        assert!(answered.len() < 10_000, "there is room for more than 16 KiB");
        let job = answered.last().expect("one");
        let placed: Result<PlaceAnswer> = client.place(job, &Place { ahead: true, ..Place::default() }).await;
        if let Err(error) = placed {
            break error;
        }
    };
    let is_busy = |error: &Error| matches!(error, Error::Refused(Problem { status: 503, .. }));
    assert!(is_busy(&refused), "{refused}");
    let jobs: Result<Jobs> = client.send(hyper::Method::GET, "/v1/jobs", NOTHING, None).await;
    assert!(jobs.as_ref().is_err_and(is_busy), "{jobs:?}");
    let job: Result<Job> = client.job(answered.first().expect("one")).await;
    assert!(job.as_ref().is_err_and(is_busy), "{job:?}");
    let grants = client.grants(&answered[0], 0, 0.0).await;
    assert!(grants.as_ref().is_err_and(is_busy), "{grants:?}");
    let (status, _) = client.exchange(&hyper::Method::GET, "/metrics", "".into(), None).await?;
    assert_eq!(status, 200);
    drop(full);

    let roomy = Service::start(folder.path(), None)?;
    begin(&client).await?;
    for job in &answered {
        client.job(job).await?;
    }
    drop(roomy);
    Ok(())
}
