//! What this process has used, by the operating system's own accounting.

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
        let status = std::fs::read_to_string("/proc/self/status").ok();
        Usage { cpu_seconds: cpu_seconds() - self.begin, peak_memory_mib: status.as_deref().and_then(peak) }
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// MiB, from the line `VmHWM:     6244 kB`.
fn peak(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_told() {
        assert_eq!(peak("VmPeak: 1 kB\nVmHWM:\t    6144 kB\n"), Some(6.0));
        assert_eq!(peak("VmHWM: many kB"), None);
        let meter = Meter::begin();
        let sum: u64 = std::hint::black_box(0..1_000_000_u64).map(std::hint::black_box).sum();
        assert!(sum > 0 && meter.read().cpu_seconds > 0.0);
    }
}
