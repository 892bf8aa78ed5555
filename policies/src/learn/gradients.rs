//! The gradients of a loss: collected in the order of the parameters, checked, and clipped by their global norm.
//!
//! Source of clipping: Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks, ICML 2013.
//! O(numbers in all parameters).

use candle_core::Tensor;

use super::error::{Error, Result};
use super::params::Params;
use super::storage::with_values;

/// One gradient per parameter, all finite.
#[derive(Debug)]
pub struct Gradients {
    tensors: Vec<Tensor>,
    norm: f64,
    scale: f32,
}

impl Gradients {
    /// Runs the loss, a single number, backward.
    ///
    /// # Errors
    /// [`Error::NotFinite`] naming the loss or the first parameter whose gradient has a NaN or infinity;
    /// [`Error::NoGradient`] if the loss does not depend on a parameter: some operations of candle have no backward
    /// and would leave it silently untrained. A part that is meant to rest gets a tensor of zeros as its factor.
    pub fn of(loss: &Tensor, params: &Params) -> Result<Self> {
        if !loss.to_scalar::<f32>()?.is_finite() {
            return Err(Error::not_finite("the loss"));
        }
        let mut all = loss.backward()?;
        let mut tensors = Vec::with_capacity(params.len());
        let mut square = 0.0;
        for (name, var) in params.iter() {
            let gradient = all.remove(var).ok_or_else(|| Error::NoGradient { name: name.into() })?;
            let gradient = gradient.contiguous()?;
            let own = with_values(&gradient, sum_of_squares)?;
            if !own.is_finite() {
                return Err(Error::not_finite(format!("the gradient of parameter '{name}'")));
            }
            square += own;
            tensors.push(gradient);
        }
        Ok(Self { tensors, norm: square.sqrt(), scale: 1.0 })
    }

    /// The length of all gradients as one vector, before clipping.
    pub fn norm(&self) -> f64 {
        self.norm
    }

    /// What the optimizer multiplies every number with.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Scales all gradients by one factor such that their norm is at most `largest`.
    #[must_use]
    pub fn clip(mut self, largest: f64) -> Self {
        self.scale = if self.norm > largest { (largest / self.norm) as f32 } else { 1.0 };
        self
    }

    /// The gradients, unscaled, in the order of the parameters.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }
}

/// In f64, where squares of f32 cannot overflow: infinite only if an entry is. Eight sums run side by side.
fn sum_of_squares(values: &[f32]) -> f64 {
    let mut sums = [0.0_f64; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(*value) * f64::from(*value);
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use candle_core::Device;
    use mdts_core::Rng;
    use rand::SeedableRng;

    use super::*;
    use crate::learn::params::Init;

    fn params() -> Params {
        let mut params = Params::default();
        let mut rng = Rng::seed_from_u64(1);
        params.add("a", 1, 2, Init::Constant(1.0), &mut rng).unwrap();
        params.add("b", 1, 2, Init::Constant(2.0), &mut rng).unwrap();
        params
    }

    fn loss(params: &Params, a: [f32; 2], b: [f32; 2]) -> Tensor {
        let part = |name: &str, factors: [f32; 2]| {
            let factors = Tensor::from_slice(&factors, (1, 2), &Device::Cpu).unwrap();
            (params.get(name).unwrap().as_tensor() * factors).unwrap().sum_all().unwrap()
        };
        (part("a", a) + part("b", b)).unwrap()
    }

    #[test]
    fn the_norm_is_global_and_clipping_keeps_the_direction() {
        let params = params();
        let gradients = Gradients::of(&loss(&params, [2.0, 4.0], [5.0, 6.0]), &params).unwrap();
        assert!((gradients.norm() - 9.0).abs() < 1e-12);
        assert_eq!(gradients.tensors()[1].to_vec2::<f32>().unwrap(), [[5.0, 6.0]]);
        assert_eq!(gradients.scale(), 1.0);
        let gradients = gradients.clip(3.0);
        assert!((gradients.scale() - 1.0 / 3.0).abs() < 1e-7);
        assert_eq!(gradients.clip(10.0).scale(), 1.0);
    }

    #[test]
    fn errors_name_the_loss_or_the_parameter() {
        let params = params();
        let text = |loss: Tensor| Gradients::of(&loss, &params).unwrap_err().to_string();
        assert!(text(loss(&params, [f32::NAN, 0.0], [0.0; 2])).starts_with("the loss is not finite"));
        let only = params.get("a").unwrap().sum_all().unwrap();
        assert!(text(only).contains("'b'"));
        // sqrt has an infinite slope at 0, though its value is finite.
        let root = ((params.get("b").unwrap().as_tensor() - 2.0).unwrap().sqrt().unwrap()).sum_all().unwrap();
        let root = (root + params.get("a").unwrap().sum_all().unwrap()).unwrap();
        assert!(text(root).starts_with("the gradient of parameter 'b' is not finite"));
    }

    #[test]
    fn sums_of_any_length() {
        for length in [0, 1, 8, 19] {
            let values: Vec<f32> = (0..length).map(|i| i as f32).collect();
            let expected: f64 = (0..length).map(|i| f64::from(i) * f64::from(i)).sum();
            assert_eq!(sum_of_squares(&values), expected);
        }
    }
}
