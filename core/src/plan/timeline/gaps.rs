//! The free gaps of an exclusive node.
//!
//! They lie in blocks of at most [`BLOCK`]; a tree over the blocks holds the longest of each, so that gaps too short
//! are passed in blocks. The last few gaps, and the longest length, lie beside each other too: they tell for most tasks
//! that no gap serves, without a look at the blocks, which are seldom in the caches. With g gaps, a search or a reservation costs O(log g + `BLOCK`); one reservation in
//! `BLOCK / 2` at most moves O(g / `BLOCK`) entries of the tree.

use super::tree::MaxTree;

/// More gaps than this are split into two blocks.
const BLOCK: usize = 64;

/// So many of the last gaps are tried before a search.
const LAST: usize = 4;

/// In place of a gap, where there are fewer: it ends before any task.
const NO_GAP: (f64, f64) = (f64::NEG_INFINITY, f64::NEG_INFINITY);

/// Gaps between tasks, and the open end.
#[derive(Debug, Clone)]
pub(super) struct Gaps {
    /// Beginning and end of every gap, ascending; no block is empty.
    blocks: Vec<Vec<(f64, f64)>>,
    /// When the last gap of each block ends: apart from them because every search reads it.
    ends: Vec<f64>,
    /// Of every block: the length of its longest gap.
    tree: MaxTree<f64>,
    /// Length of the longest gap of all.
    longest: f64,
    /// The last gaps, the latest first.
    last: [(f64, f64); LAST],
    /// From here on nothing is reserved.
    tail: f64,
}

impl Gaps {
    pub(super) fn new() -> Self {
        Self {
            blocks: Vec::new(),
            ends: Vec::new(),
            tree: MaxTree::new(1),
            longest: 0.0,
            last: [NO_GAP; LAST],
            tail: 0.0,
        }
    }

    /// From here on nothing is reserved.
    pub(super) fn end(&self) -> f64 {
        self.tail
    }

    /// The earliest start from `ready` on in a gap that lasts until the end, or behind all tasks. Where two tasks
    /// meet is no gap, not even for a task without duration. If the task cannot finish before `limit`, any start from
    /// which it does not.
    #[inline]
    pub(super) fn earliest(&self, ready: f64, duration: f64, limit: f64) -> f64 {
        if self.tail <= ready {
            return ready;
        }
        // A task may fit that is longer than the gap by what its finish loses when rounded.
        let enough = duration - self.tail * (2.0 * f64::EPSILON);
        if self.longest < enough {
            return self.tail;
        }
        self.near_end(ready, duration).unwrap_or_else(|| self.search(ready, duration, limit, enough))
    }

    /// The answer if the gaps that do not end too early are all among the last few, as they are for most tasks.
    #[inline]
    fn near_end(&self, ready: f64, duration: f64) -> Option<f64> {
        let mut earliest = self.tail;
        for (start, end) in self.last {
            if end < ready + duration {
                return Some(earliest);
            }
            if start.max(ready) + duration <= end {
                earliest = start.max(ready);
            }
        }
        None
    }

    /// The answer from the blocks. What is behind the limit is not looked at, so the first block mostly has it.
    #[inline(never)]
    fn search(&self, ready: f64, duration: f64, limit: f64, enough: f64) -> f64 {
        let first = self.block(ready + duration);
        let mut next = Some(first).filter(|first| *first < self.blocks.len());
        while let Some(block) = next {
            let gaps = &self.blocks[block];
            let late = gaps.partition_point(|gap| gap.1 < ready + duration);
            for (start, end) in &gaps[late..] {
                let finish = start.max(ready) + duration;
                if finish <= *end || finish >= limit {
                    return start.max(ready);
                }
            }
            next = self.tree.first(block + 1, |longest| longest[0] >= enough);
        }
        self.tail
    }

    pub(super) fn reserve(&mut self, start: f64, finish: f64) {
        if start >= self.tail {
            if start > self.tail {
                self.push((self.tail, start));
            }
            self.tail = finish;
            return;
        }
        let block = self.block(finish);
        let Some(gaps) = self.blocks.get_mut(block) else {
            self.tail = self.tail.max(finish); // started tasks may be reported to overlap
            return;
        };
        let at = gaps.partition_point(|gap| gap.1 < finish);
        let (from, to) = gaps[at];
        let (before, after) = ((from, start), (finish.max(from), to));
        match (before.1 > before.0, after.1 > after.0) {
            (true, true) => {
                gaps[at] = before;
                gaps.insert(at + 1, after);
            }
            (true, false) => gaps[at] = before,
            (false, true) => gaps[at] = after,
            (false, false) => drop(gaps.remove(at)),
        }
        self.settle(block);
    }

