//! Tiled Cholesky factorisation of a symmetric matrix of t x t tiles.
//!
//! ```text
//! for k:              POTRF(k)                     kind   tasks            flops
//!                    /        \                    POTRF  t                1/3
//!   for i > k:   TRSM(i,k)   TRSM(j,k)             TRSM   t(t-1)/2         1
//!                 |       \  /   |                 SYRK   t(t-1)/2         1
//!             SYRK(i,k) GEMM(i,j,k) SYRK(j,k)      GEMM   t(t-1)(t-2)/6    2      (in cubes of the tile size)
//! ```
//! Then SYRK(i,k) hands its tile to SYRK(i,k+1), at last to POTRF(i); GEMM(i,j,k) to GEMM(i,j,k+1), at last to
//! TRSM(i,j). `t(t+1)(t+2) / 6` tasks, `t(t-1)(t+1) / 2` dependencies of one tile each, `3t - 2` levels. The mean work
//! of all tasks is `mean_seconds`, shared out by flops. O(tasks). Source: Buttari, Langou, Kurzak, Dongarra: A class
//! of parallel tiled linear algebra algorithms for multicore architectures, Parallel Computing 35(1), 2009.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::sketch::Sketch;
use super::{Costs, check};
use crate::{JobGraph, Result, TaskId};

/// The task graph of a tiled Cholesky factorisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cholesky {
    /// Tiles per side of the matrix, at least 1.
    pub tiles: usize,
    /// Run times and data.
    #[serde(flatten)]
    pub costs: Costs,
}

impl Default for Cholesky {
    fn default() -> Self {
        Self { tiles: 6, costs: Costs::default() }
    }
}

impl Cholesky {
    /// Generates the graph. O(tasks).
    ///
    /// # Errors
    /// [`crate::Error::BadParameter`].
    pub fn generate(&self, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
        check::at_least("cholesky:tiles", self.tiles, 1)?;
        let t = self.tiles as f64;
        let tasks = t * (t + 1.0) * (t + 2.0) / 6.0;
        check::size("cholesky:tiles", tasks, t * (t - 1.0) * (t + 1.0) / 2.0)?;
        self.costs.check("cholesky")?;
        let mean_flops = t * t * t / 3.0 / tasks;
        let sketch = Sketch::new(format!("cholesky-{}", self.tiles), &self.costs, rng);
        let mut tiled = Tiled { sketch, mean_flops, last_writer: vec![None; self.tiles * self.tiles] };
        tiled.factorise(self.tiles)?;
        tiled.sketch.build()
    }
}

/// The factorisation as it goes, with the task that last wrote each tile.
struct Tiled<'a, R: ?Sized> {
    sketch: Sketch<'a, R>,
    mean_flops: f64,
    last_writer: Vec<Option<TaskId>>,
}

impl<R: Rng + ?Sized> Tiled<'_, R> {
    fn factorise(&mut self, tiles: usize) -> Result<()> {
        let tile = |i: usize, j: usize| i * tiles + j;
        for k in 0..tiles {
            self.kernel(format!("POTRF_{k}"), "POTRF", 1.0 / 3.0, &[], tile(k, k))?;
            for i in k + 1..tiles {
                self.kernel(format!("TRSM_{i}_{k}"), "TRSM", 1.0, &[tile(k, k)], tile(i, k))?;
            }
            for i in k + 1..tiles {
                self.kernel(format!("SYRK_{i}_{k}"), "SYRK", 1.0, &[tile(i, k)], tile(i, i))?;
                for j in k + 1..i {
                    let reads = [tile(i, k), tile(j, k)];
                    self.kernel(format!("GEMM_{i}_{j}_{k}"), "GEMM", 2.0, &reads, tile(i, j))?;
                }
            }
        }
        Ok(())
    }

    /// A task that reads some tiles and changes another.
    fn kernel(
        &mut self,
        name: String,
        kind: &str,
        flops: f64,
        reads: &[usize],
        changes: usize,
    ) -> Result<()> {
        let task = self.sketch.task(name, kind, flops / self.mean_flops)?;
        for &tile in reads.iter().chain([&changes]) {
            if let Some(writer) = self.last_writer[tile] {
                self.sketch.depend(task, writer);
            }
        }
        self.last_writer[changes] = Some(task);
        Ok(())
    }
}
