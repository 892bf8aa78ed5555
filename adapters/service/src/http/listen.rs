//! Listeners and connections.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::body::Bodies;
use super::metrics::Metrics;
use super::patient::Patient;
use super::room::Rooms;
use super::router::{Shared, router};
use super::strangers::{Guest, Strangers};
use super::tls::acceptor;
use crate::{Desk, Error, Listen, Result};

/// How often leases are looked after.
const TICK: Duration = Duration::from_millis(200);
/// What requests that have begun get when the service stops.
const GRACE: Duration = Duration::from_secs(5);
/// Most bytes of a request's head.
const LARGEST_HEAD: usize = 64 << 10;
/// Silence after which TCP asks whether the other side is still there; after twice that it is not.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Files that are not connections: journal, snapshots, sockets.
const OTHER_FILES: usize = 64;
/// Shortest token, in bytes.
const SHORTEST_TOKEN: usize = 16;
/// Longest path of a socket that clients can connect to, in bytes.
const LONGEST_SOCKET: usize = 107;

/// A service that listens and does not answer yet.
pub struct Server {
    desk: Arc<Desk>,
    shared: Arc<Shared>,
    listen: Listen,
    unix: Option<UnixListener>,
    tcp: Option<TcpListener>,
    tls: Option<TlsAcceptor>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("unix", &self.unix).field("tcp", &self.tcp).finish_non_exhaustive()
    }
}

/// Listens and answers until `stop` is done.
///
/// # Errors
/// As for [`Server::bind`] and [`Server::run`].
pub async fn serve(desk: Arc<Desk>, listen: Listen, stop: impl Future<Output = ()>) -> Result<()> {
    Server::bind(desk, listen)?.run(stop).await
}

impl Server {
    /// Opens the socket and the address. A socket that a dead service left behind is replaced.
    ///
    /// # Errors
    /// [`Error::Listen`] if that is not possible, [`Error::Setting`] if a token is missing or too short or nothing is to be
    /// listened on, [`Error::File`] for TLS files.
    pub fn bind(desk: Arc<Desk>, listen: Listen) -> Result<Self> {
        if listen.socket.is_none() && listen.address.is_none() {
            return Err(Error::Setting("nothing to listen on; give a socket or an address".to_owned()));
        }
        if listen.address.is_some() && listen.token.as_ref().is_none_or(|t| t.len() < SHORTEST_TOKEN) {
            let message = format!("an address needs a token of at least {SHORTEST_TOKEN} bytes");
            return Err(Error::Setting(message));
        }
        if listen.token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            let message =
                "a token is one word of ASCII letters, digits and signs; no client could send this one";
            return Err(Error::Setting(message.to_owned()));
        }
        if listen.socket.as_ref().is_some_and(|socket| socket.as_os_str().len() > LONGEST_SOCKET) {
            let message = format!("the path of a socket may have {LONGEST_SOCKET} bytes; give a shorter one");
            return Err(Error::Setting(message));
        }
        let tls = listen.tls.as_ref().map(acceptor).transpose()?;
        let tcp = listen.address.map(bind_tcp).transpose()?;
        let unix = listen.socket.as_deref().map(bind_unix).transpose()?;
        let bodies = Bodies::new(listen.patience, listen.largest_graph);
        let shared = Arc::new(Shared {
            desk: desk.clone(),
            bodies,
            metrics: Metrics::default(),
            rooms: Rooms::default(),
        });
        Ok(Self { desk, shared, listen, unix, tcp, tls })
    }

    /// The TCP address, with its real port.
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref()?.local_addr().ok()
    }

    /// Answers until `stop` is done; requests that have begun by then get five seconds.
    ///
    /// # Errors
    /// [`Error::Closed`] if nothing can be recorded any more.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<()> {
        let (stopping, watcher) = watch::channel(false);
        let most =
            connections(&self.listen, usize::from(self.unix.is_some()) + usize::from(self.tcp.is_some()));
        let doors = || Doors {
            limit: Arc::new(Semaphore::new(most)),
            watcher: watcher.clone(),
            idle: self.listen.idle,
            patience: self.listen.patience,
        };
        let strangers = Strangers::new(most, self.listen.introduction);
        let socket = self.listen.socket.as_deref().and_then(|path| Some((path, identity(path)?)));
        let mut tasks = JoinSet::new();
        if let Some(unix) = self.unix {
            tasks.spawn(accept_unix(unix, router(self.shared.clone(), None), doors()));
        }
        if let Some(tcp) = self.tcp {
            let router = router(self.shared, self.listen.token.as_deref());
            tasks.spawn(accept_tcp(tcp, self.tls, router, doors(), strangers));
        }
        let ended = tokio::select! {
            () = stop => Ok(()),
            ended = look_after(&self.desk) => ended,
        };
        // It may be another service's by now.
        if let Some((path, _)) = socket.filter(|(path, bound)| identity(path).as_ref() == Some(bound)) {
            _ = std::fs::remove_file(path); // it may have been removed by others
        }
        stopping.send_replace(true);
        _ = tokio::time::timeout(GRACE, async { while tasks.join_next().await.is_some() {} }).await;
        ended
    }
}

