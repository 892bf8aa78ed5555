//! Looks after attempts from their start to their end: output, memory, processors, GPUs and what they leave behind.
//!
//! It lives in the process that is the parent of the tasks, runner or keeper. Ten times a second a thread of its own looks at
//! what runs; an attempt that ends before costs only its start and its end.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use mdts_core::engine::TaskRun;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cgroup::Cgroup;
use crate::devices::{Devices, Held};
use crate::keeper::Ending;
use crate::launch::{Launch, Needs, Start};
use crate::memory::Processes;
use crate::orphans::{self, Orphans};
use crate::output::{Output, Pool};

/// Time between two looks at what runs.
const LOOK: Duration = Duration::from_millis(100);
/// The same while output is being cut, and when not everything could be looked at.
const HURRY: Duration = Duration::from_millis(10);
/// Shortest time between two looks at memory, and how much longer than such a look itself it is at least.
const MEMORY: Duration = Duration::from_millis(200);
const SHARE: u32 = 50;

/// See the module.
#[derive(Debug)]
pub(crate) struct Care {
    state: Mutex<State>,
    /// Processors that this process may use.
    processors: Vec<usize>,
    /// Whether orphans among the descendants of this process are its children.
    adopts: bool,
    /// Says what goes wrong beside the tasks.
    complain: fn(&str),
}

#[derive(Debug)]
struct State {
    /// By the number of the process that leads the group.
    attempts: FxHashMap<i32, Attempt>,
    /// How many processes are being started, which are in no table yet.
    starting: usize,
    pool: Pool,
    processors: Devices,
    gpus: Devices,
    orphans: Orphans,
    /// Control groups of attempts that have ended; the dead leave them a little later.
    emptying: Vec<Cgroup>,
    memory_from: Instant,
}

/// An attempt that runs.
#[derive(Debug)]
struct Attempt {
    run: TaskRun,
    output: Output,
    has_complained: bool,
    /// Most bytes, if they are to be looked at here.
    memory: Option<u64>,
    /// Most bytes that were seen.
    peak: u64,
    cgroup: Option<Cgroup>,
    devices: Given,
    /// What it was killed for.
    verdict: Option<Ending>,
}

/// Devices that an attempt has.
#[derive(Debug, Default)]
struct Given {
    processors: Held,
    gpus: Held,
}

