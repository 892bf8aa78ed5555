//! The numbers of tensors as slices, without copies.

use candle_core::{CpuStorage, Layout, Result, Storage, Tensor, WithDType};

/// Lends the numbers of a contiguous tensor on the CPU.
pub(super) fn with_values<T: WithDType, R>(tensor: &Tensor, read: impl FnOnce(&[T]) -> R) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => Ok(read(values((storage, layout))?)),
        _ => candle_core::bail!("a tensor on the CPU expected"),
    }
}

/// The numbers of a contiguous layout.
pub(super) fn values<'a, T: WithDType>((storage, layout): (&'a CpuStorage, &Layout)) -> Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&T::cpu_storage_as_slice(storage)?[start..end]),
        None => candle_core::bail!("a contiguous tensor expected"),
    }
}
