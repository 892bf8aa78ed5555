//! What this process has used, by the operating system's own accounting.

use rustix::time::{ClockId, clock_gettime};

/// Use of the processor and of memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all threads, children not counted.
    pub(crate) cpu_seconds: f64,
    /// Largest resident memory so far; none where the system does not tell.
    pub(crate) peak_memory_mib: Option<f64>,
}

impl Usage {
    /// Of this process, until now.
    pub(crate) fn of_this_process() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let status = std::fs::read_to_string("/proc/self/status").ok();
        Self {
            cpu_seconds: time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9,
            peak_memory_mib: status.as_deref().and_then(peak),
        }
    }
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
        assert!(Usage::of_this_process().cpu_seconds > 0.0);
    }
}
