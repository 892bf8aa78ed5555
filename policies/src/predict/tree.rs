//! A regression tree of the logarithm of the run time (Breiman et al., 1984): each split lowers the sum of squares most.
//!
//! linfa's trees classify only and break ties by chance; this one gives the same tree for the same rows.
//! O(depth x columns x rows log rows) time.

use ndarray::{ArrayView1, ArrayView2};

/// How far a tree grows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) depth: usize,
    /// Fewest rows of a leaf.
    pub(super) leaf: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 6, leaf: 5 }
    }
}

/// A node of the tree; children have higher positions than their parent.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Leaf(f64),
    Split { column: usize, threshold: f64, low: usize, high: usize },
}

/// A fitted tree.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tree {
    nodes: Vec<Node>,
}

/// The best way to divide some rows.
struct Cut {
    column: usize,
    threshold: f64,
    /// By how much the sum of squares falls.
    gain: f64,
}

struct Grower<'a> {
    x: ArrayView2<'a, f64>,
    y: ArrayView1<'a, f64>,
    limits: Limits,
    nodes: Vec<Node>,
}

impl Tree {
    /// Grows a tree on at least one row.
    pub(super) fn fit<'a>(x: ArrayView2<'a, f64>, y: ArrayView1<'a, f64>, limits: Limits) -> Self {
        let mut grower = Grower { x, y, limits, nodes: Vec::new() };
        grower.grow(&mut (0..x.nrows()).collect::<Vec<_>>(), limits.depth);
        Self { nodes: grower.nodes }
    }

    pub(super) fn predict(&self, x: ArrayView1<'_, f64>) -> f64 {
        let mut at = 0;
        loop {
            match self.nodes[at] {
                Node::Leaf(value) => return value,
                Node::Split { column, threshold, low, high } => {
                    at = if x[column] <= threshold { low } else { high };
                }
            }
        }
    }
}

impl Grower<'_> {
    /// Adds the tree of these rows and returns its position.
    fn grow(&mut self, rows: &mut [usize], depth: usize) -> usize {
        let at = self.nodes.len();
        let mean = rows.iter().map(|row| self.y[*row]).sum::<f64>() / rows.len() as f64;
        self.nodes.push(Node::Leaf(mean));
        if depth > 0
            && let Some(Cut { column, threshold, .. }) = self.best_cut(rows)
        {
            rows.sort_by(|a, b| self.x[[*a, column]].total_cmp(&self.x[[*b, column]]));
            let middle = rows.partition_point(|row| self.x[[*row, column]] <= threshold);
            let (below, above) = rows.split_at_mut(middle);
            let low = self.grow(below, depth - 1);
            let high = self.grow(above, depth - 1);
            self.nodes[at] = Node::Split { column, threshold, low, high };
        }
        at
    }

    /// The first of the best cuts, if one helps.
    fn best_cut(&self, rows: &mut [usize]) -> Option<Cut> {
        let total: f64 = rows.iter().map(|row| self.y[*row]).sum();
        let n = rows.len() as f64;
        let mut best: Option<Cut> = None;
        for column in 0..self.x.ncols() {
            rows.sort_by(|a, b| self.x[[*a, column]].total_cmp(&self.x[[*b, column]]).then(a.cmp(b)));
            let mut sum = 0.0;
            for i in 1..rows.len() {
                sum += self.y[rows[i - 1]];
                let (before, after) = (self.x[[rows[i - 1], column]], self.x[[rows[i], column]]);
                if before == after || i < self.limits.leaf || rows.len() - i < self.limits.leaf {
                    continue;
                }
                let (low, rest) = (i as f64, total - sum);
                let gain = sum * sum / low + rest * rest / (n - low) - total * total / n;
                if gain > best.as_ref().map_or(1e-9 * n, |cut| cut.gain) {
                    best = Some(Cut { column, threshold: f64::midpoint(before, after), gain });
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, Array2, array};

    use super::*;

    #[test]
    fn splits_are_where_the_sum_of_squares_falls_most() {
        let x = array![[9.0, 1.0], [1.0, 2.0], [8.0, 3.0], [2.0, 10.0], [7.0, 11.0], [3.0, 12.0]];
        let y = array![1.0, 1.0, 1.0, 5.0, 5.0, 8.0];
        let tree = Tree::fit(x.view(), y.view(), Limits { depth: 1, leaf: 1 });
        let split = Node::Split { column: 1, threshold: 6.5, low: 1, high: 2 };
        assert_eq!(tree.nodes, [split, Node::Leaf(1.0), Node::Leaf(6.0)]);
        assert_eq!(tree.predict(array![0.0, 6.5].view()), 1.0);
        assert_eq!(tree.predict(array![0.0, 100.0].view()), 6.0);
    }

    #[test]
    fn leaves_keep_their_size_and_nothing_is_split_without_gain() {
        let x = Array2::from_shape_fn((10, 1), |(row, _)| row as f64);
        let y = Array1::from_iter((0..10).map(|row| if row == 0 { 100.0 } else { 0.0 }));
        let tree = Tree::fit(x.view(), y.view(), Limits { depth: 1, leaf: 4 });
        assert_eq!(tree.nodes[0], Node::Split { column: 0, threshold: 3.5, low: 1, high: 2 });
        let flat = Tree::fit(x.view(), Array1::zeros(10).view(), Limits::default());
        assert_eq!(flat.nodes, [Node::Leaf(0.0)]);
        let same = Tree::fit(Array2::zeros((10, 1)).view(), y.view(), Limits::default());
        assert_eq!(same.nodes, [Node::Leaf(10.0)]);
    }
}
