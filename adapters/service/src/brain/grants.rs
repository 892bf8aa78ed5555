//! What was granted to a job, in the order in which it was.
//!
//! A job whose tasks lose their nodes again and again is granted ever more. Beyond [`MANY`] entries only those of the latest
//! attempt of each task are kept, so that the list is never much longer than the graph; what was left out is about attempts that
//! are over, as a later attempt of the same task says. O(1) per entry on average.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// So many entries are kept in any case.
const MANY: usize = 10_000;

/// An attempt was granted or has lost its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Granted {
    /// From 1 on, ascending in each job.
    pub(super) number: u64,
    pub(super) task: u32,
    pub(super) attempt: u32,
    pub(super) node: u32,
    pub(super) start: bool,
}

/// All of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Granting {
    list: Vec<Granted>,
    /// Number of the latest one, whether or not it is kept.
    latest: u64,
    /// How many were attempts that could start.
    starts: u64,
    /// How many were kept when some were left out last.
    left: usize,
}

impl Granting {
    pub(super) fn add(&mut self, task: u32, attempt: u32, node: u32, start: bool) {
        self.latest += 1;
        self.starts += u64::from(start);
        self.list.push(Granted { number: self.latest, task, attempt, node, start });
        if self.list.len() > 2 * self.left + MANY {
            self.leave_out();
        }
    }

    /// Keeps the latest attempt of each task.
    fn leave_out(&mut self) {
        let mut latest: FxHashMap<u32, u32> = FxHashMap::default();
        for granted in &self.list {
            let attempt = latest.entry(granted.task).or_default();
            *attempt = (*attempt).max(granted.attempt);
        }
        self.list.retain(|granted| latest.get(&granted.task) == Some(&granted.attempt));
        self.left = self.list.len();
    }

    /// What has a higher number.
    pub(super) fn after(&self, number: u64) -> &[Granted] {
        &self.list[self.list.partition_point(|granted| granted.number <= number)..]
    }

    pub(super) fn latest(&self) -> u64 {
        self.latest
    }

    pub(super) fn starts(&self) -> u64 {
        self.starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_attempts_are_kept() {
        let mut granting = Granting::default();
        for attempt in 1..=100_000 {
            granting.add(attempt % 3, attempt, 7, true);
            granting.add(attempt % 3, attempt, 7, false);
            assert!(granting.after(0).len() <= MANY + 2 * 6, "{}", granting.after(0).len());
            let last: Vec<u64> = granting.after(granting.latest() - 2).iter().map(|g| g.number).collect();
            assert_eq!(last, [granting.latest() - 1, granting.latest()]);
        }
        assert_eq!((granting.latest(), granting.starts()), (200_000, 100_000));
        let numbers: Vec<u64> = granting.after(0).iter().map(|granted| granted.number).collect();
        assert!(numbers.is_sorted() && numbers.contains(&199_995), "{:?}", &numbers[..10]);
        assert_eq!(granting.after(200_000), []);
        assert_eq!(granting.after(u64::MAX), []);
    }
}
