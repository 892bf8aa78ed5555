//! Adam, in place.
//!
//! Source: Kingma, Ba: Adam: a method for stochastic optimization, ICLR 2015; weight decay apart from the gradient as
//! in Loshchilov, Hutter: Decoupled weight decay regularization, ICLR 2019. Weights are changed where they lie, without
//! temporary tensors. Gradients whose squares, and moments that themselves, would become denormal numbers count as zero:
//! processors compute with those many times slower. O(numbers in all parameters) per step.

use std::cell::RefCell;

use candle_core::{CpuStorage, InplaceOp2, Layout, Var};
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::gradients::Gradients;
use super::params::Params;
use super::storage::{values, with_values};

/// Where the number of steps is kept among the moments of [`Adam::state`].
const STEPS: &str = "adam.steps";

/// Gradients below this count as 0. Beside epsilon they could not move a weight anyway.
const NEGLIGIBLE: f32 = 1e-16;

/// Settings of [`Adam`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamConfig {
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of squared gradients.
    pub beta2: f32,
    /// Keeps the division finite.
    pub epsilon: f32,
    /// Share of a weight that one step at learning rate 1 takes away.
    pub weight_decay: f32,
}

impl Default for AdamConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }
}

impl AdamConfig {
    /// Checks all ranges.
    ///
    /// # Errors
    /// [`Error::Setting`] naming what is out of range.
    pub fn check(&self) -> Result<()> {
        let is_decay = |beta: f32| (0.0..1.0).contains(&beta);
        let decay = "at least 0 and less than 1";
        let rules = [
            (is_decay(self.beta1), "beta1 of Adam", self.beta1, decay),
            (is_decay(self.beta2), "beta2 of Adam", self.beta2, decay),
            (
                self.epsilon > 0.0 && self.epsilon.is_finite(),
                "epsilon of Adam",
                self.epsilon,
                "a finite number above 0",
            ),
            (
                self.weight_decay >= 0.0 && self.weight_decay.is_finite(),
                "weight decay",
                self.weight_decay,
                "a finite number of at least 0",
            ),
        ];
        match rules.into_iter().find(|rule| !rule.0) {
            Some((_, what, found, expected)) => {
                Err(Error::Setting { what, found: found.to_string(), expected })
            }
            None => Ok(()),
        }
    }
}

/// The optimizer with its moments.
#[derive(Debug, Clone)]
pub struct Adam {
    config: AdamConfig,
    steps: u32,
    moments: Vec<Moments>,
}

#[derive(Debug, Clone)]
struct Moments {
    first: Vec<f32>,
    second: Vec<f32>,
}

impl Adam {
    /// An optimizer for these parameters.
    ///
    /// # Errors
    /// Those of [`AdamConfig::check`].
    pub fn new(params: &Params, config: AdamConfig) -> Result<Self> {
        config.check()?;
        let zeros = |count| Moments { first: vec![0.0; count], second: vec![0.0; count] };
        let moments = params.iter().map(|(_, var)| zeros(var.elem_count())).collect();
        Ok(Self { config, steps: 0, moments })
    }

    /// How many steps have been made.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Moves the parameters against the gradients.
    ///
    /// # Errors
    /// [`Error::Size`] if the gradients belong to other parameters, [`Error::NotFinite`] for a bad learning rate;
    /// nothing has changed then.
    pub fn step(&mut self, params: &Params, gradients: &Gradients, rate: f64) -> Result<()> {
        if !rate.is_finite() {
            return Err(Error::not_finite("the learning rate"));
        }
        let tensors = gradients.tensors();
        for (what, count) in [("gradients", tensors.len()), ("parameters", params.len())] {
            if count != self.moments.len() {
                return Err(Error::size(what, count, self.moments.len()));
            }
        }
        for (((name, var), gradient), moments) in params.iter().zip(tensors).zip(&self.moments) {
            if var.shape() != gradient.shape() || var.elem_count() != moments.first.len() {
                let found = format!("{:?}", gradient.shape());
                return Err(Error::size(
                    format!("gradient of '{name}'"),
                    found,
                    format!("{:?}", var.shape()),
                ));
            }
        }
        self.steps = self.steps.saturating_add(1);
        let update = Update::new(&self.config, self.steps, rate, gradients.scale());
        for (((_, var), gradient), moments) in params.iter().zip(tensors).zip(&mut self.moments) {
            var.inplace_op2(gradient, &InPlace { update, moments: RefCell::new(moments) })?;
        }
        Ok(())
    }

