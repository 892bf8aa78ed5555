//! When which attempt runs out of time, and when it is overdue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tokio::time::Instant;

use super::attempts::Attempts;
use crate::engine::TaskRun;

/// What happens when a clock has run down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// The attempt is stopped.
    TimedOut,
    /// The attempt has run for much longer than expected.
    Overdue,
}

/// One clock of one attempt. It counts only while the attempt runs and has the start that it had when the clock was
/// set, as bits.
type Clock = (Instant, TaskRun, Alarm, u64);

/// The clocks of all attempts that run. O(log attempts) per clock.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    heap: BinaryHeap<Reverse<Clock>>,
}

/// Clocks that nobody looks through.
const FEW: usize = 1024;

impl Clocks {
    /// Sets a clock of an attempt that runs.
    pub(super) fn set(&mut self, run: TaskRun, alarm: Alarm, at: Instant, attempts: &Attempts) {
        if self.heap.len() > FEW + 4 * attempts.live() {
            self.heap.retain(|Reverse(clock)| counts(clock, attempts));
        }
        if let Some(attempt) = attempts.running(run) {
            self.heap.push(Reverse((at, run, alarm, attempt.start.to_bits())));
        }
    }

    /// When the next clock has run down.
    pub(super) fn next(&mut self, attempts: &Attempts) -> Option<Instant> {
        while let Some(Reverse(clock)) = self.heap.peek() {
            if counts(clock, attempts) {
                return Some(clock.0);
            }
            self.heap.pop();
        }
        None
    }

    /// A clock that has run down.
    pub(super) fn pop(&mut self, now: Instant, attempts: &Attempts) -> Option<(TaskRun, Alarm)> {
        self.next(attempts).filter(|at| *at <= now)?;
        self.heap.pop().map(|Reverse((_, run, alarm, _))| (run, alarm))
    }
}

fn counts((_, run, _, start): &Clock, attempts: &Attempts) -> bool {
    attempts.running(*run).is_some_and(|attempt| attempt.start.to_bits() == *start)
}
