//! A memory of past steps that learners draw from: all alike, or those with large errors more often.
//!
//! Source: Schaul, Quan, Antonoglou, Silver: Prioritized experience replay, ICLR 2016. Drawing and changing a priority are
//! O(1), or O(log capacity) with priorities.

use mdts_core::Rng;
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::schedule::Schedule;
use super::sum_tree::SumTree;

/// What is added to every error, so that none is never drawn again.
const SMALLEST: f64 = 1e-6;

/// Settings of prioritised replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Priorities {
    /// How much errors matter: 0 not at all, 1 in proportion.
    pub alpha: f64,
    /// How far weights undo the bias of drawing, by update; should end at 1, wholly.
    pub beta: Schedule,
}

impl Default for Priorities {
    fn default() -> Self {
        Self { alpha: 0.6, beta: Schedule::linear(0.4, 1.0, 10_000) }
    }
}

/// The memory. When it is full, the oldest item makes room.
#[derive(Debug, Clone)]
pub struct Replay<T> {
    items: Vec<T>,
    capacity: usize,
    /// Where the next item goes once the memory is full.
    oldest: usize,
    /// (error + small)^alpha of each item.
    tree: Option<SumTree>,
    alpha: f64,
    largest: f64,
}

/// An item that was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    /// Where it is.
    pub index: usize,
    /// What its loss is multiplied with; 1 at most.
    pub weight: f32,
}

impl<T> Replay<T> {
    /// An empty memory for so many items, with priorities if `alpha` is given.
    ///
    /// # Errors
    /// [`Error::Setting`] if the capacity is 0 or alpha is not in 0 to 1.
    pub fn new(capacity: usize, alpha: Option<f64>) -> Result<Self> {
        if capacity == 0 {
            return Err(Error::Setting { what: "capacity", found: "0".into(), expected: "at least 1" });
        }
        if let Some(alpha) = alpha.filter(|a| !(0.0..=1.0).contains(a)) {
            return Err(Error::Setting { what: "alpha", found: alpha.to_string(), expected: "0 to 1" });
        }
        let tree = alpha.map(|_| SumTree::new(capacity));
        Ok(Self {
            items: Vec::new(),
            capacity,
            oldest: 0,
            tree,
            alpha: alpha.unwrap_or_default(),
            largest: 1.0,
        })
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item of a [`Pick`].
    pub fn get(&self, index: usize) -> Option<&T> {
        self.items.get(index)
    }

    /// Remembers an item. With priorities it begins with the largest that was seen, so that it is soon drawn.
    pub fn push(&mut self, item: T) {
        let index = if self.items.len() < self.capacity {
            self.items.push(item);
            self.items.len() - 1
        } else {
            let index = self.oldest;
            self.items[index] = item;
            self.oldest = (index + 1) % self.capacity;
            index
        };
        if let Some(tree) = &mut self.tree {
            tree.set(index, self.largest);
        }
    }

    /// Draws so many items, with replacement, none from an empty memory. `beta` says how far weights undo that some
    /// are drawn more often.
    pub fn sample(&self, count: usize, beta: f64, rng: &mut Rng) -> Vec<Pick> {
        if self.is_empty() {
            return Vec::new();
        }
        let Some(tree) = &self.tree else {
            let pick = |_| Pick { index: rng.random_range(0..self.len()), weight: 1.0 };
            return (0..count).map(pick).collect();
        };
        let indices: Vec<usize> = (0..count).map(|_| tree.find(rng.random::<f64>() * tree.total())).collect();
        let weight = |index: usize| (self.len() as f64 * tree.get(index) / tree.total()).powf(-beta);
        let largest = indices.iter().map(|i| weight(*i)).fold(f64::MIN_POSITIVE, f64::max);
        let pick = |index| Pick { index, weight: (weight(index) / largest) as f32 };
        indices.into_iter().map(pick).collect()
    }

    /// Sets the priority of an item from the absolute error that was found for it. Does nothing without priorities.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for an error that is not finite.
    pub fn set_error(&mut self, index: usize, error: f64) -> Result<()> {
        if !error.is_finite() {
            return Err(Error::not_finite("an error of replay"));
        }
        if let Some(tree) = self.tree.as_mut().filter(|_| index < self.items.len()) {
            let priority = (error.abs() + SMALLEST).powf(self.alpha);
            self.largest = self.largest.max(priority);
            tree.set(index, priority);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn filled(alpha: Option<f64>) -> Replay<u32> {
        let mut replay = Replay::new(4, alpha).unwrap();
        (0..4).for_each(|i| replay.push(i));
        replay
    }

    fn shares(replay: &Replay<u32>) -> [f64; 4] {
        let mut counts = [0.0; 4];
        for pick in replay.sample(40_000, 1.0, &mut Rng::seed_from_u64(1)) {
            counts[pick.index] += 1.0 / 40_000.0;
        }
        counts
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut replay = filled(Some(0.5));
        assert_eq!(replay.len(), 4);
        replay.push(4);
        replay.push(5);
        let held: Vec<u32> = (0..4).map(|i| *replay.get(i).unwrap()).collect();
        assert_eq!(held, [4, 5, 2, 3]);
        assert_eq!(replay.get(4), None);
    }

    #[test]
    fn uniform() {
        let replay = filled(None);
        assert!(shares(&replay).iter().all(|s| (s - 0.25).abs() < 0.01));
        assert!(replay.sample(9, 1.0, &mut Rng::seed_from_u64(1)).iter().all(|p| p.weight == 1.0));
        assert!(Replay::<u32>::new(3, None).unwrap().sample(9, 1.0, &mut Rng::seed_from_u64(1)).is_empty());
    }

    #[test]
    fn priorities_decide_and_weights_undo_it() {
        let mut replay = filled(Some(0.5));
        for (index, error) in [1.0, 4.0, 16.0, 9.0].into_iter().enumerate() {
            replay.set_error(index, error).unwrap();
        }
        for (share, expected) in shares(&replay).iter().zip([0.1, 0.2, 0.4, 0.3]) {
            assert!((share - expected).abs() < 0.01, "{share} {expected}");
        }
        // (4 p)^-1 over the largest of them, that of the first.
        for pick in replay.sample(100, 1.0, &mut Rng::seed_from_u64(2)) {
            assert!((pick.weight - [1.0, 0.5, 0.25, 1.0 / 3.0][pick.index]).abs() < 1e-4);
        }
        let unweighted = replay.sample(100, 0.0, &mut Rng::seed_from_u64(2));
        assert!(unweighted.iter().all(|pick| pick.weight == 1.0));
    }

    #[test]
    fn new_items_come_first_and_none_is_forgotten() {
        let mut replay = filled(Some(1.0));
        for index in 0..4 {
            replay.set_error(index, if index == 0 { 7.0 } else { 0.0 }).unwrap();
        }
        replay.push(9);
        assert!(shares(&replay)[0] > 0.99, "the new item took the place of the first");
        assert!(replay.tree.as_ref().unwrap().get(3) > 0.0);
        assert!(replay.set_error(0, f64::NAN).is_err());
    }

    #[test]
    fn settings() {
        assert!(Replay::<u32>::new(0, None).is_err());
        assert!(Replay::<u32>::new(1, Some(1.5)).is_err());
    }
}
