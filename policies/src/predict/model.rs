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
const BETTER: f64 = 0.97;
/// Sigma where a single sample tells nothing about it: a factor of about 3 either way for four in five.
const SIGMA_OF_ONE: f64 = 0.85;
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
            best.unwrap_or_else(|| (simplest, Model::Constant(constant(simplest, view.1)), SIGMA_OF_ONE));
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

/// The root mean square of residuals.
fn sigma(residuals: &[f64]) -> f64 {
    (residuals.iter().map(|r| r * r).sum::<f64>() / residuals.len() as f64).sqrt()
}
