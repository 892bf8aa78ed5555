//! How MDTS learns: from what would have come of other choices, in plans and in runs.
//!
//! A round draws random jobs, makes lessons of them with the network as it is, and then lowers the
//! expected cost of its choices, sum over candidates of probability times cost, over the lessons of the latest rounds:
//! the policy gradient with every candidate's outcome known instead of sampled (Sutton et al.: Policy gradient methods for
//! reinforcement learning with function approximation, NIPS 1999). The network begins as earliest finish time.
//!
//! The same configuration gives the same weights, however many threads there are, and however often the training was
//! interrupted and resumed ([`State`]).

mod state;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{D, Device, Tensor};
use mdts_core::sim::{Conditions, simulate};
use mdts_core::{Instance, Planner, Rng};
use mdts_dag::FlatGraph;
use rand::{Rng as _, SeedableRng};
use serde::{Deserialize, Serialize};

use super::experience::Experience;
use super::network::{CANDIDATES, Lesson, Output, PairNetwork, Scorer};
use super::placer::Raw;
use super::planner::Planning;
use super::situation::Job;
use super::weights::{Training, Weights};
use super::{lessons, teaching};
use crate::learn::{Adam, AdamConfig, Error, Gradients, Params, Result};
use crate::{balance, list};

pub use state::State;

/// Weight of the value's error beside the cost.
const VALUE: f64 = 0.1;

/// How to train.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Rounds of lessons and updates.
    pub rounds: u64,
    /// Jobs per round.
    pub jobs: usize,
    /// Updates per round.
    pub updates: usize,
    /// Lessons per update.
    pub batch: usize,
    /// Lessons that are kept.
    pub memory: usize,
    /// Step size at the beginning; it falls to a twentieth along a half cosine.
    pub rate: f64,
    /// Nodes of a cluster at most.
    pub nodes: usize,
    /// Share of jobs from which runs, rather than plans, are learnt.
    pub runs: f64,
    /// Share of the latest weights in the running average, per update.
    pub share: f64,
    /// What the mean square of learnt changes to scores costs, in percent of the makespan: what one choice does is mostly
    /// chance, and a change must show in many.
    pub ridge: f64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            rounds: 1200,
            jobs: 32,
            updates: 8,
            batch: 256,
            memory: 100_000,
            rate: 1e-3,
            nodes: 64,
            runs: 0.0,
            share: 0.01,
            ridge: 0.02,
        }
    }
}

impl TrainConfig {
    /// Most jobs per round: each has a stream of random numbers of its own.
    const MOST_JOBS: usize = 10_000;
    /// Most nodes of a cluster.
    const MOST_NODES: usize = 4096;

    /// Checks that one can train like this.
    ///
    /// # Errors
    /// [`Error::Setting`] naming what is out of range.
    pub fn check(&self) -> Result<()> {
        let is_share = |x: f64| (0.0..=1.0).contains(&x);
        let rules = [
            (self.rounds > 0, "rounds", self.rounds.to_string(), "at least 1"),
            (
                (1..=Self::MOST_JOBS).contains(&self.jobs),
                "jobs per round",
                self.jobs.to_string(),
                "1 to 10000",
            ),
            (self.batch > 0, "batch", self.batch.to_string(), "at least 1"),
            (self.memory >= self.batch, "memory", self.memory.to_string(), "at least as many as the batch"),
            (
                self.rate > 0.0 && self.rate < 1.0,
                "rate",
                self.rate.to_string(),
                "more than 0 and less than 1",
            ),
            ((2..=Self::MOST_NODES).contains(&self.nodes), "nodes", self.nodes.to_string(), "2 to 4096"),
            (is_share(self.runs), "runs", self.runs.to_string(), "a share from 0 to 1"),
            (
                is_share(self.share) && self.share > 0.0,
                "share",
                self.share.to_string(),
                "more than 0, up to 1",
            ),
            (
                self.ridge >= 0.0 && self.ridge.is_finite(),
                "ridge",
                self.ridge.to_string(),
                "a finite number of at least 0",
            ),
        ];
        match rules.into_iter().find(|rule| !rule.0) {
            Some((_, what, found, expected)) => Err(Error::Setting { what, found, expected }),
            None => Ok(()),
        }
    }
}

/// How training goes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Rounds so far.
    pub round: u64,
    /// The expected cost of choices in this round's lessons, in percent of the makespan.
    pub cost: f64,
    /// The same for the best score instead of a drawn choice.
    pub greedy: f64,
    /// Lessons made in this round.
    pub lessons: usize,
    /// Geometric mean over validation jobs of the plan's makespan over HEFT's, if measured in this round.
    pub plan: Option<f64>,
    /// The same for runs, over online earliest finish time, with noise and hidden affinity.
    pub run: Option<f64>,
}

impl Report {
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
    memory: VecDeque<Lesson>,
    /// The rounds from which the lessons in the memory are.
    taught: VecDeque<Taught>,
    curve: Vec<Report>,
    graphs: Vec<Arc<FlatGraph>>,
    validation: Validation,
}

/// A round that gave lessons: with its weights they can be made again.
#[derive(Debug)]
struct Taught {
    weights: Vec<f32>,
    lessons: usize,
}

