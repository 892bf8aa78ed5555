//! The register of attempts: a text file of lines that the keeper adds to and a resumed runner reads.
//!
//! ```text
//!   keeper PROCESS BOOT
//!   began JOB TASK ATTEMPT PROCESS FROM TO     when: between these hundredths of a second since the machine was started
//!   released JOB TASK ATTEMPT
//!   used JOB TASK ATTEMPT SECONDS CPU BYTES    of the attempt that ends in the next line
//!   ended JOB TASK ATTEMPT exit|signal NUMBER
//!   ended JOB TASK ATTEMPT memory USED LIMIT
//! ```

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use mdts_core::engine::{JobId, TaskRun};
use mdts_core::runner::Usage;
use mdts_dag::TaskId;
use rustc_hash::FxHashMap;
use rustix::process::{Pid, test_kill_process_group};
use rustix::time::{ClockId, clock_gettime};

use super::REGISTER;
use super::protocol::Ending;

/// Writes the register.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    line: String,
}

impl Writer {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(folder.join(REGISTER))?;
        let mut writer = Self { file, line: String::new() };
        // A line that a crash has cut is ended first.
        writer.write(format_args!("\nkeeper {} {}\n", std::process::id(), boot()))?;
        Ok(writer)
    }

    /// `from` are the ticks before it was started.
    pub(super) fn began(&mut self, run: TaskRun, process: u32, from: u64) -> io::Result<()> {
        self.write(format_args!("began {} {process} {from} {}\n", Id(run), ticks_now()))
    }

    pub(super) fn released(&mut self, run: TaskRun) -> io::Result<()> {
        self.write(format_args!("released {}\n", Id(run)))
    }

    pub(super) fn ended(&mut self, run: TaskRun, ending: &Ending, usage: Option<&Usage>) -> io::Result<()> {
        let used = usage.map_or_else(String::new, |Usage { seconds, cpu_seconds, peak_memory }| {
            format!("used {} {seconds:.3} {cpu_seconds:.6} {peak_memory}\n", Id(run))
        });
        match ending {
            Ending::Exit(code) => self.write(format_args!("{used}ended {} exit {code}\n", Id(run))),
            Ending::Signal(signal) => self.write(format_args!("{used}ended {} signal {signal}\n", Id(run))),
            Ending::Memory { used: most, limit } => {
                self.write(format_args!("{used}ended {} memory {most} {limit}\n", Id(run)))
            }
            Ending::NotStarted(_) | Ending::Lacking(_) | Ending::Refused(_) => Ok(()),
        }
    }

    fn write(&mut self, line: std::fmt::Arguments<'_>) -> io::Result<()> {
        self.line.clear();
        self.line.write_fmt(line).map_err(io::Error::other)?;
        self.file.write_all(self.line.as_bytes())
    }
}

/// An attempt as three numbers.
struct Id(TaskRun);

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.0.job.get(), self.0.task.get(), self.0.attempt)
    }
}

/// What the register tells of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// It began and its end is not known.
    Running(Process),
    /// A runner was ending it, or its keeper has died.
    Released(Process),
    /// It has ended.
    Ended(Ending),
}

impl Known {
    fn release(&mut self) {
        if let Self::Running(process) = *self {
            *self = Self::Released(process);
        }
    }

    /// The process group of which something may still run.
    pub(super) fn group(&self) -> Option<u32> {
        match self {
            Self::Running(process) | Self::Released(process) => process.is_alive().then_some(process.number),
            Self::Ended(_) => None,
        }
    }
}

/// A process, told from later ones of the same number by when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) number: u32,
    /// Ticks before and after it was started: nobody else had the number meanwhile.
    from: u64,
    to: u64,
    /// Whether it began since the machine was started.
    is_of_this_boot: bool,
}

