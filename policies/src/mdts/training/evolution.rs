//! Learning in runs, by an evolution strategy.
//!
//! What one choice does to a noisy run is mostly chance, so choices are not judged one by one here: the weights that only
//! runs use are shifted at random, whole runs are simulated with the shift added and subtracted, on the same job, cluster,
//! noise and failures, and the mean over many such pairs tells where runs get shorter (Salimans, Ho, Chen, Sidor,
//! Sutskever: Evolution strategies as a scalable alternative to reinforcement learning, 2017). The step is Adam's.
//! Two or three runs per pair.

use std::sync::Arc;

use mdts_core::Rng;
use mdts_dag::FlatGraph;
use rand::{Rng as _, SeedableRng};

use super::validation::Run;
use super::{TrainConfig, falling, generator, in_parallel, state};
use crate::learn::{Init, Params, Result};
use crate::mdts::experience::Experience;
use crate::mdts::network::{RUN_HEAD, Scorer};
use crate::mdts::placer::Raw;
use crate::mdts::teaching;

/// Decay of the mean of gradients and of the mean of their squares.
const DECAY: [f64; 2] = [0.9, 0.98];
/// Share of the latest weights in the running average, per generation.
const SHARE: f32 = 0.05;
/// A pair whose logarithms of makespans differ by more than this counts as if they differed by it.
const MOST: f64 = 0.3;
/// The name of its numbers among those of a saved training.
const NAME: &str = "evolution";

/// Weights that evolve.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Evolution {
    head: Vec<f32>,
    /// The running average of the head: what is measured and kept.
    pub(super) average: Vec<f32>,
    /// Means of gradients and of their squares.
    first: Vec<f32>,
    second: Vec<f32>,
}

/// What a pair of runs says.
struct Pair {
    shift: Vec<f32>,
    /// Logarithms of makespans over online EFT's, with the shift added and subtracted.
    costs: [f64; 2],
}

impl Evolution {
    pub(super) fn new(head: Vec<f32>) -> Self {
        let zeros = vec![0.0; head.len()];
        Self { average: head.clone(), head, first: zeros.clone(), second: zeros }
    }

    /// The generation after so many others; the mean logarithm of makespans over those of online EFT.
    pub(super) fn step(
        &mut self,
        (config, generation): (&TrainConfig, u64),
        graphs: &[Arc<FlatGraph>],
        scorer: &Scorer,
        threads: usize,
    ) -> f64 {
        let base = Arc::new(scorer.with_run_head(&self.head));
        let pairs = in_parallel(config.pairs, threads, |i| {
            let mut rng = generator(config.seed, config.planning() + generation, 1 + i as u64);
            self.pair(config, graphs, &base, &mut rng)
        });
        let pairs: Vec<Pair> = pairs.into_iter().flatten().collect();
        let count = pairs.len().max(1) as f64;
        let mut gradient = vec![0.0; RUN_HEAD];
        for Pair { shift, costs: [plus, minus] } in &pairs {
            let slope = (plus - minus).clamp(-MOST, MOST) / (2.0 * config.shift.powi(2) * count);
            gradient.iter_mut().zip(shift).for_each(|(g, shift)| *g += slope * f64::from(*shift));
        }
        let rate = config.stride * falling(generation, config.generations);
        self.climb(&gradient, rate, (generation + 1) as f64);
        pairs.iter().map(|pair| f64::midpoint(pair.costs[0], pair.costs[1])).sum::<f64>() / count
    }

    /// Runs of one job, half of the time one that has been run before.
    fn pair(
        &self,
        config: &TrainConfig,
        graphs: &[Arc<FlatGraph>],
        base: &Arc<Scorer>,
        rng: &mut Rng,
    ) -> Option<Pair> {
        let run = Run::random(config.nodes, graphs, rng)?;
        let before = if rng.random_bool(0.5) {
            teaching::experience(&run.instance, base, &run.conditions)
        } else {
            Experience::default()
        };
        let shift: Vec<f32> = self.head.iter().map(|_| (config.shift * normal(rng)) as f32).collect();
        let cost = |sign: f32| {
            let head: Vec<f32> = self.head.iter().zip(&shift).map(|(h, s)| h + sign * s).collect();
            run.cost(Raw::new(Arc::new(base.with_run_head(&head)), before.clone()))
        };
        let costs = [cost(1.0)?, cost(-1.0)?];
        Some(Pair { shift, costs })
    }

    fn climb(&mut self, gradient: &[f64], rate: f64, steps: f64) {
        let fade = DECAY.map(|decay| 1.0 - decay.powf(steps));
        let mix = |decay: f64, old: f32, new: f64| decay * f64::from(old) + (1.0 - decay) * new;
        for (i, &g) in gradient.iter().enumerate() {
            let (first, second) = (mix(DECAY[0], self.first[i], g), mix(DECAY[1], self.second[i], g * g));
            let step = rate * (first / fade[0]) / ((second / fade[1]).sqrt() + 1e-8);
            (self.first[i], self.second[i]) = (first as f32, second as f32);
            self.head[i] -= step as f32;
            self.average[i] += SHARE * (self.head[i] - self.average[i]);
        }
    }

    /// Its numbers, to be saved.
    pub(super) fn to_params(&self) -> Result<Params> {
        let params = Self::empty()?;
        let rows = [&self.head, &self.average, &self.first, &self.second];
        state::fill(&params, &rows.map(Vec::as_slice).concat())?;
        Ok(params)
    }

    /// Room for its numbers.
    pub(super) fn empty() -> Result<Params> {
        let mut params = Params::default();
        params.add(NAME, 4, RUN_HEAD, Init::Constant(0.0), &mut Rng::seed_from_u64(0))?;
        Ok(params)
    }

    /// What [`Self::to_params`] saved.
    pub(super) fn of_params(params: &Params) -> Result<Self> {
        let rows = state::flat(params)?;
        let row = |i: usize| rows[i * RUN_HEAD..(i + 1) * RUN_HEAD].to_vec();
        Ok(Self { head: row(0), average: row(1), first: row(2), second: row(3) })
    }
}

/// A standard normal number (Box, Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}
