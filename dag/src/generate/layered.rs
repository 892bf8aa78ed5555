//! Random layered graphs, the usual test set of list scheduling.
//!
//! ```text
//! layer 0     t0    t1    t2         width ~ shape * sqrt(tasks), varied by 1 - regularity
//!              | \ /  \    |
//! layer 1     t3   t4   t5           one parent in the layer above, more of them by density,
//!              |     \ / |
//! layer 2     t6      t7 +-- t8      taken from up to `jump` layers above
//! ```
//! Exactly `tasks` tasks in about `sqrt(tasks) / shape` layers; a task's level is its layer. Sources: Topcuoglu,
//! Hariri, Wu, IEEE TPDS 13(3), 2002, section 5.1 (shape, CCR); Suter: DAGGEN, a synthetic task graph generator
//! (density, regularity, jump). Beyond those, `max_parents` keeps large graphs linear in their tasks.

use std::ops::Range;

use rand::Rng;
use rand::seq::index;
use serde::{Deserialize, Serialize};

use super::sketch::Sketch;
use super::{Costs, check};
use crate::{JobGraph, Result, TaskId};

/// A random layered graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layered {
    /// Number of tasks, at least 1.
    pub tasks: usize,
    /// Mean width of a layer over the square root of `tasks`: below 1 long and narrow, above 1 short and wide.
    pub shape: f64,
    /// How alike the widths are: 1 all equal, 0 from nothing to twice the mean.
    pub regularity: f64,
    /// A task has 1 to `1 + density * width of the layer above` parents, uniformly; 0 to 1.
    pub density: f64,
    /// From how many layers above parents come, at least 1.
    pub jump: usize,
    /// Most parents of a task, at least 1.
    pub max_parents: usize,
    /// Run times and data.
    #[serde(flatten)]
    pub costs: Costs,
}

impl Default for Layered {
    fn default() -> Self {
        Self {
            tasks: 100,
            shape: 1.0,
            regularity: 0.5,
            density: 0.3,
            jump: 1,
            max_parents: 10,
            costs: Costs::default(),
        }
    }
}

impl Layered {
    /// Generates the graph. O(tasks + dependencies).
    ///
    /// # Errors
    /// [`crate::Error::BadParameter`].
    pub fn generate(&self, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
        self.check()?;
        let mut sketch = Sketch::new(format!("layered-{}", self.tasks), &self.costs, rng);
        sketch.tasks(self.tasks)?;
        let layers = self.layers(sketch.rng());
        for (i, layer) in layers.iter().enumerate().skip(1) {
            let above = layers[i - 1].clone();
            let reached = layers[i.saturating_sub(self.jump)].start..above.end;
            for child in layer.clone() {
                for parent in self.parents(&above, &reached, sketch.rng()) {
                    sketch.depend(TaskId::new(child), TaskId::new(parent));
                }
            }
        }
        sketch.build()
    }

    fn check(&self) -> Result<()> {
        check::at_least("layered:tasks", self.tasks, 1)?;
        check::at_least("layered:jump", self.jump, 1)?;
        check::at_least("layered:max_parents", self.max_parents, 1)?;
        check::within("layered:shape", self.shape, 1e-6..=1e6)?;
        check::within("layered:regularity", self.regularity, 0.0..=1.0)?;
        check::within("layered:density", self.density, 0.0..=1.0)?;
        let tasks = self.tasks as f64;
        let widest = (self.mean_width() * (2.0 - self.regularity)).min(tasks);
        let parents = (1.0 + self.density * widest).min(self.max_parents as f64);
        check::size("layered:tasks", tasks, 0.0)?;
        check::size("layered:max_parents", tasks, tasks * parents)?;
        self.costs.check("layered")
    }

    fn mean_width(&self) -> f64 {
        self.shape * (self.tasks as f64).sqrt()
    }

    /// The tasks of each layer; the last layer takes what is left.
    fn layers(&self, rng: &mut (impl Rng + ?Sized)) -> Vec<Range<usize>> {
        let mut layers = Vec::new();
        let mut start = 0;
        while start < self.tasks {
            let factor = rng.random_range(self.regularity..=2.0 - self.regularity);
            let width = (self.mean_width() * factor).round() as usize;
            let end = start + width.clamp(1, self.tasks - start);
            layers.push(start..end);
            start = end;
        }
        layers
    }

    /// Distinct parents: one from the layer above, which fixes the level, the others from all layers in reach.
    fn parents(
        &self,
        above: &Range<usize>,
        reached: &Range<usize>,
        rng: &mut (impl Rng + ?Sized),
    ) -> Vec<usize> {
        let drawn = 1 + (rng.random::<f64>() * self.density * above.len() as f64) as usize;
        let count = drawn.min(self.max_parents).min(reached.len());
        let first = rng.random_range(above.clone());
        let mut parents = vec![first];
        if count > 1 {
            // Positions without the first parent's: those from its own on move up by one.
            let others = index::sample(rng, reached.len() - 1, count - 1);
            parents.extend(others.iter().map(|at| {
                let parent = reached.start + at;
                if parent < first { parent } else { parent + 1 }
            }));
        }
        parents
    }
}
