//! What this process has used, by the operating system's own accounting.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// Measures the processor time of this process from its making on. What the process did before does not count: a
/// program that was started in the place of another, as by `cargo run`, inherits the other's time.
#[derive(Debug)]
pub(crate) struct Meter {
    begin: f64,
}

/// Use of the processor and of memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all threads since the meter was made, children not counted.
    pub(crate) cpu_seconds: f64,
    /// Largest resident memory so far; none where the system does not tell.
    pub(crate) peak_memory_mib: Option<f64>,
}

impl Meter {
    /// Begins to measure.
    pub(crate) fn begin() -> Self {
        Self { begin: cpu_seconds() }
    }

    /// What was used until now.
    pub(crate) fn read(&self) -> Usage {
        Usage { cpu_seconds: self.cpu_seconds(), peak_memory_mib: peak_mib() }
    }

    /// Processor time until now, without a look at the memory.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds() - self.begin
    }
}

fn cpu_seconds() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

/// Processor time of this thread so far.
pub(crate) fn thread_seconds() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Largest resident memory so far; none where the system does not tell.
pub(crate) fn peak_mib() -> Option<f64> {
    mebibytes(&status()?, "VmHWM:")
}

/// Resident memory; none where the system does not tell.
pub(crate) fn resident_mib() -> Option<f64> {
    mebibytes(&status()?, "VmRSS:")
}

/// From here on the peak counts anew; whether the system can do that.
pub(crate) fn forget_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

fn status() -> Option<String> {
    fs::read_to_string("/proc/self/status").ok()
}

/// MiB, from a line such as `VmHWM:     6244 kB`.
fn mebibytes(status: &str, key: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_told() {
        assert_eq!(mebibytes("VmPeak: 1 kB\nVmHWM:\t    6144 kB\n", "VmHWM:"), Some(6.0));
        assert_eq!(mebibytes("VmHWM: many kB", "VmHWM:"), None);
        let meter = Meter::begin();
        let sum: u64 = std::hint::black_box(0..1_000_000_u64).map(std::hint::black_box).sum();
        assert!(sum > 0 && meter.read().cpu_seconds > 0.0);
    }
}
