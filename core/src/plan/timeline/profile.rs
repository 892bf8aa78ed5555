//! Free capacity of a shared node as a step function of time.
//!
//! The steps lie in blocks of at most [`BLOCK`]. A tree over the blocks holds the most and the least that is free in
//! each, per dimension, so that a search passes full stretches, and stretches where the task fits throughout, without
//! looking at their steps. Neighbouring steps with the same free capacity are merged.
//!
//! Tasks of unlike demands leave many stretches that have room and end too soon. For up to [`LEVELS`] amounts of a
//! resource that tasks took, a tree of runs passes them in blocks; see [`Level`].
//!
//! With s steps, a search costs O(log s + `BLOCK`), and as much again for every stretch that is long enough for the
//! level that serves the demand but not for the demand, and for every block that has room in each dimension but never
//! in all at once. A reservation costs O(levels (log s + `BLOCK`)) plus the steps it covers; one in `BLOCK / 2` at most
//! moves O(s / `BLOCK`) entries of each tree.

use super::super::resources::fits;
use super::runs::{Found, Level};
use super::tree::MaxTree;

/// More steps than this are split into two blocks.
const BLOCK: usize = 64;
/// Most levels of demand with a tree of runs.
const LEVELS: usize = 16;

/// A block and a step in it.
type Place = (usize, usize);

#[derive(Debug, Clone)]
pub(super) struct Profile {
    dimensions: usize,
    capacity: Vec<u64>,
    /// Ascending; none is empty, and the first begins at 0.
    blocks: Vec<Block>,
    /// When each block begins: apart from them because every search reads it.
    begins: Vec<f64>,
    /// Of every block: the most that is free in each dimension, then the complement of the least.
    tree: MaxTree<u64>,
    levels: Vec<Level>,
    end: f64,
}

/// Neighbouring steps.
#[derive(Debug, Clone)]
struct Block {
    /// When the steps begin, ascending.
    times: Vec<f64>,
    /// What is free from then on, one row of all dimensions per step.
    free: Vec<u64>,
}

impl Profile {
    pub(super) fn new(capacity: &[u64]) -> Self {
        let dimensions = capacity.len();
        let blocks = vec![Block { times: vec![0.0], free: capacity.to_vec() }];
        let mut profile = Self {
            dimensions,
            capacity: capacity.to_vec(),
            blocks,
            begins: vec![0.0],
            tree: MaxTree::new(2 * dimensions),
            levels: Vec::new(),
            end: 0.0,
        };
        profile.tree.insert(0);
        profile.summarise(0);
        profile
    }

    /// From here on nothing is reserved.
    pub(super) fn end(&self) -> f64 {
        self.end
    }

    /// The earliest start from `ready` on with room until the end; without duration, at that moment. If it
    /// cannot finish before `limit`, any start that is not later and not early enough for that.
    pub(super) fn earliest(&self, ready: f64, duration: f64, demand: &[u64], limit: f64) -> f64 {
        let mut at = self.step_at(ready);
        while let Some(open) = self.first_with_room(at, demand) {
            let start = self.time(open).max(ready);
            if start + duration >= limit {
                return start;
            }
            let Some(full) = self.first_without_room(open, start + duration, demand) else { return start };
            if self.time(full) >= start + duration {
                return start;
            }
            at = match self.level(demand) {
                Some(level) => self.next_run(level, full, duration),
                None => full,
            };
        }
        self.end.max(ready)
    }

    /// The level that says most about where the demand has room.
    fn level(&self, demand: &[u64]) -> Option<&Level> {
        let serving = self.levels.iter().filter(|level| level.serves(demand));
        serving.max_by(|a, b| a.share().total_cmp(&b.share()))
    }

    /// The first step from `from` on, where the demand has no room, with a run of the level that lasts long enough.
    fn next_run(&self, level: &Level, from: Place, duration: f64) -> Place {
        // A task may fit that is longer than the run by what its finish loses when rounded.
        let enough = duration - self.end * (2.0 * f64::EPSILON);
        let (mut block, mut step) = from;
        loop {
            let steps = &self.blocks[block];
            let mut run = None;
            for s in step..steps.times.len() {
                match (level.has_room(steps.row(s, self.dimensions)), run) {
                    (true, None) => run = Some(s),
                    (false, Some(first)) if steps.times[s] - steps.times[first] >= enough => {
                        return (block, first);
                    }
                    (false, _) => run = None,
                    (true, Some(_)) => {}
                }
            }
            let since = run.map_or(f64::INFINITY, |first| steps.times[first]);
            match level.first(block + 1, since, enough) {
                Some(Found::At(time)) => return self.step_at(time),
                Some(Found::In(next)) => (block, step) = (next, 0),
                None => return from, // not after a reservation of the level
            }
        }
    }

