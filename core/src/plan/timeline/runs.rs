//! How long stretches of a shared node have room for a level of demand, for passing those that end too soon.
//!
//! ```text
//! free cores   3 3 1 1 | 2 2 1 2 | 2 2 2 4 ...        level: 2 cores, blocks of four steps
//! room         = = . . | = = . = | = = = = ...
//! block        until 2   until 6   until -            when the run that is open at its beginning ends
//!              since -   since 7   since 8            when the run that is open at its end began in it
//!              longest 2 longest 2 longest -          of the runs that end in it
//! ```
//! A tree over the blocks holds the same three of ever larger stretches, so the first run that is long enough is found
//! in O(log blocks).

use super::tree::{Join, Tree};

/// An amount of one resource. The time of the node is divided into runs of steps that have so much free.
#[derive(Debug, Clone)]
pub(super) struct Level {
    dimension: usize,
    amount: u64,
    /// Of the capacity.
    share: f64,
    /// Per block: `until`, `since` and `longest`, the latter negative; infinite where there is no such run.
    tree: Tree<f64, Runs>,
}

/// Where a run that may be long enough is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Found {
    /// It begins at this time.
    At(f64),
    /// It lies inside this block.
    In(usize),
}

#[derive(Debug, Clone, Copy)]
struct Runs;

impl Join<f64> for Runs {
    fn empty() -> f64 {
        f64::INFINITY
    }

    fn join(left: &[f64], right: &[f64], both: &mut [f64]) {
        let (until, since) = (right[0], left[1]);
        both[0] = left[0].min(until);
        if until < f64::INFINITY {
            both[1] = right[1];
            both[2] = left[2].min(right[2]).min(since - until);
        } else {
            both[1] = since.min(right[1]);
            both[2] = left[2].min(right[2]);
        }
    }
}

impl Level {
    /// The level that serves a demand best: what it wants of the resource of which it wants the largest share. None
    /// if it wants nothing, or more than there is.
    pub(super) fn of(demand: &[u64], capacity: &[u64]) -> Option<Self> {
        let shares =
            demand.iter().zip(capacity).map(|(demand, all)| *demand as f64 / *all as f64).enumerate();
        let wanted = shares.filter(|(_, share)| (f64::MIN_POSITIVE..=1.0).contains(share));
        let (dimension, share) = wanted.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Self { dimension, amount: demand[dimension], share, tree: Tree::new(3) })
    }

    /// Whether every step with room for the demand has room for this level.
    pub(super) fn serves(&self, demand: &[u64]) -> bool {
        self.amount <= demand[self.dimension]
    }

    /// What the level is about.
    pub(super) fn key(&self) -> (usize, u64) {
        (self.dimension, self.amount)
    }

    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// Whether a step has room.
    pub(super) fn has_room(&self, free: &[u64]) -> bool {
        free[self.dimension] >= self.amount
    }

    /// Makes room for a block, to be [`Level::set`].
    pub(super) fn insert(&mut self, block: usize) {
        self.tree.insert(block);
    }

    pub(super) fn remove(&mut self, block: usize) {
        self.tree.remove(block);
    }

    /// Renews a block of these steps: when each begins and whether it has room.
    pub(super) fn set(&mut self, block: usize, times: &[f64], free: &[u64], dimensions: usize) {
        let (mut until, mut since, mut longest) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        for (time, free) in times.iter().zip(free.chunks_exact(dimensions)) {
            if free[self.dimension] >= self.amount {
                since = since.min(*time);
            } else {
                until = until.min(*time);
                longest = longest.min(since - time);
                since = f64::INFINITY;
            }
        }
        self.tree.set(block, |row| row.copy_from_slice(&[until, since, longest]));
    }

    /// The first run of at least `enough` that reaches into a block from `block` on. `since` is when the run began
    /// that is open at the beginning of that block; infinite if none is.
    pub(super) fn first(&self, block: usize, mut since: f64, enough: f64) -> Option<Found> {
        let mut is_open = false;
        let found = self.tree.first(block, |row| {
            is_open = row[0] < f64::INFINITY && row[0] - since >= enough;
            if is_open || row[2] <= -enough {
                return true;
            }
            since = if row[0] < f64::INFINITY { row[1] } else { since.min(row[1]) };
            false
        });
        match found {
            Some(block) if !is_open => Some(Found::In(block)),
            _ => Some(Found::At(since)).filter(|_| since < f64::INFINITY),
        }
    }
}
