//! Checks of gradients for tests: backward against central differences, in f64.

use candle_core::{Device, Tensor, Var};
use mdts_core::Rng;
use rand::{Rng as _, SeedableRng};

/// A matrix of numbers in -1..1.
pub(super) fn variable(rows: usize, columns: usize, seed: u64) -> Var {
    let mut rng = Rng::seed_from_u64(seed);
    let values: Vec<f64> = (0..rows * columns).map(|_| rng.random_range(-1.0..1.0)).collect();
    Var::from_vec(values, (rows, columns), &Device::Cpu).unwrap()
}

pub(super) fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// Checks the gradient by each variable. Every output counts with another weight, so that none hides another.
pub(super) fn check(vars: &[&Var], forward: impl Fn() -> Tensor) {
    let y = forward();
    let weights = variable(1, y.elem_count(), 99).as_detached_tensor().reshape(y.shape()).unwrap();
    let loss = || (forward() * &weights).unwrap().sum_all().unwrap();
    let gradients = loss().backward().unwrap();
    for var in vars {
        let analytic = numbers(gradients.get(var).expect("a gradient"));
        let start = numbers(var);
        let set = |values| var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu).unwrap()).unwrap();
        for i in 0..start.len() {
            let at = |step: f64| {
                let mut moved = start.clone();
                moved[i] += step;
                set(moved);
                loss().to_scalar::<f64>().unwrap()
            };
            let numeric = (at(1e-6) - at(-1e-6)) / 2e-6;
            let error = (analytic[i] - numeric).abs();
            assert!(error < 1e-6 * numeric.abs().max(1.0), "{i}: {} {numeric}", analytic[i]);
        }
        set(start);
    }
}