    pub(super) fn reserve(&mut self, start: f64, finish: f64, demand: &[u64]) {
        if finish <= start {
            return;
        }
        self.end = self.end.max(finish);
        self.add_level(demand);
        self.cut(start);
        self.cut(finish);
        let (mut block, mut step) = self.step_at(start);
        while self.begins.get(block).is_some_and(|begin| *begin < finish) {
            self.blocks[block].take(step, finish, demand, self.dimensions);
            self.summarise(block);
            (block, step) = (block + 1, 0);
        }
        self.merge(finish);
        self.merge(start);
    }

    fn time(&self, (block, step): Place) -> f64 {
        self.blocks[block].times[step]
    }

    fn row(&self, (block, step): Place) -> &[u64] {
        self.blocks[block].row(step, self.dimensions)
    }

    /// The step that holds `time`.
    fn step_at(&self, time: f64) -> Place {
        let block = self.begins.partition_point(|begin| *begin <= time).saturating_sub(1);
        (block, self.blocks[block].times.partition_point(|t| *t <= time).saturating_sub(1))
    }

    fn first_with_room(&self, from: Place, demand: &[u64]) -> Option<Place> {
        self.first(from, |block| fits(demand, block), |_, free| fits(demand, free))
    }

    /// The first step without room; steps from `finish` on may be returned whether or not they have room.
    fn first_without_room(&self, from: Place, finish: f64, demand: &[u64]) -> Option<Place> {
        let lacks =
            |block: &[u64]| demand.iter().zip(&block[self.dimensions..]).any(|(d, least)| *d > !*least);
        self.first(from, lacks, |time, free| time >= finish || !fits(demand, free))
    }

    /// The first step from `from` on that is `wanted`, in blocks whose row in the tree `may` hold one.
    fn first(
        &self,
        (mut block, mut step): Place,
        may: impl Fn(&[u64]) -> bool,
        wanted: impl Fn(f64, &[u64]) -> bool,
    ) -> Option<Place> {
        loop {
            let steps = &self.blocks[block];
            let mut rest = step..steps.times.len();
            if let Some(found) = rest.find(|&s| wanted(steps.times[s], steps.row(s, self.dimensions))) {
                return Some((block, found));
            }
            (block, step) = (self.tree.first(block + 1, &may)?, 0);
        }
    }

    /// Makes `time` the beginning of a step.
    fn cut(&mut self, time: f64) {
        let (block, step) = self.step_at(time);
        if self.time((block, step)) >= time {
            return;
        }
        let steps = &mut self.blocks[block];
        steps.divide(step, time, self.dimensions);
        if steps.times.len() > BLOCK {
            let back = steps.split(self.dimensions);
            self.begins.insert(block + 1, back.times[0]);
            self.blocks.insert(block + 1, back);
            self.tree.insert(block + 1);
            self.levels.iter_mut().for_each(|level| level.insert(block + 1));
            self.summarise(block);
            self.summarise(block + 1);
        }
    }

    /// Drops the step that begins at `time` if it equals the one before.
    fn merge(&mut self, time: f64) {
        let (block, step) = self.step_at(time);
        let before = match (block, step) {
            (0, 0) => return,
            (_, 0) => (block - 1, self.blocks[block - 1].times.len() - 1),
            _ => (block, step - 1),
        };
        if self.row(before) != self.row((block, step)) {
            return;
        }
        self.blocks[block].remove(step, self.dimensions);
        if self.blocks[block].times.is_empty() {
            self.blocks.remove(block);
            self.begins.remove(block);
            self.tree.remove(block);
            self.levels.iter_mut().for_each(|level| level.remove(block));
        } else if step == 0 {
            self.summarise(block);
        }
    }

    /// Keeps the runs for a demand like this from now on, unless they are kept or there are too many levels.
    fn add_level(&mut self, demand: &[u64]) {
        if self.levels.len() == LEVELS {
            return;
        }
        let Some(mut level) = Level::of(demand, &self.capacity) else { return };
        if self.levels.iter().any(|known| known.key() == level.key()) {
            return;
        }
        for (at, block) in self.blocks.iter().enumerate() {
            level.insert(at);
            level.set(at, &block.times, &block.free, self.dimensions);
        }
        self.levels.push(level);
    }

    /// Renews the block's rows in the trees.
    fn summarise(&mut self, block: usize) {
        let (steps, d) = (&self.blocks[block], self.dimensions);
        self.begins[block] = steps.times[0];
        self.tree.set(block, |summary| {
            let (most, least) = summary.split_at_mut(d);
            for step in 0..steps.times.len() {
                for ((most, least), free) in most.iter_mut().zip(&mut *least).zip(steps.row(step, d)) {
                    *most = (*most).max(*free);
                    *least = (*least).max(!*free);
                }
            }
        });
        for level in &mut self.levels {
            level.set(block, &steps.times, &steps.free, d);
        }
    }
}

impl Block {
    fn row(&self, step: usize, dimensions: usize) -> &[u64] {
        &self.free[step * dimensions..(step + 1) * dimensions]
    }

