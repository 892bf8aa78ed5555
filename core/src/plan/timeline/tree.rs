//! A tree over a list of rows that sums up ever larger stretches of them: finds the next row that may serve.
//!
//! Node 1 is the root, node `i` has the children `2 i` and `2 i + 1`, the rows of the list are the leaves.

use std::marker::PhantomData;

/// How the rows of two neighbouring stretches become one.
pub(super) trait Join<T> {
    /// What rows are made of that are not there; joining such a row changes nothing.
    fn empty() -> T;

    fn join(left: &[T], right: &[T], both: &mut [T]);
}

/// Column by column the larger value; nothing is less than the default.
#[derive(Debug, Clone, Copy)]
pub(super) struct Max;

impl<T: Copy + Default + PartialOrd> Join<T> for Max {
    fn empty() -> T {
        T::default()
    }

    fn join(left: &[T], right: &[T], both: &mut [T]) {
        for ((both, left), right) in both.iter_mut().zip(left).zip(right) {
            *both = if left > right { *left } else { *right };
        }
    }
}

/// Rows with the maxima of stretches.
pub(super) type MaxTree<T> = Tree<T, Max>;

/// Rows of equal width with those of ever larger stretches of them.
#[derive(Debug, Clone)]
pub(super) struct Tree<T, J> {
    width: usize,
    len: usize,
    /// Room for this many rows, a power of two; unused ones are empty.
    leaves: usize,
    nodes: Vec<T>,
    join: PhantomData<J>,
}

impl<T: Copy, J: Join<T>> Tree<T, J> {
    pub(super) fn new(width: usize) -> Self {
        Self { width, len: 0, leaves: 1, nodes: vec![J::empty(); 2 * width], join: PhantomData }
    }

    /// The row at this index.
    #[cfg(test)]
    pub(super) fn row(&self, index: usize) -> &[T] {
        self.node(self.leaves + index)
    }

    /// What all rows together come to.
    pub(super) fn top(&self) -> &[T] {
        self.node(1)
    }

    /// The first row, from index `from` on, that is `wanted`. Whatever is wanted of a row must be wanted of stretches
    /// with that row. O(log rows) if it is of no others. Neighbouring stretches are asked about from left to right:
    /// those that are not wanted are passed, those that are wanted are looked into.
    pub(super) fn first(&self, from: usize, mut wanted: impl FnMut(&[T]) -> bool) -> Option<usize> {
        if from >= self.len {
            return None;
        }
        let mut node = self.leaves + from;
        loop {
            if !wanted(self.node(node)) {
                // On to the largest subtree that begins where this one ends; the root means: none.
                node += 1;
                node >>= node.trailing_zeros();
                if node == 1 {
                    return None;
                }
            } else if node < self.leaves {
                node *= 2;
            } else {
                return Some(node - self.leaves).filter(|row| *row < self.len);
            }
        }
    }

    /// Lets `fill` rewrite a row, which it is handed empty. O(log rows).
    pub(super) fn set(&mut self, index: usize, fill: impl FnOnce(&mut [T])) {
        let at = (self.leaves + index) * self.width;
        let row = &mut self.nodes[at..at + self.width];
        row.fill(J::empty());
        fill(row);
        self.renew(index, index);
    }

    /// Makes room for a row at `index`, to be [`MaxTree::set`]. O(rows behind it + log rows).
    pub(super) fn insert(&mut self, index: usize) {
        if self.len == self.leaves {
            self.grow();
        }
        let (at, end) = self.behind(index);
        self.nodes.copy_within(at..end, at + self.width);
        self.len += 1;
        self.renew(index, self.len - 1);
    }

    /// Drops the row at `index`. O(rows behind it + log rows).
    pub(super) fn remove(&mut self, index: usize) {
        let (at, end) = self.behind(index);
        self.nodes.copy_within(at + self.width..end, at);
        self.nodes[end - self.width..end].fill(J::empty());
        self.len -= 1;
        self.renew(index, self.len);
    }

    fn node(&self, node: usize) -> &[T] {
        &self.nodes[node * self.width..(node + 1) * self.width]
    }

    /// Where the rows from `index` on lie.
    fn behind(&self, index: usize) -> (usize, usize) {
        ((self.leaves + index) * self.width, (self.leaves + self.len) * self.width)
    }

    fn grow(&mut self) {
        let rows = self.nodes.split_off(self.leaves * self.width);
        self.leaves *= 2;
        self.nodes.resize(self.leaves * self.width, J::empty());
        self.nodes.extend(rows);
        self.nodes.resize(2 * self.leaves * self.width, J::empty());
        self.renew(0, self.leaves - 1);
    }

    /// What is above the rows `first` to `last`.
    fn renew(&mut self, first: usize, last: usize) {
        let width = self.width;
        let (mut low, mut high) = (self.leaves + first, self.leaves + last);
        while low > 1 {
            (low, high) = (low / 2, high / 2);
            let (above, below) = self.nodes.split_at_mut(2 * low * width);
            let above = above[low * width..(high + 1) * width].chunks_exact_mut(width);
            for (both, pair) in above.zip(below.chunks_exact(2 * width)) {
                let (left, right) = pair.split_at(width);
                J::join(left, right, both);
            }
        }
    }
}
