//! The affine map of a layer with its activation, y = f(x W + b), as one operation with its own gradient.
//!
//! Why not candle's matrix product: with more than one thread allowed it reads `/proc/cpuinfo` before every product, which
//! takes longer than the products of small networks, and threads then slow those down further. This one computes on the
//! calling thread, needs no temporary tensors for bias and activation, and leaves out gradients that nobody asks for.
//! Products of few rows are computed here, others by ndarray. O(rows x inputs x outputs).

use std::ops::AddAssign;

use candle_core::{CpuStorage, CustomOp3, DType, Layout, Result, Shape, Tensor, WithDType};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, LinalgScalar};
use serde::{Deserialize, Serialize};

use super::storage::{values, with_values};

/// Up to so many rows, ndarray would spend more time on preparing than on computing.
const FEW_ROWS: usize = 4;

/// What follows an affine map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// Nothing.
    Identity,
    /// max(x, 0)
    Relu,
    /// Hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// The gain of the weights before it that keeps the spread of values from layer to layer.
    pub fn gain(self) -> f32 {
        match self {
            Self::Identity => 1.0,
            Self::Relu => std::f32::consts::SQRT_2,
            Self::Tanh => 5.0 / 3.0,
        }
    }

    fn apply<T: Float>(self, values: &mut [T]) {
        match self {
            Self::Identity => {}
            Self::Relu => values.iter_mut().for_each(|v| *v = if *v > T::zero() { *v } else { T::zero() }),
            Self::Tanh => values.iter_mut().for_each(|v| *v = v.tanh()),
        }
    }

    /// Multiplies gradients by the slope, which all these functions know from their value.
    fn pull_back<T: Float>(self, values: &[T], gradients: &mut [T]) {
        let pairs = gradients.iter_mut().zip(values);
        match self {
            Self::Identity => {}
            Self::Relu => pairs.for_each(|(g, v)| *g = if *v > T::zero() { *g } else { T::zero() }),
            Self::Tanh => pairs.for_each(|(g, v)| *g *= T::one() - *v * *v),
        }
    }
}

/// f(x W + b) for x [rows, inputs], W [inputs, outputs] and b [1, outputs].
pub(super) fn affine(x: &Tensor, weight: &Tensor, bias: &Tensor, activation: Activation) -> Result<Tensor> {
    x.contiguous()?.apply_op3(weight, bias, Affine { activation })
}

/// Numbers that the operation computes with: f32, and f64 to check gradients.
pub(super) trait Float: LinalgScalar + WithDType + AddAssign {
    fn tanh(self) -> Self;
}

impl Float for f32 {
    fn tanh(self) -> Self {
        f32::tanh(self)
    }
}

impl Float for f64 {
    fn tanh(self) -> Self {
        f64::tanh(self)
    }
}

struct Affine {
    activation: Activation,
}

/// By each of three operands.
pub(super) type Gradients = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

