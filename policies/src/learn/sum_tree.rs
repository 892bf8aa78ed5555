//! A tree of sums over non-negative weights: changes one, or finds the one at a point of the running sum, in
//! O(log weights). Each sum is computed afresh from its two parts, so that rounding does not pile up.

/// The tree.
#[derive(Debug, Clone)]
pub(super) struct SumTree {
    /// Sums; the children of `i` are `2 i` and `2 i + 1`, the leaves fill the second half.
    sums: Vec<f64>,
}

impl SumTree {
    /// All weights are 0.
    pub(super) fn new(count: usize) -> Self {
        Self { sums: vec![0.0; 2 * count.next_power_of_two()] }
    }

    pub(super) fn total(&self) -> f64 {
        self.sums[1]
    }

    pub(super) fn get(&self, index: usize) -> f64 {
        self.sums[self.sums.len() / 2 + index]
    }

    pub(super) fn set(&mut self, index: usize, weight: f64) {
        let mut at = self.sums.len() / 2 + index;
        self.sums[at] = weight;
        while at > 1 {
            at /= 2;
            self.sums[at] = self.sums[2 * at] + self.sums[2 * at + 1];
        }
    }

    /// The first index whose running sum is above `point`, which is at least 0 and below the total. Never one of
    /// weight 0 while the total is above 0.
    pub(super) fn find(&self, mut point: f64) -> usize {
        let leaves = self.sums.len() / 2;
        let mut at = 1;
        while at < leaves {
            at *= 2;
            // Rounding may carry the point past the left part though nothing lies to the right.
            if point >= self.sums[at] && self.sums[at + 1] > 0.0 {
                point -= self.sums[at];
                at += 1;
            }
        }
        at - leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(weights: &[f64]) -> SumTree {
        let mut tree = SumTree::new(weights.len());
        weights.iter().enumerate().for_each(|(i, w)| tree.set(i, *w));
        tree
    }

    #[test]
    fn finds_by_running_sum() {
        let tree = tree(&[1.0, 0.0, 2.0, 0.5, 3.0]);
        assert_eq!((tree.total(), tree.get(2)), (6.5, 2.0));
        let found = [0.0, 0.9, 1.0, 2.9, 3.0, 3.4, 3.5, 6.4, 6.5, 9.0].map(|point| tree.find(point));
        assert_eq!(found, [0, 0, 2, 2, 3, 3, 4, 4, 4, 4]);
    }

    #[test]
    fn changes_are_seen() {
        let mut tree = tree(&[1.0, 1.0, 1.0]);
        tree.set(1, 5.0);
        tree.set(0, 0.0);
        assert_eq!((tree.total(), tree.find(0.0), tree.find(5.5)), (6.0, 1, 2));
    }

    #[test]
    fn one_leaf() {
        let tree = tree(&[2.0]);
        assert_eq!((tree.total(), tree.find(1.0)), (2.0, 0));
    }
}