/// Device and number of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Connections that each of so many listeners takes: some of the files that may be open are for other things.
fn connections(listen: &Listen, listeners: usize) -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    listen
        .connections
        .min(files.saturating_sub(OTHER_FILES) / listeners.max(1))
        .clamp(1, Semaphore::MAX_PERMITS)
}

async fn look_after(desk: &Desk) -> Result<()> {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        desk.tick()?;
    }
}

/// What all connections share.
#[derive(Debug, Clone)]
struct Doors {
    limit: Arc<Semaphore>,
    watcher: watch::Receiver<bool>,
    idle: Duration,
    patience: Duration,
}

impl Doors {
    /// Returns when the service stops.
    async fn stopped(&mut self) {
        _ = self.watcher.wait_for(|stops| *stops).await; // an error says that the server is gone
    }

    /// Waits for room for a connection; none when the service stops.
    async fn room(&mut self) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            permit = self.limit.clone().acquire_owned() => permit.ok(),
            () = self.stopped() => None,
        }
    }
}

async fn accept_unix(listener: UnixListener, router: Router, mut doors: Doors) {
    let mut connections = JoinSet::new();
    while let Some(permit) = doors.room().await {
        while connections.try_join_next().is_some() {}
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(converse(stream, router.clone(), doors.clone(), permit, None))),
                Err(error) => accept_later(&error).await,
            },
            () = doors.stopped() => break,
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn accept_tcp(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    mut doors: Doors,
    strangers: Arc<Strangers>,
) {
    let mut connections = JoinSet::new();
    while let Some(permit) = doors.room().await {
        while connections.try_join_next().is_some() {}
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    _ = stream.set_nodelay(true); // latency only
                    look_for_life(&stream);
                    let (router, doors, tls, visit) = (router.clone(), doors.clone(), tls.clone(), strangers.welcome());
                    connections.spawn(async move {
                        let guest = Some(visit.guest());
                        let talk = async {
                            match tls {
                                None => converse(stream, router, doors, permit, guest).await,
                                Some(tls) => {
                                    if let Ok(stream) = tls.accept(stream).await {
                                        converse(stream, router, doors, permit, guest).await;
                                    }
                                }
                            }
                        };
                        visit.lasts(talk).await;
                    });
                }
                Err(error) => accept_later(&error).await,
            },
            () = doors.stopped() => break,
        }
    }
    while connections.join_next().await.is_some() {}
}

/// Has the system close a connection whose other side is gone without a word. What it refuses is done without.
fn look_for_life(stream: &TcpStream) {
    _ = sockopt::set_socket_keepalive(stream, true);
    _ = sockopt::set_tcp_keepidle(stream, KEEPALIVE);
    _ = sockopt::set_tcp_keepintvl(stream, KEEPALIVE / 3);
    _ = sockopt::set_tcp_user_timeout(stream, 2 * KEEPALIVE.as_millis() as u32);
}

/// Out of file descriptors, for example: others will be closed.
async fn accept_later(error: &io::Error) {
    tracing::warn!(%error, "a connection cannot be accepted");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Answers the requests of one connection; those of a guest say whose they are.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    mut doors: Doors,
    _permit: OwnedSemaphorePermit,
    guest: Option<Arc<Guest>>,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(doors.idle).max_buf_size(LARGEST_HEAD);
    let stream = TokioIo::new(Patient::new(stream, doors.patience));
    let service = service_fn(move |mut request: Request<Incoming>| {
        if let Some(guest) = &guest {
            request.extensions_mut().insert(guest.clone());
        }
        router.clone().call(request)
    });
    let connection = builder.serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = doors.stopped() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

fn bind_tcp(address: SocketAddr) -> Result<TcpListener> {
    let failed = |source| Error::Listen { place: address.to_string(), source, hint: "" };
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    TcpListener::from_std(listener).map_err(failed)
}

/// Makes the socket where nobody else can reach it, and moves it to its place when it has its mode.
fn bind_unix(path: &Path) -> Result<UnixListener> {
    let failed = |source| Error::Listen { place: path.display().to_string(), source, hint: "" };
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let source = io::ErrorKind::AlreadyExists.into();
            let hint = "; there is a file that is no socket, name another path";
            return Err(Error::Listen { place: path.display().to_string(), source, hint });
        }
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            let source = io::ErrorKind::AddrInUse.into();
            let hint = "; another service answers there";
            return Err(Error::Listen { place: path.display().to_string(), source, hint });
        }
        _ => {}
    }
    let private = private_folder(path).map_err(failed)?;
    let inner = private.join("s");
    let bound = UnixListener::bind(&inner).and_then(|listener| {
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&inner, path)?;
        Ok(listener)
    });
    _ = std::fs::remove_file(&inner); // it is there only after an error
    _ = std::fs::remove_dir(&private);
    bound.map_err(failed)
}

/// Makes a folder that only this user can enter. Others of that name were left behind by services that were killed.
fn private_folder(path: &Path) -> io::Result<PathBuf> {
    const TRIES: u32 = 1000;
    let beside = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let mut number = 0;
    loop {
        let folder = beside.join(format!(".mdts-{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < TRIES => number += 1,
            Err(error) => return Err(error),
        }
    }
}
