//! Learning in runs, by an evolution strategy.
//!
//! What one choice does to a noisy run is mostly chance, so choices are not judged one by one here: the weights that only
//! runs use are shifted at random, whole runs are simulated with the shift added and subtracted, on the same job, cluster,
//! noise and failures, and the mean over many such pairs tells where runs get shorter (Salimans, Ho, Chen, Sidor,
//! Sutskever: Evolution strategies as a scalable alternative to reinforcement learning, 2017). The step is Adam's.
//! Two or three runs per pair.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use mdts_core::Rng;
use mdts_dag::FlatGraph;
use rand::{Rng as _, SeedableRng};

use super::validation::Run;
use super::{TrainConfig, falling, generator, in_parallel, state};
use crate::learn::{Adam, AdamConfig, Gradients, Init, Params, Result};
use crate::mdts::experience::Experience;
use crate::mdts::network::{RUN_HEAD, Scorer};
use crate::mdts::placer::Raw;
use crate::mdts::teaching;

/// Share of the latest weights in the running average, per generation.
const SHARE: f32 = 0.05;
/// A pair whose logarithms of makespans differ by more than this counts as if they differed by it.
const MOST: f64 = 0.3;
/// The name of its numbers among those of a saved training.
const NAME: &str = "evolution";

/// Weights that evolve.
#[derive(Debug)]
pub(super) struct Evolution {
    head: Params,
    /// The running average of the head: what is measured and kept.
    pub(super) average: Vec<f32>,
    optimizer: Adam,
}

/// What a pair of runs says.
struct Pair {
    shift: Vec<f32>,
    /// Logarithms of makespans over online EFT's, with the shift added and subtracted.
    costs: [f64; 2],
}

impl Evolution {
    pub(super) fn new(head: Vec<f32>) -> Result<Self> {
        let params = empty(RUN_HEAD)?;
        state::fill(&params, &head)?;
        // Noisy gradients, and few steps: the mean of their squares reaches back less far than by default.
        let config = AdamConfig { beta2: 0.98, ..AdamConfig::default() };
        Ok(Self { average: head, optimizer: Adam::new(&params, config)?, head: params })
    }

    /// The generation after so many others; the mean logarithm of makespans over those of online EFT.
    ///
    /// # Errors
    /// [`crate::learn::Error::NotFinite`] if learning broke down.
    pub(super) fn step(
        &mut self,
        (config, generation): (&TrainConfig, u64),
        graphs: &[Arc<FlatGraph>],
        scorer: &Scorer,
        threads: usize,
    ) -> Result<f64> {
        let head = state::flat(&self.head)?;
        let base = Arc::new(scorer.with_run_head(&head));
        let pairs = in_parallel(config.pairs, threads, |i| {
            let mut rng = generator(config.seed, config.planning() + generation, 1 + i as u64);
            pair((config, graphs), &head, &base, &mut rng)
        });
        let pairs: Vec<Pair> = pairs.into_iter().flatten().collect();
        let count = pairs.len().max(1) as f64;
        let mut gradient = vec![0.0_f64; RUN_HEAD];
        for Pair { shift, costs: [plus, minus] } in &pairs {
            let slope = (plus - minus).clamp(-MOST, MOST) / (2.0 * config.shift.powi(2) * count);
            gradient.iter_mut().zip(shift).for_each(|(g, shift)| *g += slope * f64::from(*shift));
        }
        let rate = config.stride * falling(generation, config.generations);
        self.climb(gradient.into_iter().map(|g| g as f32).collect(), rate)?;
        Ok(pairs.iter().map(|pair| f64::midpoint(pair.costs[0], pair.costs[1])).sum::<f64>() / count)
    }

    fn climb(&mut self, gradient: Vec<f32>, rate: f64) -> Result<()> {
        let gradient = Tensor::from_vec(gradient, (1, RUN_HEAD), &Device::Cpu)?;
        // A loss with this gradient.
        let products = self.head.iter().map(|(_, head)| head.as_tensor() * &gradient);
        let loss = Tensor::stack(&products.collect::<candle_core::Result<Vec<_>>>()?, 0)?.sum_all()?;
        self.optimizer.step(&self.head, &Gradients::of(&loss, &self.head)?, rate)?;
        let head = state::flat(&self.head)?;
        self.average.iter_mut().zip(head).for_each(|(mean, now)| *mean += SHARE * (now - *mean));
        Ok(())
    }

    /// Its numbers, to be saved.
    pub(super) fn to_params(&self) -> Result<Params> {
        let params = Self::empty()?;
        let (head, moments) = (state::flat(&self.head)?, state::flat(&self.optimizer.state(&self.head)?)?);
        state::fill(&params, &[head, self.average.clone(), moments].concat())?;
        Ok(params)
    }

    /// Room for its numbers: weights, their average, two moments and the number of steps.
    pub(super) fn empty() -> Result<Params> {
        empty(4 * RUN_HEAD + 1)
    }

    /// What [`Self::to_params`] saved.
    pub(super) fn of_params(params: &Params) -> Result<Self> {
        let all = state::flat(params)?;
        let (head, rest) = all.split_at(RUN_HEAD);
        let (average, moments) = rest.split_at(RUN_HEAD);
        let mut evolution = Self::new(head.to_vec())?;
        evolution.average = average.to_vec();
        let saved = evolution.optimizer.state(&evolution.head)?;
        state::fill(&saved, moments)?;
        evolution.optimizer.restore(&saved)?;
        Ok(evolution)
    }
}

/// One row of zeros.
fn empty(columns: usize) -> Result<Params> {
    let mut params = Params::default();
    params.add(NAME, 1, columns, Init::Constant(0.0), &mut Rng::seed_from_u64(0))?;
    Ok(params)
}

/// Runs of one job with a shift of the weights, half of the time a job that has been run before.
fn pair(
    (config, graphs): (&TrainConfig, &[Arc<FlatGraph>]),
    head: &[f32],
    base: &Arc<Scorer>,
    rng: &mut Rng,
) -> Option<Pair> {
    let run = Run::random(config.nodes, graphs, rng)?;
    let before = if rng.random_bool(0.5) {
        teaching::experience(&run.instance, base, &run.conditions)
    } else {
        Experience::default()
    };
    let shift: Vec<f32> = head.iter().map(|_| (config.shift * normal(rng)) as f32).collect();
    let cost = |sign: f32| {
        let head: Vec<f32> = head.iter().zip(&shift).map(|(h, s)| h + sign * s).collect();
        run.cost(Raw::new(Arc::new(base.with_run_head(&head)), before.clone()))
    };
    let costs = [cost(1.0), cost(-1.0)];
    Some(Pair { shift, costs })
}

/// A standard normal number (Box, Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}
