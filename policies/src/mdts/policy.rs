//! The policies: the network alone, and the network with a guard.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mdts_core::{Instance, Planner, Progress, Result, Rng, Schedule};

use super::experience::Experience;
use super::placer::Raw;
use super::planner::Planning;
use super::situation::Job;
use super::weights::Weights;
use crate::list::Heft;
use crate::search::{Control, Search, Start};

/// How much of what was learnt counts in the plans that are made; the shortest is kept.
const STRENGTHS: [f32; 3] = [1.0, 0.5, 0.25];
/// Tasks x nodes up to which there are several.
const SMALL: usize = 1 << 20;
/// The guard searches so many times as long as a quick search.
const EFFORT: u64 = 10;
/// Tasks x nodes beyond which [`Mdts`] leaves planning to the list policies: the network would take seconds.
const LARGEST: usize = 1 << 23;

/// The network alone (`mdts-raw`).
///
/// As a planner it fills gaps like HEFT, and keeps the shortest of three plans in which what was learnt counts in full,
/// half, and a quarter (one plan beyond a million tasks x nodes); as a placer ([`MdtsRaw::placer`]) it binds tasks to
/// nodes as late as possible and
/// learns from the run times that it sees.
///
/// ```
/// # use mdts_core::{Cluster, Instance, Planner, Rng, SlotModel};
/// # use mdts_dag::{DataModel, JobGraph, Task};
/// # use rand::SeedableRng;
/// use mdts_policies::mdts::{MdtsRaw, Weights};
/// # let mut job = JobGraph::builder("two");
/// # job.task(Task::new("first").seconds(2.0))?;
/// # job.task(Task::new("second").seconds(3.0))?;
/// # let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
/// # let instance = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
/// let policy = MdtsRaw::new(Weights::shipped()?);
/// assert_eq!(policy.plan(&instance, &mut Rng::seed_from_u64(1))?.makespan(), 3.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct MdtsRaw {
    weights: Weights,
}

impl MdtsRaw {
    /// The network with these weights.
    pub fn new(weights: Weights) -> Self {
        Self { weights }
    }

    /// The network as a placer that knows nothing of the nodes yet.
    pub fn placer(&self) -> Raw {
        self.placer_with(Experience::default())
    }

    /// The network as a placer with what earlier runs have taught.
    pub fn placer_with(&self, experience: Experience) -> Raw {
        Raw::new(self.weights.scorer.clone(), experience)
    }
}

impl Planner for MdtsRaw {
    fn plan(&self, instance: &Instance, _: &mut Rng) -> Result<Schedule> {
        let job = Arc::new(Job::new(instance, &Experience::default()));
        let begin = Planning::new(instance, self.weights.scorer.clone(), job)?;
        let size = instance.tasks().saturating_mul(instance.nodes());
        let strengths = if size > SMALL { &STRENGTHS[..1] } else { &STRENGTHS[..] };
        let mut best: Option<Planning<'_>> = None;
        for &strength in strengths {
            let mut planning = begin.clone().with_strength(strength);
            planning.complete();
            if best.as_ref().is_none_or(|best| planning.makespan() < best.makespan()) {
                best = Some(planning);
            }
        }
        Ok(best.unwrap_or(begin).schedule())
    }
}

/// The network with a guard (`mdts`): its plan beside those of the list policies, the best of them improved by a quick
/// search. So a plan is never longer than that of any list policy, HEFT included.
///
/// What has begun already is planned anew by the better of network and HEFT, without a search, as a run waits for it.
/// Beyond 8 million tasks x nodes the list policies and the search work without the network.
#[derive(Debug, Clone)]
pub struct Mdts {
    raw: MdtsRaw,
}

impl Mdts {
    /// The network with these weights, guarded.
    pub fn new(weights: Weights) -> Self {
        Self { raw: MdtsRaw::new(weights) }
    }

    /// The network alone.
    pub fn raw(&self) -> &MdtsRaw {
        &self.raw
    }

    /// The shorter of the network's plan and HEFT's.
    fn better(&self, instance: &Instance, rng: &mut Rng) -> Result<Schedule> {
        let heft = Heft.plan(instance, rng)?;
        if instance.tasks().saturating_mul(instance.nodes()) > LARGEST {
            return Ok(heft);
        }
        let own = self.raw.plan(instance, rng)?;
        Ok(if own.makespan() <= heft.makespan() { own } else { heft })
    }
}

impl Planner for Mdts {
    fn plan(&self, instance: &Instance, rng: &mut Rng) -> Result<Schedule> {
        if instance.progress().is_some_and(Progress::has_begun) {
            return self.better(instance, rng);
        }
        let start = if instance.tasks().saturating_mul(instance.nodes()) > LARGEST {
            Start::default()
        } else {
            Start { policy: "mdts-raw", planner: &self.raw }
        };
        // Iterations are counted, so the clock is not asked.
        let control =
            Control { stop: &AtomicBool::new(false), clock: &|| Duration::ZERO, observe: &mut |_| {} };
        Ok(Search::short(instance, EFFORT).improve_from(start, instance, rng, control)?.schedule)
    }
}
