//! Those who work on one instance side by side: workers, which improve solutions, and the proof.
//!
//! Every thread has a worker with a seed of its own. A round is a fixed number of iterations for each, and of branches for
//! the proof; between rounds the best solution, on a tie that of the first worker, is handed to all. So the result does
//! not depend on which thread is faster, unless the clock ends the search.

use mdts_core::{Rng, Schedule};
use rand::{Rng as _, SeedableRng};

use super::anneal::Anneal;
use super::budget::Limit;
use super::exact::{self, Exact};
use super::genetic::Genetic;
use super::model::Model;
use super::pool::{Pool, is_pool};
use super::sequence::{Exclusive, Shared};

/// Resources that can run short, at most.
const MOST_RESOURCES: usize = 16;
/// Branches of the proof beside every round of the workers, and in all at least.
const BRANCHES: u64 = 10_000;
const LEAST_BRANCHES: u64 = 200_000;
/// Tasks beyond which proofs are rare and get fewer branches; but beside a round of a pool, which is long, as many.
const FEW: usize = 24;
const FEW_BRANCHES: u64 = 1000;

/// A solution that workers exchange; what it means is theirs.
#[derive(Debug, Clone)]
pub(super) struct Best {
    pub(super) makespan: f64,
    pub(super) order: Vec<u32>,
    pub(super) node: Vec<u32>,
}

/// One way to improve a schedule.
pub(super) trait Worker: Send {
    /// Tries a number of solutions, unless the goal is met or the limit is over; how many it were.
    fn run(&mut self, iterations: u64, goal: f64, limit: &Limit<'_>) -> u64;
    /// The best so far.
    fn best(&self) -> Best;
    /// Takes over a solution of another worker if it is better.
    fn adopt(&mut self, best: &Best);
    /// The schedule of a solution.
    fn schedule(&mut self, best: &Best) -> Schedule;
}

/// The workers and the proof.
pub(super) struct Team<'m> {
    model: &'m Model<'m>,
    workers: Vec<Box<dyn Worker + 'm>>,
    proof: Option<Exact<'m>>,
    /// Iterations of a worker in one round.
    round: u64,
    /// Branches beside one round, and those of the least number that are still to come.
    branches: u64,
    owed: u64,
    has_begun: bool,
}

impl<'m> Team<'m> {
    /// One worker per thread; `None` if there is nothing to search.
    pub(super) fn new(model: &'m Model<'m>, start: &Schedule, threads: usize, rng: &mut Rng) -> Option<Self> {
        if model.order_of(start).is_empty() || model.dimensions() > MOST_RESOURCES {
            return None;
        }
        let worker = |rng: Rng| -> Box<dyn Worker + 'm> {
            match (is_pool(model), model.exclusive, model.dimensions()) {
                (true, true, _) | (true, _, 0..=1) => {
                    Box::new(Genetic::<1>::new(Pool::new(model), start, rng))
                }
                (true, _, 2..=4) => Box::new(Genetic::<4>::new(Pool::new(model), start, rng)),
                (true, ..) => Box::new(Genetic::<MOST_RESOURCES>::new(Pool::new(model), start, rng)),
                (_, true, _) => Box::new(Anneal::new(model, Exclusive::new(model), start, rng)),
                (_, _, 0..=4) => Box::new(Anneal::new(model, Shared::<4>::new(model), start, rng)),
                _ => Box::new(Anneal::new(model, Shared::<MOST_RESOURCES>::new(model), start, rng)),
            }
        };
        let (branches, least) = match model.tasks {
            0..=FEW => (BRANCHES, LEAST_BRANCHES),
            _ if is_pool(model) => (BRANCHES, FEW_BRANCHES),
            _ => (FEW_BRANCHES, FEW_BRANCHES),
        };
        Some(Self {
            model,
            workers: (0..threads).map(|_| worker(Rng::seed_from_u64(rng.random()))).collect(),
            proof: exact::is_small(model).then(|| Exact::new(model)),
            round: (4_000_000 / (model.tasks as u64 + 20)).clamp(100, 20_000),
            branches,
            owed: least,
            has_begun: false,
        })
    }

    /// Works for a round to beat `makespan`, with `left` iterations at most and up to `goal`; how many iterations it were,
    /// or `None` if nothing is left to do.
    ///
    /// The first round is the workers' alone: the better the schedule to beat, the shorter the proof. When the
    /// iterations are used up, the proof gets what is missing of its least number of branches.
    pub(super) fn round(&mut self, left: u64, makespan: f64, goal: f64, limit: &Limit<'_>) -> Option<u64> {
        let branches = match (left, self.has_begun) {
            (0, _) => self.owed,
            (_, false) => 0,
            (_, true) => self.branches,
        };
        let proof = self.proof.as_mut().filter(|_| branches > 0);
        if left == 0 && proof.is_none() {
            return None;
        }
        self.has_begun = true;
        self.owed = self.owed.saturating_sub(branches);
        let (round, count) = (self.round, self.workers.len() as u64);
        let share = |i: usize| round.min(left / count + u64::from((i as u64) < left % count));
        let run = |(i, worker): (usize, &mut Box<dyn Worker + 'm>)| worker.run(share(i), goal, limit);
        let mut prove = proof.map(|proof| || proof.advance(makespan, branches, limit));
        Some(std::thread::scope(|scope| {
            // Who asked for one thread gets one.
            if let Some(prove) = prove.take_if(|_| count > 1) {
                scope.spawn(prove);
            }
            let mut all = self.workers.iter_mut().enumerate();
            let first = all.next();
            let others: Vec<_> = all.map(|w| scope.spawn(move || run(w))).collect();
            let done = first.map_or(0, run);
            if let Some(mut prove) = prove {
                prove();
            }
            done + others.into_iter().map(|o| o.join().unwrap_or(0)).sum::<u64>()
        }))
    }

    /// Hands the best solution to all workers, and gives its schedule if it is shorter than `makespan`.
    pub(super) fn exchange(&mut self, makespan: f64) -> Option<Schedule> {
        let proven = self.proof.as_mut().and_then(Exact::found);
        let bests = self.workers.iter().map(|w| w.best());
        let best = bests.reduce(|a, b| if b.makespan < a.makespan { b } else { a })?;
        let proven = proven.filter(|schedule| schedule.makespan() < best.makespan);
        let best = proven.as_ref().map_or(best, |schedule| self.model.best_of(schedule));
        self.workers.iter_mut().for_each(|worker| worker.adopt(&best));
        (best.makespan < makespan).then(|| proven.unwrap_or_else(|| self.workers[0].schedule(&best)))
    }

    /// Whether no schedule is shorter than the best that was known.
    pub(super) fn has_proven(&self) -> bool {
        self.proof.as_ref().is_some_and(Exact::is_complete)
    }
}
