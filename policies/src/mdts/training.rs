//! How MDTS learns: from what would have come of other choices, in plans and in runs.
//!
//! The network begins as earliest finish time. In the first rounds it learns to choose what a search chose. Then a round
//! draws random jobs, makes lessons of them with the network as it is, and lowers the
//! expected cost of its choices, sum over candidates of probability times cost, over the lessons of the latest rounds:
//! the policy gradient with every candidate's outcome known instead of sampled (Sutton et al.: Policy gradient methods for
//! reinforcement learning with function approximation, NIPS 1999).
//! Then generations: the weights that only runs use evolve by whole runs, the others stay.
//!
//! The same configuration gives the same weights, however many threads there are, and however often the training was
//! interrupted and resumed ([`State`]).

mod config;
mod evolution;
mod state;
#[cfg(test)]
mod tests;
mod validation;

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{D, Device, Tensor};
use mdts_core::Rng;
use mdts_dag::FlatGraph;
use rand::{Rng as _, SeedableRng};
use serde::{Deserialize, Serialize};

use super::experience::Experience;
use super::imitation::teacher;
use super::network::{CANDIDATES, Lesson, Output, PairNetwork, Scorer};
use super::weights::{Training, Weights};
use super::{lessons, network, teaching};
use crate::learn::{Adam, AdamConfig, Gradients, Params, Result};
use evolution::Evolution;
use validation::Validation;

pub use config::{Phase, TrainConfig};
pub use state::State;

/// Weight of the value's error beside the cost.
const VALUE: f64 = 0.1;
/// Of so many graphs that are given, one is only for validation.
const HELD_OUT: usize = 5;

/// How training goes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Rounds so far.
    pub round: u64,
    /// What they were for at last.
    #[serde(default)]
    pub phase: Phase,
    /// The expected cost of choices in this round's lessons, in percent of the makespan.
    pub cost: f64,
    /// The same for the best score instead of a drawn choice.
    pub greedy: f64,
    /// Lessons made in this round.
    pub lessons: usize,
    /// Geometric mean over validation jobs of the plan's makespan over HEFT's, if measured in this round.
    pub plan: Option<f64>,
    /// The same for runs, over online earliest finish time, with noise, hidden affinity and failures.
    pub run: Option<f64>,
    /// By how many percent runs of this generation were shorter than those of online earliest finish time; nothing in
    /// rounds of lessons.
    #[serde(default)]
    pub gain: Option<f64>,
}

impl Report {
    fn new(round: u64, phase: Phase) -> Self {
        Self { round, phase, cost: 0.0, greedy: 0.0, lessons: 0, plan: None, run: None, gain: None }
    }

    /// What is to be as small as possible.
    pub fn score(&self) -> Option<f64> {
        Some((self.plan? * self.run?).sqrt())
    }
}

/// A network that learns.
#[derive(Debug)]
pub struct Trainer {
    config: TrainConfig,
    network: PairNetwork,
    optimizer: Adam,
    /// The running average of the weights: what acts and is kept.
    average: Params,
    round: u64,
    /// By age, unlike [`crate::learn::Replay`], where what is drawn depends on all that was ever remembered: a resumed
    /// training has the same lessons, but not those before them, and must draw the same.
    memory: VecDeque<Lesson>,
    /// The rounds from which the lessons in the memory are.
    taught: VecDeque<Taught>,
    curve: Vec<Report>,
    /// All that were given, and those of them that are learnt from.
    graphs: Vec<Arc<FlatGraph>>,
    learnt: Vec<Arc<FlatGraph>>,
    validation: Validation,
    /// The weights of the best plans.
    best: Option<Best>,
    /// What runs learn, once they do.
    evolution: Option<Evolution>,
}

/// Weights of which plans were measured.
#[derive(Debug)]
struct Best {
    plan: f64,
    weights: Vec<f32>,
}

/// A round that gave lessons: with its weights they can be made again.
#[derive(Debug)]
struct Taught {
    weights: Vec<f32>,
    lessons: usize,
}

