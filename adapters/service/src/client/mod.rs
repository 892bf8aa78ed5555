//! A small client, over a Unix socket, TCP or TLS.
//!
//! ```no_run
//! use mdts_service::api::{Place, TaskEvent, What};
//! use mdts_service::client::{Client, Submission};
//! # async fn run() -> mdts_service::Result<()> {
//! let client = Client::unix("/run/mdts.sock");
//! let job = client.submit(b"tasks: [{name: a, work: 1}]".as_slice(), &Submission::default()).await?;
//! client.place(&job.id, &Place { ahead: true, ..Place::default() }).await?;
//! let mut after = 0;
//! loop {
//!     let grants = client.grants(&job.id, after, 30.0).await?;
//!     for grant in grants.grants.iter().filter(|grant| grant.start) {
//!         println!("run {} on {}", grant.task, grant.node);
//!         let event = TaskEvent::new(grant, What::Finished);
//!         client.events(&job.id, vec![event]).await?;
//!     }
//!     if grants.ended {
//!         return Ok(());
//!     }
//!     after = grants.after;
//! }
//! # }
//! ```

pub mod blocking;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::api::{
    Batch, BatchAnswer, Events, EventsAnswer, Extension, Grant, Grants, Heartbeats, HeartbeatsAnswer, Job,
    Node, NodeSpec, Nodes, Place, PlaceAnswer, Problem, Registration, Submitted, Task, TaskEvent, What,
};
use crate::{Error, Result};

/// How long an answer is waited for, beyond what was asked for.
const PATIENCE: Duration = Duration::from_mins(1);
/// For how long an unused connection is kept; the service closes it later than that.
const FRESH: Duration = Duration::from_secs(30);

/// A connection, and since when it was not used.
type Kept = (SendRequest<Full<Bytes>>, Instant);

/// Asks a service. Several requests at a time take several connections, which are kept.
#[derive(Debug)]
pub struct Client {
    place: Address,
    token: Option<String>,
    name: Option<String>,
    idle: Mutex<Vec<Kept>>,
}

#[derive(Debug, Clone)]
enum Address {
    Unix(PathBuf),
    Tcp(String),
    /// With the name that the certificate must be for.
    Tls(String, Tls, ServerName<'static>),
}

/// How a job is to be treated; see the interface's documentation.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    /// Name of the graph's format; none: told by how the text begins.
    pub format: Option<String>,
    /// Higher comes first.
    pub priority: i32,
    /// Weight of the client among others.
    pub share: Option<f64>,
    /// Seconds of silence after which the job loses its nodes; 0: never.
    pub lease_seconds: Option<f64>,
    /// With a key, a submission that is sent again has one effect.
    pub key: Option<String>,
}

impl TaskEvent {
    /// Reports something about a granted attempt.
    pub fn new(grant: &Grant, event: What) -> Self {
        Self { task: grant.task.clone(), attempt: grant.attempt, event, seconds: None, reason: None }
    }
}

impl Client {
    /// A client of the service at a Unix socket.
    pub fn unix(socket: impl AsRef<Path>) -> Self {
        Self::new(Address::Unix(socket.as_ref().to_owned()), None)
    }

