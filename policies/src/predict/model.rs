//! The models of one type's run times, and the choice among them by cross-validation.
//!
//! Models see logarithms of run times, because run times are positive, spread over orders of magnitude and are judged
//! by relative error. Rows are left out by run, so that a model is chosen for what it says of a workflow it has not
//! seen; of two that are nearly as good, the simpler is taken.

use mdts_core::Rng;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};
use rand::seq::SliceRandom;
use serde::Serialize;

use super::linear::{LEAST_SQUARES, Linear};
use super::tree::{Limits, Tree};

/// A kind of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The median of all run times.
    Median,
    /// The mean of all run times.
    Mean,
    /// A plane through logarithms with shrunken weights.
    ElasticNet,
    /// A plane through logarithms by least squares.
    Linear,
    /// A regression tree.
    Tree,
}

impl Method {
    /// The simplest first.
    pub const ALL: [Self; 5] = [Self::Median, Self::Mean, Self::ElasticNet, Self::Linear, Self::Tree];

    /// The method's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::Mean => "mean",
            Self::ElasticNet => "elastic-net",
            Self::Linear => "linear",
            Self::Tree => "tree",
        }
    }

    /// Penalties to try.
    const fn penalties(self) -> &'static [f64] {
        match self {
            Self::ElasticNet => &[0.3, 0.1, 0.03],
            Self::Linear => &[LEAST_SQUARES],
            Self::Median | Self::Mean | Self::Tree => &[0.0],
        }
    }
}

/// What is known of one type: a row of columns, the logarithm of the run time and the run of every sample.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) x: Array2<f64>,
    pub(super) y: Array1<f64>,
    pub(super) run: Vec<u32>,
}

/// Fewest rows for a model with columns; a median needs one.
const FEWEST: usize = 6;
const FOLDS: usize = 5;
/// How much better than a simpler model a model has to be.
const BETTER: f64 = 0.9;
/// Sigma before any residual is known, a factor of about 3 either way for four in five; it counts as one residual.
const FIRST_SIGMA: f64 = 0.85;
/// No run time is believed further outside those that were seen: a factor of 4.
const BEYOND: f64 = 1.386;

/// Predicts the logarithm of a run time.
#[derive(Debug, Clone, PartialEq)]
enum Model {
    Constant(f64),
    Linear(Linear),
    Tree(Tree),
}

/// The model that cross-validation chose.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    pub(super) method: Method,
    /// Standard deviation of the logarithm, from rows left out.
    pub(super) sigma: f64,
    model: Model,
    /// Range of what it may predict.
    range: (f64, f64),
}

impl Choice {
    /// Chooses among `methods`; their first is taken for a handful of samples. There is at least one sample.
    pub(super) fn fit(samples: &Samples, methods: &[Method], rng: &mut Rng) -> Self {
        let view = (samples.x.view(), samples.y.view());
        let simplest = methods.first().copied().unwrap_or(Method::Median);
        let folds = folds(&samples.run, rng);
        let (mut best, mut best_score) = (None, f64::INFINITY);
        for &method in methods {
            if samples.y.len() < FEWEST && method != simplest {
                continue;
            }
            for &penalty in method.penalties() {
                let Some(residuals) = left_out(samples, &folds, method, penalty) else { continue };
                let score = score(&residuals, &samples.run);
                if score < best_score * if best.is_some() { BETTER } else { 1.0 }
                    && let Some(model) = Model::fit(method, penalty, view.0, view.1)
                {
                    (best, best_score) = (Some((method, model, sigma(&residuals))), score);
                }
            }
        }
        let (method, model, sigma) =
            best.unwrap_or_else(|| (simplest, Model::Constant(constant(simplest, view.1)), sigma(&[])));
        let lowest = samples.y.fold(f64::INFINITY, |a, b| a.min(*b));
        let highest = samples.y.fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        Self { method, sigma, model, range: (lowest - BEYOND, highest + BEYOND) }
    }

    /// The logarithm of the run time.
    pub(super) fn predict(&self, x: ArrayView1<'_, f64>) -> f64 {
        self.model.predict(x).clamp(self.range.0, self.range.1)
    }
}

impl Model {
    fn fit<'a>(method: Method, penalty: f64, x: ArrayView2<'a, f64>, y: ArrayView1<'a, f64>) -> Option<Self> {
        match method {
            Method::Median | Method::Mean => Some(Self::Constant(constant(method, y))),
            Method::Linear | Method::ElasticNet => Linear::fit(x, y, penalty).map(Self::Linear),
            Method::Tree => Some(Self::Tree(Tree::fit(x, y, Limits::default()))),
        }
    }

    fn predict(&self, x: ArrayView1<'_, f64>) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Linear(plane) => plane.predict(x),
            Self::Tree(tree) => tree.predict(x),
        }
    }
}

/// The logarithm of the mean run time, or the median logarithm.
fn constant(method: Method, y: ArrayView1<'_, f64>) -> f64 {
    match method {
        Method::Mean => y.mapv(f64::exp).mean().unwrap_or(0.0).ln(),
        _ => median(&mut y.to_vec()),
    }
}

/// The middle value, or the mean of the two in the middle; NaN of none. O(n log n).
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Which fold every row is left out with: whole runs where there are several, else single rows.
fn folds(runs: &[u32], rng: &mut Rng) -> Vec<usize> {
    let mut distinct = runs.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let mut deal = |n: usize| {
        let mut order: Vec<usize> = (0..n).map(|i| i % FOLDS.min(n)).collect();
        order.shuffle(rng);
        order
    };
    if distinct.len() < 2 {
        return deal(runs.len());
    }
    let of_run = deal(distinct.len());
    runs.iter().map(|run| of_run[distinct.partition_point(|other| other < run)]).collect()
}

