//! The process that leads an attempt, as a child of this one: waited for without a thread, and asked what it has used.
//!
//! Where the system has descriptors of processes (Linux since 5.3), one tells when it has ended; elsewhere every end of any
//! child of this process is looked into.

use std::io;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use mdts_core::runner::Usage;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{Signal, SignalKind, signal};
use wait4::{ResUse, ResourceUsage, Wait4};

/// See the module. One that is dropped before it was waited for is waited for by a thread of its own.
#[derive(Debug)]
pub(crate) struct Leader {
    /// `None` once it was waited for.
    child: Option<Child>,
    begun: Instant,
}

impl Leader {
    /// A child that has just begun.
    pub(crate) fn new(child: Child) -> Self {
        Self { child: Some(child), begun: Instant::now() }
    }

    /// Waits until it has ended. To be called within a tokio runtime.
    ///
    /// # Errors
    /// The operating system's, or that it was waited for before.
    pub(crate) async fn wait(&mut self) -> io::Result<ResUse> {
        let mut bell = Bell::of(self.child.as_ref().map_or(0, Child::id))?;
        loop {
            if let Some(end) = self.try_wait()? {
                return Ok(end);
            }
            bell.rings().await?;
        }
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// As for [`Leader::wait`].
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ResUse>> {
        let child = self.child.as_mut().ok_or_else(|| io::Error::other("it was waited for before"))?;
        let end = child.try_wait4()?;
        if end.is_some() {
            self.child = None; // the system may give its number to others
        }
        Ok(end)
    }

    /// What it has used, by how it ended and the most memory that was seen of it.
    pub(crate) fn usage(&self, end: &ResUse, seen: u64, own: &OwnPeak) -> Usage {
        let used = usage(self.begun, &end.rusage, 0);
        Usage { peak_memory: seen.max(own.beyond(used.peak_memory)), ..used }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // So that no zombie stays; an error says that there can be no thread, and it stays until this process ends.
            std::thread::Builder::new().spawn(move || drop(child.wait())).ok();
        }
    }
}

/// What a process has used that began then, of which so much memory was seen.
pub(crate) fn usage(begun: Instant, used: &ResourceUsage, seen: u64) -> Usage {
    Usage {
        seconds: begun.elapsed().as_secs_f64(),
        cpu_seconds: (used.utime + used.stime).as_secs_f64(),
        peak_memory: used.maxrss.max(seen),
    }
}

/// The most memory that this process has had, as far as it mattered.
#[derive(Debug, Default)]
pub(crate) struct OwnPeak(AtomicU64);

impl OwnPeak {
    /// The most memory of a child if it is more than this process has had, else 0: a child has that of its parent until it
    /// runs its own program, and the system counts that.
    fn beyond(&self, most: u64) -> u64 {
        /// The system's own counts may be wrong by so much.
        const SLACK: u64 = 1 << 20;
        let Self(own) = self;
        if most > own.load(Ordering::Relaxed) {
            own.store(own_peak().unwrap_or(u64::MAX).saturating_add(SLACK), Ordering::Relaxed); // it only grows
        }
        if most > own.load(Ordering::Relaxed) { most } else { 0 }
    }
}

/// Most memory of this process so far, in bytes.
fn own_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Rings when a process has ended, and perhaps at other times.
#[derive(Debug)]
enum Bell {
    Descriptor(Receiver),
    Signals(Signal),
}

impl Bell {
    fn of(number: u32) -> io::Result<Self> {
        let process = Pid::from_raw(number.cast_signed());
        let descriptor = process.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok());
        // It is waited for like a pipe that will have something to read.
        match descriptor.and_then(|descriptor| Receiver::from_owned_fd_unchecked(descriptor).ok()) {
            Some(descriptor) => Ok(Self::Descriptor(descriptor)),
            None => Ok(Self::Signals(signal(SignalKind::child())?)),
        }
    }

    async fn rings(&mut self) -> io::Result<()> {
        match self {
            Self::Descriptor(descriptor) => descriptor.readable().await,
            Self::Signals(signals) => {
                signals.recv().await;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn sh(script: &str) -> io::Result<Child> {
        Command::new("sh").args(["-c", script]).spawn()
    }

    #[tokio::test]
    async fn ends_and_what_was_used_are_told() -> io::Result<()> {
        let mut leader = Leader::new(sh("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 3")?);
        assert!(leader.try_wait()?.is_none());
        let end = leader.wait().await?;
        assert_eq!(end.status.code(), Some(3));
        let usage = leader.usage(&end, 7, &OwnPeak::default());
        assert!(usage.cpu_seconds > 0.0 && usage.seconds >= usage.cpu_seconds / 2.0, "{usage:?}");
        assert_eq!(usage.peak_memory, 7, "a shell is smaller than this process");
        assert!(leader.wait().await.is_err(), "it was waited for");
        Ok(())
    }

    #[tokio::test]
    async fn it_works_by_signals_too() -> io::Result<()> {
        let mut bell = Bell::Signals(signal(SignalKind::child())?);
        let mut leader = Leader::new(sh("exit 4")?);
        let end = loop {
            if let Some(end) = leader.try_wait()? {
                break end;
            }
            bell.rings().await?;
        };
        assert_eq!(end.status.code(), Some(4));
        Ok(())
    }

    #[test]
    fn what_is_dropped_is_waited_for() -> io::Result<()> {
        let leader = Leader::new(sh("sleep 0.05")?);
        let number = leader.child.as_ref().map_or(0, Child::id);
        drop(leader);
        for _ in 0..1000 {
            if !std::path::Path::new("/proc").join(number.to_string()).exists() {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("process {number} is still there");
    }

    #[test]
    fn memory_counts_beyond_that_of_this_process() {
        let own = own_peak().unwrap_or_default();
        assert!(own > 0);
        let peak = OwnPeak::default();
        assert_eq!(peak.beyond(own / 2), 0);
        assert_eq!(peak.beyond(own + (1 << 40)), own + (1 << 40));
    }
}