    /// A client of the service at `host:port`, with TLS. The service must have a certificate for `host` that one of those in
    /// the file (PEM) vouches for.
    ///
    /// # Errors
    /// [`Error::File`] if the file has no certificate, [`Error::Setting`] if the host has no name that can be certified.
    pub fn tls(
        address: impl Into<String>,
        token: impl Into<String>,
        certificates: impl AsRef<Path>,
    ) -> Result<Self> {
        let address = address.into();
        let (host, _) = address.rsplit_once(':').unwrap_or((&address, ""));
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host)
            .map_err(|error| Error::Setting(format!("{address}: {error}; expected HOST:PORT")))?;
        let tls = Tls::trusting(certificates.as_ref())?;
        Ok(Self::new(Address::Tls(address, tls, name), Some(token.into())))
    }

    /// A client of the service at `host:port`, without TLS.
    pub fn tcp(address: impl Into<String>, token: impl Into<String>) -> Self {
        Self::new(Address::Tcp(address.into()), Some(token.into()))
    }

    fn new(place: Address, token: Option<String>) -> Self {
        Self { place, token, name: None, idle: Mutex::default() }
    }

    /// Jobs that are submitted from now on belong to the client of this name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Registers a node, or tells that it is alive.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn register(&self, name: &str, spec: &NodeSpec) -> Result<Node> {
        self.send(Method::PUT, &format!("/v1/nodes/{}", escape(name)), Some(spec), None).await
    }

    /// Registers many nodes.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn register_all(&self, nodes: &Registration) -> Result<Nodes> {
        self.send(Method::POST, "/v1/nodes", Some(nodes), None).await
    }

    /// Tells that nodes are alive.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn heartbeats(&self, nodes: Vec<String>) -> Result<HeartbeatsAnswer> {
        self.send(Method::POST, "/v1/heartbeats", Some(&Heartbeats { nodes }), None).await
    }

    /// The nodes.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn nodes(&self) -> Result<Nodes> {
        self.send(Method::GET, "/v1/nodes", NOTHING, None).await
    }

    /// Submits a graph.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn submit(&self, graph: impl Into<Bytes>, how: &Submission) -> Result<Submitted> {
        let mut path = format!("/v1/jobs?priority={}", how.priority);
        // Writing to a string does not fail.
        if let Some(format) = &how.format {
            _ = write!(path, "&format={}", escape(format));
        }
        if let Some(share) = how.share {
            _ = write!(path, "&share={share}");
        }
        if let Some(seconds) = how.lease_seconds {
            _ = write!(path, "&lease_seconds={seconds}");
        }
        let answer = self.exchange(&Method::POST, &path, graph.into(), how.key.as_deref()).await?;
        self.understand(answer)
    }

    /// How a job stands.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn job(&self, job: &str) -> Result<Job> {
        self.send(Method::GET, &format!("/v1/jobs/{job}"), NOTHING, None).await
    }

    /// Adds tasks to a job.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn extend(&self, job: &str, tasks: &Extension) -> Result<Job> {
        self.send(Method::POST, &format!("/v1/jobs/{job}/extend"), Some(tasks), None).await
    }

    /// Cancels a job; one that has ended stays as it is.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn cancel(&self, job: &str) -> Result<Job> {
        self.send(Method::DELETE, &format!("/v1/jobs/{job}"), NOTHING, None).await
    }

    /// Makes the service forget a job that has ended; one that is open is cancelled.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn forget(&self, job: &str) -> Result<Job> {
        self.send(Method::DELETE, &format!("/v1/jobs/{job}?forget=true"), NOTHING, None).await
    }

    /// Places tasks in one decision step.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn place(&self, job: &str, tasks: &Place) -> Result<PlaceAnswer> {
        self.send(Method::POST, &format!("/v1/jobs/{job}/place"), Some(tasks), None).await
    }

    /// What was granted after a number; waits up to `wait` seconds, at most 60, if that is nothing.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn grants(&self, job: &str, after: u64, wait: f64) -> Result<Grants> {
        self.send(Method::GET, &format!("/v1/jobs/{job}/grants?after={after}&wait={wait}"), NOTHING, None)
            .await
    }

    /// Reports what has happened.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn events(&self, job: &str, events: Vec<TaskEvent>) -> Result<EventsAnswer> {
        self.send(Method::POST, &format!("/v1/jobs/{job}/events"), Some(&Events { events }), None).await
    }

    /// Why a task is where it is.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn task(&self, job: &str, task: &str) -> Result<Task> {
        self.send(Method::GET, &format!("/v1/jobs/{job}/tasks/{}", escape(task)), NOTHING, None).await
    }

    /// Makes several calls at once.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn batch(&self, calls: &Batch) -> Result<BatchAnswer> {
        self.send(Method::POST, "/v1/batch", Some(calls), None).await
    }

    /// Sends any request; the calls above are made of it.
    ///
    /// # Errors
    /// [`Error::Refused`] with what the service said, [`Error::Client`] if it could not be reached or understood.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        key: Option<&str>,
    ) -> Result<T> {
        let body = body.map(serde_json::to_vec).transpose().map_err(|error| self.failed(&error))?;
        let answer = self.exchange(&method, path, body.unwrap_or_default().into(), key).await?;
        self.understand(answer)
    }

    fn understand<T: DeserializeOwned>(&self, (status, body): (u16, Bytes)) -> Result<T> {
        if (200..300).contains(&status) {
            return serde_json::from_slice(&body).map_err(|error| self.failed(&error));
        }
        let unclear = || Problem::internal(format!("{status} {}", String::from_utf8_lossy(&body)));
        Err(Error::Refused(serde_json::from_slice(&body).unwrap_or_else(|_| unclear())))
    }

    /// Sends a request and returns status and body, whatever they are. A kept connection may have been closed in the
    /// meantime: what was not sent then, or is harmless to repeat, is sent once more on a new one.
    ///
    /// # Errors
    /// [`Error::Client`], also if there is no answer within a minute beyond the time that was asked to wait; [`Error::Setting`] if path,
    /// key, token or name cannot be sent.
    pub async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
        key: Option<&str>,
    ) -> Result<(u16, Bytes)> {
        let wait =
            path.rsplit_once("wait=").and_then(|(_, wait)| wait.split('&').next()?.parse::<f64>().ok());
        let wait = Duration::try_from_secs_f64(wait.unwrap_or(0.0)).unwrap_or_default(); // the service refuses such a time
        let patience = PATIENCE + wait.min(Duration::from_hours(1));
        let request = self.request(method, path, key)?;
        let answer =
            tokio::time::timeout(patience, self.exchange_once_or_twice(&request, body, key.is_some())).await;
        answer.map_err(|_| self.failed(&io::Error::from(io::ErrorKind::TimedOut)))?
    }

    /// A request without its body.
    fn request(&self, method: &Method, path: &str, key: Option<&str>) -> Result<Request<()>> {
        let cannot_be = |what: &str, value: &str| {
            Error::Setting(format!("{what} '{}' cannot be sent in a request", value.escape_debug()))
        };
        let mut request = Request::new(());
        *request.method_mut() = method.clone();
        *request.uri_mut() = path.parse().map_err(|_| cannot_be("the path", path))?;
        request.headers_mut().insert(HOST, HeaderValue::from_static("mdts"));
        let token = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let values = [
            (HeaderName::from_static("idempotency-key"), key),
            (HeaderName::from_static("mdts-client"), self.name.as_deref()),
            (AUTHORIZATION, token.as_deref()),
        ];
        for (name, value) in values {
            let Some(value) = value else { continue };
            let told = if name == AUTHORIZATION { "of the service" } else { value };
            let value = HeaderValue::try_from(value)
                .map_err(|_| cannot_be(&format!("the value for the header {name}"), told))?;
            request.headers_mut().insert(name, value);
        }
        Ok(request)
    }

    async fn exchange_once_or_twice(
        &self,
        request: &Request<()>,
        body: Bytes,
        has_key: bool,
    ) -> Result<(u16, Bytes)> {
        let path = request.uri().path();
        let is_harmless =
            path.ends_with("/place") || path.ends_with("/events") || path.ends_with("heartbeats");
        let may_repeat = has_key || is_harmless || matches!(*request.method(), Method::GET | Method::PUT);
        // What was not used for long has probably been closed.
        let kept = self.connections().pop().filter(|(_, since)| since.elapsed() < FRESH);
        if let Some((connection, _)) = kept.filter(|(connection, _)| connection.is_ready()) {
            match self.send_on(connection, request, body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) if may_repeat || error.is_canceled() => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        let connection = self.connect().await?;
        self.send_on(connection, request, body).await.map_err(|error| self.failed(&error))
    }

    async fn send_on(
        &self,
        mut connection: SendRequest<Full<Bytes>>,
        request: &Request<()>,
        body: Bytes,
    ) -> hyper::Result<(u16, Bytes)> {
        let request = request.clone().map(|()| Full::new(body));
        let response = connection.send_request(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        self.connections().push((connection, Instant::now()));
        Ok((status, body))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        match &self.place {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| self.failed(&error))?;
                self.shake_hands(stream).await
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(|error| self.failed(&error))?;
                stream.set_nodelay(true).map_err(|error| self.failed(&error))?;
                self.shake_hands(stream).await
            }
            Address::Tls(address, tls, name) => {
                let stream = TcpStream::connect(address).await.map_err(|error| self.failed(&error))?;
                stream.set_nodelay(true).map_err(|error| self.failed(&error))?;
                let stream =
                    tls.0.connect(name.clone(), stream).await.map_err(|error| self.failed(&error))?;
                self.shake_hands(stream).await
            }
        }
    }

    async fn shake_hands(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<SendRequest<Full<Bytes>>> {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.failed(&error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to the service broke off");
            }
        });
        Ok(sender)
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: &dyn std::error::Error) -> Error {
        let place = match &self.place {
            Address::Unix(path) => path.display().to_string(),
            Address::Tcp(address) | Address::Tls(address, ..) => address.clone(),
        };
        let cause = error.source().map_or(String::new(), |source| format!(": {source}"));
        Error::Client { place, message: format!("{error}{cause}") }
    }
}