impl Process {
    /// Seconds since it began, if that was since the machine was started.
    pub(super) fn ran_for(self) -> Option<f64> {
        let ticks = ticks_now().checked_sub(self.from).filter(|_| self.is_of_this_boot)?;
        Some(ticks as f64 / TICKS_PER_SECOND as f64)
    }

    /// Whether it, or some of the group that it leads, may still run.
    pub(super) fn is_alive(self) -> bool {
        if !self.is_of_this_boot {
            return false;
        }
        match std::fs::read_to_string(format!("/proc/{}/stat", self.number)) {
            // No number is given to another process while a group of that number is left.
            Err(_) => {
                let group = i32::try_from(self.number).ok().and_then(Pid::from_raw);
                group.is_some_and(|group| test_kill_process_group(group).is_ok())
            }
            Ok(stat) => start_ticks(&stat).is_none_or(|ticks| (self.from..=self.to).contains(&ticks)),
        }
    }
}

/// Reads the register: the latest that is known of every attempt.
pub(super) fn read(folder: &Path) -> io::Result<FxHashMap<TaskRun, Known>> {
    let text = match std::fs::read(folder.join(REGISTER)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FxHashMap::default()),
        Err(error) => return Err(error),
    };
    let boot = boot();
    let mut known = FxHashMap::default();
    let mut is_of_this_boot = false;
    // A last line without its end was cut by a crash.
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["keeper", _, of] => {
                is_of_this_boot = of == boot;
                // The keeper before is dead; how its tasks end nobody will know.
                known.values_mut().for_each(Known::release);
            }
            ["began", job, task, attempt, number, from, to] => {
                let process = (number.parse(), from.parse(), to.parse());
                if let (Some(run), (Ok(number), Ok(from), Ok(to))) = (run(job, task, attempt), process) {
                    known.insert(run, Known::Running(Process { number, from, to, is_of_this_boot }));
                }
            }
            ["released", job, task, attempt] => {
                if let Some(known) = run(job, task, attempt).and_then(|run| known.get_mut(&run)) {
                    known.release();
                }
            }
            ["ended", job, task, attempt, ref how @ ..] => {
                if let (Some(run), Some(ending)) = (run(job, task, attempt), ending(how)) {
                    let is_released = matches!(known.get(&run), Some(Known::Released(_)));
                    // The group of a released attempt may outlive its leader.
                    if !is_released {
                        known.insert(run, Known::Ended(ending));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(known)
}

/// What attempts used that have ended.
pub(super) fn usage(folder: &Path) -> io::Result<FxHashMap<TaskRun, Usage>> {
    let bytes = std::fs::read(folder.join(REGISTER))?;
    let text = String::from_utf8_lossy(&bytes);
    let used = |line: &str| {
        let words: Vec<&str> = line.strip_prefix("used ")?.split_whitespace().collect();
        let [job, task, attempt, seconds, cpu, bytes] = words[..] else { return None };
        let usage = Usage {
            seconds: seconds.parse().ok()?,
            cpu_seconds: cpu.parse().ok()?,
            peak_memory: bytes.parse().ok()?,
        };
        Some((run(job, task, attempt)?, usage))
    };
    Ok(text.lines().filter_map(used).collect())
}

/// The number of the last keeper.
pub(super) fn last_keeper(folder: &Path) -> Option<u32> {
    let bytes = std::fs::read(folder.join(REGISTER)).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rev().find_map(|line| line.strip_prefix("keeper "))?;
    last.split(' ').next()?.parse().ok()
}

fn ending(words: &[&str]) -> Option<Ending> {
    match *words {
        ["exit", status] => Some(Ending::Exit(status.parse().ok()?)),
        ["signal", number] => Some(Ending::Signal(number.parse().ok()?)),
        ["memory", used, limit] => {
            Some(Ending::Memory { used: used.parse().ok()?, limit: limit.parse().ok()? })
        }
        _ => None,
    }
}

fn run(job: &str, task: &str, attempt: &str) -> Option<TaskRun> {
    let (job, task): (u32, u32) = (job.parse().ok()?, task.parse().ok()?);
    Some(TaskRun { job: JobId::from(job), task: TaskId::from(task), attempt: attempt.parse().ok()? })
}

/// Tells one start of the machine from another; empty where the system does not tell.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let id = id.trim();
    if id.is_empty() { "-".to_owned() } else { id.to_owned() }
}

const TICKS_PER_SECOND: u64 = 100;

/// Hundredths of a second since the machine was started, as the system counts the start of processes.
pub(super) fn ticks_now() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * TICKS_PER_SECOND + now.tv_nsec as u64 / (1_000_000_000 / TICKS_PER_SECOND)
}

