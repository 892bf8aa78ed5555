//! Layers: linear, activations, layer normalisation, and stacks of them.
//!
//! Weights lie as [inputs, outputs] and biases join as ones [rows, 1] x bias [1, outputs]: both gradients are then plain
//! matrix products. The transposed weight and the broadcast bias that are usual elsewhere cost several times as much in
//! candle's backward. Normalisation is spelled out because candle's fused one has no backward.
//! Source: Ba, Kiros, Hinton: Layer normalization, 2016.

use candle_core::{D, Tensor};
use mdts_core::Rng;
use serde::{Deserialize, Serialize};

use super::error::Result;
use super::params::{Init, Params};

/// y = x W + b on the last dimension; any dimensions may come before it.
#[derive(Debug, Clone)]
pub struct Linear {
    /// [inputs, outputs]
    weight: Tensor,
    /// [1, outputs]
    bias: Tensor,
}

impl Linear {
    /// Adds `NAME.weight` and `NAME.bias`, which starts at zero.
    ///
    /// # Errors
    /// [`super::Error::Setting`] if the name is taken.
    pub fn new(
        params: &mut Params,
        name: &str,
        inputs: usize,
        outputs: usize,
        init: Init,
        rng: &mut Rng,
    ) -> Result<Self> {
        let weight = params.add(format!("{name}.weight"), inputs, outputs, init, rng)?;
        let bias = params.add(format!("{name}.bias"), 1, outputs, Init::Constant(0.0), rng)?;
        Ok(Self { weight, bias })
    }

    /// How many outputs there are.
    pub fn outputs(&self) -> usize {
        self.bias.elem_count()
    }

    /// The outputs for each row of inputs.
    ///
    /// # Errors
    /// [`super::Error::Tensor`] if the last dimension is not the number of inputs.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        by_rows(x, |x| Ok((x.matmul(&self.weight)? + repeat(&self.bias, x.dim(0)?)?)?))
    }
}

/// What follows a linear layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// max(x, 0)
    Relu,
    /// Hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// Applies it to every number.
    ///
    /// # Errors
    /// [`super::Error::Tensor`] for a tensor that is not of floats.
    pub fn forward(self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Self::Relu => x.relu()?,
            Self::Tanh => x.tanh()?,
        })
    }

    /// The gain that keeps the spread of values from layer to layer.
    pub fn gain(self) -> f32 {
        match self {
            Self::Relu => std::f32::consts::SQRT_2,
            Self::Tanh => 5.0 / 3.0,
        }
    }
}

/// Shifts and scales the last dimension to mean 0 and variance 1, then by learnt factors.
#[derive(Debug, Clone)]
pub struct LayerNorm {
    /// [1, width]
    scale: Tensor,
    /// [1, width]
    shift: Tensor,
}

impl LayerNorm {
    const EPSILON: f64 = 1e-5;

    /// Adds `NAME.scale`, which starts at one, and `NAME.shift`, which starts at zero.
    ///
    /// # Errors
    /// [`super::Error::Setting`] if the name is taken.
    pub fn new(params: &mut Params, name: &str, width: usize, rng: &mut Rng) -> Result<Self> {
        let scale = params.add(format!("{name}.scale"), 1, width, Init::Constant(1.0), rng)?;
        let shift = params.add(format!("{name}.shift"), 1, width, Init::Constant(0.0), rng)?;
        Ok(Self { scale, shift })
    }

    /// Each row normalised.
    ///
    /// # Errors
    /// [`super::Error::Tensor`] if the last dimension is not the width.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        by_rows(x, |x| {
            let rows = x.dim(0)?;
            let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
            let deviation = (centred.sqr()?.mean_keepdim(D::Minus1)? + Self::EPSILON)?.sqrt()?;
            let normal = centred.broadcast_div(&deviation)?;
            Ok((normal.mul(&repeat(&self.scale, rows)?)? + repeat(&self.shift, rows)?)?)
        })
    }
}

/// Linear layers, each followed by the activation: the hidden part of a network.
#[derive(Debug, Clone)]
pub struct Mlp {
    layers: Vec<Linear>,
    activation: Activation,
}

impl Mlp {
    /// Adds the layers `NAME.0`, `NAME.1`, ... of these widths, with orthogonal weights that suit the activation.
    ///
    /// # Errors
    /// [`super::Error::Setting`] if the name is taken.
    pub fn new(
        params: &mut Params,
        name: &str,
        inputs: usize,
        widths: &[usize],
        activation: Activation,
        rng: &mut Rng,
    ) -> Result<Self> {
        let mut layers = Vec::with_capacity(widths.len());
        let mut inputs = inputs;
        for (i, &width) in widths.iter().enumerate() {
            let init = Init::Orthogonal { gain: activation.gain() };
            layers.push(Linear::new(params, &format!("{name}.{i}"), inputs, width, init, rng)?);
            inputs = width;
        }
        Ok(Self { layers, activation })
    }

    /// The values of the last layer.
    ///
    /// # Errors
    /// [`super::Error::Tensor`] if the last dimension is not the number of inputs.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for layer in &self.layers {
            x = self.activation.forward(&layer.forward(&x)?)?;
        }
        Ok(x)
    }
}

/// Computes on a matrix of all rows, whatever dimensions come before the last.
fn by_rows(x: &Tensor, compute: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    if x.rank() == 2 {
        return compute(x);
    }
    let y = compute(&x.reshape(((), x.dim(D::Minus1)?))?)?;
    let mut dims = x.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = y.dim(D::Minus1)?;
    }
    Ok(y.reshape(dims)?)
}

