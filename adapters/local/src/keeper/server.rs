//! The keeper's own process: starts what it is told to, waits for it and tells how it ended.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mdts_core::engine::TaskRun;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, geteuid, setsid, wait};
use rustix::stdio::dup2_stdin;
use wait4::{ResourceUsage, try_wait4_pid};

use super::protocol::{Ending, PATIENCE, Reply, Request, VERSION, receive, send};
use super::register::{Writer, ticks_now};
use crate::care::{Care, kill_group, signal_group};
use crate::launch::{Launch, Start, VISIBLE};
use crate::leader::usage;
use crate::spawn::Spawner;

/// What a runner, the tasks and their ends have in common.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    care: Arc<Care>,
    /// There are children to wait for.
    has_children: Condvar,
}

#[derive(Debug)]
struct State {
    register: Writer,
    /// By the number of the process.
    children: FxHashMap<i32, Child>,
    /// A process is being started that is not among the children yet.
    is_launching: bool,
    /// Ends of processes that were not among the children meanwhile.
    early: Vec<End>,
    /// How many ends of children are not written down yet.
    concluding: usize,
    /// Released attempts whose process has ended, with its number: something of its group may still be ending.
    lingering: FxHashMap<TaskRun, i32>,
    runner: Option<UnixStream>,
    care: Arc<Care>,
}

#[derive(Debug, Clone, Copy)]
struct Child {
    run: TaskRun,
    is_released: bool,
    begun: Instant,
}

/// How a process ended, and what it used, if the system tells.
#[derive(Debug)]
struct End {
    number: i32,
    ending: Ending,
    used: Option<ResourceUsage>,
}

/// Runs a keeper in this process until it has neither a runner nor tasks. Its standard input is the socket that runners
/// connect to; `folder` is that of the register. [`LocalOptions::keeper`](crate::LocalOptions::keeper) names the
/// command that calls this. The process is to do nothing else: its directory and standard input change, and it leaves its
/// session.
///
/// # Errors
/// The operating system's, if it cannot begin.
pub fn keep(folder: &Path) -> io::Result<()> {
    // A session of its own has no terminal: a task that asks it for a password fails instead of being stopped for ever.
    setsid().ok(); // an error says that somebody has started it by hand
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    dup2_stdin(File::open("/dev/null")?)?; // which tasks get for their input
    let mut spawner = Spawner::new()?;
    let care = Care::new(true, |error| complain("output", &io::Error::other(error.to_owned())))?;
    let state = State {
        register: Writer::open(folder)?,
        children: FxHashMap::default(),
        is_launching: false,
        early: Vec::new(),
        concluding: 0,
        lingering: FxHashMap::default(),
        runner: None,
        care: care.clone(),
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), care, has_children: Condvar::new() });
    let waiting = shared.clone();
    std::thread::Builder::new().spawn(move || waiting.wait_for_children())?;
    if !is_called(&listener)? {
        return Ok(()); // whoever started it is dead
    }
    loop {
        match listener.accept() {
            Ok((runner, _)) => {
                if let Err(error) = shared.serve(&runner, &mut spawner)
                    && error.kind() != io::ErrorKind::UnexpectedEof
                {
                    complain("the runner", &error);
                }
            }
            Err(error) => {
                complain("the runner", &error);
                std::thread::sleep(PAUSE); // the tasks go on in any case
            }
        }
        let mut state = shared.lock();
        state.forget_runner();
        if state.is_idle() {
            shared.care.clear();
            return Ok(());
        }
    }
}

/// Time after something went wrong that may go wrong again.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether somebody wants to speak to a keeper that has just begun.
fn is_called(listener: &UnixListener) -> io::Result<bool> {
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    let called = retry_on_intr(|| poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&patience)))?;
    Ok(called > 0)
}

/// Whether the other side is this user, or may do everything anyway.
fn is_ours(runner: &UnixStream) -> io::Result<bool> {
    let user = socket_peercred(runner)?.uid;
    Ok(user == geteuid() || user.is_root())
}

