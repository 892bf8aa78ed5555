//! A policy by name in the role that a command needs, with its time measured.

use std::time::Instant;

use mdts_core::engine::Step;
use mdts_core::{
    Bounds, Decisions, Instance, Objectives, Placer, Planner, Schedule, lower_bounds, objectives,
};
use mdts_dag::generate::seeded;
use mdts_policies::mdts::{Experience, Mdts, MdtsRaw, Weights};
use mdts_policies::{PolicyInfo, follow};

use crate::error::{Error, Result};
use crate::search::Trace;
use crate::weights::LEARNED;

/// A policy of the registry.
///
/// # Errors
/// [`Error::Usage`] that offers the nearest name.
pub(crate) fn find(name: &str) -> Result<&'static PolicyInfo> {
    mdts_policies::find(name).map_err(|error| Error::Usage(format!("{error}; mdts policies describes them")))
}

/// A policy of the registry, with weights of its own if it is a learned one and was given some.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) info: &'static PolicyInfo,
    learned: Option<Learned>,
}

/// A learned policy whose weights are not those of the registry.
#[derive(Debug, Clone)]
enum Learned {
    Guarded(Mdts),
    Raw(MdtsRaw),
}

impl Policy {
    /// The policy, with these weights if it has any.
    pub(crate) fn new(info: &'static PolicyInfo, weights: Option<&Weights>) -> Self {
        let learned = match (info.name, weights) {
            ("mdts", Some(weights)) => Some(Learned::Guarded(Mdts::new(weights.clone()))),
            ("mdts-raw", Some(weights)) => Some(Learned::Raw(MdtsRaw::new(weights.clone()))),
            _ => None,
        };
        Self { info, learned }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        self.info.name
    }

    /// The policy as a planner.
    pub(crate) fn planner(&self) -> Box<dyn Planner> {
        match &self.learned {
            None => self.info.planner(),
            Some(Learned::Guarded(policy)) => Box::new(policy.clone()),
            Some(Learned::Raw(policy)) => Box::new(policy.clone()),
        }
    }

    /// The policy as a placer.
    pub(crate) fn placer(&self, seed: u64) -> Box<dyn Placer> {
        match &self.learned {
            None => self.info.placer(seed),
            Some(Learned::Guarded(policy)) => Box::new(policy.raw().placer()),
            Some(Learned::Raw(policy)) => Box::new(policy.placer()),
        }
    }

    /// Whether the policy can use what earlier runs have taught of nodes.
    pub(crate) fn has_experience(&self) -> bool {
        LEARNED.contains(&self.name())
    }

    /// The policy as a placer of a run on a clock on which everything takes `scale` times as long as the instance says. A
    /// policy that can use them knows that, and what earlier runs have taught of nodes.
    pub(crate) fn placer_of_run(&self, seed: u64, experience: Experience, scale: f64) -> Box<dyn Placer> {
        let raw = match &self.learned {
            Some(Learned::Guarded(policy)) => Some(policy.raw().clone()),
            Some(Learned::Raw(policy)) => Some(policy.clone()),
            None if self.has_experience() => Weights::shipped().ok().map(MdtsRaw::new),
            None => None,
        };
        match raw {
            Some(raw) => Box::new(raw.placer_with(experience).with_scale(scale)),
            None => self.placer(seed),
        }
    }

    /// A placer that follows a plan; the policy plans the rest when that is late.
    pub(crate) fn placer_with_plan(&self, plan: Schedule, seed: u64) -> Box<dyn Placer> {
        if self.learned.is_none() {
            return self.info.placer_with_plan(plan, seed);
        }
        follow(plan, self.planner(), seed)
    }
}

/// A verified schedule with its measures.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Who made it.
    pub(crate) policy: &'static str,
    pub(crate) schedule: Schedule,
    pub(crate) objectives: Objectives,
    pub(crate) bounds: Bounds,
    /// Wall seconds of the policy alone.
    pub(crate) seconds: f64,
    /// How it was searched for, if it was.
    pub(crate) search: Option<Trace>,
}

impl Plan {
    /// Verifies and measures a schedule.
    ///
    /// # Errors
    /// [`Error::InvalidPlan`] if it breaks a rule.
    pub(crate) fn measured(
        policy: &'static str,
        schedule: Schedule,
        seconds: f64,
        instance: &Instance,
    ) -> Result<Self> {
        schedule.verify(instance).map_err(|violation| Error::InvalidPlan { policy, violation })?;
        tracing::info!(policy, seconds, "planned");
        let (objectives, bounds) = (objectives(instance, &schedule), lower_bounds(instance));
        Ok(Self { policy, schedule, objectives, bounds, seconds, search: None })
    }

    /// The best lower bound that is known.
    pub(crate) fn lower_bound(&self) -> f64 {
        let searched = self.search.map_or(0.0, |search| search.lower_bound);
        // Both are computed with rounding, and may cross.
        searched.max(self.bounds.best()).min(self.objectives.makespan)
    }

    /// Whether it is known that no schedule is shorter.
    pub(crate) fn is_optimal(&self) -> bool {
        let bound = self.bounds.best();
        self.search.is_some_and(|search| search.is_optimal)
            || self.objectives.makespan <= bound + 1e-9 * bound.abs()
    }
}

/// Plans and verifies.
///
/// # Errors
/// The policy's own, and [`Error::InvalidPlan`] if its schedule breaks a rule.
pub(crate) fn plan(policy: &Policy, seed: u64, instance: &Instance) -> Result<Plan> {
    let planner = policy.planner();
    let begin = Instant::now();
    let schedule = planner.plan(instance, &mut seeded(seed))?;
    Plan::measured(policy.name(), schedule, begin.elapsed().as_secs_f64(), instance)
}

/// A placer that adds up the wall time of its decisions.
#[derive(Debug)]
pub(crate) struct Timed<'a> {
    pub(crate) placer: Box<dyn Placer>,
    pub(crate) seconds: &'a mut f64,
}

impl Placer for Timed<'_> {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> mdts_core::Result<()> {
        let begin = Instant::now();
        let placed = self.placer.place(step, decisions);
        *self.seconds += begin.elapsed().as_secs_f64();
        placed
    }

    fn watches_progress(&self) -> bool {
        self.placer.watches_progress()
    }
}
