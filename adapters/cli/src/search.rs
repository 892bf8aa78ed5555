//! `--budget` and `--iterations`: plans improved by a search, until it ends or Ctrl-C ends it.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use mdts_core::Instance;
use mdts_dag::generate::seeded;
use mdts_policies::search::{Budget, Control, Found, Search, Start};

use crate::error::Result;
use crate::interrupt::Interrupts;
use crate::policy::{self, Plan, Policy};
use crate::progress;
use crate::text::number;

/// The policy that is a search itself.
pub(crate) const NAME: &str = "search";
/// The policy that it starts from, and that plans anew in its place.
const BASE: &str = "heft";
/// Longest budget in seconds.
const LONGEST: f64 = 1e9;
/// Time between two looks at whether Ctrl-C was pressed, and how long the search may take to end itself after that.
const TICK: Duration = Duration::from_millis(20);
const GRACE: Duration = Duration::from_millis(100);
/// What the help of commands with these flags tells about a search.
pub(crate) const HELP: &str = "\
A search (--budget, --iterations, or the policy search) improves the shortest plan of the policy and the list policies, so
none of them has a shorter one. Those that take long are left out of large jobs: lookahead where dependencies x nodes^2 is
more than 10 million, and with dls, etf, min-min, max-min and sufferage where tasks x nodes is more than 2 million.

Ctrl-C ends a search that flags ask for with its best plan so far. plan shows it; run goes on and follows it, and stops as
always when Ctrl-C is pressed again; compare goes on with the next policy. A second Ctrl-C before that ends the program.";

/// Flags about the search, common to several commands.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct SearchFlags {
    /// Improve the plan for so many seconds, until it is proven optimal, or until Ctrl-C: then with the best plan so far
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    #[arg(conflicts_with = "iterations")]
    budget: Option<f64>,
    /// Improve the plan by so many trials: slower or faster, but the same plan on every machine
    #[arg(long, value_name = "N", value_parser = trials, allow_negative_numbers = true)]
    iterations: Option<u64>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST);
    seconds.ok_or_else(|| "expected seconds, more than 0 and at most 1e9; write for example 10".into())
}

fn trials(text: &str) -> Result<u64, String> {
    let trials = text.parse().ok().filter(|trials| *trials > 0);
    trials.ok_or_else(|| "expected a whole number of at least 1; write for example 20000".into())
}

impl SearchFlags {
    /// The search that flags ask for; if they do not, but the policy is a search, its own.
    pub(crate) fn search(self, policy: &Policy, instance: &Instance) -> Option<Search> {
        let own = || (policy.name() == NAME).then(|| Search::quick(instance));
        self.budget().map(Search::new).or_else(own)
    }

    /// Whether one of them was given.
    pub(crate) fn are_given(self) -> bool {
        self.budget().is_some()
    }

    fn budget(self) -> Option<Budget> {
        let seconds = self.budget.map(Budget::Seconds);
        seconds.or_else(|| self.iterations.map(Budget::Iterations))
    }
}

/// What a search tells beside the plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trace {
    /// The budget if it was one of time.
    pub(crate) budget_seconds: Option<f64>,
    /// The policy whose plan was improved, and its makespan.
    pub(crate) start: &'static str,
    pub(crate) start_makespan: f64,
    pub(crate) iterations: u64,
    pub(crate) lower_bound: f64,
    pub(crate) is_optimal: bool,
    pub(crate) was_interrupted: bool,
}

impl Trace {
    /// What was gained, in one line.
    pub(crate) fn told(&self, makespan: f64) -> String {
        let gain = if self.start_makespan > 0.0 { 1.0 - makespan / self.start_makespan } else { 0.0 };
        format!(
            "from {} s by {}, {:.1} % shorter after {} trials{}",
            number(self.start_makespan),
            self.start,
            gain * 100.0,
            self.iterations,
            if self.was_interrupted { ", interrupted" } else { "" }
        )
    }
}

/// The policy to start from, and to plan with when there is no time to search.
///
/// # Errors
/// None: the registry has it.
pub(crate) fn base(policy: &Policy) -> Result<Policy> {
    if policy.name() == NAME { Ok(Policy::new(policy::find(BASE)?, None)) } else { Ok(policy.clone()) }
}

/// Searches and verifies; with `interrupts`, the first Ctrl-C ends the search with the best plan so far.
///
/// A list policy that has begun cannot be interrupted: its thread is left behind if there is a plan already.
///
/// # Errors
/// Those of [`policy::plan`].
pub(crate) fn plan(
    search: Search,
    policy: &Policy,
    seed: u64,
    instance: &Arc<Instance>,
    quiet: bool,
    interrupts: Option<&Interrupts>,
) -> Result<Plan> {
    let begin = Instant::now();
    let stop = interrupts.map_or_else(Arc::default, Interrupts::begin);
    if interrupts.is_some() {
        tracing::info!("searching; Ctrl-C ends the search with the best plan so far");
    }
    let bar = progress::search(quiet);
    let (sender, better) = channel();
    let searcher = {
        let (policy, instance, stop, bar) = (policy.clone(), instance.clone(), stop.clone(), bar.clone());
        thread::spawn(move || {
            let mut best = f64::INFINITY;
            let mut observe = |found: &Found| {
                progress::show_search(&bar, found);
                if found.schedule.makespan() < best {
                    best = found.schedule.makespan();
                    tracing::info!("plan of {best} s after {} trials", found.iterations);
                    sender.send(found.clone()).ok(); // nobody waits for it after an interrupt
                }
            };
            improve(search, &policy, seed, &instance, &stop, &mut observe)
        })
    };
    let mut best = None;
    let mut stopped = None;
    let found = loop {
        match better.recv_timeout(TICK) {
            Ok(found) => best = Some(found),
            Err(RecvTimeoutError::Disconnected) => {
                break searcher.join().unwrap_or_else(|p| resume_unwind(p));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Ordering::Relaxed)
            && stopped.get_or_insert_with(Instant::now).elapsed() >= GRACE
            && let Some(found) = best.take()
        {
            break Ok(found);
        }
    };
    bar.finish_and_clear();
    if let Some(interrupts) = interrupts {
        interrupts.end();
    }
    measured(search, found?, stop.load(Ordering::Relaxed), begin, instance)
}

fn improve(
    search: Search,
    policy: &Policy,
    seed: u64,
    instance: &Instance,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(&Found),
) -> Result<Found> {
    let policy = base(policy)?;
    let start = Start { policy: policy.name(), planner: &*policy.planner() };
    let begin = Instant::now();
    let control = Control { stop, clock: &|| begin.elapsed(), observe };
    Ok(search.improve_from(start, instance, &mut seeded(seed), control)?)
}

fn measured(
    search: Search,
    found: Found,
    was_interrupted: bool,
    begin: Instant,
    instance: &Instance,
) -> Result<Plan> {
    let trace = Trace {
        budget_seconds: match search.budget {
            Budget::Seconds(seconds) => Some(seconds),
            Budget::Iterations(_) => None,
        },
        start: found.start,
        start_makespan: found.start_makespan,
        iterations: found.iterations,
        lower_bound: found.lower_bound,
        is_optimal: found.optimal,
        was_interrupted,
    };
    let plan = Plan::measured(NAME, found.schedule, begin.elapsed().as_secs_f64(), instance)?;
    Ok(Plan { search: Some(trace), ..plan })
}
