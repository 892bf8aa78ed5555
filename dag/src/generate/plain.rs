//! The two extremes of parallelism: a chain and independent tasks.
//!
//! ```text
//! chain:  t0 --> t1 --> t2 --> t3          independent:  t0  t1  t2  t3
//! ```
//! Both have `tasks` tasks; the chain has `tasks - 1` dependencies, the other none. O(tasks).

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::sketch::Sketch;
use super::{Costs, check};
use crate::{JobGraph, Result, TaskId};

/// Tasks one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chain {
    /// Number of tasks, at least 1.
    pub tasks: usize,
    /// Run times and data.
    #[serde(flatten)]
    pub costs: Costs,
}

impl Default for Chain {
    fn default() -> Self {
        Self { tasks: 10, costs: Costs::default() }
    }
}

impl Chain {
    /// Generates the graph. O(tasks).
    ///
    /// # Errors
    /// [`crate::Error::BadParameter`].
    pub fn generate(&self, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
        check::at_least("chain:tasks", self.tasks, 1)?;
        check::size("chain:tasks", self.tasks as f64, self.tasks as f64)?;
        self.costs.check("chain")?;
        let mut sketch = Sketch::new(format!("chain-{}", self.tasks), &self.costs, rng);
        sketch.tasks(self.tasks)?;
        for i in 1..self.tasks {
            sketch.depend(TaskId::new(i), TaskId::new(i - 1));
        }
        sketch.build()
    }
}

/// Tasks without dependencies, a bag of tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Independent {
    /// Number of tasks, at least 1.
    pub tasks: usize,
    /// Run times; `ccr` and `bandwidth` have no effect.
    #[serde(flatten)]
    pub costs: Costs,
}

impl Default for Independent {
    fn default() -> Self {
        Self { tasks: 10, costs: Costs::default() }
    }
}

impl Independent {
    /// Generates the graph. O(tasks).
    ///
    /// # Errors
    /// [`crate::Error::BadParameter`].
    pub fn generate(&self, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
        check::at_least("independent:tasks", self.tasks, 1)?;
        check::size("independent:tasks", self.tasks as f64, 0.0)?;
        self.costs.check("independent")?;
        let mut sketch = Sketch::new(format!("independent-{}", self.tasks), &self.costs, rng);
        sketch.tasks(self.tasks)?;
        sketch.build()
    }
}
