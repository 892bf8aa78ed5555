//! The search as a policy among others.

use mdts_core::{Instance, Planner, Progress, Result, Rng, Schedule};

use super::improve::Search;
use crate::list::Heft;

/// Plans with [`Search::quick`]; when the job has begun or nodes are lost, the rest is planned by HEFT, as whoever
/// plans anew has no second to wait.
///
/// It counts iterations on a fixed number of threads, so the plan depends on the seed only, not on the machine.
///
/// ```
/// # use mdts_core::{Cluster, Instance, Planner, Rng, SlotModel};
/// # use mdts_dag::{DataModel, JobGraph, Task};
/// # use mdts_policies::search::Quick;
/// # use rand::SeedableRng;
/// # let mut job = JobGraph::builder("five");
/// # for (i, seconds) in [3.0, 3.0, 2.0, 2.0, 2.0].into_iter().enumerate() {
/// #     job.task(Task::new(format!("t{i}")).seconds(seconds))?;
/// # }
/// # let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
/// # let instance = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
/// let schedule = Quick.plan(&instance, &mut Rng::seed_from_u64(1))?;
/// assert_eq!(schedule.makespan(), 6.0);
/// # Ok::<(), mdts_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Quick;

impl Planner for Quick {
    fn plan(&self, instance: &Instance, rng: &mut Rng) -> Result<Schedule> {
        let has_begun = instance.progress().is_some_and(Progress::has_begun);
        if has_begun { Heft.plan(instance, rng) } else { Search::quick(instance).plan(instance, rng) }
    }
}
