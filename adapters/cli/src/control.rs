//! How other processes talk to a run: a socket in its folder, one line of JSON each way.
//!
//! ```text
//!   mdts cancel -- request --> DIR/control.sock --> Stopper --> runner
//!       ^--------- reply -----------'
//! ```
//! The lock of the folder tells whether there is somebody to talk to; the socket of a run that was killed is replaced by
//! the next one.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mdts_core::runner::{Stop, Stopper};
use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

const SOCKET: &str = "control.sock";
/// Longest time that one side waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time after something went wrong.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest request in bytes.
const LONGEST: u64 = 64 << 20;
/// Why a task fails that is cancelled from outside.
pub(crate) const CANCELLED: &str = "cancelled by mdts cancel";

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Start nothing more.
    Drain,
    /// Cancel what runs, and end.
    Cancel,
    /// Cancel these tasks for good.
    CancelTasks(Vec<u32>),
    /// Let these tasks run again, which have failed.
    RetryTasks(Vec<u32>),
}

/// Does what others ask of this run; the socket goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
}

impl Control {
    /// Listens in the folder of a run, which this process must have locked.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn listen(folder: &Path, stopper: Stopper) -> io::Result<Self> {
        let path = folder.join(SOCKET);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = in_folder(folder, |path| UnixListener::bind(path))?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let control = Self { path };
        let serve = move || {
            // Whoever asks something that makes no sense is told so; the run goes on in any case.
            for stream in listener.incoming() {
                if let Err(error) = stream.and_then(|stream| serve(&stream, &stopper)) {
                    tracing::debug!(%error, "a request from another process");
                    std::thread::sleep(PAUSE); // it may be the same with the next one
                }
            }
        };
        std::thread::Builder::new().name("mdts-control".to_owned()).spawn(serve)?;
        Ok(control)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok(); // the next run does it otherwise
    }
}

fn serve(stream: &UnixStream, stopper: &Stopper) -> io::Result<()> {
    let reply = match serde_json::from_slice(&read_line(stream)?) {
        Ok(request) => {
            obey(request, stopper);
            Ok(())
        }
        Err(error) => Err(format!("it does not understand the request ({error}); is it of another version?")),
    };
    write_line(stream, &reply)
}

fn obey(request: Request, stopper: &Stopper) {
    match request {
        Request::Drain => {
            stopper.stop(Stop::Drain);
            tracing::warn!("told by mdts cancel: nothing new starts");
        }
        Request::Cancel => {
            stopper.stop(Stop::Cancel);
            tracing::warn!("told by mdts cancel: cancelling what runs");
        }
        Request::RetryTasks(tasks) => stopper.retry_tasks(tasks.into_iter().map(TaskId::from)),
        Request::CancelTasks(tasks) => stopper.cancel_tasks(tasks.into_iter().map(TaskId::from), CANCELLED),
    }
}

/// Asks the run in a folder for something; returns when it is told, not when it is done.
///
/// # Errors
/// The operating system's, if nobody listens or answers; what the run says against it.
pub(crate) fn ask(folder: &Path, request: &Request) -> io::Result<()> {
    let stream = in_folder(folder, |path| UnixStream::connect(path))?;
    write_line(&stream, request)?;
    serde_json::from_slice::<Result<(), String>>(&read_line(&stream)?)?.map_err(io::Error::other)
}

fn read_line(stream: &UnixStream) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    BufReader::new(stream).take(LONGEST).read_until(b'\n', &mut line)?;
    Ok(line)
}

fn write_line(mut stream: &UnixStream, value: &impl Serialize) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Gives the path of the socket, or a short one for the same where it is too long for a socket.
fn in_folder<T>(folder: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    const LONGEST: usize = 100;
    let plain = folder.join(SOCKET);
    if plain.as_os_str().len() <= LONGEST {
        return act(&plain);
    }
    let folder = File::open(folder)?;
    act(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(SOCKET))
}
