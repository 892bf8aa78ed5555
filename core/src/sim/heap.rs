//! A binary heap whose entries can be moved and removed: the smallest key of many that change often.

/// Position of an id that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// Small ids by key, smallest first; equal keys by id. `set` and `remove` O(log entries), `first` O(1).
#[derive(Debug, Clone, Default)]
pub(super) struct IndexedHeap {
    entries: Vec<(f64, u32)>,
    /// Position of each id in `entries`.
    at: Vec<u32>,
}

impl IndexedHeap {
    /// The id with the smallest key.
    pub(super) fn first(&self) -> Option<(f64, u32)> {
        self.entries.first().copied()
    }

    /// Inserts an id, or changes its key.
    pub(super) fn set(&mut self, id: u32, key: f64) {
        if self.at.len() <= id as usize {
            self.at.resize(id as usize + 1, ABSENT);
        }
        let at = match self.at[id as usize] {
            ABSENT => {
                self.entries.push((key, id));
                self.entries.len() - 1
            }
            at => at as usize,
        };
        self.entries[at].0 = key;
        self.restore(at);
    }

    /// Removes an id, if it is there.
    pub(super) fn remove(&mut self, id: u32) {
        let Some(at) = self.at.get(id as usize).copied().filter(|at| *at != ABSENT) else { return };
        self.at[id as usize] = ABSENT;
        self.entries.swap_remove(at as usize);
        if (at as usize) < self.entries.len() {
            self.restore(at as usize);
        }
    }

    /// Moves the entry at this position to where it belongs.
    fn restore(&mut self, mut at: usize) {
        let entry = self.entries[at];
        while at > 0 && less(entry, self.entries[(at - 1) / 2]) {
            self.put(at, self.entries[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        while let Some(child) = self.smaller_child(at).filter(|child| less(self.entries[*child], entry)) {
            self.put(at, self.entries[child]);
            at = child;
        }
        self.put(at, entry);
    }

    fn smaller_child(&self, at: usize) -> Option<usize> {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        let right_is_less = right < self.entries.len() && less(self.entries[right], self.entries[left]);
        (left < self.entries.len()).then_some(if right_is_less { right } else { left })
    }

    fn put(&mut self, at: usize, entry: (f64, u32)) {
        self.entries[at] = entry;
        self.at[entry.1 as usize] = at as u32;
    }
}

fn less(a: (f64, u32), b: (f64, u32)) -> bool {
    a.0 < b.0 || (a.0 == b.0 && a.1 < b.1)
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng};

    use super::*;

    #[test]
    fn first_is_always_the_smallest() {
        let mut rng = crate::Rng::seed_from_u64(3);
        let (mut heap, mut keys) = (IndexedHeap::default(), [None; 20]);
        for _ in 0..5_000 {
            let id = rng.random_range(0..keys.len());
            if rng.random_bool(0.6) {
                let key = f64::from(rng.random_range(0..30));
                keys[id] = Some(key);
                heap.set(id as u32, key);
            } else {
                keys[id] = None;
                heap.remove(id as u32);
            }
            let all = (0..).zip(keys).filter_map(|(id, key)| Some((key?, id)));
            assert_eq!(
                heap.first(),
                all.min_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal))
            );
        }
    }
}
