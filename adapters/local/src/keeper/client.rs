//! The runner's side: starts or finds the keeper, asks it for processes and hears of their ends.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mdts_core::engine::{JobId, TaskRun};
use mdts_core::runner::Usage;
use mdts_dag::TaskId;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::process::Signal;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::protocol::{Ending, PATIENCE, Reply, Request, VERSION, receive, send};
use super::register::{self, Known};
use super::{COMPLAINTS, SOCKET};
use crate::care::signal_group;
use crate::group::Group;
use crate::launch::Launch;

/// Longest time that a keeper may not listen which has answered before: a disk may be slow.
const LONG: Duration = Duration::from_mins(1);

/// A connection to the keeper of a folder. Dropping it lets the keeper go on with what runs.
#[derive(Debug)]
pub(crate) struct Keeper {
    folder: PathBuf,
    socket: Mutex<UnixStream>,
    waiting: Arc<Mutex<Waiting>>,
    /// Whether the keeper was there already, with the tasks of an earlier runner.
    is_old: bool,
}

/// Who waits for what.
#[derive(Debug, Default)]
struct Waiting {
    ends: FxHashMap<TaskRun, oneshot::Sender<Ending>>,
    /// What attempts used that have ended, until it is asked for.
    used: FxHashMap<TaskRun, Usage>,
    /// Ends for which nobody waits so far.
    unclaimed: FxHashMap<TaskRun, Ending>,
    releases: FxHashMap<TaskRun, oneshot::Sender<Option<u32>>>,
    is_over: bool,
}

/// What became of an attempt of an earlier runner.
#[derive(Debug)]
pub(crate) enum Found {
    /// Its end will come, or is there.
    Ends(oneshot::Receiver<Ending>),
    /// Nobody knows how it ended.
    Gone,
}