    /// Takes `demand` from the steps from `first` on that begin before `finish`.
    fn take(&mut self, first: usize, finish: f64, demand: &[u64], dimensions: usize) {
        let last = self.times.partition_point(|t| *t < finish);
        for step in first..last {
            for (free, taken) in self.free[step * dimensions..(step + 1) * dimensions].iter_mut().zip(demand)
            {
                *free = free.saturating_sub(*taken); // started tasks may be reported to overlap
            }
        }
    }

    /// Divides a step in two equal ones; the second begins at `time`.
    fn divide(&mut self, step: usize, time: f64, dimensions: usize) {
        let next = (step + 1) * dimensions;
        self.times.insert(step + 1, time);
        self.free.extend_from_within(next - dimensions..next);
        self.free[next..].rotate_right(dimensions);
    }

    /// Splits off the later half.
    fn split(&mut self, dimensions: usize) -> Self {
        let half = self.times.len() / 2;
        Self { times: self.times.split_off(half), free: self.free.split_off(half * dimensions) }
    }

    fn remove(&mut self, step: usize, dimensions: usize) {
        self.times.remove(step);
        self.free.drain(step * dimensions..(step + 1) * dimensions);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Free capacity of every whole second.
    struct Naive {
        capacity: Vec<u64>,
        free: Vec<Vec<u64>>,
    }

    impl Naive {
        fn fits(&self, second: usize, demand: &[u64]) -> bool {
            self.free.get(second).is_none_or(|free| fits(demand, free))
        }

        fn earliest(&self, ready: usize, duration: usize, demand: &[u64]) -> usize {
            let throughout = |start: usize| (start..start + duration.max(1)).all(|s| self.fits(s, demand));
            (ready..=self.free.len().max(ready)).find(|s| throughout(*s)).expect("an empty node has room")
        }

        fn reserve(&mut self, start: usize, finish: usize, demand: &[u64]) {
            if start == finish {
                return;
            }
            self.free.resize(self.free.len().max(finish), self.capacity.clone());
            for free in &mut self.free[start..finish] {
                free.iter_mut().zip(demand).for_each(|(free, taken)| *free = free.saturating_sub(*taken));
            }
        }
    }

    fn check(profile: &Profile) {
        let d = profile.dimensions;
        let steps: Vec<(f64, &[u64])> = profile
            .blocks
            .iter()
            .flat_map(|b| b.times.iter().enumerate().map(move |(i, t)| (*t, b.row(i, d))))
            .collect();
        assert!(steps.windows(2).all(|w| w[0].0 < w[1].0), "ascending");
        assert_eq!(steps[0].0, 0.0);
        for (i, block) in profile.blocks.iter().enumerate() {
            assert!((1..=BLOCK).contains(&block.times.len()));
            assert_eq!(block.free.len(), block.times.len() * d);
            assert_eq!(profile.begins[i], block.times[0]);
            let column = |k: usize| block.free.iter().skip(k).step_by(d);
            let most = (0..d).map(|k| *column(k).max().expect("not empty"));
            let least = (0..d).map(|k| !*column(k).min().expect("not empty"));
            assert_eq!(profile.tree.row(i), most.chain(least).collect::<Vec<_>>());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_profile_answers_as_a_table_of_seconds(
            capacity in prop::collection::vec(1_u64..6, 1..4),
            longest in 1_usize..40,
            late in 1_usize..4000,
            operations in prop::collection::vec(
                (any::<u32>(), any::<u32>(), prop::array::uniform3(any::<u64>()), 0..4_u8), 1..2000),
        ) {
            let mut profile = Profile::new(&capacity);
            let mut naive = Naive { capacity: capacity.clone(), free: Vec::new() };
            for (ready, duration, wanted, kind) in operations {
                let (ready, duration) = (ready as usize % late, duration as usize % longest);
                let demand: Vec<u64> = wanted.iter().zip(&capacity).map(|(w, c)| w % (c + 1)).collect();
                let start = naive.earliest(ready, duration, &demand);
                prop_assert_eq!(profile.earliest(ready as f64, duration as f64, &demand, f64::INFINITY), start as f64);
                let start = match kind {
                    0 => continue,
                    1 if wanted[0].is_multiple_of(8) => ready, // with or without room
                    _ => start,
                };
                naive.reserve(start, start + duration, &demand);
                profile.reserve(start as f64, (start + duration) as f64, &demand);
                prop_assert_eq!(profile.end(), naive.free.len() as f64);
            }
            check(&profile);
        }
    }

    #[test]
    fn full_stretches_become_one_step() {
        let mut profile = Profile::new(&[2]);
        for i in 0..1000 {
            let start = profile.earliest(0.0, 1.0, &[1], f64::INFINITY);
            assert_eq!(start, f64::from(i / 2));
            profile.reserve(start, start + 1.0, &[1]);
        }
        assert_eq!(profile.blocks.iter().map(|b| b.times.len()).sum::<usize>(), 2);
    }
}
