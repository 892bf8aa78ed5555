//! The recursive fast Fourier transform in one dimension.
//!
//! ```text
//!             call                  2n - 1 recursive calls: a binary tree with one leaf per point
//!            /    \
//!        call      call
//!        /  \      /  \
//!      call call call call
//!       | \/ |    | \/ |            log2(n) layers of n butterflies; in layer s, butterfly i
//!       | /\ |    | /\ |            takes i and i with bit s flipped from above
//!       b    b    b    b
//! ```
//! `2n - 1 + n log2(n)` tasks and `2n - 2 + 2n log2(n)` dependencies for n points; every path from the root to an
//! exit has the same number of tasks. O(tasks). Sources: Cormen, Leiserson, Rivest: Introduction to Algorithms,
//! chapter 32; used for scheduling by Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, section 5.3.2.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::sketch::Sketch;
use super::{Costs, check};
use crate::{JobGraph, Result};

/// The task graph of a fast Fourier transform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fft {
    /// Number of points, a power of 2, at least 2.
    pub points: usize,
    /// Run times and data.
    #[serde(flatten)]
    pub costs: Costs,
}

impl Default for Fft {
    fn default() -> Self {
        Self { points: 16, costs: Costs::default() }
    }
}

impl Fft {
    /// Generates the graph. O(tasks).
    ///
    /// # Errors
    /// [`crate::Error::BadParameter`].
    pub fn generate(&self, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
        let points = self.points;
        check::at_least("fft:points", points, 2)?;
        if !points.is_power_of_two() {
            let lower = 1_usize << points.ilog2();
            let message = format!("{points} is not a power of 2; expected for example {lower}");
            return Err(check::bad("fft:points", message));
        }
        let (n, stages) = (points as f64, points.ilog2());
        check::size("fft:points", n * (2.0 + f64::from(stages)), 2.0 * n * (1.0 + f64::from(stages)))?;
        self.costs.check("fft")?;
        let mut sketch = Sketch::new(format!("fft-{points}"), &self.costs, rng);
        let mut calls = vec![sketch.task("call1".into(), "call", 1.0)?];
        for i in 2..2 * points {
            let call = sketch.task(format!("call{i}"), "call", 1.0)?;
            sketch.depend(call, calls[i / 2 - 1]);
            calls.push(call);
        }
        let mut above = calls.split_off(points - 1);
        for stage in 0..stages {
            let mut layer = Vec::with_capacity(points);
            for i in 0..points {
                let butterfly = sketch.task(format!("butterfly{stage}_{i}"), "butterfly", 1.0)?;
                sketch.depend(butterfly, above[i]);
                sketch.depend(butterfly, above[i ^ (1 << stage)]);
                layer.push(butterfly);
            }
            above = layer;
        }
        sketch.build()
    }
}
