//! How long a search may take.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mdts_core::{Error, Result};

/// How long to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Seconds of the clock, more than 0 and finite. What is found depends on the machine and its load.
    Seconds(f64),
    /// Orders of tasks that are tried, over all threads. What is found depends on the seed and the number of threads.
    Iterations(u64),
}

impl Budget {
    /// Whether the budget can be kept.
    ///
    /// # Errors
    /// [`Error::BadSetting`] if the seconds are not finite and more than 0.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Seconds(seconds) if !(seconds > 0.0 && seconds.is_finite()) => Err(Error::BadSetting {
                what: "budget",
                value: format!("{seconds} s"),
                expected: "seconds, more than 0 and finite",
            }),
            _ => Ok(()),
        }
    }
}

/// Tells workers when to stop.
#[derive(Clone, Copy)]
pub(super) struct Limit<'a> {
    pub(super) stop: &'a AtomicBool,
    pub(super) clock: &'a (dyn Fn() -> Duration + Sync),
    /// Reading of the clock at which the budget ends; `None` if iterations are counted.
    pub(super) until: Option<f64>,
}

impl Limit<'_> {
    /// Whether the time is over or somebody asked to stop.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.until.is_some_and(|until| (self.clock)().as_secs_f64() >= until)
    }
}