    /// The moments and the number of steps as matrices, for a checkpoint that a training run resumes from.
    ///
    /// # Errors
    /// [`Error::Size`] if these are not the parameters of this optimizer.
    pub fn state(&self, params: &Params) -> Result<Params> {
        if params.len() != self.moments.len() {
            return Err(Error::size("parameters", params.len(), self.moments.len()));
        }
        let mut state = Params::default();
        for ((name, var), moments) in params.iter().zip(&self.moments) {
            let (rows, columns) = var.dims2()?;
            state.insert(format!("adam.first.{name}"), rows, columns, moments.first.clone())?;
            state.insert(format!("adam.second.{name}"), rows, columns, moments.second.clone())?;
        }
        state.insert(STEPS.into(), 1, 1, vec![self.steps as f32])?;
        Ok(state)
    }

    /// Continues from what [`Adam::state`] gave.
    ///
    /// # Errors
    /// [`Error::Size`] if the state belongs to other parameters; nothing has changed then.
    pub fn restore(&mut self, state: &Params) -> Result<()> {
        let copy = |(_, var): (_, &Var)| Ok(with_values(var, <[f32]>::to_vec)?);
        let all = state.iter().map(copy).collect::<Result<Vec<_>>>()?;
        let expected: Vec<usize> = self.moments.iter().flat_map(|m| [m.first.len(); 2]).chain([1]).collect();
        let found: Vec<usize> = all.iter().map(Vec::len).collect();
        if found != expected {
            return Err(Error::size("moments", format!("{found:?}"), format!("{expected:?}")));
        }
        let mut all = all.into_iter();
        for moments in &mut self.moments {
            for own in [&mut moments.first, &mut moments.second] {
                *own = all.next().unwrap_or_default();
            }
        }
        self.steps = all.next().map_or(0, |steps| steps[0] as u32);
        Ok(())
    }
}

/// What one step does to every number.
#[derive(Debug, Clone, Copy)]
struct Update {
    scale: f32,
    beta1: f32,
    beta2: f32,
    /// Learning rate, corrected for the start of the first moment at zero.
    rate: f32,
    /// 1 / sqrt of the same correction of the second moment.
    spread: f32,
    epsilon: f32,
    keep: f32,
}

impl Update {
    fn new(config: &AdamConfig, steps: u32, rate: f64, scale: f32) -> Self {
        let correction = |beta: f32| 1.0 - f64::from(beta).powf(f64::from(steps));
        Self {
            scale,
            beta1: config.beta1,
            beta2: config.beta2,
            rate: (rate / correction(config.beta1)) as f32,
            spread: (1.0 / correction(config.beta2).sqrt()) as f32,
            epsilon: config.epsilon,
            keep: (1.0 - rate * f64::from(config.weight_decay)) as f32,
        }
    }

    fn apply(self, weights: &mut [f32], gradients: &[f32], moments: &mut Moments) {
        let moments = moments.first.iter_mut().zip(&mut moments.second);
        for ((weight, gradient), (first, second)) in weights.iter_mut().zip(gradients).zip(moments) {
            let gradient = gradient * self.scale;
            let gradient = if gradient.abs() < NEGLIGIBLE { 0.0 } else { gradient };
            *first = normal_or_zero(self.beta1 * *first + (1.0 - self.beta1) * gradient);
            *second = normal_or_zero(self.beta2 * *second + (1.0 - self.beta2) * gradient * gradient);
            *weight = self.keep * *weight - self.rate * *first / (second.sqrt() * self.spread + self.epsilon);
        }
    }
}

fn normal_or_zero(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x }
}

struct InPlace<'a> {
    update: Update,
    moments: RefCell<&'a mut Moments>,
}

