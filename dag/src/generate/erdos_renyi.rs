//! Random graphs without structure: every pair of tasks is joined with the same probability.
//!
//! ```text
//! t0 --> t1     t3      edges run from lower to higher numbers; each of the n (n - 1) / 2 pairs is one
//!  \-------> t2 -^      with probability p = 2 * degree / (n - 1)
//! ```
//! `tasks` tasks and `degree * tasks` dependencies on average. Pairs that are no edge are skipped in geometric jumps:
//! O(tasks + dependencies). Sources: Erdős, Rényi: On random graphs I, Publ. Math. Debrecen 6, 1959; Batagelj,
//! Brandes: Efficient generation of large random networks, Physical Review E 71, 036113, 2005.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::sketch::Sketch;
use super::{Costs, check};
use crate::{JobGraph, Result, TaskId};

/// A uniform random graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErdosRenyi {
    /// Number of tasks, at least 1.
    pub tasks: usize,
    /// Mean number of dependencies per task; from `(tasks - 1) / 2` on the graph is complete.
    pub degree: f64,
    /// Run times and data.
    #[serde(flatten)]
    pub costs: Costs,
}

impl Default for ErdosRenyi {
    fn default() -> Self {
        Self { tasks: 100, degree: 2.0, costs: Costs::default() }
    }
}

impl ErdosRenyi {
    /// Generates the graph. O(tasks + dependencies).
    ///
    /// # Errors
    /// [`crate::Error::BadParameter`].
    pub fn generate(&self, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
        check::at_least("erdos-renyi:tasks", self.tasks, 1)?;
        check::within("erdos-renyi:degree", self.degree, 0.0..=1e9)?;
        let tasks = self.tasks as f64;
        check::size("erdos-renyi:tasks", tasks, 0.0)?;
        check::size("erdos-renyi:degree", tasks, tasks * self.degree.min((tasks - 1.0) / 2.0))?;
        self.costs.check("erdos-renyi")?;
        let mut sketch = Sketch::new(format!("erdos-renyi-{}", self.tasks), &self.costs, rng);
        sketch.tasks(self.tasks)?;
        self.join(&mut sketch);
        sketch.build()
    }

    /// Walks over the pairs (1,0) (2,0) (2,1) (3,0) ... from edge to edge.
    fn join<R: Rng + ?Sized>(&self, sketch: &mut Sketch<'_, R>) {
        let probability = (2.0 * self.degree / (self.tasks as f64 - 1.0)).min(1.0);
        if self.tasks < 2 || probability <= 0.0 {
            return;
        }
        let log_no_edge = (-probability).ln_1p();
        let (mut child, mut parent) = (1, skip(log_no_edge, sketch.rng()));
        loop {
            while parent >= child {
                parent -= child;
                child += 1;
                if child == self.tasks {
                    return;
                }
            }
            sketch.depend(TaskId::new(child), TaskId::new(parent));
            parent += 1 + skip(log_no_edge, sketch.rng());
        }
    }
}

/// Number of pairs without an edge before the next one that has one: geometric.
fn skip(log_no_edge: f64, rng: &mut (impl Rng + ?Sized)) -> usize {
    const FAR: f64 = (1_u64 << 60) as f64; // beyond every pair, and adding to it does not overflow
    ((1.0 - rng.random::<f64>()).ln() / log_no_edge).min(FAR) as usize
}
