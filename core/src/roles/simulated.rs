//! A placer in the role of a planner: roll it out in the simulator, and keep what it did as the plan.

use std::fmt;
use std::sync::Arc;

use crate::sim::{Conditions, JobTrace, simulate};
use crate::{Instance, Placer, Planner, Result, Rng, Schedule};

/// Plans by simulating a [`Placer`] under ideal conditions.
///
/// `make` gives a fresh placer for every plan; whatever it draws comes from the generator handed to it.
///
/// ```
/// # use mdts_core::{Cluster, Decisions, Instance, Placer, Planner, Result, Rng, SlotModel, engine::Step, roles::Simulated};
/// # use mdts_dag::{DataModel, JobGraph, Task};
/// # use rand::SeedableRng;
/// #[derive(Debug)]
/// struct First;
/// impl Placer for First {
///     fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
///         step.ready().iter().for_each(|task| decisions.place(*task, 0.into()));
///         Ok(())
///     }
/// }
/// # let mut job = JobGraph::builder("two");
/// # job.task(Task::new("a").seconds(2.0))?;
/// # job.task(Task::new("b").seconds(3.0))?;
/// # let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
/// # let instance = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
/// let planner = Simulated::new(|_: &mut Rng| First);
/// let schedule = planner.plan(&instance, &mut Rng::seed_from_u64(1))?;
/// assert_eq!(schedule.makespan(), 5.0);
/// # Ok::<(), mdts_core::Error>(())
/// ```
pub struct Simulated<F> {
    make: F,
}

impl<F> Simulated<F> {
    /// A planner from a source of placers.
    pub fn new(make: F) -> Self {
        Self { make }
    }
}

impl<F> fmt::Debug for Simulated<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulated").finish_non_exhaustive()
    }
}

impl<F, P> Planner for Simulated<F>
where
    F: Fn(&mut Rng) -> P + Send + Sync,
    P: Placer,
{
    fn plan(&self, instance: &Instance, rng: &mut Rng) -> Result<Schedule> {
        let placer = (self.make)(rng);
        let trace = simulate(&vec![(0.0, Arc::new(instance.clone()))], placer, &Conditions::default())?;
        Ok(trace.jobs.first().map(JobTrace::schedule).unwrap_or_default())
    }
}
