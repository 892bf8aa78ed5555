//! Layer normalisation as one operation with its own gradient: candle's fused one has no backward and leaves weights
//! silently untrained. Source: Ba, Kiros, Hinton: Layer normalization, 2016. O(rows x width).

use candle_core::{CpuStorage, CustomOp3, DType, Layout, Result, Shape, Tensor};
use mdts_core::Rng;

use super::affine::{Float, Gradients};
use super::layers::by_rows;
use super::params::{Init, Params};
use super::storage::{values, with_values};

/// Keeps the division finite.
const EPSILON: f64 = 1e-5;

/// Shifts and scales the last dimension to mean 0 and variance 1, then by learnt factors.
#[derive(Debug, Clone)]
pub struct LayerNorm {
    /// [1, width]
    scale: Tensor,
    /// [1, width]
    shift: Tensor,
}

impl LayerNorm {
    /// Adds `NAME.scale`, which starts at one, and `NAME.shift`, which starts at zero.
    ///
    /// # Errors
    /// [`super::Error::Setting`] if the name is taken.
    pub fn new(params: &mut Params, name: &str, width: usize, rng: &mut Rng) -> super::Result<Self> {
        let scale = params.add(format!("{name}.scale"), 1, width, Init::Constant(1.0), rng)?;
        let shift = params.add(format!("{name}.shift"), 1, width, Init::Constant(0.0), rng)?;
        Ok(Self { scale, shift })
    }

    /// Each row normalised.
    ///
    /// # Errors
    /// [`super::Error::Tensor`] if the last dimension is not the width.
    pub fn forward(&self, x: &Tensor) -> super::Result<Tensor> {
        by_rows(x, |x| Ok(x.contiguous()?.apply_op3(&self.scale, &self.shift, Normalise)?))
    }
}

struct Normalise;

impl CustomOp3 for Normalise {
    fn name(&self) -> &'static str {
        "layer norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        scale: &CpuStorage,
        scale_layout: &Layout,
        shift: &CpuStorage,
        shift_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let width = x_layout.shape().dims2()?.1;
        for layout in [scale_layout, shift_layout] {
            if width == 0 || layout.shape().dims2()? != (1, width) {
                candle_core::bail!("layer norm: width {width} given, {:?} expected", layout.shape());
            }
        }
        let operands = [(x, x_layout), (scale, scale_layout), (shift, shift_layout)];
        let y = match x {
            CpuStorage::F64(_) => forward::<f64>(operands)?,
            _ => forward::<f32>(operands)?,
        };
        Ok((y, x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        scale: &Tensor,
        shift: &Tensor,
        _: &Tensor,
        slope: &Tensor,
    ) -> Result<Gradients> {
        match x.dtype() {
            DType::F64 => backward::<f64>(x, scale, shift, slope),
            _ => backward::<f32>(x, scale, shift, slope),
        }
    }
}

fn forward<T: Float>([x, scale, shift]: [(&CpuStorage, &Layout); 3]) -> Result<CpuStorage> {
    let (x, scale, shift): (&[T], &[T], &[T]) = (values(x)?, values(scale)?, values(shift)?);
    let mut y = x.to_vec();
    for row in y.chunks_mut(scale.len()) {
        normalise(row);
        for (y, (scale, shift)) in row.iter_mut().zip(scale.iter().zip(shift)) {
            *y = *y * *scale + *shift;
        }
    }
    Ok(T::to_cpu_storage_owned(y))
}

/// With n the normalised row, d its deviation and g = slope * scale, the gradient by x is
/// (g - mean(g) - n mean(g n)) / d.
fn backward<T: Float>(x: &Tensor, scale: &Tensor, shift: &Tensor, slope: &Tensor) -> Result<Gradients> {
    let width = scale.elem_count();
    let count = T::from_f64(width as f64);
    let scales: Vec<T> = scale.flatten_all()?.to_vec1()?;
    let mut by_x: Vec<T> = x.flatten_all()?.to_vec1()?;
    let (mut by_scale, mut by_shift) = (vec![T::zero(); width], vec![T::zero(); width]);
    let mut normal = vec![T::zero(); width];
    with_values(&slope.contiguous()?, |slope: &[T]| {
        for (row, slope) in by_x.chunks_mut(width).zip(slope.chunks(width)) {
            let deviation = normalise(row);
            normal.copy_from_slice(row);
            for (i, (g, slope)) in row.iter_mut().zip(slope).enumerate() {
                by_scale[i] += *slope * normal[i];
                by_shift[i] += *slope;
                *g = *slope * scales[i];
            }
            let mean = sum(row, |g| g) / count;
            let along = sum_of_products(row, &normal) / count;
            for (g, n) in row.iter_mut().zip(&normal) {
                *g = (*g - mean - *n * along) / deviation;
            }
        }
    })?;
    let tensor = |values, like: &Tensor| Tensor::from_vec(values, like.shape(), like.device()).map(Some);
    Ok((tensor(by_x, x)?, tensor(by_scale, scale)?, tensor(by_shift, shift)?))
}

/// Mean 0 and variance 1; gives the deviation that the row had.
fn normalise<T: Float>(row: &mut [T]) -> T {
    let count = T::from_f64(row.len() as f64);
    let mean = sum(row, |v| v) / count;
    let variance = sum(row, |v| (v - mean) * (v - mean)) / count;
    let deviation = T::from_f64((variance.to_f64() + EPSILON).sqrt());
    for v in row {
        *v = (*v - mean) / deviation;
    }
    deviation
}

/// Eight sums run side by side.
fn sum<T: Float>(row: &[T], each: impl Fn(T) -> T) -> T {
    let mut sums = [T::zero(); 8];
    let (chunks, rest) = row.as_chunks::<8>();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, v)| *sum += each(*v));
    }
    for v in rest {
        sums[0] += each(*v);
    }
    sums.into_iter().fold(T::zero(), |a, b| a + b)
}

