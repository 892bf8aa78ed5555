//! Gaussian elimination of a matrix, column by column.
//!
//! ```text
//!        pivot1                     step k: the pivot, then an update of every column j > k
//!       /   |   \
//!   u1_2  u1_3  u1_4                pivot k+1 waits for update k of column k+1,
//!    |      |     |                 update k+1 of column j for update k of column j
//!  pivot2   |     |
//!    |  \   |     |
//!    |   u2_3   u2_4  ...
//! ```
//! `(m^2 + m - 2) / 2` tasks and `m^2 - m - 1` dependencies for an m x m matrix; `2 (m - 1)` levels. O(tasks).
//! Sources: Cosnard, Marrakchi, Robert, Trystram: Parallel Gaussian elimination on an MIMD computer, Parallel
//! Computing 6(3), 1988; used for scheduling by Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, section 5.3.1.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::sketch::Sketch;
use super::{Costs, check};
use crate::{JobGraph, Result};

/// The task graph of a Gaussian elimination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GaussianElimination {
    /// Rows and columns of the matrix, at least 2.
    pub size: usize,
    /// Run times and data.
    #[serde(flatten)]
    pub costs: Costs,
}

impl Default for GaussianElimination {
    fn default() -> Self {
        Self { size: 10, costs: Costs::default() }
    }
}

impl GaussianElimination {
    /// Generates the graph. O(tasks).
    ///
    /// # Errors
    /// [`crate::Error::BadParameter`].
    pub fn generate(&self, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
        check::at_least("gaussian-elimination:size", self.size, 2)?;
        let m = self.size as f64;
        check::size("gaussian-elimination:size", (m * m + m - 2.0) / 2.0, m * m - m - 1.0)?;
        self.costs.check("gaussian-elimination")?;
        let mut sketch = Sketch::new(format!("gaussian-elimination-{}", self.size), &self.costs, rng);
        // The last task that changed each column from k on.
        let mut columns = Vec::new();
        for k in 1..self.size {
            let pivot = sketch.task(format!("pivot{k}"), "pivot", 1.0)?;
            if let Some(&update) = columns.first() {
                sketch.depend(pivot, update);
            }
            let mut updated = Vec::with_capacity(self.size - k);
            for j in k + 1..=self.size {
                let update = sketch.task(format!("update{k}_{j}"), "update", 1.0)?;
                sketch.depend(update, pivot);
                if let Some(&before) = columns.get(j - k) {
                    sketch.depend(update, before);
                }
                updated.push(update);
            }
            columns = updated;
        }
        sketch.build()
    }
}