impl CustomOp3 for Affine {
    fn name(&self) -> &'static str {
        "affine"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, inputs) = x_layout.shape().dims2()?;
        let (expected, outputs) = weight_layout.shape().dims2()?;
        if inputs != expected || bias_layout.shape().dims2()? != (1, outputs) {
            candle_core::bail!("affine: {inputs} inputs given, {expected} expected");
        }
        let operands = [(x, x_layout), (weight, weight_layout), (bias, bias_layout)];
        let size = Size { rows, inputs, outputs };
        let y = match x {
            CpuStorage::F64(_) => size.forward::<f64>(operands, self.activation)?,
            _ => size.forward::<f32>(operands, self.activation)?,
        };
        Ok((y, (rows, outputs).into()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        y: &Tensor,
        slope: &Tensor,
    ) -> Result<Gradients> {
        let ((rows, inputs), outputs) = (x.dims2()?, y.dim(1)?);
        let size = Size { rows, inputs, outputs };
        match x.dtype() {
            DType::F64 => size.backward::<f64>([x, weight, bias, y, slope], self.activation),
            _ => size.backward::<f32>([x, weight, bias, y, slope], self.activation),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Size {
    rows: usize,
    inputs: usize,
    outputs: usize,
}

impl Size {
    fn forward<T: Float>(
        self,
        [x, weight, bias]: [(&CpuStorage, &Layout); 3],
        activation: Activation,
    ) -> Result<CpuStorage> {
        let (x, weight, bias): (&[T], &[T], &[T]) = (values(x)?, values(weight)?, values(bias)?);
        let mut y = bias.repeat(self.rows);
        if self.rows <= FEW_ROWS {
            for (x, y) in x.chunks(self.inputs.max(1)).zip(y.chunks_mut(self.outputs.max(1))) {
                add_product(x, weight, y);
            }
        } else {
            multiply(matrix(x, self.rows, self.inputs)?, matrix(weight, self.inputs, self.outputs)?, &mut y)?;
        }
        activation.apply(&mut y);
        Ok(T::to_cpu_storage_owned(y))
    }

    fn backward<T: Float>(
        self,
        [x, weight, bias, y, slope]: [&Tensor; 5],
        activation: Activation,
    ) -> Result<Gradients> {
        let mut slope: Vec<T> = slope.flatten_all()?.to_vec1()?;
        with_values(y, |y| activation.pull_back(y, &mut slope))?;
        let slopes = matrix(&slope, self.rows, self.outputs)?;

        let mut by_weight = vec![T::zero(); self.inputs * self.outputs];
        with_values(x, |x| {
            multiply(matrix(x, self.rows, self.inputs)?.reversed_axes(), slopes, &mut by_weight)
        })??;
        let mut by_bias = vec![T::zero(); self.outputs];
        for row in slope.chunks(self.outputs.max(1)) {
            by_bias.iter_mut().zip(row).for_each(|(sum, slope)| *sum += *slope);
        }
        // The first layer's inputs are data: nobody asks for their gradient.
        let by_x = if x.track_op() {
            let mut by_x = vec![T::zero(); self.rows * self.inputs];
            with_values(weight, |weight| {
                multiply(slopes, matrix(weight, self.inputs, self.outputs)?.reversed_axes(), &mut by_x)
            })??;
            Some(Tensor::from_vec(by_x, x.shape(), x.device())?)
        } else {
            None
        };
        let by_weight = Tensor::from_vec(by_weight, weight.shape(), weight.device())?;
        Ok((by_x, Some(by_weight), Some(Tensor::from_vec(by_bias, bias.shape(), bias.device())?)))
    }
}

/// y += x W for one row, reading the matrix once from front to end, four rows at a time.
fn add_product<T: Float>(x: &[T], weight: &[T], y: &mut [T]) {
    let width = y.len().max(1);
    let (fours, rest) = x.as_chunks::<4>();
    let (most, last) = weight.split_at(fours.len() * 4 * y.len());
    for (&[a, b, c, d], rows) in fours.iter().zip(most.chunks_exact(4 * width)) {
        let (front, back) = rows.split_at(2 * width);
        let ((first, second), (third, fourth)) = (front.split_at(width), back.split_at(width));
        let rows = first.iter().zip(second).zip(third.iter().zip(fourth));
        for (y, ((p, q), (r, s))) in y.iter_mut().zip(rows) {
            *y += (a * *p + b * *q) + (c * *r + d * *s);
        }
    }
    for (a, row) in rest.iter().zip(last.chunks(width)) {
        y.iter_mut().zip(row).for_each(|(y, p)| *y += *a * *p);
    }
}

/// into += a b
fn multiply<T: Float>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, into: &mut [T]) -> Result<()> {
    let shape = (a.nrows(), b.ncols());
    let mut into = ArrayViewMut2::from_shape(shape, into).map_err(candle_core::Error::wrap)?;
    general_mat_mul(T::one(), &a, &b, T::one(), &mut into);
    Ok(())
}

fn matrix<T>(values: &[T], rows: usize, columns: usize) -> Result<ArrayView2<'_, T>> {
    ArrayView2::from_shape((rows, columns), values).map_err(candle_core::Error::wrap)
}
