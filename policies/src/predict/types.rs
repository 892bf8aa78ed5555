//! Task types by what tasks look like, for kinds that were never seen: k-means (Lloyd, 1982) on scaled features.
//!
//! O(rows x types x columns) per iteration.

use linfa::DatasetBase;
use linfa::traits::Fit;
use linfa_clustering::KMeans;
use mdts_core::Rng;
use ndarray::{Array2, ArrayView1, ArrayView2, Axis};
use rand::RngCore;
use rand_xoshiro::Xoshiro256Plus;
use rand_xoshiro::rand_core::SeedableRng;

use super::scale::Scaler;

/// Most types, and fewest rows of each on average.
const MOST: usize = 8;
const ROWS_PER_TYPE: usize = 20;
const TRIES: usize = 3;

/// Discovered types: the centres of clusters of scaled features.
#[derive(Debug)]
pub(super) struct Types {
    scaler: Scaler,
    centres: Array2<f64>,
}

impl Types {
    /// Finds up to eight types among the rows; one if they are few or all the same.
    pub(super) fn discover(x: ArrayView2<'_, f64>, rng: &mut Rng) -> Self {
        let scaler = Scaler::fit(x);
        let scaled = scaler.matrix(x);
        let wanted = (x.nrows() / ROWS_PER_TYPE).min(MOST).min(distinct(&scaled));
        let rng = Xoshiro256Plus::seed_from_u64(rng.next_u64());
        let centres = if wanted > 1 {
            let data = DatasetBase::from(scaled);
            let found = KMeans::params_with_rng(wanted, rng).n_runs(TRIES).fit(&data);
            found.map(|types| types.centroids().clone()).ok()
        } else {
            None
        };
        let centres = centres.unwrap_or_else(|| Array2::zeros((1, scaler.width())));
        Self { scaler, centres }
    }

    /// How many types there are, at least 1.
    pub(super) fn count(&self) -> usize {
        self.centres.nrows()
    }

    /// The nearest type.
    pub(super) fn of(&self, row: ArrayView1<'_, f64>) -> usize {
        let row = self.scaler.row(row);
        let distances = self.centres.axis_iter(Axis(0)).map(|centre| (&row - &centre).mapv(|d| d * d).sum());
        let nearest = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        nearest.map_or(0, |(at, _)| at)
    }
}

/// How many different rows there are, counted up to the most types.
fn distinct(rows: &Array2<f64>) -> usize {
    let mut seen: Vec<ArrayView1<'_, f64>> = Vec::new();
    for row in rows.axis_iter(Axis(0)) {
        if seen.len() < MOST && !seen.contains(&row) {
            seen.push(row);
        }
    }
    seen.len()
}

#[cfg(test)]
mod tests {
    use mdts_dag::generate::seeded;
    use ndarray::array;

    use super::*;

    #[test]
    fn tasks_that_look_alike_are_of_one_type() {
        let x = Array2::from_shape_fn((60, 2), |(row, column)| {
            let centre = if row % 2 == 0 { 0.0 } else { 10.0 };
            centre + 0.1 * ((row * 7 + column * 3) % 10) as f64
        });
        let types = Types::discover(x.view(), &mut seeded(1));
        assert!(types.count() > 1);
        let (small, large): (Vec<_>, Vec<_>) =
            x.axis_iter(Axis(0)).map(|row| types.of(row)).enumerate().partition(|(row, _)| row % 2 == 0);
        assert!(small.iter().all(|(_, of)| large.iter().all(|(_, other)| of != other)));
        assert_eq!(Types::discover(x.view(), &mut seeded(1)).centres, types.centres);
    }

    #[test]
    fn few_or_equal_tasks_are_one_type() {
        for x in [array![[1.0, 2.0], [3.0, 4.0]], Array2::ones((100, 2))] {
            let types = Types::discover(x.view(), &mut seeded(1));
            assert_eq!((types.count(), types.of(x.row(0))), (1, 0));
        }
    }
}
