//! Two small worlds with known optima.

use mdts_core::Rng;
use mdts_policies::learn::{Activation, BranchConfig, End, Environment, Error, Feedback, Mask, Result};
use rand::{Rng as _, SeedableRng};

/// What a reward one step later is worth in the chain.
pub(crate) const DISCOUNT: f32 = 0.9;

pub(crate) fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// A bandit: one of three contexts is shown, two branches choose one of four options each, and the episode ends. The
/// right option of branch b in context c is (c + b) mod 3 and pays 1. Option 3 is masked.
#[derive(Debug)]
pub(crate) struct Bandit {
    context: usize,
    rng: Rng,
}

impl Bandit {
    pub(crate) fn new(seed: u64) -> Self {
        let mut new = Self { context: 0, rng: rng(seed) };
        new.context = new.rng.random_range(0..3);
        new
    }

    pub(crate) fn shape() -> BranchConfig {
        BranchConfig { inputs: 3, trunk: vec![16], activation: Activation::Tanh, branches: 2, options: 4 }
    }

    /// All contexts with their right options.
    pub(crate) fn solution() -> Vec<(Vec<f32>, Mask, Vec<u32>)> {
        let case = |c: usize| (one_hot(c, 3), Self::mask(), vec![c as u32 % 3, (c as u32 + 1) % 3]);
        (0..3).map(case).collect()
    }

    fn mask() -> Mask {
        Mask::new(4, [true, true, true, false].repeat(2)).expect("a mask")
    }
}

impl Environment for Bandit {
    type Observation = Vec<f32>;

    fn reset(&mut self) -> Result<()> {
        self.context = self.rng.random_range(0..3);
        Ok(())
    }

    fn observation(&self) -> Vec<f32> {
        one_hot(self.context, 3)
    }

    fn mask(&self) -> Result<Mask> {
        Ok(Self::mask())
    }

    fn step(&mut self, choices: &[u32]) -> Result<Feedback> {
        if let Some(option) = choices.iter().find(|o| **o > 2) {
            return Err(Error::Forbidden { option: *option as usize, options: 4 });
        }
        let right = |(branch, option): (usize, &u32)| *option as usize == (self.context + branch) % 3;
        let reward = choices.iter().enumerate().filter(|choice| right(*choice)).count() as f32;
        Ok(Feedback { reward, end: End::Terminal })
    }
}

/// A chain of five states. Option 1 moves on, from the last state to the end, which pays 1. Option 0 pays a little and
/// leads back to the start. Episodes are cut after 12 steps. Best is always to move on: a state that is d steps from the
/// last is worth 0.9^d.
#[derive(Debug)]
pub(crate) struct Chain {
    state: usize,
    steps: usize,
}

impl Chain {
    pub(crate) const BACK: f32 = 0.02;

    pub(crate) fn new() -> Self {
        Self { state: 0, steps: 0 }
    }

    pub(crate) fn shape() -> BranchConfig {
        BranchConfig { inputs: 5, trunk: vec![16], activation: Activation::Tanh, branches: 1, options: 2 }
    }

    /// All states with what they are worth.
    pub(crate) fn solution() -> Vec<(Vec<f32>, f32)> {
        (0..5).map(|state| (one_hot(state, 5), DISCOUNT.powf((4 - state) as f32))).collect()
    }
}

impl Environment for Chain {
    type Observation = Vec<f32>;

    fn reset(&mut self) -> Result<()> {
        *self = Self::new();
        Ok(())
    }

    fn observation(&self) -> Vec<f32> {
        one_hot(self.state, 5)
    }

    fn mask(&self) -> Result<Mask> {
        Ok(Mask::all(1, 2))
    }

    fn step(&mut self, choices: &[u32]) -> Result<Feedback> {
        self.steps += 1;
        if choices == [1] && self.state == 4 {
            return Ok(Feedback { reward: 1.0, end: End::Terminal });
        }
        let (state, reward) = if choices == [1] { (self.state + 1, 0.0) } else { (0, Self::BACK) };
        self.state = state;
        Ok(Feedback { reward, end: if self.steps == 12 { End::Cut } else { End::Open } })
    }
}

fn one_hot(index: usize, length: usize) -> Vec<f32> {
    (0..length).map(|i| if i == index { 1.0 } else { 0.0 }).collect()
}
