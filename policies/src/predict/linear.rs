//! Linear models of the logarithm of the run time, by linfa's elastic net.
//!
//! The elastic net minimises `|y - Xw|^2 / 2n + penalty * (|w|_1 + |w|_2^2) / 2` (Zou and Hastie, 2005) by coordinate
//! descent, which columns that depend on each other do not upset; with a vanishing penalty it is least squares. linfa
//! does not scale the columns, so it is done here. O(rows x columns) per step.

use linfa::Dataset;
use linfa::traits::Fit;
use linfa_elasticnet::ElasticNet;
use ndarray::{Array1, ArrayView1, ArrayView2};

use super::scale::Scaler;

/// The penalty of ordinary least squares.
pub(super) const LEAST_SQUARES: f64 = 1e-7;
/// Share of the absolute values in the penalty.
const L1_RATIO: f64 = 0.5;
const MOST_STEPS: u32 = 500;

/// A fitted plane over scaled columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Linear {
    scaler: Scaler,
    weights: Array1<f64>,
    intercept: f64,
}

impl Linear {
    /// None if no column varies or linfa finds no finite solution.
    pub(super) fn fit(x: ArrayView2<'_, f64>, y: ArrayView1<'_, f64>, penalty: f64) -> Option<Self> {
        let scaler = Scaler::fit(x);
        if scaler.width() == 0 {
            return None;
        }
        let data = Dataset::new(scaler.matrix(x), y.to_owned());
        let params = ElasticNet::params().penalty(penalty).l1_ratio(L1_RATIO).max_iterations(MOST_STEPS);
        let net = params.fit(&data).ok()?;
        let (weights, intercept) = (net.hyperplane().clone(), net.intercept());
        let is_finite = intercept.is_finite() && weights.iter().all(|w| w.is_finite());
        is_finite.then_some(Self { scaler, weights, intercept })
    }

    pub(super) fn predict(&self, x: ArrayView1<'_, f64>) -> f64 {
        self.scaler.row(x).dot(&self.weights) + self.intercept
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn least_squares_on_three_points() {
        // Through (0, 1), (1, 2) and (2, 6): slope 5/2, mean 3 at x = 1.
        let (x, y) = (array![[0.0], [1.0], [2.0]], array![1.0, 2.0, 6.0]);
        let line = Linear::fit(x.view(), y.view(), LEAST_SQUARES).unwrap();
        for (at, expected) in [(0.0, 0.5), (1.0, 3.0), (4.0, 10.5)] {
            let value = line.predict(array![at].view());
            assert!((value - expected).abs() < 1e-5, "{at}: {value}");
        }
    }

    #[test]
    fn the_penalty_shrinks_as_the_formula_says() {
        // One scaled column x = (-1, 1) * sqrt(3/2) ..., n = 3: w = (c - p/2) / (1 + p/2), where c = x.y / n.
        let (x, y) = (array![[0.0], [1.0], [2.0]], array![1.0, 2.0, 6.0]);
        let c = 5.0 * 1.5_f64.sqrt() / 3.0;
        for penalty in [0.5, 1.0] {
            let line = Linear::fit(x.view(), y.view(), penalty).unwrap();
            let expected = (c - penalty / 2.0) / (1.0 + penalty / 2.0);
            assert!((line.weights[0] - expected).abs() < 1e-5, "{:?} {expected}", line.weights);
        }
        assert_eq!(Linear::fit(x.view(), y.view(), 10.0).unwrap().weights[0], 0.0);
    }

    #[test]
    fn columns_that_repeat_or_stay_constant_do_no_harm() {
        let x = array![[0.0, 0.0, 4.0], [1.0, 1.0, 4.0], [2.0, 2.0, 4.0]];
        let y = array![0.0, 1.0, 2.0];
        let plane = Linear::fit(x.view(), y.view(), LEAST_SQUARES).unwrap();
        assert!((plane.predict(array![3.0, 3.0, 4.0].view()) - 3.0).abs() < 1e-4);
        let constant = array![[1.0], [1.0], [1.0]];
        assert!(Linear::fit(constant.view(), y.view(), LEAST_SQUARES).is_none());
    }
}