/// Residuals of every row by a model that has not seen it; none if there is but one fold or a model fails.
fn left_out(samples: &Samples, folds: &[usize], method: Method, penalty: f64) -> Option<Vec<f64>> {
    let count = folds.iter().max()? + 1;
    if count < 2 {
        return None;
    }
    let mut residuals = vec![0.0; folds.len()];
    for fold in 0..count {
        let rows: Vec<usize> = (0..folds.len()).filter(|row| folds[*row] != fold).collect();
        let (x, y) = (samples.x.select(Axis(0), &rows), samples.y.select(Axis(0), &rows));
        let model = Model::fit(method, penalty, x.view(), y.view())?;
        for row in (0..folds.len()).filter(|row| folds[*row] == fold) {
            residuals[row] = samples.y[row] - model.predict(samples.x.row(row));
        }
    }
    Some(residuals)
}

/// The mean over runs of the mean absolute residual: a run of many tasks counts no more than one of few.
fn score(residuals: &[f64], runs: &[u32]) -> f64 {
    let mut of_run: std::collections::BTreeMap<u32, (f64, f64)> = std::collections::BTreeMap::new();
    for (residual, run) in residuals.iter().zip(runs) {
        let (sum, n) = of_run.entry(*run).or_default();
        *sum += residual.abs();
        *n += 1.0;
    }
    of_run.values().map(|(sum, n)| sum / n).sum::<f64>() / of_run.len() as f64
}

/// The root mean square of residuals and one of [`FIRST_SIGMA`], so that two equal run times are not taken for a law.
fn sigma(residuals: &[f64]) -> f64 {
    let squares = residuals.iter().map(|r| r * r).sum::<f64>() + FIRST_SIGMA * FIRST_SIGMA;
    (squares / (residuals.len() + 1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use mdts_dag::generate::seeded;
    use rand::Rng as _;

    use super::*;

    fn choose(x: Array2<f64>, y: Array1<f64>, run: Vec<u32>) -> Choice {
        Choice::fit(&Samples { x, y, run }, &Method::ALL, &mut seeded(1))
    }

    #[test]
    fn the_model_follows_the_shape_of_the_data() {
        let mut seeds = seeded(5);
        let x = Array2::from_shape_fn((60, 2), |(row, column)| if column == 0 { row as f64 } else { 1.0 });
        let runs: Vec<u32> = (0..60).map(|row| row % 6).collect();
        let column = |of: fn(f64) -> f64| x.column(0).mapv(of);
        let noise: Array1<f64> = (0..60).map(|_| seeds.random_range(-0.1..0.1)).collect();
        let table = [
            (noise, vec![Method::Median]),
            (column(|row| 0.5 * row), vec![Method::Linear, Method::ElasticNet]),
            (
                column(|row| {
                    if row < 20.0 {
                        0.0
                    } else if row < 40.0 {
                        9.0
                    } else {
                        1.0
                    }
                }),
                vec![Method::Tree],
            ),
        ];
        for (y, expected) in table {
            let choice = choose(x.clone(), y, runs.clone());
            assert!(expected.contains(&choice.method), "{:?} is not in {expected:?}", choice.method);
        }
    }

    #[test]
    fn whole_runs_are_left_out() {
        let folds = folds(&[7, 7, 9, 9, 9, 12], &mut seeded(3));
        assert_eq!((folds[0], folds[2], folds[3]), (folds[1], folds[3], folds[4]));
        let mut distinct = vec![folds[0], folds[2], folds[5]];
        distinct.sort_unstable();
        assert_eq!(distinct, [0, 1, 2]);
    }

    #[test]
    fn constants_and_scores_are_what_the_words_say() {
        let y = ndarray::array![1.0_f64, 2.0, 9.0].mapv(f64::ln);
        assert!((constant(Method::Mean, y.view()) - 4.0_f64.ln()).abs() < 1e-12);
        assert_eq!(constant(Method::Median, y.view()), 2.0_f64.ln());
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
        // Runs count alike: (|1| + |-3|) / 2 = 2 and 5.
        assert_eq!(score(&[1.0, -3.0, 5.0], &[1, 1, 2]), 3.5);
        assert_eq!(sigma(&[]), FIRST_SIGMA);
        assert!((sigma(&[2.0, 2.0]) - ((8.0 + 0.85 * 0.85) / 3.0_f64).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_two_or_three_samples_give_their_median() {
        for (y, expected) in [(vec![1.0], 1.0), (vec![1.0, 3.0], 2.0), (vec![1.0, 2.0, 9.0], 2.0)] {
            let n = y.len();
            let choice = choose(Array2::from_shape_fn((n, 2), |(r, _)| r as f64), y.into(), vec![1; n]);
            assert_eq!(choice.predict(ndarray::array![5.0, 5.0].view()), expected);
            assert!(choice.method == Method::Median && choice.sigma > 0.2, "{choice:?}");
        }
    }

    #[test]
    fn nothing_far_beyond_what_was_seen_is_believed() {
        let x = Array2::from_shape_fn((20, 1), |(row, _)| row as f64);
        let choice = choose(x.clone(), x.column(0).to_owned(), vec![1; 20]);
        assert_eq!(choice.predict(ndarray::array![1e9].view()), 19.0 + BEYOND);
        assert_eq!(choice.predict(ndarray::array![-1e9].view()), -BEYOND);
    }
}