/// The row [1, width] for each of so many rows. Its gradient is a matrix product instead of a strided sum.
fn repeat(row: &Tensor, rows: usize) -> Result<Tensor> {
    if rows == 1 {
        return Ok(row.clone());
    }
    Ok(Tensor::ones((rows, 1), row.dtype(), row.device())?.matmul(row)?)
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Var};
    use rand::{Rng as _, SeedableRng};

    use super::*;

    fn variable(rows: usize, columns: usize, seed: u64) -> Var {
        let mut rng = Rng::seed_from_u64(seed);
        let values: Vec<f64> = (0..rows * columns).map(|_| rng.random_range(-1.0..1.0)).collect();
        Var::from_vec(values, (rows, columns), &Device::Cpu).unwrap()
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    /// Compares backward with central differences in f64. The loss weighs every output differently.
    fn check(vars: &[&Var], forward: impl Fn() -> Tensor) {
        let y = forward();
        let weights = variable(1, y.elem_count(), 99).as_detached_tensor().reshape(y.shape()).unwrap();
        let loss = || (forward() * &weights).unwrap().sum_all().unwrap();
        let gradients = loss().backward().unwrap();
        for var in vars {
            let analytic = values(gradients.get(var).expect("a gradient"));
            let start = values(var);
            for i in 0..start.len() {
                let at = |step: f64| {
                    let mut moved = start.clone();
                    moved[i] += step;
                    var.set(&Tensor::from_vec(moved, var.shape(), &Device::Cpu).unwrap()).unwrap();
                    loss().to_scalar::<f64>().unwrap()
                };
                let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((analytic[i] - numeric).abs() < 1e-6, "{i}: {} {numeric}", analytic[i]);
            }
            var.set(&Tensor::from_vec(start, var.shape(), &Device::Cpu).unwrap()).unwrap();
        }
    }

    fn linear(inputs: usize, outputs: usize, seed: u64) -> (Linear, Var, Var) {
        let (weight, bias) = (variable(inputs, outputs, seed), variable(1, outputs, seed + 1));
        (Linear { weight: weight.as_tensor().clone(), bias: bias.as_tensor().clone() }, weight, bias)
    }

    #[test]
    fn linear_by_hand() {
        let weight = Tensor::new(&[[1.0_f64, 2.0], [3.0, 4.0]], &Device::Cpu).unwrap();
        let bias = Tensor::new(&[[10.0_f64, 20.0]], &Device::Cpu).unwrap();
        let layer = Linear { weight, bias };
        let x = Tensor::new(&[[1.0_f64, 1.0], [2.0, 0.0], [0.0, -1.0]], &Device::Cpu).unwrap();
        assert_eq!(values(&layer.forward(&x).unwrap()), [14.0, 26.0, 12.0, 24.0, 7.0, 16.0]);
        let deep = x.reshape((3, 1, 2)).unwrap();
        assert_eq!(layer.forward(&deep).unwrap().dims(), [3, 1, 2]);
        assert_eq!(layer.outputs(), 2);
        assert!(layer.forward(&Tensor::zeros((1, 3), DType::F64, &Device::Cpu).unwrap()).is_err());
    }

    #[test]
    fn gradients_of_linear() {
        for rows in [1, 4] {
            let (layer, weight, bias) = linear(3, 2, 1);
            let x = variable(rows, 3, 5);
            check(&[&weight, &bias, &x], || layer.forward(&x).unwrap());
        }
    }

    #[test]
    fn gradients_of_stacks() {
        for activation in [Activation::Relu, Activation::Tanh] {
            let ((first, w1, b1), (second, w2, b2)) = (linear(3, 5, 1), linear(5, 2, 7));
            let stack = Mlp { layers: vec![first, second], activation };
            let x = variable(4, 3, 5);
            check(&[&w1, &b1, &w2, &b2, &x], || stack.forward(&x).unwrap());
        }
    }

    #[test]
    fn normalisation() {
        let (scale, shift, x) = (variable(1, 4, 1), variable(1, 4, 2), variable(6, 4, 3));
        let norm = LayerNorm { scale: scale.as_tensor().clone(), shift: shift.as_tensor().clone() };
        check(&[&scale, &shift, &x], || norm.forward(&x).unwrap());
        check(&[&scale, &x], || norm.forward(&x.reshape((2, 3, 4)).unwrap()).unwrap());

        let mut params = Params::default();
        let norm = LayerNorm::new(&mut params, "norm", 4, &mut Rng::seed_from_u64(1)).unwrap();
        let y = norm.forward(&Tensor::new(&[[1.0_f32, 2.0, 3.0, 6.0]], &Device::Cpu).unwrap()).unwrap();
        let deviation = 3.5_f32.sqrt();
        for (found, expected) in y.to_vec2::<f32>().unwrap()[0].iter().zip([-2.0, -1.0, 0.0, 3.0]) {
            assert!((found - expected / deviation).abs() < 1e-4);
        }
    }

    #[test]
    fn names_and_sizes_of_a_stack() {
        let mut params = Params::default();
        let mut rng = Rng::seed_from_u64(1);
        let stack = Mlp::new(&mut params, "trunk", 3, &[5, 2], Activation::Relu, &mut rng).unwrap();
        let names: Vec<&str> = params.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["trunk.0.weight", "trunk.0.bias", "trunk.1.weight", "trunk.1.bias"]);
        let x = Tensor::zeros((7, 3), DType::F32, &Device::Cpu).unwrap();
        assert_eq!(stack.forward(&x).unwrap().dims(), [7, 2]);
    }
}