impl Keeper {
    /// Connects to the keeper of a folder; starts one with `command` and the folder behind it if there is none.
    pub(crate) fn open(folder: &Path, command: &[OsString]) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        let (socket, child) = match connect(&folder) {
            Ok(socket) => (socket, None),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(silence(&folder)),
            Err(_) => {
                let child = start(&folder, command)?;
                (connect(&folder).map_err(|error| complaint(&folder, &error))?, Some(child))
            }
        };
        let is_old = child.is_none();
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let (replies, heard, within) = (socket.try_clone()?, waiting.clone(), folder.clone());
        std::thread::Builder::new()
            .name("mdts-keeper".to_owned())
            .spawn(move || listen(&replies, &heard, &within, child))?;
        Ok(Self { folder, socket: Mutex::new(socket), waiting, is_old })
    }

    /// Whether the keeper is gone.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.waiting).is_over
    }

    /// Starts a process; how it ends comes through the channel, which is closed if the keeper dies.
    pub(crate) fn launch(&self, launch: Launch) -> oneshot::Receiver<Ending> {
        let ends = self.await_end(launch.run);
        let run = launch.run;
        match self.ask(&Request::Launch(launch.into())) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                lock(&self.waiting).claim(run, Ending::Refused(silence(&self.folder).to_string()));
            }
            // It was killed: the channel is closed.
            Err(_) => drop(lock(&self.waiting).ends.remove(&run)),
        }
        ends
    }

    fn await_end(&self, run: TaskRun) -> oneshot::Receiver<Ending> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        if let Some(ending) = waiting.unclaimed.remove(&run) {
            sender.send(ending).ok(); // the receiver is here
        } else if !waiting.is_over {
            waiting.ends.insert(run, sender);
        }
        receiver
    }

    /// What an attempt used that has ended.
    pub(crate) fn used(&self, run: TaskRun) -> Option<Usage> {
        lock(&self.waiting).used.remove(&run)
    }

    /// Ends an attempt with all that it started; `ends` is what its launch gave. Tells how it ended if it had done so before it
    /// was asked to.
    pub(crate) async fn end(
        &self,
        run: TaskRun,
        ends: oneshot::Receiver<Ending>,
        grace: Duration,
    ) -> Option<Ending> {
        match self.release(run).await {
            Some(number) => {
                self.outlast(run, number, ends, grace).await;
                None
            }
            None => timeout(PATIENCE, ends).await.ok()?.ok(),
        }
    }

    /// Asks an attempt to end, whose end is this process's to await from then on; gives the number of its process if it
    /// runs.
    async fn release(&self, run: TaskRun) -> Option<u32> {
        let (sender, released) = oneshot::channel();
        lock(&self.waiting).releases.insert(run, sender);
        self.ask(&Request::Release(run)).ok()?; // the keeper is dead; whoever finds that out ends its tasks
        if let Ok(number) = timeout(PATIENCE, released).await {
            return number.ok().flatten();
        }
        tracing::warn!("{}", silence(&self.folder));
        let number = register::read(&self.folder).ok()?.get(&run)?.group()?;
        signal_group(number.cast_signed(), Signal::TERM);
        Some(number)
    }

    async fn outlast(&self, run: TaskRun, number: u32, ends: oneshot::Receiver<Ending>, grace: Duration) {
        // Both at once: the leader stays in its group until it is waited for.
        let mut group = Group::led_by(number);
        let ((), ended) = tokio::join!(group.outlast(grace), timeout(grace + PATIENCE, ends));
        tracing::debug!(?run, ?ended, "cancelled");
        self.ask(&Request::Gone(run)).ok(); // an error says that the keeper is dead
    }

    fn ask(&self, request: &Request) -> io::Result<()> {
        // The keeper never waits for the runner, as a thread of its own hears its replies: this is soon done.
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = send(&mut *socket, request);
        if asked.is_err() {
            socket.shutdown(Shutdown::Both).ok(); // half of a request is of no use
        }
        asked
    }

    /// What became of these attempts of an earlier runner, in their order. Nothing of any other attempt, nor of those
    /// that are gone, runs any more when this returns.
    pub(crate) async fn find(self: &Arc<Self>, runs: &[TaskRun], grace: Duration) -> io::Result<Vec<Found>> {
        let known = register::read(&self.folder)?;
        lock(&self.waiting).used = register::usage(&self.folder).unwrap_or_default();
        let (mut found, mut strays) = (Vec::new(), Vec::new());
        for run in runs {
            found.push(match known.get(run) {
                Some(Known::Ended(ending)) => {
                    lock(&self.waiting).unclaimed.insert(*run, ending.clone());
                    Found::Ends(self.await_end(*run))
                }
                Some(Known::Running(_)) if self.is_old => Found::Ends(self.await_end(*run)),
                Some(Known::Running(_) | Known::Released(_)) | None => Found::Gone,
            });
        }
        let kept = runs.iter().zip(&found).filter(|(_, found)| matches!(found, Found::Ends(_)));
        let kept: FxHashSet<TaskRun> = kept.map(|(run, _)| *run).collect();
        for (run, known) in known.iter().filter(|(run, _)| !kept.contains(run)) {
            if let Some(group) = known.group() {
                let is_kept = self.is_old && matches!(known, Known::Running(_));
                let ends = if is_kept { self.await_end(*run) } else { oneshot::channel().1 };
                let (keeper, run) = (self.clone(), *run);
                strays.push(tokio::spawn(async move {
                    match keeper.release(run).await {
                        Some(number) => keeper.outlast(run, number, ends, grace).await,
                        None => Group::led_by(group).end(grace).await, // an earlier keeper had it
                    }
                }));
            }
        }
        for stray in strays {
            stray.await.ok(); // an error says that the runtime is ending
        }
        self.settle().await;
        Ok(found)
    }

    /// Waits until all that the keeper has said so far is heard, and forgets the ends that nobody waits for: an attempt
    /// of the same number may follow.
    async fn settle(&self) {
        let nobody = TaskRun { job: JobId::from(u32::MAX), task: TaskId::from(u32::MAX), attempt: 0 };
        let (sender, heard) = oneshot::channel();
        lock(&self.waiting).releases.insert(nobody, sender);
        if self.ask(&Request::Release(nobody)).is_ok() {
            timeout(PATIENCE, heard).await.ok(); // an error says that the keeper is dead, or does not answer
        }
        lock(&self.waiting).unclaimed.clear();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        lock(&self.waiting).is_over = true;
        let socket = self.socket.get_mut().unwrap_or_else(PoisonError::into_inner);
        socket.shutdown(Shutdown::Both).ok(); // an error says that the keeper is gone
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    fn claim(&mut self, run: TaskRun, ending: Ending) {
        match self.ends.remove(&run) {
            Some(waits) => drop(waits.send(ending)), // an error says that it was cancelled
            None => drop(self.unclaimed.insert(run, ending)),
        }
    }
}