impl Trainer {
    /// A new network; half of the jobs to learn from are these graphs, if there are any.
    ///
    /// # Errors
    /// Those of [`TrainConfig::check`].
    pub fn new(config: TrainConfig, graphs: Vec<Arc<FlatGraph>>) -> Result<Self> {
        config.check()?;
        let network = PairNetwork::new(&mut Rng::seed_from_u64(config.seed))?;
        let optimizer = Adam::new(network.params(), AdamConfig::default());
        let average = network.params().snapshot()?;
        let validation = Validation::new(80, config.nodes);
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
            validation,
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

    /// Rounds so far.
    pub fn round(&self) -> u64 {
        self.round
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
    pub fn measure(&mut self) -> Result<Report> {
        let report = Report { round: self.round, cost: 0.0, greedy: 0.0, lessons: 0, plan: None, run: None };
        let report = self.validation.measure(&Arc::new(Scorer::new(&self.average)?), report);
        self.curve.push(report);
        Ok(report)
    }

    /// Measures other weights on the same validation jobs.
    pub fn measure_other(&self, weights: &Weights) -> Report {
        let round = weights.training().round;
        let report = Report { round, cost: 0.0, greedy: 0.0, lessons: 0, plan: None, run: None };
        self.validation.measure(&weights.scorer, report)
    }

    /// One round on so many threads, measured on validation jobs if wanted.
    ///
    /// # Errors
    /// [`crate::learn::Error::NotFinite`] if learning broke down; the weights are as before the update then.
    pub fn step(&mut self, threads: usize, measure: bool) -> Result<Report> {
        let scorer = Arc::new(Scorer::new(&self.average)?);
        let teacher = state::flat(&self.average)?;
        let mut rng = generator(self.config.seed, self.round, 0);
        let (fresh, learnt) = std::thread::scope(|scope| {
            let (config, graphs, round) = (&self.config, &self.graphs, self.round);
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
        let mut report = Report { round: self.round, cost, greedy, lessons, plan: None, run: None };
        if measure {
            report = self.validation.measure(&Arc::new(Scorer::new(&self.average)?), report);
            self.curve.push(report);
        }
        Ok(report)
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
    let (next, done) = (AtomicUsize::new(0), Mutex::new(vec![Vec::new(); config.jobs]));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    if job >= config.jobs {
                        return;
                    }
                    let lessons =
                        lesson(config, graphs, scorer, &mut generator(config.seed, round, 1 + job as u64));
                    done.lock().unwrap_or_else(PoisonError::into_inner)[job] = lessons;
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

fn lesson(
    config: &TrainConfig,
    graphs: &[Arc<FlatGraph>],
    scorer: &Arc<Scorer>,
    rng: &mut Rng,
) -> Vec<Lesson> {
    let Some(instance) = lessons::instance(config.nodes, graphs, rng) else { return Vec::new() };
    if !rng.random_bool(config.runs) {
        return teaching::plan(&instance, scorer, 24, rng);
    }
    let conditions = lessons::conditions(rng);
    let before = if rng.random_bool(0.5) {
        let earlier = Conditions { seed: conditions.seed, ..conditions.clone() };
        teaching::experience(&instance, scorer, &earlier)
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
        let progress = (round as f64 / config.rounds.max(1) as f64).min(1.0);
        let rate = config.rate * (0.05 + 0.95 * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()));
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

/// Jobs on which progress is measured.
#[derive(Debug)]
struct Validation {
    jobs: Vec<Case>,
}

#[derive(Debug)]
struct Case {
    instance: Arc<Instance>,
    conditions: Conditions,
    heft: f64,
    eft: f64,
}

impl Validation {
    fn new(count: usize, nodes: usize) -> Self {
        let mut rng = Rng::seed_from_u64(0x7a11_da7e);
        let case = |rng: &mut Rng| {
            let instance = lessons::instance(nodes, &[], rng)?;
            let conditions =
                Conditions { seed: rng.random(), noise: 0.3, affinity: 0.5, ..Conditions::default() };
            let heft = list::Heft.plan(&instance, rng).ok()?.makespan();
            let trace =
                simulate(&vec![(0.0, instance.clone())], balance::Eft::default(), &conditions).ok()?;
            Some(Case { instance, conditions, heft, eft: trace.makespan() })
        };
        Self { jobs: (0..count).filter_map(|_| case(&mut rng)).filter(|c| c.heft > 0.0).collect() }
    }

    fn measure(&self, scorer: &Arc<Scorer>, report: Report) -> Report {
        Report { plan: Some(self.plan(scorer)), run: Some(self.run(scorer)), ..report }
    }

    fn mean(&self, ratio: impl Fn(&Case) -> Option<f64>) -> f64 {
        let logs: Vec<f64> = self.jobs.iter().filter_map(|case| Some(ratio(case)?.ln())).collect();
        (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
    }

    fn plan(&self, scorer: &Arc<Scorer>) -> f64 {
        self.mean(|case| {
            let job = Arc::new(Job::new(&case.instance, &Experience::default()));
            let mut planning = Planning::new(&case.instance, scorer.clone(), job).ok()?;
            planning.complete();
            Some(planning.makespan() / case.heft)
        })
    }

    fn run(&self, scorer: &Arc<Scorer>) -> f64 {
        self.mean(|case| {
            let raw = Raw::new(scorer.clone(), Experience::default());
            Some(teaching::run(&case.instance, raw, &case.conditions)? / case.eft)
        })
    }
}
