//! The runner's side: starts or finds the keeper, asks it for processes and hears of their ends.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mdts_core::engine::{JobId, TaskRun};
use mdts_dag::TaskId;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::Signal;
use tokio::io::Interest;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::protocol::{Ended, Ending, Incoming, PATIENCE, Reply, Request, VERSION, encode, receive, send};
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
    line: Mutex<Line>,
    waiting: Mutex<Waiting>,
    /// Whether the keeper was there already, with the tasks of an earlier runner.
    is_old: bool,
}

/// The connection itself, which nobody waits at.
#[derive(Debug)]
struct Line {
    socket: UnixStream,
    incoming: Incoming,
    /// Nobody looks for replies yet.
    is_unwatched: bool,
}

/// Who waits for what.
#[derive(Debug, Default)]
struct Waiting {
    ends: FxHashMap<TaskRun, oneshot::Sender<Ended>>,
    /// Ends for which nobody waits so far.
    unclaimed: FxHashMap<TaskRun, Ended>,
    releases: FxHashMap<TaskRun, oneshot::Sender<Option<u32>>>,
    is_over: bool,
}

/// What became of an attempt of an earlier runner.
#[derive(Debug)]
pub(crate) enum Found {
    /// Its end will come, or is there; the seconds that it has run, if it runs.
    Ends(oneshot::Receiver<Ended>, Option<f64>),
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
        if let Some(mut child) = child {
            // So that no zombie stays; how it ended does not matter.
            std::thread::Builder::new().name("mdts-keeper".to_owned()).spawn(move || drop(child.wait()))?;
        }
        socket.set_nonblocking(true)?;
        let line = Mutex::new(Line { socket, incoming: Incoming::default(), is_unwatched: true });
        Ok(Self { folder, line, waiting: Mutex::default(), is_old })
    }

    /// Hears what the keeper says from now on, within a tokio runtime. Only the first call does something.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn listen(self: &Arc<Self>) -> io::Result<()> {
        let mut line = self.line();
        if std::mem::take(&mut line.is_unwatched) {
            let socket = tokio::net::UnixStream::from_std(line.socket.try_clone()?)?;
            tokio::spawn(listen(Arc::downgrade(self), socket));
        }
        Ok(())
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the keeper is gone.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.waiting).is_over
    }

    /// Starts a process; how it ends comes through the channel, which is closed if the keeper dies.
    pub(crate) fn launch(&self, launch: Launch) -> oneshot::Receiver<Ended> {
        let ends = self.await_end(launch.run);
        let run = launch.run;
        match self.ask(&Request::Launch(launch.into())) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let ending = Ending::Refused(silence(&self.folder).to_string());
                lock(&self.waiting).claim(run, Ended { ending, usage: None });
            }
            // It was killed: the channels are closed.
            Err(_) => self.lose(),
        }
        ends
    }

    fn await_end(&self, run: TaskRun) -> oneshot::Receiver<Ended> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        if let Some(ended) = waiting.unclaimed.remove(&run) {
            sender.send(ended).ok(); // the receiver is here
        } else if !waiting.is_over {
            waiting.ends.insert(run, sender);
        }
        receiver
    }

    /// Ends an attempt with all that it started; `ends` is what its launch gave. Gives how it ended, if that is known, and
    /// whether it had done so before it was asked to.
    pub(crate) async fn end(
        &self,
        run: TaskRun,
        ends: oneshot::Receiver<Ended>,
        grace: Duration,
    ) -> (Option<Ended>, bool) {
        match self.release(run).await {
            Some(number) => (self.outlast(run, number, ends, grace).await, false),
            None => (timeout(PATIENCE, ends).await.ok().and_then(Result::ok), true),
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

    async fn outlast(
        &self,
        run: TaskRun,
        number: u32,
        ends: oneshot::Receiver<Ended>,
        grace: Duration,
    ) -> Option<Ended> {
        // Both at once: the leader stays in its group until it is waited for.
        let mut group = Group::led_by(number);
        let ((), ended) = tokio::join!(group.outlast(grace), timeout(grace + PATIENCE, ends));
        tracing::debug!(?run, ?ended, "cancelled");
        self.ask(&Request::Gone(run)).ok(); // an error says that the keeper is dead
        ended.ok()?.ok()
    }

    fn ask(&self, request: &Request) -> io::Result<()> {
        let bytes = encode(request)?;
        let mut line = self.line();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let asked = match line.socket.write(rest) {
                Ok(written) => {
                    rest = &rest[written..];
                    Ok(())
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.await_room(&mut line),
                Err(error) => Err(error),
            };
            if let Err(error) = asked {
                line.socket.shutdown(Shutdown::Both).ok(); // half of a request is of no use
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits until the keeper listens again. As it may wait itself until its replies are heard, that is done meanwhile.
    fn await_room(&self, line: &mut Line) -> io::Result<()> {
        let patience = Timespec { tv_sec: LONG.as_secs().cast_signed(), tv_nsec: 0 };
        let mut polled = [PollFd::new(&line.socket, PollFlags::IN | PollFlags::OUT)];
        if retry_on_intr(|| poll(&mut polled, Some(&patience)))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.hear(line)
    }

    /// Hears what the keeper has said so far; an error at its end.
    fn hear(&self, line: &mut Line) -> io::Result<()> {
        loop {
            let may_be_more = match line.incoming.fill(&line.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                filled => filled?,
            };
            let mut waiting = lock(&self.waiting);
            while let Some(reply) = line.incoming.next()? {
                waiting.take(reply);
            }
            if !may_be_more {
                return Ok(());
            }
        }
    }

    /// The keeper is gone.
    fn lose(&self) {
        if !lock(&self.waiting).is_over {
            kill_orphans(&self.folder); // it was killed
        }
        *lock(&self.waiting) = Waiting { is_over: true, ..Waiting::default() };
    }

    /// What became of these attempts of an earlier runner, in their order. Nothing of any other attempt, nor of those
    /// that are gone, runs any more when this returns.
    pub(crate) async fn find(self: &Arc<Self>, runs: &[TaskRun], grace: Duration) -> io::Result<Vec<Found>> {
        let known = register::read(&self.folder)?;
        let used = register::usage(&self.folder).unwrap_or_default();
        let (mut found, mut strays) = (Vec::new(), Vec::new());
        for run in runs {
            found.push(match known.get(run) {
                Some(Known::Ended(ending)) => {
                    let ended = Ended { ending: ending.clone(), usage: used.get(run).copied() };
                    lock(&self.waiting).unclaimed.insert(*run, ended);
                    Found::Ends(self.await_end(*run), None)
                }
                Some(Known::Running(process)) if self.is_old => {
                    Found::Ends(self.await_end(*run), process.ran_for())
                }
                Some(Known::Running(_) | Known::Released(_)) | None => Found::Gone,
            });
        }
        let kept = runs.iter().zip(&found).filter(|(_, found)| matches!(found, Found::Ends(..)));
        let kept: FxHashSet<TaskRun> = kept.map(|(run, _)| *run).collect();
        for (run, known) in known.iter().filter(|(run, _)| !kept.contains(run)) {
            if let Some(group) = known.group() {
                let is_kept = self.is_old && matches!(known, Known::Running(_));
                let ends = if is_kept { self.await_end(*run) } else { oneshot::channel().1 };
                let (keeper, run) = (self.clone(), *run);
                strays.push(tokio::spawn(async move {
                    match keeper.release(run).await {
                        Some(number) => drop(keeper.outlast(run, number, ends, grace).await),
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
        self.line().socket.shutdown(Shutdown::Both).ok(); // an error says that the keeper is gone
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    fn take(&mut self, reply: Reply) {
        match reply {
            Reply::Hello { .. } => {}
            Reply::Ended(run, ending, usage) => self.claim(run, Ended { ending, usage }),
            Reply::Released(run, number) => {
                if let Some(waits) = self.releases.remove(&run) {
                    waits.send(number).ok(); // an error says that nobody waits any more
                }
            }
        }
    }

    fn claim(&mut self, run: TaskRun, ended: Ended) {
        match self.ends.remove(&run) {
            Some(waits) => drop(waits.send(ended)), // an error says that it was cancelled
            None => drop(self.unclaimed.insert(run, ended)),
        }
    }
}

/// Hears the keeper's replies until it is gone, or nobody needs it any more.
async fn listen(keeper: Weak<Keeper>, socket: tokio::net::UnixStream) {
    loop {
        let ready = socket.readable().await;
        let Some(keeper) = keeper.upgrade() else { return };
        let heard = ready.and_then(|()| {
            socket.try_io(Interest::READABLE, || {
                keeper.hear(&mut keeper.line())?;
                Err::<(), _>(io::ErrorKind::WouldBlock.into()) // all that was there is heard
            })
        });
        if heard.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
            return keeper.lose();
        }
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