impl Trainer {
    /// A new network; half of the jobs to learn from are these graphs, if there are any. Every fifth graph is not learnt
    /// from: it is for half of the jobs on which progress is measured.
    ///
    /// # Errors
    /// Those of [`TrainConfig::check`].
    pub fn new(config: TrainConfig, graphs: Vec<Arc<FlatGraph>>) -> Result<Self> {
        config.check()?;
        let network = PairNetwork::new(&mut Rng::seed_from_u64(config.seed))?;
        let optimizer = Adam::new(network.params(), AdamConfig::default())?;
        let average = network.params().snapshot()?;
        let is_held_out = |i: usize| i % HELD_OUT == HELD_OUT - 1;
        let numbered = || graphs.iter().cloned().enumerate();
        let held_out: Vec<_> = numbered().filter(|(i, _)| is_held_out(*i)).map(|(_, graph)| graph).collect();
        let learnt = numbered().filter(|(i, _)| !is_held_out(*i)).map(|(_, graph)| graph).collect();
        let validation = Validation::new(config.trials, config.nodes, &held_out);
        Ok(Self {
            config,
            network,
            optimizer,
            average,
            round: 0,
            memory: VecDeque::new(),
            taught: VecDeque::new(),
            curve: Vec::new(),
            graphs,
            learnt,
            validation,
            best: None,
            evolution: None,
        })
    }

    /// The weights: a running average of those that are learnt.
    pub fn params(&self) -> &Params {
        &self.average
    }

    /// How it trains.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// Rounds and generations so far.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Rounds and generations in all.
    pub fn rounds(&self) -> u64 {
        self.config.steps()
    }

    /// The rounds that were measured.
    pub fn curve(&self) -> &[Report] {
        &self.curve
    }

    /// What the weights' checkpoint is to tell of this training.
    pub fn card(&self) -> Training {
        let graphs = self.graphs.iter().map(|graph| graph.name().to_owned()).collect();
        Training { config: self.config.clone(), round: self.round, curve: self.curve.clone(), graphs }
    }

    /// Measures the weights as they are: what a training begins with.
    ///
    /// # Errors
    /// None with the network's own weights.
    pub fn measure(&mut self, threads: usize) -> Result<Report> {
        self.measured(self.report(), threads)
    }

    /// Measures other weights on the same validation jobs.
    pub fn measure_other(&self, weights: &Weights, threads: usize) -> Report {
        let (round, config) = (weights.training().round, &weights.training().config);
        let report = Report::new(round, config.phase(round.saturating_sub(1)));
        self.validation.measure(&weights.scorer, threads, report)
    }

    /// How things are after the latest round.
    fn report(&self) -> Report {
        Report::new(self.round, self.config.phase(self.round.saturating_sub(1)))
    }

    /// Measures the weights, and keeps those of the best plans for the generations to begin with.
    fn measured(&mut self, report: Report, threads: usize) -> Result<Report> {
        let report = self.validation.measure(&Arc::new(Scorer::new(&self.average)?), threads, report);
        let plan = report.plan.filter(|plan| plan.is_finite() && self.round <= self.config.planning());
        if let Some(plan) = plan.filter(|plan| self.best.as_ref().is_none_or(|best| *plan < best.plan)) {
            self.best = Some(Best { plan, weights: state::flat(&self.average)? });
        }
        self.curve.push(report);
        Ok(report)
    }

    /// One round or generation on so many threads, measured on validation jobs if wanted.
    ///
    /// # Errors
    /// [`crate::learn::Error::NotFinite`] if learning broke down; the weights are as before the update then.
    pub fn step(&mut self, threads: usize, measure: bool) -> Result<Report> {
        let report = match self.config.phase(self.round) {
            Phase::Imitation | Phase::Lessons => self.study(threads)?,
            Phase::Runs => self.evolve(threads)?,
        };
        if measure { self.measured(report, threads) } else { Ok(report) }
    }

