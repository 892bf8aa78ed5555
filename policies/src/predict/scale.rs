//! Columns brought to mean 0 and deviation 1; constant columns are left out. O(rows x columns).

use ndarray::{Array1, Array2, ArrayView1, ArrayView2};

/// The columns that vary, with their mean and deviation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scaler {
    columns: Vec<Column>,
}

#[derive(Debug, Clone, PartialEq)]
struct Column {
    index: usize,
    mean: f64,
    deviation: f64,
}

/// Deviations of logarithms below this are rounding.
const CONSTANT: f64 = 1e-9;

impl Scaler {
    pub(super) fn fit(x: ArrayView2<'_, f64>) -> Self {
        let measured = x.columns().into_iter().enumerate().map(|(index, column)| Column {
            index,
            mean: column.mean().unwrap_or(0.0),
            deviation: column.std(0.0),
        });
        Self { columns: measured.filter(|column| column.deviation > CONSTANT).collect() }
    }

    /// How many columns vary.
    pub(super) fn width(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn row(&self, x: ArrayView1<'_, f64>) -> Array1<f64> {
        self.columns.iter().map(|c| (x[c.index] - c.mean) / c.deviation).collect()
    }

    pub(super) fn matrix(&self, x: ArrayView2<'_, f64>) -> Array2<f64> {
        Array2::from_shape_fn((x.nrows(), self.width()), |(row, at)| {
            let c = &self.columns[at];
            (x[[row, c.index]] - c.mean) / c.deviation
        })
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn constant_columns_are_left_out() {
        let x = array![[1.0, 5.0], [3.0, 5.0]];
        let scaler = Scaler::fit(x.view());
        assert_eq!(scaler.matrix(x.view()), array![[-1.0], [1.0]]);
        assert_eq!(scaler.row(array![5.0, 0.0].view()), array![3.0]);
    }
}
