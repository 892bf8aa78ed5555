//! The search as a whole: list policies, bound, and rounds of a team.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mdts_core::{Instance, Planner, Result, Rng, Schedule};
use rand::SeedableRng;

use super::bound::{lower_bound, meets};
use super::budget::{Budget, Limit};
use super::model::Model;
use super::team::Team;
use crate::list;

/// Tasks x nodes, and dependencies, beyond which only the list policies are tried: the costs would fill the memory.
const LARGEST: usize = 1 << 26;
/// Dependencies x nodes^2 up to which `lookahead` is among the list policies.
const LOOKAHEAD: usize = 10_000_000;
/// Tasks x nodes up to which those are that choose among all pairs of ready task and node.
const PAIRS: usize = 2_000_000;
/// Threads among which a number of iterations is shared.
const WORKERS: usize = 4;
/// Iterations of a quick search at most, and steps (of an iteration for every task and dependency) for large instances.
const QUICK: u64 = 20_000;
const QUICK_STEPS: u64 = 20_000_000;

/// Improves plans until a budget ends or a lower bound is met.
///
/// The plan is never longer than that of the best list policy, nor than the one that it started from. Of large instances
/// only the list policies that are linear in tasks and nodes are tried (`lookahead` up to 10 million dependencies x
/// nodes^2, and with `dls`, `etf`, `min-min`, `max-min` and `sufferage` up to 2 million tasks x nodes), and none is begun after the budget has ended or somebody asked to stop; the first plan and the list policies
/// that have begun are awaited.
///
/// ```
/// use mdts_core::{Cluster, Instance, Planner, Rng, SlotModel};
/// use mdts_dag::{DataModel, JobGraph, Task};
/// use mdts_policies::search::{Budget, Search};
/// use rand::SeedableRng;
/// let mut job = JobGraph::builder("five");
/// for (i, seconds) in [3.0, 3.0, 2.0, 2.0, 2.0].into_iter().enumerate() {
///     job.task(Task::new(format!("t{i}")).seconds(seconds))?;
/// }
/// let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
/// let instance = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
/// let schedule = Search::new(Budget::Iterations(1000)).plan(&instance, &mut Rng::seed_from_u64(1))?;
/// assert_eq!(schedule.makespan(), 6.0); // longest first takes 7
/// # Ok::<(), mdts_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// How long to search.
    pub budget: Budget,
    /// Threads; 0: as many as the machine has. The result depends on their number.
    pub threads: usize,
}

/// The plan that a search starts from, unless a list policy has a shorter one.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The name of the policy.
    pub policy: &'static str,
    /// The policy itself; the first to draw from the search's generator.
    pub planner: &'a dyn Planner,
}

impl Default for Start<'_> {
    fn default() -> Self {
        Self { policy: "heft", planner: &list::Heft }
    }
}

/// What a search has to do with the world around it.
pub struct Control<'a> {
    /// Ends the search early with the best so far.
    pub stop: &'a AtomicBool,
    /// The time since some fixed moment; read only if the budget is in seconds.
    pub clock: &'a (dyn Fn() -> Duration + Sync),
    /// Is told what is found so far: the first plan (with a lower bound of 0, as none is known yet), the best of the
    /// list policies, and what every round and the proof made of it.
    pub observe: &'a mut dyn FnMut(&Found),
}

impl fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("stop", self.stop).finish_non_exhaustive()
    }
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The best schedule.
    pub schedule: Schedule,
    /// No schedule is shorter than this, in seconds; the makespan itself if the schedule is optimal.
    pub lower_bound: f64,
    /// Whether it is proven that no schedule is shorter.
    pub optimal: bool,
    /// Orders of tasks that were tried, over all threads.
    pub iterations: u64,
    /// The policy that the search started from: that of [`Start`], or the list policy with the shortest plan.
    pub start: &'static str,
    /// The makespan of that policy, in seconds.
    pub start_makespan: f64,
}

impl Search {
    /// A search on all cores. Iterations are shared by a fixed number of threads, so that what is found is the same
    /// on every machine.
    pub fn new(budget: Budget) -> Self {
        let threads = match budget {
            Budget::Seconds(_) => 0,
            Budget::Iterations(_) => WORKERS,
        };
        Self { budget, threads }
    }

    /// A search that takes about a second at most and finds the same on every machine: 20,000 iterations, fewer for
    /// large instances.
    pub fn quick(instance: &Instance) -> Self {
        Self::short(instance, 1)
    }

    /// So many times a quick search.
    pub(crate) fn short(instance: &Instance, times: u64) -> Self {
        let size = (instance.tasks() + instance.graph().edge_count() + 1) as u64;
        Self::new(Budget::Iterations((times * QUICK_STEPS / size).clamp(1, times * QUICK)))
    }

    /// Searches from the list policies. `stop` and `clock` are those of [`Control`].
    ///
    /// # Errors
    /// Those of [`Search::improve_from`].
    pub fn improve(
        &self,
        instance: &Instance,
        rng: &mut Rng,
        stop: &AtomicBool,
        clock: &(dyn Fn() -> Duration + Sync),
    ) -> Result<Found> {
        self.improve_from(Start::default(), instance, rng, Control { stop, clock, observe: &mut |_| {} })
    }