impl Care {
    /// Begins to look after attempts; `adopts`: of orphans, too.
    pub(crate) fn new(adopts: bool, complain: fn(&str)) -> io::Result<Arc<Self>> {
        let may_use = sched_getaffinity(None).ok();
        let processors: Vec<usize> =
            may_use.map_or(Vec::new(), |set| (0..CpuSet::MAX_CPU).filter(|n| set.is_set(*n)).collect());
        if adopts {
            orphans::adopt();
        }
        let state = State {
            attempts: FxHashMap::default(),
            starting: 0,
            pool: Pool::default(),
            processors: Devices::new(processors.len()),
            gpus: Devices::default(),
            orphans: Orphans::default(),
            emptying: Vec::new(),
            memory_from: Instant::now(),
        };
        let care = Arc::new(Self { state: Mutex::new(state), processors, adopts, complain });
        let weak = Arc::downgrade(&care);
        std::thread::Builder::new().name("mdts-care".to_owned()).spawn(move || watch(&weak))?;
        Ok(care)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the process of an attempt with `spawn`, which tells its number. `gpus` are the names of GPUs that the run
    /// itself was given, if it was.
    ///
    /// # Errors
    /// How the attempt ends then.
    pub(crate) fn start<T>(
        &self,
        launch: &Launch,
        gpus: Option<OsString>,
        spawn: impl FnOnce(Start<'_>) -> io::Result<(u32, T)>,
    ) -> Result<(u32, T), Ending> {
        let (output, files, devices) = self.prepare(launch)?;
        let gpus = launch.needs.gpus.map(|_| visible(&devices.gpus, gpus));
        // Others are looked after meanwhile: to start a process takes its time.
        let spawned = self.bound_to(&devices.processors, || spawn(Start { launch, files, gpus }));
        let cgroup = spawned.as_ref().ok().and_then(|(number, _)| self.cgroup(launch, *number));
        let mut state = self.lock();
        state.starting -= 1;
        match spawned {
            Ok((number, child)) => {
                // What the system itself watches needs no looking at.
                let memory = launch.needs.memory.filter(|_| cgroup.is_none());
                let run = launch.run;
                let attempt = Attempt {
                    run,
                    output,
                    has_complained: false,
                    memory,
                    peak: 0,
                    cgroup,
                    devices,
                    verdict: None,
                };
                state.attempts.insert(number.cast_signed(), attempt);
                Ok((number, child))
            }
            Err(error) => {
                state.take_back(&devices);
                state.pool.put_back(output.close().1); // that it did not start says more
                Err(not_started(launch, &error))
            }
        }
    }

    /// Files and devices for an attempt that is being started from here on.
    fn prepare(&self, launch: &Launch) -> Result<(Output, [File; 2], Given), Ending> {
        let mut state = self.lock();
        let (output, files) = state.pool.take(launch)?;
        let devices = state.give(&launch.needs, self.processors.len());
        state.starting += 1;
        Ok((output, files, devices))
    }

    /// The control group that a new process is put into, if it is to have one.
    fn cgroup(&self, launch: &Launch, number: u32) -> Option<Cgroup> {
        let (folder, limit) = (Path::new(launch.needs.cgroups.as_ref()?), launch.needs.memory?);
        let made =
            Cgroup::new(folder, launch.run, limit).and_then(|group| group.take(number).map(|()| group));
        match made {
            Ok(group) => Some(group),
            Err(error) => {
                (self.complain)(&format!("{}: {error}; memory is watched without it", folder.display()));
                None
            }
        }
    }

    /// Does something that starts a process, so that the process is bound to processors from its beginning.
    fn bound_to<T>(&self, held: &Held, spawn: impl FnOnce() -> T) -> T {
        let before = if held.is_empty() { None } else { sched_getaffinity(None).ok() };
        let Some(before) = before else { return spawn() };
        let mut set = CpuSet::new();
        held.iter().filter_map(|(index, _)| self.processors.get(*index)).for_each(|number| set.set(*number));
        sched_setaffinity(None, &set).ok(); // a wish; the system may have taken processors away
        let spawned = spawn();
        sched_setaffinity(None, &before).ok();
        spawned
    }

    /// The process of an attempt has ended like this; tells how the attempt has.
    pub(crate) fn ended(&self, number: i32, ending: Ending) -> Ending {
        let Some(attempt) = self.lock().attempts.remove(&number) else { return ending };
        let (closed, unused) = attempt.output.close();
        if let Err(error) = closed {
            (self.complain)(&error);
        }
        let mut state = self.lock();
        state.take_back(&attempt.devices);
        state.pool.put_back(unused);
        let verdict = attempt.verdict.or_else(|| attempt.cgroup.as_ref()?.verdict());
        state.emptying.extend(attempt.cgroup.filter(|group| !group.remove()));
        match verdict {
            Some(verdict) if ending != Ending::Exit(0) => verdict,
            _ => ending,
        }
    }

    /// Most bytes of memory that an attempt which runs was seen to use, with all its processes; 0 if nobody looked.
    pub(crate) fn peak_memory(&self, number: i32) -> u64 {
        let state = self.lock();
        let Some(attempt) = state.attempts.get(&number) else { return 0 };
        attempt.cgroup.as_ref().and_then(Cgroup::peak).unwrap_or(attempt.peak)
    }

    /// Looks at all that runs; tells when to look again.
    fn look(&self) -> Duration {
        let mut state = self.lock();
        let has_cut = state.look_at_output(self.complain);
        state.emptying.retain(|group| !group.remove());
        // A process that is being started must not be taken for an orphan.
        let is_starting = state.starting > 0;
        if self.adopts && !is_starting {
            state.look_for_orphans();
        }
        let memory = state.memory_to_watch();
        drop(state);
        if let Some((groups, adopted)) = memory {
            let begin = Instant::now();
            let processes = Processes::read();
            let members = processes.members(&groups, &adopted);
            let mut state = self.lock();
            state.judge_memory(&processes, &members);
            state.memory_from = Instant::now() + MEMORY.max(begin.elapsed() * SHARE);
        }
        if has_cut || is_starting && self.adopts { HURRY } else { LOOK }
    }

    /// Removes files that were not needed and kills what attempts that have ended have left behind, before this process
    /// ends.
    pub(crate) fn clear(&self) {
        /// Orphans of orphans come only when these are dead.
        const ROUNDS: usize = 50;
        let mut state = self.lock();
        state.pool.clear();
        for _ in 0..if self.adopts { ROUNDS } else { 0 } {
            state.look_for_orphans();
            if state.orphans.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn watch(care: &Weak<Care>) {
    let mut pause = LOOK;
    loop {
        std::thread::sleep(pause);
        let Some(care) = care.upgrade() else { return };
        pause = care.look();
    }
}

impl State {
    fn give(&mut self, needs: &Needs, processors: usize) -> Given {
        let gpus = needs.gpus.map(|gpus| {
            let first = gpus.first as usize;
            self.gpus.take(first..first + gpus.count as usize, gpus.wanted)
        });
        let bound = needs.processors.map(|wanted| self.processors.take(0..processors, wanted));
        Given { processors: bound.unwrap_or_default(), gpus: gpus.unwrap_or_default() }
    }

    fn take_back(&mut self, given: &Given) {
        self.processors.give_back(&given.processors);
        self.gpus.give_back(&given.gpus);
    }

    fn look_at_output(&mut self, complain: fn(&str)) -> bool {
        let mut has_cut = false;
        for attempt in self.attempts.values_mut().filter(|attempt| !attempt.has_complained) {
            match attempt.output.look() {
                Ok(cut) => has_cut |= cut,
                Err(error) => {
                    attempt.has_complained = true;
                    complain(&error);
                }
            }
        }
        has_cut
    }

    fn look_for_orphans(&mut self) {
        let Self { attempts, orphans, .. } = self;
        orphans.look(|child| attempts.contains_key(&child));
        if !orphans.is_empty() {
            let running: FxHashSet<TaskRun> = attempts.values().map(|attempt| attempt.run).collect();
            orphans.kill(|run| running.contains(&run), running.is_empty());
        }
    }

    /// The groups of which the memory is to be looked at now, and orphans with theirs.
    fn memory_to_watch(&self) -> Option<(FxHashSet<i32>, FxHashMap<i32, i32>)> {
        if Instant::now() < self.memory_from {
            return None;
        }
        let watched = self.attempts.iter().filter(|(_, attempt)| attempt.memory.is_some());
        let leaders: FxHashMap<TaskRun, i32> =
            watched.map(|(leader, attempt)| (attempt.run, *leader)).collect();
        if leaders.is_empty() {
            return None;
        }
        let adopted = self.orphans.owned().filter_map(|(child, run)| Some((child, *leaders.get(&run)?)));
        Some((leaders.values().copied().collect(), adopted.collect()))
    }

    /// Kills the attempts that use more memory than they may.
    fn judge_memory(&mut self, processes: &Processes, members: &FxHashMap<i32, Vec<i32>>) {
        for (leader, members) in members {
            let Some(attempt) = self.attempts.get_mut(leader) else { continue };
            let Some(limit) = attempt.memory else { continue };
            attempt.peak = attempt.peak.max(processes.resident(members));
            if let Some(used) = processes.excess(members, limit) {
                attempt.verdict.get_or_insert(Ending::Memory { used, limit });
                kill_group(*leader);
                members.iter().copied().for_each(orphans::kill);
            }
        }
    }
}

/// Why there is no process; the system does not tell a missing folder from a missing program.
fn not_started(launch: &Launch, error: &io::Error) -> Ending {
    let mut what = format!("cannot start '{}'", launch.program.display());
    if !launch.directory.is_dir() {
        _ = write!(what, " in '{}', which is no folder", launch.directory.display());
    }
    Ending::not_started(&what, error)
}

/// Kills all processes of a group.
pub(crate) fn kill_group(number: i32) {
    signal_group(number, Signal::KILL);
}

/// Sends a signal to all processes of a group.
pub(crate) fn signal_group(number: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(number) {
        kill_process_group(group, signal).ok(); // an error says that nobody is left
    }
}

/// The GPUs held, by the names that the run itself was given.
fn visible(held: &Held, given: Option<OsString>) -> String {
    let given = given.map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
    let names: Vec<&str> = given.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let mut text = String::new();
    for (i, (index, _)) in held.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        match names.get(*index) {
            Some(name) => _ = write!(text, "{comma}{name}"),
            None => _ = write!(text, "{comma}{index}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_have_the_names_that_the_run_was_given() {
        let held = vec![(0, 1000), (2, 500)];
        assert_eq!(visible(&held, None), "0,2");
        assert_eq!(visible(&held, Some("4,5,6".into())), "4,6");
        assert_eq!(visible(&held, Some("GPU-a".into())), "GPU-a,2");
    }
}
