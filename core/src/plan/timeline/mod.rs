//! The time of one node: what is taken, and the earliest moment at which a task fits.

mod gaps;
mod profile;
mod runs;
mod tree;

use gaps::Gaps;
use profile::Profile;

/// What a node has promised to run, for planners.
///
/// With n reservations a search costs O(log n): free stretches that are too short are passed in blocks. On a shared node
/// that holds for demands told apart by one resource and at most 16 amounts of it; for others a search costs as much
/// for each stretch that it tries, O(n log n) at worst. Taking time costs O(log n) plus, on a shared node, the steps of
/// its free capacity that the task covers.
///
/// ```
/// # use mdts_core::Timeline;
/// let mut node = Timeline::exclusive();
/// node.reserve(0.0, 2.0, &[]);
/// node.reserve(5.0, 6.0, &[]);
/// assert_eq!(node.earliest(1.0, 3.0, &[]), 2.0);
/// assert_eq!(node.append(1.0, 3.0, &[]), 6.0);
///
/// let mut node = Timeline::shared(&[4]);
/// node.reserve(0.0, 2.0, &[3]);
/// assert_eq!(node.earliest(0.0, 3.0, &[1]), 0.0);
/// assert_eq!(node.earliest(0.0, 3.0, &[2]), 2.0);
/// ```
#[derive(Debug, Clone)]
pub struct Timeline(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// One task at a time: only the free gaps are kept.
    Exclusive(Gaps),
    /// Several tasks side by side: free capacity as a step function.
    Shared(Profile),
}

impl Timeline {
    /// An exclusive node, free from 0 on.
    pub fn exclusive() -> Self {
        Self(Kind::Exclusive(Gaps::new()))
    }

    /// A node with this capacity, free from 0 on.
    pub fn shared(capacity: &[u64]) -> Self {
        Self(Kind::Shared(Profile::new(capacity)))
    }

    /// The earliest start, not before `ready`, of a task that takes `duration` and occupies `demand`.
    #[inline]
    pub fn earliest(&self, ready: f64, duration: f64, demand: &[u64]) -> f64 {
        self.earliest_before(ready, duration, demand, f64::INFINITY)
    }

    /// The same; but if the task cannot finish before `limit`, any start from which it does not.
    #[inline]
    pub(super) fn earliest_before(&self, ready: f64, duration: f64, demand: &[u64], limit: f64) -> f64 {
        match &self.0 {
            Kind::Exclusive(gaps) => gaps.earliest(ready, duration, limit),
            Kind::Shared(profile) => profile.earliest(ready, duration, demand, limit),
        }
    }

    /// The earliest start behind everything that was reserved on an exclusive node; like
    /// [`Timeline::earliest`] on a shared one.
    #[inline]
    pub fn append(&self, ready: f64, duration: f64, demand: &[u64]) -> f64 {
        self.append_before(ready, duration, demand, f64::INFINITY)
    }

    /// The same; but if the task cannot finish before `limit`, any start from which it does not.
    #[inline]
    pub(super) fn append_before(&self, ready: f64, duration: f64, demand: &[u64], limit: f64) -> f64 {
        match &self.0 {
            Kind::Exclusive(gaps) => gaps.end().max(ready),
            Kind::Shared(profile) => profile.earliest(ready, duration, demand, limit),
        }
    }

    /// Takes the time from `start` to `finish`, as offered by [`Timeline::earliest`].
    pub fn reserve(&mut self, start: f64, finish: f64, demand: &[u64]) {
        match &mut self.0 {
            Kind::Exclusive(gaps) => gaps.reserve(start, finish),
            Kind::Shared(profile) => profile.reserve(start, finish, demand),
        }
    }

    /// From here on nothing is reserved.
    #[inline]
    pub fn end(&self) -> f64 {
        match &self.0 {
            Kind::Exclusive(gaps) => gaps.end(),
            Kind::Shared(profile) => profile.end(),
        }
    }
}