    /// Searches from the shortest of a policy's plan and those of the list policies.
    ///
    /// # Errors
    /// [`mdts_core::Error::BadSetting`] for a budget that cannot be kept, those of
    /// [`mdts_core::PartialSchedule::new`], and the first policy's own.
    pub fn improve_from(
        &self,
        start: Start<'_>,
        instance: &Instance,
        rng: &mut Rng,
        control: Control<'_>,
    ) -> Result<Found> {
        let Control { stop, clock, observe } = control;
        self.budget.check()?;
        let until = match self.budget {
            Budget::Seconds(seconds) => Some(clock().as_secs_f64() + seconds),
            Budget::Iterations(_) => None,
        };
        let limit = Limit { stop, clock, until };
        let threads = match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let mut found = Found::first(start.policy, start.planner.plan(instance, rng)?);
        observe(&found);
        found.try_list_policies(instance, threads, &limit)?;
        let size = (instance.tasks() * instance.nodes()).max(instance.graph().edge_count());
        if size > LARGEST {
            found.bound(mdts_core::lower_bounds(instance).best());
            observe(&found);
            return Ok(found);
        }
        let model = Model::new(instance);
        found.bound(lower_bound(&model));
        observe(&found);
        let Some(mut team) = Team::new(&model, &found.schedule, threads, rng) else { return Ok(found) };
        let most = match self.budget {
            Budget::Seconds(_) => u64::MAX,
            Budget::Iterations(iterations) => iterations,
        };
        found.rounds(&mut team, most, &limit, observe);
        Ok(found)
    }
}

impl Planner for Search {
    /// Measures seconds with [`Instant`], the monotonic clock of the machine.
    fn plan(&self, instance: &Instance, rng: &mut Rng) -> Result<Schedule> {
        let begin = Instant::now();
        let found = self.improve(instance, rng, &AtomicBool::new(false), &move || begin.elapsed())?;
        Ok(found.schedule)
    }
}

impl Found {
    /// What is known when a policy has planned.
    fn first(start: &'static str, schedule: Schedule) -> Self {
        let start_makespan = schedule.makespan();
        Self { schedule, lower_bound: 0.0, optimal: false, iterations: 0, start, start_makespan }
    }

    /// Takes note of a lower bound.
    fn bound(&mut self, lower_bound: f64) {
        self.lower_bound = lower_bound;
        self.optimal = meets(self.schedule.makespan(), lower_bound);
    }

    /// Lets the team work in rounds until there were `most` iterations in all.
    fn rounds(&mut self, team: &mut Team<'_>, most: u64, limit: &Limit<'_>, observe: &mut dyn FnMut(&Self)) {
        let goal = self.lower_bound * (1.0 + 1e-12) + 1e-12;
        while !self.optimal && !limit.is_over() {
            let makespan = self.schedule.makespan();
            let Some(done) = team.round(most - self.iterations, makespan, goal, limit) else { break };
            self.iterations += done;
            if let Some(schedule) = team.exchange(makespan) {
                self.optimal = meets(schedule.makespan(), self.lower_bound);
                self.schedule = schedule;
            }
            if team.has_proven() {
                self.optimal = true;
                self.lower_bound = self.schedule.makespan();
            }
            observe(self);
        }
    }

    /// Starts from the list policy with the shortest plan instead, if that is shorter; of equally short ones from
    /// the first in the list.
    fn try_list_policies(&mut self, instance: &Instance, threads: usize, limit: &Limit<'_>) -> Result<()> {
        let next = AtomicUsize::new(0);
        let plans = Mutex::new(Vec::new());
        let list = suitable(instance);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((name, planner)) = list.get(at).filter(|_| !limit.is_over()) else { break };
                if *name == self.start {
                    continue;
                }
                // They draw nothing; a planner must be handed a generator all the same.
                let schedule = planner.plan(instance, &mut Rng::seed_from_u64(0));
                if let Ok(mut plans) = plans.lock() {
                    plans.push((at, *name, schedule));
                }
            }
        };
        std::thread::scope(|scope| {
            (1..threads.min(list.len())).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        let mut plans = plans.into_inner().unwrap_or_default();
        plans.sort_by_key(|(at, ..)| *at);
        for (_, name, schedule) in plans {
            let schedule = schedule?;
            if schedule.makespan() < self.start_makespan {
                *self = Self::first(name, schedule);
            }
        }
        Ok(())
    }
}

/// The list policies: linear ones, those that choose among pairs, and the slowest.
const LIST: [(&str, &dyn Planner); 13] = [
    ("heft", &list::Heft),
    ("peft", &list::Peft),
    ("cpop", &list::Cpop),
    ("mct", &list::Mct),
    ("fastest-node", &list::FastestNode),
    ("olb", &list::Olb),
    ("met", &list::Met),
    ("dls", &list::Dls),
    ("etf", &list::Etf),
    ("max-min", &list::MaxMin),
    ("sufferage", &list::Sufferage),
    ("min-min", &list::MinMin),
    ("lookahead", &list::Lookahead),
];
/// How many of them are linear.
const LINEAR: usize = 7;

/// The list policies that an instance of this size has time for.
fn suitable(instance: &Instance) -> &'static [(&'static str, &'static dyn Planner)] {
    let nodes = instance.nodes();
    if instance.tasks().saturating_mul(nodes) > PAIRS {
        &LIST[..LINEAR]
    } else if instance.graph().edge_count().saturating_mul(nodes * nodes) > LOOKAHEAD {
        &LIST[..LIST.len() - 1]
    } else {
        &LIST
    }
}