/// Trust in the certificates of a file.
#[derive(Clone)]
struct Tls(TlsConnector);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    fn trusting(file: &Path) -> Result<Self> {
        let wrong = |error: &dyn std::fmt::Display| Error::File {
            path: file.to_owned(),
            message: format!("{error}; expected certificates in PEM"),
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
            roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
        }
        if roots.is_empty() {
            return Err(wrong(&"there is none"));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Setting(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

/// No body.
const NOTHING: Option<&()> = None;

/// A name as one segment of a path.
fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use hyper::Method;

    use super::{Client, Error};

    #[tokio::test]
    async fn what_cannot_be_sent_is_told_before_anything_is() {
        let client = Client::unix("/nowhere/s");
        let told = [
            client.exchange(&Method::POST, "/v1/jobs", "".into(), Some("a\nb")).await,
            client.exchange(&Method::GET, "/v1/jobs/a b\n", "".into(), None).await,
            Client::unix("/nowhere/s")
                .named("a\u{0}b")
                .exchange(&Method::GET, "/v1/jobs", "".into(), None)
                .await,
        ];
        for told in told {
            assert!(
                matches!(&told, Err(Error::Setting(what)) if what.contains("cannot be sent")),
                "{told:?}"
            );
        }
        let token = Client::tcp("localhost:1", "secret\n").nodes().await.expect_err("no header").to_string();
        assert!(token.contains("authorization") && !token.contains("secret"), "{token}");
        assert!(
            matches!(client.grants("J0", 0, f64::NAN).await, Err(Error::Client { .. })),
            "nobody is there"
        );
    }

    #[test]
    fn names_become_segments() {
        assert_eq!(super::escape("a/b c%\u{e9}"), "a%2Fb%20c%25%C3%A9");
    }
}
