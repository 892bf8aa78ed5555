//! Jobs that no training draws, on which progress is measured.

use std::sync::Arc;

use mdts_core::sim::Conditions;
use mdts_core::{Instance, Placer, Planner, Rng};
use mdts_dag::FlatGraph;
use rand::SeedableRng;

use super::{Report, in_parallel};
use crate::mdts::experience::Experience;
use crate::mdts::network::Scorer;
use crate::mdts::placer::Raw;
use crate::mdts::planner::Planning;
use crate::mdts::situation::Job;
use crate::mdts::{lessons, teaching};
use crate::{balance, list};

/// Jobs that are planned.
const PLANS: usize = 300;
/// What fails counts as if it took so many times as long as the rule it is compared with.
const FAILED: f64 = 10.0;

#[derive(Debug)]
pub(super) struct Validation {
    plans: Vec<Plan>,
    runs: Vec<Run>,
}

#[derive(Debug)]
struct Plan {
    instance: Arc<Instance>,
    heft: f64,
}

/// A run: everything about it that is not the policy.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) instance: Arc<Instance>,
    pub(super) conditions: Conditions,
    /// The makespan of online earliest finish time.
    pub(super) eft: f64,
}

impl Run {
    /// A random job on a random cluster under random conditions.
    pub(super) fn random(nodes: usize, graphs: &[Arc<FlatGraph>], rng: &mut Rng) -> Option<Self> {
        let instance = lessons::run(nodes, graphs, rng)?;
        let mut conditions = lessons::conditions(rng);
        let eft = |conditions: &Conditions| teaching::run(&instance, balance::Eft::default(), conditions);
        let mut seconds = eft(&conditions)?;
        conditions.failures = lessons::failures(seconds, rng);
        if conditions.failures.is_some() {
            seconds = eft(&conditions)?;
        }
        (seconds > 0.0).then_some(Self { instance, conditions, eft: seconds })
    }

    /// Logarithm of a policy's makespan over that of online earliest finish time.
    pub(super) fn cost(&self, placer: impl Placer) -> f64 {
        let makespan = teaching::run(&self.instance, placer, &self.conditions);
        makespan.map_or(FAILED, |makespan| makespan / self.eft).ln()
    }
}

impl Validation {
    /// So many runs; half of all jobs are these graphs, if there are any.
    pub(super) fn new(runs: usize, nodes: usize, graphs: &[Arc<FlatGraph>]) -> Self {
        let mut rng = Rng::seed_from_u64(0x7a11_da7e);
        let plan = |rng: &mut Rng| {
            let instance = lessons::instance(nodes, graphs, rng)?;
            let heft = list::Heft.plan(&instance, rng).ok()?.makespan();
            (heft > 0.0).then_some(Plan { instance, heft })
        };
        let plans = (0..PLANS).filter_map(|_| plan(&mut rng)).collect();
        let mut rng = Rng::seed_from_u64(0x7a11_da7f);
        let runs = (0..runs).filter_map(|_| Run::random(nodes, graphs, &mut rng)).collect();
        Self { plans, runs }
    }

    /// Measures on so many threads.
    pub(super) fn measure(&self, scorer: &Arc<Scorer>, threads: usize, report: Report) -> Report {
        let plan = |case: &Plan| {
            let job = Arc::new(Job::new(&case.instance, &Experience::default()));
            let planned = Planning::new(&case.instance, scorer.clone(), job).map(|mut planning| {
                planning.complete();
                planning.makespan() / case.heft
            });
            planned.unwrap_or(FAILED).ln()
        };
        let run = |case: &Run| case.cost(Raw::new(scorer.clone(), Experience::default()));
        let plans = in_parallel(self.plans.len(), threads, |i| plan(&self.plans[i]));
        let runs = in_parallel(self.runs.len(), threads, |i| run(&self.runs[i]));
        Report { plan: Some(mean(&plans)), run: Some(mean(&runs)), ..report }
    }
}

/// Geometric mean from logarithms.
fn mean(logs: &[f64]) -> f64 {
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}
