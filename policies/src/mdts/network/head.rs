//! The weights that only runs use, as one row of numbers: of the last layer, then those of each live weight and its bias.

use candle_core::{Device, Tensor};

use super::{LIVE, MODES, Scorer, WIDTH};
use crate::learn::{Error, Params, Result};

/// Numbers of the last layers that are for runs only.
pub(crate) const RUN_HEAD: usize = WIDTH + LIVE * (WIDTH + 1);

impl Scorer {
    /// The weights that only runs use, of [`RUN_HEAD`] numbers.
    pub(crate) fn run_head(&self) -> Vec<f32> {
        let columns = (0..LIVE).map(|j| MODES * LIVE - LIVE + j);
        let live = columns.flat_map(|j| {
            let weights = self.live.weight.iter().skip(j).step_by(MODES * LIVE);
            weights.chain(self.live.bias.get(j)).copied()
        });
        self.out_of[MODES - 1].iter().copied().chain(live).collect()
    }

    /// The same network with other weights for runs.
    pub(crate) fn with_run_head(&self, head: &[f32]) -> Self {
        let mut other = self.clone();
        let (out, live) = head.split_at(WIDTH);
        other.out_of[MODES - 1].copy_from_slice(out);
        for (j, own) in live.chunks_exact(WIDTH + 1).enumerate() {
            let column = MODES * LIVE - LIVE + j;
            let weights = other.live.weight.iter_mut().skip(column).step_by(MODES * LIVE);
            weights.zip(own).for_each(|(weight, own)| *weight = *own);
            other.live.bias[column] = own[WIDTH];
        }
        other
    }
}

/// Gives the weights that only runs use the values of [`Scorer::run_head`].
pub(crate) fn set_run_head(params: &Params, head: &[f32]) -> Result<()> {
    let set = |name: &str, columns: &[usize], values: &[f32]| -> Result<()> {
        let var = params.get(name).ok_or_else(|| Error::MissingTensor { name: name.into() })?;
        let (rows, width) = var.dims2()?;
        let mut all = var.flatten_all()?.to_vec1::<f32>()?;
        for (&column, values) in columns.iter().zip(values.chunks_exact(rows)) {
            all.iter_mut().skip(column).step_by(width).zip(values).for_each(|(own, value)| *own = *value);
        }
        Ok(var.set(&Tensor::from_vec(all, var.shape(), &Device::Cpu)?)?)
    };
    let (out, live) = head.split_at(WIDTH);
    let live = live.as_chunks::<{ WIDTH + 1 }>().0;
    let columns: Vec<usize> = (MODES * LIVE - LIVE..MODES * LIVE).collect();
    set("out.weight", &[MODES - 1], out)?;
    set("live.weight", &columns, &live.iter().flat_map(|live| live[..WIDTH].to_vec()).collect::<Vec<_>>())?;
    set("live.bias", &columns, &live.iter().map(|live| live[WIDTH]).collect::<Vec<_>>())
}