fn complain(of: &str, error: &io::Error) {
    io::Write::write_all(&mut io::stderr(), format!("{of}: {error}\n").as_bytes()).ok();
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what one runner asks for until it is gone.
    fn serve(&self, runner: &UnixStream, spawner: &mut Spawner) -> io::Result<()> {
        if !is_ours(runner)? {
            return Err(io::Error::other("another user wants to be it"));
        }
        let mut requests = BufReader::new(runner);
        runner.set_read_timeout(Some(PATIENCE))?;
        loop {
            match receive(&mut requests)? {
                Request::Hello { version } => {
                    runner.set_read_timeout(None)?;
                    let mut state = self.lock();
                    // With a runner this process does not end, and so the answer holds.
                    state.runner = Some(runner.try_clone()?);
                    send(&mut &*runner, &Reply::Hello { version: VERSION })?;
                    if version != VERSION {
                        return Err(io::Error::other("it is of another version"));
                    }
                }
                Request::Environment(environment) => spawner.set_environment(&environment),
                Request::Launch(launch) => self.launch(&launch, spawner),
                Request::Release(run) => self.lock().release(run),
                Request::Gone(run) => self.lock().gone(run),
            }
        }
    }

    /// Starts a process. The lock is not held meanwhile, so that others can end.
    fn launch(&self, launch: &Launch, spawner: &Spawner) {
        let from = ticks_now();
        self.lock().is_launching = true;
        let gpus = launch.needs.gpus.and_then(|_| spawner.variable(VISIBLE));
        let spawn = |start: Start<'_>| spawner.spawn(&start).map(|number| (number, ()));
        let started = self.care.start(launch, gpus, spawn);
        let begun = Instant::now();
        let mut state = self.lock();
        state.is_launching = false;
        let early = std::mem::take(&mut state.early);
        let (number, ()) = match started {
            Ok(started) => started,
            Err(ending) => return state.tell(&Reply::Ended(launch.run, ending, None)),
        };
        let number = number.cast_signed();
        // A task that is in no register could run twice.
        if let Err(error) = state.register.began(launch.run, number.cast_unsigned(), from) {
            kill_group(number);
            self.care.ended(number, Ending::Signal(0));
            let reason = format!("the beginning of tasks cannot be recorded: {error}");
            return state.tell(&Reply::Ended(launch.run, Ending::Refused(reason), None));
        }
        let child = Child { run: launch.run, is_released: false, begun };
        // One that has been waited for must not be waited for again.
        if let Some(end) = early.into_iter().find(|end| end.number == number) {
            return self.conclude(state, child, end);
        }
        let had_none = state.children.is_empty();
        state.children.insert(number, child);
        if had_none {
            self.has_children.notify_one();
        }
    }

    /// Ends the process when nobody is left to work for.
    fn wait_for_children(&self) {
        loop {
            let none = |state: &mut State| state.children.is_empty();
            drop(self.has_children.wait_while(self.lock(), none).unwrap_or_else(PoisonError::into_inner));
            match next_end() {
                Ok(Some(end)) => self.ended(end),
                Ok(None) => continue,
                Err(error) => {
                    complain("waiting for tasks", &error);
                    std::process::exit(1); // tasks that nobody waits for are those of a dead keeper
                }
            }
            let mut state = self.lock();
            if state.is_idle() && state.runner.is_none() {
                // With the lock held: what a dead runner has asked for last must not begin while this process ends.
                state.forget_runner();
                self.care.clear();
                std::process::exit(0);
            }
        }
    }

    /// A process has ended.
    fn ended(&self, end: End) {
        let mut state = self.lock();
        match state.children.remove(&end.number) {
            Some(child) => self.conclude(state, child, end),
            None if state.is_launching => state.early.push(end),
            None => {} // it was none of the tasks
        }
    }

    /// The process of an attempt has ended.
    fn conclude(&self, mut state: MutexGuard<'_, State>, child: Child, end: End) {
        let End { number, ending, used } = end;
        state.concluding += 1;
        let is_released = child.is_released && state.runner.is_some();
        if is_released {
            // The runner gives what is left of the group the time to end well.
            state.lingering.insert(child.run, number);
        }
        drop(state);
        let usage = used.map(|used| usage(child.begun, &used, self.care.peak_memory(number)));
        let ending = if is_released {
            ending
        } else {
            kill_group(number); // what the task has left behind
            self.care.ended(number, ending)
        };
        let mut state = self.lock();
        state.concluding -= 1;
        // Without a line in the register the end is still told to the runner; only a later one would not know it.
        if let Err(error) = state.register.ended(child.run, &ending, usage.as_ref()) {
            complain("the register", &error);
        }
        state.tell(&Reply::Ended(child.run, ending, usage));
    }
}

/// Waits for the next process that ends.
fn next_end() -> io::Result<Option<End>> {
    // First who it is, then what it used: no call tells both of any process.
    let number = match waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
        Ok(status) => status.pid().map(nix::unistd::Pid::as_raw),
        Err(nix::errno::Errno::EINVAL) => None, // it was killed by a signal that has no name
        Err(nix::errno::Errno::EINTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if let Some(number) = number {
        let used = match try_wait4_pid(number.cast_unsigned()) {
            Ok(Some(used)) => used,
            Ok(None) => return Ok(None),
            // Whoever could not begin its program is waited for by whoever started it.
            Err(error) if error.raw_os_error() == Some(nix::libc::ECHILD) => return Ok(None),
            Err(error) => return Err(error),
        };
        return Ok(Some(End { number, ending: Ending::of(used.status), used: Some(used.rusage) }));
    }
    let Some((number, status)) = retry_on_intr(|| wait(WaitOptions::empty()))? else { return Ok(None) };
    let ending = match status.exit_status() {
        Some(code) => Ending::Exit(code),
        None => Ending::Signal(status.terminating_signal().unwrap_or_default()),
    };
    Ok(Some(End { number: number.as_raw_nonzero().get(), ending, used: None }))
}

/// Whether a child has ended, be it waited for or not.
fn has_ended(number: i32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let Some(process) = Pid::from_raw(number) else { return true };
    !matches!(rustix::process::waitid(WaitId::Pid(process), options), Ok(None))
}

impl State {
    /// Whether no task runs, or is about to.
    fn is_idle(&self) -> bool {
        self.children.is_empty() && !self.is_launching && self.concluding == 0
    }

    fn release(&mut self, run: TaskRun) {
        let child = self.children.iter_mut().find(|(number, child)| child.run == run && !has_ended(**number));
        let number = child.map(|(number, child)| {
            child.is_released = true;
            *number
        });
        if let Some(number) = number {
            if let Err(error) = self.register.released(run) {
                complain("the register", &error);
            }
            signal_group(number, Signal::TERM);
        }
        self.tell(&Reply::Released(run, number.map(i32::cast_unsigned)));
    }

    fn gone(&mut self, run: TaskRun) {
        if let Some(number) = self.lingering.remove(&run) {
            self.care.ended(number, Ending::Signal(0));
        }
    }

    /// Nobody ends any more what earlier runners wanted to end.
    fn forget_runner(&mut self) {
        self.runner = None;
        for number in std::mem::take(&mut self.lingering).into_values() {
            kill_group(number);
            self.care.ended(number, Ending::Signal(0));
        }
    }

    fn tell(&mut self, reply: &Reply) {
        if let Some(runner) = &mut self.runner
            && send(runner, reply).is_err()
        {
            self.runner = None; // it is gone, and finds the rest in the register
        }
    }
}