/// When a process began, from its `/proc/NUMBER/stat`: the twentieth number behind the name in brackets.
fn start_ticks(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    fn attempt(task: u32, attempt: u32) -> TaskRun {
        TaskRun { job: JobId::new(0), task: task.into(), attempt }
    }

    #[test]
    fn the_latest_of_every_attempt_is_known() -> Outcome {
        let folder = tempfile::tempdir()?;
        let mut writer = Writer::open(folder.path())?;
        let own = std::process::id();
        for task in 0..4 {
            writer.began(attempt(task, 1), own, 0)?;
        }
        let usage = Usage { seconds: 1.25, cpu_seconds: 0.5, peak_memory: 4096 };
        writer.ended(attempt(1, 1), &Ending::Exit(3), Some(&usage))?;
        writer.released(attempt(2, 1))?;
        writer.ended(attempt(2, 1), &Ending::Signal(15), None)?;
        writer.ended(attempt(3, 1), &Ending::Exit(0), None)?;
        writer.began(attempt(4, 1), own, 0)?;
        let memory = Ending::Memory { used: 30, limit: 20 };
        writer.ended(attempt(4, 1), &memory, Some(&usage))?;
        writer.began(attempt(3, 1), own, 0)?;
        writer.file.write_all(b"ended 0 0 1 exit")?; // cut
        let known = read(folder.path())?;
        assert!(matches!(known[&attempt(0, 1)], Known::Running(process) if process.number == own));
        assert_eq!(known[&attempt(4, 1)], Known::Ended(memory));
        assert_eq!(known[&attempt(1, 1)], Known::Ended(Ending::Exit(3)));
        assert!(matches!(known[&attempt(2, 1)], Known::Released(_)));
        assert!(matches!(known[&attempt(3, 1)], Known::Running(_)), "it was begun anew");
        // Behind the cut line another keeper goes on.
        let mut writer = Writer::open(folder.path())?;
        writer.began(attempt(0, 2), own, 0)?;
        assert_eq!(
            super::usage(folder.path())?,
            [(attempt(1, 1), usage), (attempt(4, 1), usage)].into_iter().collect()
        );
        writer.ended(attempt(0, 2), &Ending::Exit(0), None)?;
        let known = read(folder.path())?;
        assert!(matches!(known[&attempt(0, 1)], Known::Released(_)), "its keeper is gone");
        assert_eq!(known[&attempt(0, 2)], Known::Ended(Ending::Exit(0)));
        Ok(())
    }

    #[test]
    fn a_process_is_told_from_another_of_its_number() -> Outcome {
        let from = ticks_now();
        let mut child = std::process::Command::new("sleep").arg("60").spawn()?;
        // A busy machine is slow to write it down.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let process = Process { number: child.id(), from, to: ticks_now(), is_of_this_boot: true };
        assert!(process.is_alive());
        assert!(!Process { to: from - 1, from: from - 1000, ..process }.is_alive());
        assert!(!Process { from: process.to, ..process }.is_alive());
        assert!(!Process { is_of_this_boot: false, ..process }.is_alive());
        child.kill()?;
        child.wait()?;
        assert!(!process.is_alive());
        Ok(())
    }
}
