//! Layers: linear ones and stacks of them. Weights lie as [inputs, outputs], so that no product needs a transposed copy.

use candle_core::{D, Tensor};
use mdts_core::Rng;

use super::affine::{Activation, affine};
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
        self.activated(x, Activation::Identity)
    }

    /// The outputs followed by an activation, as one operation.
    ///
    /// # Errors
    /// As [`Linear::forward`].
    pub fn activated(&self, x: &Tensor, activation: Activation) -> Result<Tensor> {
        by_rows(x, |x| Ok(affine(x, &self.weight, &self.bias, activation)?))
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
            x = layer.activated(&x, self.activation)?;
        }
        Ok(x)
    }
}

/// Computes on a matrix of all rows, whatever dimensions come before the last.
pub(super) fn by_rows(x: &Tensor, compute: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
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

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Var};
    use rand::SeedableRng;

    use super::*;
    use crate::learn::numeric::{check, numbers, variable};

    fn linear(inputs: usize, outputs: usize, seed: u64) -> (Linear, Var, Var) {
        let (weight, bias) = (variable(inputs, outputs, seed), variable(1, outputs, seed + 1));
        (Linear { weight: weight.as_tensor().clone(), bias: bias.as_tensor().clone() }, weight, bias)
    }

    #[test]
    fn linear_by_hand() {
        let weight = Tensor::new(&[[1.0_f64, 2.0], [3.0, 4.0]], &Device::Cpu).unwrap();
        let bias = Tensor::new(&[[10.0_f64, 20.0]], &Device::Cpu).unwrap();
        let layer = Linear { weight, bias };
        let x = Tensor::new(&[[1.0_f64, 1.0], [2.0, 0.0], [0.0, -9.0]], &Device::Cpu).unwrap();
        assert_eq!(numbers(&layer.forward(&x).unwrap()), [14.0, 26.0, 12.0, 24.0, -17.0, -16.0]);
        let relu = layer.activated(&x, Activation::Relu).unwrap();
        assert_eq!(numbers(&relu), [14.0, 26.0, 12.0, 24.0, 0.0, 0.0]);
        let deep = x.reshape((3, 1, 2)).unwrap();
        assert_eq!(layer.forward(&deep).unwrap().dims(), [3, 1, 2]);
        assert_eq!(layer.outputs(), 2);
        assert!(layer.forward(&Tensor::zeros((1, 3), DType::F64, &Device::Cpu).unwrap()).is_err());
    }

    #[test]
    fn values_are_those_of_candle() {
        for (rows, inputs, outputs) in
            [(0, 3, 2), (1, 1, 1), (1, 13, 5), (3, 8, 9), (4, 5, 6), (5, 7, 9), (70, 33, 17)]
        {
            let (layer, weight, bias) = linear(inputs, outputs, 1);
            let x = variable(rows, inputs, 5);
            let y = numbers(&layer.activated(&x, Activation::Tanh).unwrap());
            let expected = if rows == 0 {
                Vec::new()
            } else {
                let sum = x.matmul(&weight).unwrap().broadcast_add(&bias).unwrap();
                numbers(&sum.tanh().unwrap())
            };
            assert_eq!(y.len(), expected.len());
            assert!(y.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{rows} {inputs} {outputs}");
        }
    }

    #[test]
    fn gradients_of_linear() {
        for rows in [1, 4, 6] {
            for activation in [Activation::Identity, Activation::Relu, Activation::Tanh] {
                let (layer, weight, bias) = linear(3, 2, 1);
                let x = variable(rows, 3, 5);
                check(&[&weight, &bias, &x], || layer.activated(&x, activation).unwrap());
                // A strided input, and a gradient that is broadcast.
                let turned = x.reshape((3, rows)).unwrap().t().unwrap();
                check(&[&weight, &bias, &x], || {
                    layer.activated(&turned, activation).unwrap().sum_all().unwrap()
                });
            }
        }
    }

    #[test]
    fn gradients_of_stacks() {
        for activation in [Activation::Relu, Activation::Tanh] {
            let ((first, w1, b1), (second, w2, b2)) = (linear(3, 5, 1), linear(5, 2, 7));
            let stack = Mlp { layers: vec![first, second], activation };
            let x = variable(4, 3, 5);
            check(&[&w1, &b1, &w2, &b2, &x], || stack.forward(&x).unwrap());
            check(&[&w1, &x], || stack.forward(&x.reshape((2, 2, 3)).unwrap()).unwrap());
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
