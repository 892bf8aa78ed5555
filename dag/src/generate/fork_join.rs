//! Stages of parallel tasks with a barrier between them (bulk synchronous, map-reduce rounds).
//!
//! ```text
//!          /--> work --\            /--> work --\
//! barrier ----> work ----> barrier ----> work ----> barrier
//!          \--> work --/            \--> work --/
//! ```
//! `stages * (width + 1) + 1` tasks and `2 * stages * width` dependencies. O(tasks). Source of the model: Valiant: A
//! bridging model for parallel computation, Communications of the ACM 33(8), 1990.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::sketch::Sketch;
use super::{Costs, check};
use crate::{JobGraph, Result};

/// Stages of parallel tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForkJoin {
    /// Number of stages, at least 1.
    pub stages: usize,
    /// Parallel tasks per stage, at least 1.
    pub width: usize,
    /// Run times and data.
    #[serde(flatten)]
    pub costs: Costs,
}

impl Default for ForkJoin {
    fn default() -> Self {
        Self { stages: 3, width: 8, costs: Costs::default() }
    }
}

impl ForkJoin {
    /// Generates the graph. O(tasks).
    ///
    /// # Errors
    /// [`crate::Error::BadParameter`].
    pub fn generate(&self, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
        check::at_least("fork-join:stages", self.stages, 1)?;
        check::at_least("fork-join:width", self.width, 1)?;
        let (stages, width) = (self.stages as f64, self.width as f64);
        check::size("fork-join:width", stages * (width + 1.0) + 1.0, 2.0 * stages * width)?;
        self.costs.check("fork-join")?;
        let name = format!("fork-join-{}x{}", self.stages, self.width);
        let mut sketch = Sketch::new(name, &self.costs, rng);
        let mut fork = sketch.task("barrier0".into(), "barrier", 1.0)?;
        for stage in 1..=self.stages {
            let join = sketch.task(format!("barrier{stage}"), "barrier", 1.0)?;
            for i in 0..self.width {
                let work = sketch.task(format!("work{stage}_{i}"), "work", 1.0)?;
                sketch.depend(work, fork);
                sketch.depend(join, work);
            }
            fork = join;
        }
        sketch.build()
    }
}