    /// A round of lessons and updates.
    fn study(&mut self, threads: usize) -> Result<Report> {
        if self.round == self.config.imitation {
            // What was imitated is not mixed with what is found out.
            (self.memory, self.taught) = Default::default();
        }
        let scorer = Arc::new(Scorer::new(&self.average)?);
        let teacher = state::flat(&self.average)?;
        let mut rng = generator(self.config.seed, self.round, 0);
        let (fresh, learnt) = std::thread::scope(|scope| {
            let (config, graphs, round) = (&self.config, &self.learnt, self.round);
            let teaching = scope.spawn({
                let scorer = scorer.clone();
                move || teach(config, graphs, round, &scorer, threads)
            });
            let learner =
                Learner { network: &self.network, optimizer: &mut self.optimizer, average: &self.average };
            let learnt = learner.learn(config, round, &self.memory, &mut rng);
            (teaching.join(), learnt)
        });
        let fresh = fresh.unwrap_or_else(|panic| resume_unwind(panic));
        learnt?;
        let (cost, greedy) = judge(&self.network, &fresh)?;
        let lessons = fresh.len();
        self.remember(teacher, fresh);
        self.round += 1;
        Ok(Report { cost, greedy, lessons, ..self.report() })
    }

    /// A generation: what runs alone use is shifted and tried; the rest stays as it was when plans were best.
    fn evolve(&mut self, threads: usize) -> Result<Report> {
        let scorer = Scorer::new(&self.average)?;
        let (scorer, evolution) = match &mut self.evolution {
            Some(evolution) => (scorer, evolution),
            none => {
                if let Some(best) = &self.best {
                    state::fill(&self.average, &best.weights)?;
                }
                (self.memory, self.taught) = Default::default();
                let scorer = Scorer::new(&self.average)?;
                let evolution = none.insert(Evolution::new(scorer.run_head())?);
                (scorer, evolution)
            }
        };
        let generation = self.round - self.config.planning();
        let cost = evolution.step((&self.config, generation), &self.learnt, &scorer, threads)?;
        network::set_run_head(&self.average, &evolution.average)?;
        self.round += 1;
        Ok(Report { gain: Some((1.0 - cost.exp()) * 100.0), ..self.report() })
    }

    /// Keeps the lessons that the network of these weights gave; the oldest make room.
    fn remember(&mut self, weights: Vec<f32>, fresh: Vec<Lesson>) {
        self.taught.push_back(Taught { weights, lessons: fresh.len() });
        self.memory.extend(fresh);
        let excess = self.memory.len().saturating_sub(self.config.memory);
        self.memory.drain(..excess);
        let mut later: usize = self.taught.iter().map(|t| t.lessons).sum();
        while let Some(oldest) = self.taught.front() {
            later -= oldest.lessons;
            if later < self.memory.len() {
                break;
            }
            self.taught.pop_front();
        }
    }
}

/// From 1 to a twentieth, along a half cosine.
fn falling(done: u64, of: u64) -> f64 {
    let progress = (done as f64 / of.max(1) as f64).min(1.0);
    0.05 + 0.95 * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
}

fn generator(seed: u64, round: u64, stream: u64) -> Rng {
    let mut rng = Rng::seed_from_u64(seed);
    rng.set_stream(round << 16 | stream);
    rng
}

/// Lessons of one round, in the order of jobs.
fn teach(
    config: &TrainConfig,
    graphs: &[Arc<FlatGraph>],
    round: u64,
    scorer: &Arc<Scorer>,
    threads: usize,
) -> Vec<Lesson> {
    let of_job = |job: usize| {
        lesson((config, round), graphs, scorer, &mut generator(config.seed, round, 1 + job as u64))
    };
    in_parallel(config.jobs, threads, of_job).into_iter().flatten().collect()
}

/// What comes of every number below `count`, in order, on so many threads.
fn in_parallel<T: Send>(count: usize, threads: usize, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        return;
                    }
                    let result = of(i);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|d| d.0);
    done.into_iter().map(|d| d.1).collect()
}