impl InplaceOp2 for InPlace<'_> {
    fn name(&self) -> &'static str {
        "adam"
    }

    fn cpu_fwd(
        &self,
        weights: &mut CpuStorage,
        weights_layout: &Layout,
        gradients: &CpuStorage,
        gradients_layout: &Layout,
    ) -> candle_core::Result<()> {
        let gradients = values((gradients, gradients_layout))?;
        let (CpuStorage::F32(weights), Some((start, end))) = (weights, weights_layout.contiguous_offsets())
        else {
            candle_core::bail!("adam: contiguous weights of f32 expected");
        };
        self.update.apply(&mut weights[start..end], gradients, &mut self.moments.borrow_mut());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};
    use mdts_core::Rng;
    use rand::SeedableRng;

    use super::*;
    use crate::learn::params::Init;

    fn params(start: f32) -> Params {
        let mut params = Params::default();
        params.add("w", 1, 2, Init::Constant(start), &mut Rng::seed_from_u64(1)).unwrap();
        params
    }

    /// Gradients that are these factors.
    fn gradients(params: &Params, factors: [f32; 2]) -> Gradients {
        let factors = Tensor::from_slice(&factors, (1, 2), &Device::Cpu).unwrap();
        let loss = (params.get("w").unwrap().as_tensor() * factors).unwrap().sum_all().unwrap();
        Gradients::of(&loss, params).unwrap()
    }

    fn weights(params: &Params) -> Vec<f32> {
        params.get("w").unwrap().flatten_all().unwrap().to_vec1().unwrap()
    }

    /// The formula of the paper in f64.
    fn by_hand(start: f64, all: &[f64], rate: f64, decay: f64) -> f64 {
        let (mut w, mut m, mut v) = (start, 0.0, 0.0);
        for (t, g) in (1..).zip(all) {
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            let step = (m / (1.0 - 0.9_f64.powi(t))) / ((v / (1.0 - 0.999_f64.powi(t))).sqrt() + 1e-8);
            w = w * (1.0 - rate * decay) - rate * step;
        }
        w
    }

    #[test]
    fn steps_follow_the_paper() {
        for decay in [0.0, 0.1] {
            let params = params(1.0);
            let mut adam =
                Adam::new(&params, AdamConfig { weight_decay: decay, ..Default::default() }).unwrap();
            let all = [[0.5, -2.0], [-0.25, 1.0], [3.0, 0.0], [0.1, 0.1]];
            for factors in all {
                adam.step(&params, &gradients(&params, factors), 0.1).unwrap();
            }
            for (i, found) in weights(&params).iter().enumerate() {
                let expected = by_hand(1.0, &all.map(|f| f64::from(f[i])), 0.1, f64::from(decay));
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} {expected}");
            }
        }
    }

    #[test]
    fn clipped_gradients_are_scaled() {
        let (a, b) = (params(1.0), params(1.0));
        let (mut on_a, mut on_b) =
            (Adam::new(&a, AdamConfig::default()).unwrap(), Adam::new(&b, AdamConfig::default()).unwrap());
        for _ in 0..2 {
            on_a.step(&a, &gradients(&a, [3.0, 4.0]).clip(1.0), 0.1).unwrap();
            on_b.step(&b, &gradients(&b, [0.6, 0.8]), 0.1).unwrap();
        }
        assert_eq!(on_a.moments[0].first, on_b.moments[0].first);
        assert_eq!(weights(&a), weights(&b));
    }

    #[test]
    fn moments_never_become_denormal() {
        let params = params(1.0);
        let mut adam = Adam::new(&params, AdamConfig { beta2: 0.9, ..Default::default() }).unwrap();
        adam.step(&params, &gradients(&params, [1e-3, -1e-12]), 0.01).unwrap();
        let rest = gradients(&params, [0.0, 0.0]);
        for _ in 0..1500 {
            adam.step(&params, &rest, 0.01).unwrap();
            let moments = &adam.moments[0];
            assert!(moments.first.iter().chain(&moments.second).all(|m| !m.is_subnormal()));
        }
        assert_eq!(adam.moments[0].first, [0.0, 0.0]);
        assert!(weights(&params).iter().all(|w| w.is_finite()));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let params = params(1.0);
        let mut adam = Adam::new(&params, AdamConfig::default()).unwrap();
        assert!(adam.step(&params, &gradients(&params, [1.0, 1.0]), f64::NAN).is_err());
        let mut other = Params::default();
        let w = other.add("w", 2, 2, Init::Constant(1.0), &mut Rng::seed_from_u64(1)).unwrap();
        let wrong = Gradients::of(&w.sum_all().unwrap(), &other).unwrap();
        assert!(adam.step(&params, &wrong, 0.1).unwrap_err().to_string().contains("'w'"));
        assert_eq!((adam.steps(), weights(&params)), (0, vec![1.0, 1.0]));
    }

    #[test]
    fn a_restored_optimizer_continues_exactly() {
        let (a, b) = (params(1.0), params(1.0));
        let mut first = Adam::new(&a, AdamConfig::default()).unwrap();
        first.step(&a, &gradients(&a, [0.5, -2.0]), 0.1).unwrap();
        b.copy_from(&a).unwrap();
        let mut second = Adam::new(&b, AdamConfig::default()).unwrap();
        second.restore(&first.state(&a).unwrap()).unwrap();
        first.step(&a, &gradients(&a, [1.0, 1.0]), 0.1).unwrap();
        second.step(&b, &gradients(&b, [1.0, 1.0]), 0.1).unwrap();
        assert_eq!(weights(&a), weights(&b));
        assert_eq!(second.steps(), 2);
        assert!(second.restore(&a).is_err());
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let table = [
            (AdamConfig { beta1: 1.0, ..Default::default() }, "beta1"),
            (AdamConfig { beta2: -0.1, ..Default::default() }, "beta2"),
            (AdamConfig { beta2: f32::NAN, ..Default::default() }, "beta2"),
            (AdamConfig { epsilon: 0.0, ..Default::default() }, "epsilon"),
            (AdamConfig { epsilon: f32::INFINITY, ..Default::default() }, "epsilon"),
            (AdamConfig { weight_decay: -1.0, ..Default::default() }, "weight decay"),
        ];
        for (config, named) in table {
            let text = Adam::new(&params(1.0), config).unwrap_err().to_string();
            assert!(text.contains(named) && text.contains("expected"), "{text}");
        }
    }
}