    /// The first block with a gap that does not end before `time`.
    fn block(&self, time: f64) -> usize {
        self.ends.partition_point(|end| *end < time)
    }

    /// Adds a gap behind all others.
    fn push(&mut self, gap: (f64, f64)) {
        if let Some(gaps) = self.blocks.last_mut() {
            gaps.push(gap);
        } else {
            self.blocks.push(vec![gap]);
            self.ends.push(gap.1);
            self.tree.insert(0);
        }
        self.settle(self.blocks.len() - 1);
    }

    /// After a change of a block: puts it in order, and renews what is known of all.
    fn settle(&mut self, block: usize) {
        self.settle_block(block);
        self.longest = self.tree.top()[0];
        self.last = [NO_GAP; LAST];
        let latest_first = self.blocks.iter().rev().flat_map(|gaps| gaps.iter().rev());
        self.last.iter_mut().zip(latest_first).for_each(|(last, gap)| *last = *gap);
    }

    /// Drops a block if it is empty, splits it if it is too long, renews its longest gap.
    fn settle_block(&mut self, block: usize) {
        let gaps = &mut self.blocks[block];
        if gaps.is_empty() {
            self.blocks.remove(block);
            self.ends.remove(block);
            self.tree.remove(block);
            return;
        }
        if gaps.len() > BLOCK {
            let back = gaps.split_off(gaps.len() / 2);
            self.blocks.insert(block + 1, back);
            self.ends.insert(block + 1, 0.0);
            self.tree.insert(block + 1);
            self.summarise(block + 1);
        }
        self.summarise(block);
    }

    /// Renews the end of a block and its longest gap in the tree.
    fn summarise(&mut self, block: usize) {
        let gaps = &self.blocks[block];
        self.ends[block] = gaps.last().map_or(0.0, |gap| gap.1);
        let longest = gaps.iter().fold(0.0, |longest, gap| f64::max(longest, gap.1 - gap.0));
        self.tree.set(block, |row| row[0] = longest);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gaps one after the other, the open end among them.
    struct Naive(Vec<(f64, f64)>);

    impl Naive {
        fn earliest(&self, ready: f64, duration: f64) -> f64 {
            let fit = self.0.iter().find(|(start, end)| start.max(ready) + duration <= *end);
            fit.expect("the end is open").0.max(ready)
        }

        fn reserve(&mut self, start: f64, finish: f64) {
            let rest = |&(from, to): &(f64, f64)| [(from, to.min(start)), (from.max(finish), to)];
            self.0 = self.0.iter().flat_map(rest).filter(|(from, to)| from < to).collect();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Durations of a third and a seventh of a second round; those of whole seconds meet exactly.
        #[test]
        fn gaps_answer_as_a_plain_list(
            longest in 1_u32..40,
            late in 1_u32..100_000,
            unit in prop::sample::select(vec![1.0, 1.0 / 3.0, 1.0 / 7.0]),
            operations in prop::collection::vec((any::<u32>(), any::<u32>(), any::<bool>()), 1..3000),
        ) {
            let mut gaps = Gaps::new();
            let mut naive = Naive(vec![(0.0, f64::INFINITY)]);
            for (ready, duration, place) in operations {
                let (ready, duration) = (f64::from(ready % late) * unit, f64::from(duration % longest) * unit);
                let start = naive.earliest(ready, duration);
                prop_assert_eq!(gaps.earliest(ready, duration, f64::INFINITY), start);
                if place {
                    naive.reserve(start, start + duration);
                    gaps.reserve(start, start + duration);
                }
            }
            let kept: Vec<_> = gaps.blocks.concat().into_iter().chain([(gaps.tail, f64::INFINITY)]).collect();
            prop_assert_eq!(kept, naive.0);
            prop_assert!(gaps.blocks.iter().all(|b| (1..=BLOCK).contains(&b.len())));
            prop_assert!(gaps.blocks.iter().zip(&gaps.ends).all(|(b, end)| b.last().is_some_and(|g| g.1 == *end)));
        }
    }
}
