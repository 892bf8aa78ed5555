//! A service in this process, on a socket in a folder of its own.
#![allow(dead_code)] // each test uses a part

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mdts_service::api::{Grant, NodeSpec, Place, TaskEvent, What};
use mdts_service::client::{Client, Submission};
use mdts_service::{Desk, Error, Listen, Options, Server};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Waits no longer than this for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct Service {
    pub(crate) folder: TempDir,
    pub(crate) socket: PathBuf,
    pub(crate) address: Option<std::net::SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), Error>>,
}

impl Service {
    /// A service with a journal in its folder.
    pub(crate) fn start() -> Result<Self, Box<dyn std::error::Error>> {
        Self::with(tempfile::tempdir()?, "eft", Listen::default(), Options::default())
    }

    pub(crate) fn with(
        folder: TempDir,
        policy: &str,
        listen: Listen,
        options: Options,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let socket = folder.path().join("s");
        let options = Options { journal: Some(folder.path().join("journal")), ..options };
        let desk: Arc<Desk> = Desk::open(&options, mdts_policies::find(policy)?.placer(0))?;
        let server = Server::bind(desk, Listen { socket: Some(socket.clone()), ..listen })?;
        let address = server.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(server.run(async move { drop(stopped.await) }));
        Ok(Self { folder, socket, address, stop: Some(stop), running })
    }

    pub(crate) fn client(&self) -> Client {
        Client::unix(&self.socket)
    }

    /// Ends it and gives its folder back.
    pub(crate) async fn stop(mut self) -> Result<TempDir, Box<dyn std::error::Error>> {
        drop(self.stop.take());
        tokio::time::timeout(DEADLINE, &mut self.running).await???;
        Ok(self.folder)
    }
}

pub(crate) fn node(speed: f64) -> NodeSpec {
    NodeSpec { speed, lease_seconds: Some(0.0), ..NodeSpec::default() }
}

pub(crate) fn tasks(names: &[&str]) -> Place {
    Place { tasks: Some(names.iter().map(ToString::to_string).collect()), ahead: false }
}

pub(crate) const DIAMOND: &str = "
name: diamond
tasks:
  - {name: a, work: 1}
  - {name: b, work: 2, after: [a], retries: 1}
  - {name: c, work: 3, after: [a]}
  - {name: d, work: 1, after: [b, c]}
";

pub(crate) async fn submit(client: &Client, graph: &str) -> Result<String, Error> {
    Ok(client.submit(graph.to_owned(), &Submission::default()).await?.id)
}

pub(crate) fn finished(task: &str, attempt: u32) -> TaskEvent {
    event(task, attempt, What::Finished)
}

pub(crate) fn event(task: &str, attempt: u32, event: What) -> TaskEvent {
    TaskEvent { task: task.into(), attempt, event, seconds: None, reason: None }
}

/// The status of a refusal.
pub(crate) fn status<T: std::fmt::Debug>(answer: Result<T, Error>) -> u16 {
    match answer {
        Err(Error::Refused(problem)) => problem.status,
        other => panic!("expected a refusal, not {other:?}"),
    }
}

pub(crate) fn started(grants: &[Grant]) -> Vec<(String, u32, String, bool)> {
    grants.iter().map(|g| (g.task.clone(), g.attempt, g.node.clone(), g.start)).collect()
}
