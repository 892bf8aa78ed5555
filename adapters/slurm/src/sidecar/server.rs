//! The socket: messages in lines, each ended by an empty line, and an answer to each.
//!
//! A connection costs a few kilobytes, there is a bound to their number, and each has little time for a message: neither slow nor
//! broken clients keep others waiting. When there are too many, new ones are closed at once, and their jobs pass unchanged.

use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Desk, Peer};
use crate::{Error, Result};

/// Longer messages end the connection.
const LONGEST: usize = 32 << 10;
/// A connection may be silent for so long.
const IDLE: Duration = Duration::from_secs(30);
/// A message that has begun has so long to end, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most connections at a time.
const MOST: usize = 2048;
/// How long nothing is accepted when the system has no more files.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest path that clients can connect to, in bytes.
const LONGEST_PATH: usize = 107;

/// Where the sidecar listens, and who may come.
#[derive(Debug, Clone)]
pub struct Door {
    /// The socket.
    pub path: PathBuf,
    /// Its mode.
    pub mode: u32,
    /// The number of its group; none: the group of the process.
    pub group: Option<u32>,
}

/// A sidecar that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode, to tell the own socket from another one's of the same name.
    identity: Option<(u64, u64)>,
}

impl Server {
    /// Opens the socket, in the place of one that a dead sidecar left behind.
    ///
    /// # Errors
    /// [`Error::Usage`] for a path that is too long or in use, [`Error::Io`] for what the system says.
    pub fn bind(door: &Door) -> Result<Self> {
        let path = &door.path;
        if path.as_os_str().len() > LONGEST_PATH - ".new".len() {
            return Err(Error::Usage(format!(
                "{}: the path of a socket may have {} bytes",
                path.display(),
                LONGEST_PATH - 4
            )));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(Error::Usage(format!("{}: another sidecar listens there", path.display())));
        }
        if let Ok(found) = std::fs::symlink_metadata(path)
            && !found.file_type().is_socket()
        {
            return Err(Error::Usage(format!(
                "{}: there is something that is no socket; it is left alone",
                path.display()
            )));
        }
        let open = || -> io::Result<UnixListener> {
            // It gets its name when its rights are right.
            let mut new = path.as_os_str().to_owned();
            new.push(".new");
            let new = Path::new(&new);
            if std::fs::symlink_metadata(new).is_ok_and(|found| found.file_type().is_socket()) {
                std::fs::remove_file(new)?;
            }
            let listener = UnixListener::bind(new)?;
            std::fs::set_permissions(new, std::fs::Permissions::from_mode(door.mode))?;
            std::os::unix::fs::chown(new, None, door.group)?;
            std::fs::rename(new, path)?;
            Ok(listener)
        };
        let listener = open().map_err(Error::io(path))?;
        Ok(Self { listener, path: path.clone(), identity: identity(path) })
    }

    /// Answers until `stop` is done.
    pub async fn run(self, desk: Arc<Desk>, stop: impl Future<Output = ()>) {
        let limit = Arc::new(Semaphore::new(MOST));
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = self.listener.accept() => accepted,
            };
            while connections.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) => {
                    let Ok(permit) = limit.clone().try_acquire_owned() else { continue };
                    let desk = desk.clone();
                    connections.spawn(async move {
                        let _permit = permit;
                        // Whoever goes away in the middle needs no answer.
                        _ = converse(stream, &desk).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection can be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        if identity(&self.path) == self.identity {
            _ = std::fs::remove_file(&self.path); // it may be gone already
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

async fn converse(mut stream: UnixStream, desk: &Desk) -> io::Result<()> {
    let user = stream.peer_cred()?.uid();
    let peer = Peer { user, is_trusted: user == 0 || user == rustix::process::geteuid().as_raw() };
    let mut text = Vec::new();
    loop {
        let Some(end) = message(&mut stream, &mut text).await? else { return Ok(()) };
        let message = String::from_utf8_lossy(&text[..end]).into_owned();
        text.drain(..=end);
        let answer = desk.answer(message.trim_start_matches('\n'), peer).await;
        tokio::time::timeout(PATIENCE, stream.write_all(answer.as_bytes())).await??;
    }
}

/// Reads on until `text` holds a message; where its last line ends. None when the client has gone or sends too much.
async fn message(stream: &mut UnixStream, text: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let end = |text: &[u8]| text.windows(2).position(|pair| pair == b"\n\n").map(|at| at + 1);
    let mut begun = (!text.is_empty()).then(tokio::time::Instant::now);
    loop {
        if let Some(end) = end(text) {
            return Ok(Some(end));
        }
        if text.len() > LONGEST {
            return Ok(None);
        }
        let patience = begun.map_or(IDLE, |begun| PATIENCE.saturating_sub(begun.elapsed()));
        let mut piece = [0; 2048];
        let length = tokio::time::timeout(patience, stream.read(&mut piece)).await??;
        if length == 0 {
            return Ok(None);
        }
        begun.get_or_insert_with(tokio::time::Instant::now);
        text.extend_from_slice(&piece[..length]);
    }
}
