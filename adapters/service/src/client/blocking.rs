//! The client for programs without an async runtime.

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};

use super::Submission;
use crate::api::{
    EventsAnswer, Extension, Grants, Job, Node, NodeSpec, Nodes, Place, PlaceAnswer, Submitted, Task,
    TaskEvent,
};
use crate::{Error, Result};

/// As [`super::Client`], but every call returns when it is done. Not for use inside an async runtime.
///
/// ```no_run
/// use mdts_service::api::Place;
/// use mdts_service::client::{Client, Submission, blocking};
/// let client = blocking::Client::new(Client::unix("/run/mdts.sock"))?;
/// let job = client.submit(b"tasks: [{name: a, work: 1}]".as_slice(), &Submission::default())?;
/// let placed = client.place(&job.id, &Place::default())?;
/// println!("run {:?}", placed.placements);
/// # Ok::<(), mdts_service::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    inner: super::Client,
}

impl Client {
    /// A client that waits.
    ///
    /// # Errors
    /// [`Error::Client`] if the system cannot give what waiting needs.
    pub fn new(inner: super::Client) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| Error::Client { place: "client".to_owned(), message: error.to_string() })?;
        Ok(Self { runtime, inner })
    }

    /// The async client and the runtime that drives it, for all other calls.
    pub fn parts(&self) -> (&Runtime, &super::Client) {
        (&self.runtime, &self.inner)
    }

    /// See [`super::Client::register`].
    ///
    /// # Errors
    /// As there.
    pub fn register(&self, name: &str, spec: &NodeSpec) -> Result<Node> {
        self.runtime.block_on(self.inner.register(name, spec))
    }

    /// See [`super::Client::submit`].
    ///
    /// # Errors
    /// As there.
    pub fn submit(&self, graph: impl Into<Bytes>, how: &Submission) -> Result<Submitted> {
        self.runtime.block_on(self.inner.submit(graph, how))
    }

    /// See [`super::Client::place`].
    ///
    /// # Errors
    /// As there.
    pub fn place(&self, job: &str, tasks: &Place) -> Result<PlaceAnswer> {
        self.runtime.block_on(self.inner.place(job, tasks))
    }

    /// See [`super::Client::grants`].
    ///
    /// # Errors
    /// As there.
    pub fn grants(&self, job: &str, after: u64, wait: f64) -> Result<Grants> {
        self.runtime.block_on(self.inner.grants(job, after, wait))
    }

    /// See [`super::Client::events`].
    ///
    /// # Errors
    /// As there.
    pub fn events(&self, job: &str, events: Vec<TaskEvent>) -> Result<EventsAnswer> {
        self.runtime.block_on(self.inner.events(job, events))
    }

    /// See [`super::Client::extend`].
    ///
    /// # Errors
    /// As there.
    pub fn extend(&self, job: &str, tasks: &Extension) -> Result<Job> {
        self.runtime.block_on(self.inner.extend(job, tasks))
    }

    /// See [`super::Client::cancel`].
    ///
    /// # Errors
    /// As there.
    pub fn cancel(&self, job: &str) -> Result<Job> {
        self.runtime.block_on(self.inner.cancel(job))
    }

    /// See [`super::Client::forget`].
    ///
    /// # Errors
    /// As there.
    pub fn forget(&self, job: &str) -> Result<Job> {
        self.runtime.block_on(self.inner.forget(job))
    }

    /// See [`super::Client::nodes`].
    ///
    /// # Errors
    /// As there.
    pub fn nodes(&self) -> Result<Nodes> {
        self.runtime.block_on(self.inner.nodes())
    }

    /// See [`super::Client::job`].
    ///
    /// # Errors
    /// As there.
    pub fn job(&self, job: &str) -> Result<Job> {
        self.runtime.block_on(self.inner.job(job))
    }

    /// See [`super::Client::task`].
    ///
    /// # Errors
    /// As there.
    pub fn task(&self, job: &str, task: &str) -> Result<Task> {
        self.runtime.block_on(self.inner.task(job, task))
    }
}