/// Hears the keeper's replies until it is gone.
fn listen(replies: &UnixStream, waiting: &Mutex<Waiting>, folder: &Path, child: Option<Child>) {
    let mut replies = BufReader::new(replies);
    while let Ok(reply) = receive(&mut replies) {
        let mut waiting = lock(waiting);
        match reply {
            Reply::Hello { .. } => {}
            Reply::Ended(run, ending, usage) => {
                waiting.used.extend(usage.map(|usage| (run, usage)));
                waiting.claim(run, ending);
            }
            Reply::Released(run, number) => {
                if let Some(waits) = waiting.releases.remove(&run) {
                    waits.send(number).ok(); // an error says that nobody waits any more
                }
            }
        }
    }
    if !lock(waiting).is_over {
        kill_orphans(folder); // the keeper was killed
    }
    *lock(waiting) = Waiting { is_over: true, ..Waiting::default() };
    if let Some(mut child) = child {
        child.wait().ok(); // so that no zombie stays; how it ended does not matter
    }
}

/// Kills all attempts of which no end is known.
fn kill_orphans(folder: &Path) {
    let known = register::read(folder).unwrap_or_default();
    known.values().filter_map(Known::group).for_each(|group| Group::led_by(group).kill());
}

/// A keeper that answers.
fn connect(folder: &Path) -> io::Result<UnixStream> {
    let directory = File::open(folder)?;
    let mut socket = UnixStream::connect(short(folder, &directory))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(LONG))?;
    send(&mut socket, &Request::Hello { version: VERSION })?;
    if receive::<Reply>(&mut socket)? == (Reply::Hello { version: VERSION }) {
        socket.set_read_timeout(None)?;
        send(&mut socket, &Request::Environment(std::env::vars_os().collect()))?;
        return Ok(socket);
    }
    let message =
        "its tasks run under another version of mdts; resume with that, or wait until they have ended";
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

/// A name of the socket that is short enough for one.
fn short(folder: &Path, directory: &File) -> PathBuf {
    const LONGEST: usize = 100;
    let plain = folder.join(SOCKET);
    if plain.as_os_str().len() <= LONGEST {
        return plain;
    }
    Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(SOCKET)
}

fn start(folder: &Path, command: &[OsString]) -> io::Result<Child> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command for the keeper"));
    };
    let directory = File::open(folder)?;
    match fs::remove_file(folder.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(short(folder, &directory))?;
    fs::set_permissions(folder.join(SOCKET), Permissions::from_mode(0o600))?;
    let complaints = OpenOptions::new().append(true).create(true).open(folder.join(COMPLAINTS))?;
    Command::new(program)
        .args(arguments)
        .arg(folder)
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::null())
        .stderr(complaints)
        .spawn()
}

/// A keeper lives, but does not answer.
fn silence(folder: &Path) -> io::Error {
    let process = register::last_keeper(folder).map_or_else(String::new, |number| number.to_string());
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!(
            "the keeper of the tasks, process {process}, does not answer; is it stopped, or its disk? \
             let it go on (kill -CONT {process}), or end it (kill -9 {process}) and go on with --resume"
        ),
    )
}

/// Why the keeper does not answer, with the end of what it complained of.
fn complaint(folder: &Path, error: &io::Error) -> io::Error {
    let path = folder.join(COMPLAINTS);
    let said = fs::read_to_string(&path).unwrap_or_default();
    let last = said.lines().last().unwrap_or("nothing more is known");
    io::Error::new(error.kind(), format!("the keeper of tasks does not answer ({error}): {last}"))
}
