//! A tree of maxima over a list of rows: finds the next row that may be large enough.
//!
//! Node 1 is the root, node `i` has the children `2 i` and `2 i + 1`, the rows of the list are the leaves.

/// Rows of equal width with the maxima, column by column, of ever larger stretches of them.
#[derive(Debug, Clone)]
pub(super) struct MaxTree<T> {
    width: usize,
    len: usize,
    /// Room for this many rows, a power of two; unused ones hold zeros.
    leaves: usize,
    nodes: Vec<T>,
}

impl<T: Copy + Default + PartialOrd> MaxTree<T> {
    pub(super) fn new(width: usize) -> Self {
        Self { width, len: 0, leaves: 1, nodes: vec![T::default(); 2 * width] }
    }

    /// The row at this index.
    #[cfg(test)]
    pub(super) fn row(&self, index: usize) -> &[T] {
        self.node(self.leaves + index)
    }

    /// The first row, from index `from` on, that is `wanted`. Whatever holds for a row must hold for the maxima
    /// of stretches with that row. O(log rows) if it holds for no others.
    pub(super) fn first(&self, from: usize, wanted: impl Fn(&[T]) -> bool) -> Option<usize> {
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

    /// Lets `fill` rewrite a row, which it is handed as zeros. O(log rows).
    pub(super) fn set(&mut self, index: usize, fill: impl FnOnce(&mut [T])) {
        let at = (self.leaves + index) * self.width;
        let row = &mut self.nodes[at..at + self.width];
        row.fill(T::default());
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
        self.nodes[end - self.width..end].fill(T::default());
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
        self.nodes.resize(self.leaves * self.width, T::default());
        self.nodes.extend(rows);
        self.nodes.resize(2 * self.leaves * self.width, T::default());
        self.renew(0, self.leaves - 1);
    }

    /// The maxima above the rows `first` to `last`.
    fn renew(&mut self, first: usize, last: usize) {
        let width = self.width;
        let (mut low, mut high) = (self.leaves + first, self.leaves + last);
        while low > 1 {
            (low, high) = (low / 2, high / 2);
            for at in low * width..(high + 1) * width {
                let left = at + at / width * width;
                let (left, right) = (self.nodes[left], self.nodes[left + width]);
                self.nodes[at] = if left > right { left } else { right };
            }
        }
    }
}