fn sum_of_products<T: Float>(a: &[T], b: &[T]) -> T {
    let mut sums = [T::zero(); 8];
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        sums[i % 8] += *a * *b;
    }
    sums.into_iter().fold(T::zero(), |a, b| a + b)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;
    use rand::SeedableRng;

    use super::*;
    use crate::learn::numeric::{check, variable};

    #[test]
    fn gradients() {
        for width in [1, 4, 19] {
            let (scale, shift, x) = (variable(1, width, 1), variable(1, width, 2), variable(6, width, 3));
            let norm = LayerNorm { scale: scale.as_tensor().clone(), shift: shift.as_tensor().clone() };
            check(&[&scale, &shift, &x], || norm.forward(&x).unwrap());
            check(&[&scale, &x], || norm.forward(&x.reshape((2, 3, width)).unwrap()).unwrap());
            // A strided input, and a gradient that is broadcast.
            let turned = x.reshape((width, 6)).unwrap().t().unwrap();
            check(&[&x], || norm.forward(&turned).unwrap().sum_all().unwrap());
        }
    }

    #[test]
    fn by_hand() {
        let mut params = Params::default();
        let norm = LayerNorm::new(&mut params, "norm", 4, &mut Rng::seed_from_u64(1)).unwrap();
        let y = norm.forward(&Tensor::new(&[[1.0_f32, 2.0, 3.0, 6.0]], &Device::Cpu).unwrap()).unwrap();
        let deviation = 3.5_f32.sqrt();
        for (found, expected) in y.to_vec2::<f32>().unwrap()[0].iter().zip([-2.0, -1.0, 0.0, 3.0]) {
            assert!((found - expected / deviation).abs() < 1e-4);
        }
        let equal = Tensor::new(&[[5.0_f32; 4]], &Device::Cpu).unwrap();
        assert_eq!(norm.forward(&equal).unwrap().to_vec2::<f32>().unwrap(), [[0.0; 4]]);
        assert!(norm.forward(&Tensor::new(&[[5.0_f32; 3]], &Device::Cpu).unwrap()).is_err());
    }
}