fn lesson(
    (config, round): (&TrainConfig, u64),
    graphs: &[Arc<FlatGraph>],
    scorer: &Arc<Scorer>,
    rng: &mut Rng,
) -> Vec<Lesson> {
    let Some(instance) = lessons::instance(config.nodes, graphs, rng) else { return Vec::new() };
    if config.phase(round) == Phase::Imitation {
        let Some(teacher) = teacher(&instance, config.search, rng) else { return Vec::new() };
        return teaching::plan(&instance, scorer, Some(&teacher), 24, rng);
    }
    if !rng.random_bool(config.runs) {
        return teaching::plan(&instance, scorer, None, 24, rng);
    }
    let conditions = lessons::conditions(rng);
    let before = if rng.random_bool(0.5) {
        teaching::experience(&instance, scorer, &conditions)
    } else {
        Experience::default()
    };
    teaching::practise(&instance, scorer, &conditions, &before, 8, rng)
}

struct Learner<'a> {
    network: &'a PairNetwork,
    optimizer: &'a mut Adam,
    average: &'a Params,
}

impl Learner<'_> {
    /// The updates of one round.
    fn learn(self, config: &TrainConfig, round: u64, memory: &VecDeque<Lesson>, rng: &mut Rng) -> Result<()> {
        if memory.len() < config.batch {
            return Ok(());
        }
        let params = self.network.params();
        let rate = config.rate
            * match round.checked_sub(config.imitation) {
                None => falling(round, config.imitation),
                Some(round) => falling(round, config.rounds),
            };
        for _ in 0..config.updates {
            let draw = |_| &memory[rng.random_range(0..memory.len())];
            let batch: Vec<&Lesson> = (0..config.batch).map(draw).collect();
            let gradients = Gradients::of(&loss(self.network, &batch, config.ridge)?, params)?.clip(1.0);
            self.optimizer.step(params, &gradients, rate)?;
            self.average.blend_from(params, config.share)?;
        }
        Ok(())
    }
}

fn loss(network: &PairNetwork, batch: &[&Lesson], ridge: f64) -> Result<Tensor> {
    let Output { scores, learnt, values } = network.forward(batch)?;
    let outcomes: Vec<f32> = batch.iter().map(|l| l.outcome).collect();
    let outcomes = Tensor::from_vec(outcomes, batch.len(), &Device::Cpu)?;
    let value = (values - outcomes)?.sqr()?.mean_all()?;
    let change = learnt.sqr()?.mean_all()?;
    Ok(((expected(&scores, batch)? + (value * VALUE)?)? + (change * ridge)?)?)
}

/// Mean over lessons of the sum of probability times cost.
fn expected(scores: &Tensor, lessons: &[&Lesson]) -> Result<Tensor> {
    let mut costs = Vec::with_capacity(lessons.len() * CANDIDATES);
    for lesson in lessons {
        costs.extend((0..CANDIDATES).map(|j| lesson.candidates.get(j).map_or(0.0, |c| c.cost)));
    }
    let costs = Tensor::from_vec(costs, (lessons.len(), CANDIDATES), &Device::Cpu)?;
    let highest = scores.max_keepdim(D::Minus1)?.detach();
    let odds = scores.broadcast_sub(&highest)?.exp()?;
    let shares = odds.broadcast_div(&odds.sum_keepdim(D::Minus1)?)?;
    Ok((shares * costs)?.sum(D::Minus1)?.mean_all()?)
}

/// Expected cost and cost of the best score over lessons that have not been learnt yet.
fn judge(network: &PairNetwork, lessons: &[Lesson]) -> Result<(f64, f64)> {
    if lessons.is_empty() {
        return Ok((0.0, 0.0));
    }
    let all: Vec<&Lesson> = lessons.iter().collect();
    let scores = network.forward(&all)?.scores;
    let cost = f64::from(expected(&scores, &all)?.to_scalar::<f32>()?);
    let best = scores.argmax(D::Minus1)?.to_vec1::<u32>()?;
    let costs =
        all.iter().zip(best).map(|(l, b)| l.candidates.get(b as usize).map_or(0.0, |c| f64::from(c.cost)));
    Ok((cost, costs.sum::<f64>() / all.len() as f64))
}
