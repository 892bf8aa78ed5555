//! Deep Q-learning, with double, dueling, branching, n-step and prioritised variants.
//!
//! Sources: Mnih et al.: Human-level control through deep reinforcement learning, Nature 518, 2015; van Hasselt, Guez,
//! Silver: Deep reinforcement learning with double Q-learning, AAAI 2016; Tavakoli, Pardo, Kormushev: Action branching
//! architectures, AAAI 2018: all branches share one target, the mean over branches of what their best options are worth.
//! Dueling is a matter of the network ([`super::DuelingNetwork`]). Errors are squared while small and linear beyond
//! (Huber), and averaged over branches.

use candle_core::{Device, Tensor};
use mdts_core::Rng;
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use super::actor_critic::{Progress, check_norm};
use super::categorical::{Mask, check_fits};
use super::environment::{End, Environment};
use super::error::{Error, Result};
use super::gradients::Gradients;
use super::network::Network;
use super::optimizer::{Adam, AdamConfig};
use super::policy_gradient::Losses;
use super::replay::{Pick, Priorities, Replay};
use super::schedule::Schedule;
use super::storage::with_values;
use super::transition::{Transition, Window};

/// How the target network follows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Follow {
    /// Takes over all weights every so many updates.
    Copy {
        /// Updates between two copies.
        every: u64,
    },
    /// Moves by this share of the way with every update.
    Blend {
        /// Between 0 and 1.
        share: f64,
    },
}

/// Settings of [`Dqn`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DqnConfig {
    /// What a reward one step later is worth, 0 to 1.
    pub discount: f32,
    /// Steps whose rewards are summed before the estimate of what follows.
    pub n_step: usize,
    /// Whether the learning network chooses the option that the target network values.
    pub double: bool,
    /// How the target network follows.
    pub follow: Follow,
    /// Steps in memory.
    pub capacity: usize,
    /// Steps in memory before learning begins.
    pub start: usize,
    /// Draws steps with large errors more often.
    pub priorities: Option<Priorities>,
    /// Steps in each environment per update.
    pub steps: usize,
    /// Steps that an update learns from.
    pub batch: usize,
    /// Share of random choices by update.
    pub epsilon: Schedule,
    /// Learning rate by update.
    pub rate: Schedule,
    /// Errors beyond this count linearly.
    pub huber: f32,
    /// Largest global norm of the gradients.
    pub largest_norm: f64,
    /// Settings of the optimizer.
    pub adam: AdamConfig,
}

impl Default for DqnConfig {
    fn default() -> Self {
        Self {
            discount: 0.99,
            n_step: 1,
            double: true,
            follow: Follow::Copy { every: 200 },
            capacity: 50_000,
            start: 500,
            priorities: None,
            steps: 1,
            batch: 64,
            epsilon: Schedule::linear(1.0, 0.02, 5_000),
            rate: Schedule::constant(5e-4),
            huber: 1.0,
            largest_norm: 10.0,
            adam: AdamConfig::default(),
        }
    }
}

impl DqnConfig {
    fn check(&self) -> Result<()> {
        for (what, value) in [("steps", self.steps), ("batch", self.batch), ("n_step", self.n_step)] {
            if value == 0 {
                return Err(Error::Setting { what, found: "0".into(), expected: "at least 1" });
            }
        }
        if self.start > self.capacity {
            let found = format!("{} of {}", self.start, self.capacity);
            return Err(Error::Setting { what: "start", found, expected: "at most the capacity" });
        }
        if !(0.0..=1.0).contains(&self.discount) {
            let found = self.discount.to_string();
            return Err(Error::Setting { what: "discount", found, expected: "0 to 1" });
        }
        let follows = match self.follow {
            Follow::Copy { every } => every > 0,
            Follow::Blend { share } => share > 0.0 && share <= 1.0,
        };
        if !follows {
            let (found, expected) = (format!("{:?}", self.follow), "every at least 1, or a share above 0");
            return Err(Error::Setting { what: "follow", found, expected });
        }
        if !(self.huber > 0.0 && self.huber.is_finite()) {
            let found = self.huber.to_string();
            return Err(Error::Setting { what: "huber", found, expected: "more than 0" });
        }
        check_norm(self.largest_norm)?;
        if let Some(priorities) = &self.priorities {
            priorities.beta.check("beta", 0.0..=1.0, "0 to 1")?;
        }
        self.epsilon.check("epsilon", 0.0..=1.0, "0 to 1")?;
        self.rate.check("rate", 0.0.., "0 or more")
    }
}

/// A network that learns what options are worth.
#[derive(Debug)]
pub struct Dqn<N: Network> {
    network: N,
    target: N,
    optimizer: Adam,
    config: DqnConfig,
    replay: Replay<Transition<N::Observation>>,
    /// One per environment.
    windows: Vec<Window<N::Observation>>,
    updates: u64,
}

impl<N: Network<Output = Tensor>> Dqn<N>
where
    N::Observation: Clone,
{
    /// A learner that has seen nothing. `target` is a second network of the same shape; its weights are replaced.
    ///
    /// # Errors
    /// [`Error::Setting`] if a setting makes no sense, [`Error::Size`] if the networks differ.
    pub fn new(network: N, target: N, config: DqnConfig) -> Result<Self> {
        config.check()?;
        target.params().copy_from(network.params())?;
        let optimizer = Adam::new(network.params(), config.adam.clone())?;
        let replay = Replay::new(config.capacity, config.priorities.as_ref().map(|p| p.alpha))?;
        Ok(Self { network, target, optimizer, config, replay, windows: Vec::new(), updates: 0 })
    }

    /// The network as it is now.
    pub fn network(&self) -> &N {
        &self.network
    }

    /// Acts in all environments, the same at every call, and learns from memory once it holds enough. Environments
    /// must have been reset before the first call.
    ///
    /// # Errors
    /// What the network or an environment refuses; [`Error::NotFinite`] if learning broke down. The weights are as
    /// before then.
    pub fn update<E>(&mut self, environments: &mut [E], rng: &mut Rng) -> Result<Progress>
    where
        E: Environment<Observation = N::Observation>,
    {
        self.windows.resize_with(environments.len(), Window::default);
        let mut reward = 0.0;
        for _ in 0..self.config.steps {
            reward += self.act(environments, rng)?;
        }
        reward /= (self.config.steps * environments.len().max(1)) as f64;
        let (loss, norm) =
            if self.replay.len() >= self.config.start.max(1) { self.learn(rng)? } else { (0.0, 0.0) };
        self.updates += 1;
        let losses = Losses { value: loss, ..Default::default() };
        Ok(Progress { updates: self.updates, reward, losses, norm })
    }

    /// One step in every environment; gives the sum of rewards.
    fn act<E>(&mut self, environments: &mut [E], rng: &mut Rng) -> Result<f64>
    where
        E: Environment<Observation = N::Observation>,
    {
        let observations: Vec<_> = environments.iter().map(E::observation).collect();
        let masks = environments.iter().map(E::mask).collect::<Result<Vec<_>>>()?;
        let best =
            best(&self.network, &observations.iter().collect::<Vec<_>>(), &masks.iter().collect::<Vec<_>>())?;
        let epsilon = self.config.epsilon.at(self.updates);
        let mut sum = 0.0;
        let all = environments.iter_mut().zip(observations).zip(masks).zip(best).zip(&mut self.windows);
        for ((((environment, observation), mask), mut choices), window) in all {
            explore(&mask, &mut choices, epsilon, rng);
            let feedback = environment.step(&choices)?;
            sum += f64::from(feedback.reward);
            let next = match feedback.end {
                End::Terminal => None,
                End::Open | End::Cut => Some((environment.observation(), environment.mask()?)),
            };
            let ended = feedback.end != End::Open;
            window.push(observation, choices, feedback.reward, self.config.discount);
            window.take(next.as_ref(), ended, self.config.n_step, |transition| self.replay.push(transition));
            if ended {
                environment.reset()?;
            }
        }
        Ok(sum)
    }

    /// One step of the optimizer; gives the loss and the norm of the gradients.
    fn learn(&mut self, rng: &mut Rng) -> Result<(f64, f64)> {
        let beta = self.config.priorities.as_ref().map_or(0.0, |p| p.beta.at(self.updates));
        let picks = self.replay.sample(self.config.batch, beta, rng);
        let batch: Vec<_> = picks.iter().filter_map(|pick| self.replay.get(pick.index)).collect();
        let targets = targets(&self.network, &self.target, &batch, self.config.double)?;
        let observations: Vec<_> = batch.iter().map(|t| &t.observation).collect();
        let chosen: Vec<&[u32]> = batch.iter().map(|t| t.choices.as_slice()).collect();
        let values = self.network.forward(&observations)?;
        let fit = fit(&values, &chosen, &targets, &picks, self.config.huber)?;
        let gradients = Gradients::of(&fit.surrogate, self.network.params())?.clip(self.config.largest_norm);
        for (pick, error) in picks.iter().zip(&fit.errors) {
            self.replay.set_error(pick.index, *error)?;
        }
        self.optimizer.step(self.network.params(), &gradients, self.config.rate.at(self.updates))?;
        match self.config.follow {
            Follow::Copy { every } if self.updates.is_multiple_of(every) => {
                self.target.params().copy_from(self.network.params())?;
            }
            Follow::Copy { .. } => {}
            Follow::Blend { share } => self.target.params().blend_from(self.network.params(), share)?,
        }
        Ok((fit.loss, gradients.norm()))
    }
}

/// The best allowed option of every branch.
///
/// # Errors
/// What the network refuses; [`Error::NotFinite`] if a value is not finite.
pub fn best<N: Network<Output = Tensor>>(
    network: &N,
    observations: &[&N::Observation],
    masks: &[&Mask],
) -> Result<Vec<Vec<u32>>> {
    let all = network.forward(observations)?.contiguous()?;
    let (_, branches, options) = all.dims3()?;
    with_values(&all, |all: &[f32]| {
        let rows = masks.iter().zip(all.chunks((branches * options).max(1)));
        rows.map(|(mask, values)| {
            check_fits(mask, branches, options)?;
            mask.rows().zip(values.chunks(options)).map(|(allowed, row)| best_of(row, allowed)).collect()
        })
        .collect()
    })?
}

fn best_of(values: &[f32], allowed: &[bool]) -> Result<u32> {
    let mut best: Option<usize> = None;
    for option in (0..allowed.len()).filter(|o| allowed[*o]) {
        if !values[option].is_finite() {
            return Err(Error::not_finite("the value of an option"));
        }
        if best.is_none_or(|best| values[option] > values[best]) {
            best = Some(option);
        }
    }
    best.map(|option| option as u32).ok_or(Error::NothingAllowed { options: allowed.len() })
}

/// Replaces choices by random allowed ones, each with probability `epsilon`.
fn explore(mask: &Mask, choices: &mut [u32], epsilon: f64, rng: &mut Rng) {
    for (allowed, choice) in mask.rows().zip(choices) {
        if rng.random::<f64>() < epsilon {
            let count = allowed.iter().filter(|a| **a).count();
            let mut able = (0..allowed.len()).filter(|o| allowed[*o]);
            if let Some(option) = able.nth(rng.random_range(0..count.max(1))) {
                *choice = option as u32;
            }
        }
    }
}

/// What each transition is worth: its reward plus the discounted mean over branches of what the target network gives
/// for the best next options.
fn targets<N: Network<Output = Tensor>>(
    network: &N,
    target: &N,
    batch: &[&Transition<N::Observation>],
    double: bool,
) -> Result<Vec<f32>> {
    let mut worth: Vec<f32> = batch.iter().map(|t| t.reward).collect();
    let open: Vec<usize> = (0..batch.len()).filter(|i| batch[*i].next.is_some()).collect();
    let (seen, masks): (Vec<_>, Vec<_>) =
        open.iter().filter_map(|i| batch[*i].next.as_ref()).map(|(seen, mask)| (seen, mask)).unzip();
    if open.is_empty() {
        return Ok(worth);
    }
    let chosen = best(if double { network } else { target }, &seen, &masks)?;
    let values = target.forward(&seen)?.contiguous()?;
    let (_, branches, options) = values.dims3()?;
    with_values(&values, |values: &[f32]| {
        for ((i, chosen), values) in open.iter().zip(chosen).zip(values.chunks(branches * options)) {
            let sum: f32 = chosen.iter().zip(values.chunks(options)).map(|(o, row)| row[*o as usize]).sum();
            worth[*i] += batch[*i].discount * sum / chosen.len().max(1) as f32;
        }
    })?;
    Ok(worth)
}

/// What the values miss.
struct Fit {
    /// Has the gradient of the loss.
    surrogate: Tensor,
    loss: f64,
    /// Per sample, the mean over branches of the absolute error.
    errors: Vec<f64>,
}

/// The weighted Huber loss of the chosen options' values [samples, branches, options] against the targets.
fn fit(values: &Tensor, chosen: &[&[u32]], targets: &[f32], picks: &[Pick], huber: f32) -> Result<Fit> {
    let (samples, branches, options) = values.dims3()?;
    if samples != chosen.len() {
        return Err(Error::size("outputs of the network", samples, chosen.len()));
    }
    let values = values.contiguous()?;
    let mut gradient = vec![0.0; values.elem_count()];
    let (mut loss, mut errors) = (0.0, Vec::with_capacity(samples));
    with_values(&values, |values: &[f32]| {
        for (sample, chosen) in chosen.iter().enumerate() {
            if chosen.len() > branches {
                return Err(Error::size("choices", chosen.len(), branches));
            }
            let share = picks[sample].weight / (samples * chosen.len().max(1)) as f32;
            let mut sum = 0.0;
            for (branch, option) in chosen.iter().enumerate() {
                let option = *option as usize;
                if option >= options {
                    return Err(Error::Forbidden { option, options });
                }
                let at = (sample * branches + branch) * options + option;
                let error = values[at] - targets[sample];
                let near = error.clamp(-huber, huber);
                gradient[at] = share * near;
                loss += f64::from(share * near * (error - 0.5 * near));
                sum += f64::from(error.abs());
            }
            errors.push(sum / chosen.len().max(1) as f64);
        }
        Ok(())
    })??;
    if !loss.is_finite() {
        return Err(Error::not_finite("the loss"));
    }
    let gradient = Tensor::from_vec(gradient, values.shape(), &Device::Cpu)?;
    Ok(Fit { surrogate: values.mul(&gradient)?.sum_all()?, loss, errors })
}

#[cfg(test)]
mod tests {
    use candle_core::Var;
    use rand::SeedableRng;

    use super::*;
    use crate::learn::params::{Init, Params};

    /// Gives the same table of values for every observation.
    #[derive(Debug)]
    struct Table {
        params: Params,
        shape: (usize, usize),
    }

    impl Table {
        fn new(values: &[f32], branches: usize) -> Self {
            let mut params = Params::default();
            let mut rng = Rng::seed_from_u64(1);
            params.add("table", 1, values.len(), Init::Constant(0.0), &mut rng).unwrap();
            let tensor = Tensor::from_slice(values, (1, values.len()), &Device::Cpu).unwrap();
            params.get("table").unwrap().set(&tensor).unwrap();
            Self { params, shape: (branches, values.len() / branches) }
        }
    }

    impl Network for Table {
        type Observation = ();
        type Output = Tensor;

        fn params(&self) -> &Params {
            &self.params
        }

        fn forward(&self, observations: &[&()]) -> Result<Tensor> {
            let row = self.params.get("table").unwrap().reshape((1, self.shape.0, self.shape.1))?;
            Ok(row.broadcast_as((observations.len(), self.shape.0, self.shape.1))?)
        }
    }

    fn transition(reward: f32, next: Option<Mask>) -> Transition<()> {
        let next = next.map(|mask| ((), mask));
        Transition { observation: (), choices: vec![0, 0], reward, discount: 0.5, next }
    }

    #[test]
    fn targets_by_hand() {
        // Two branches of three options.
        let network = Table::new(&[1.0, 3.0, 2.0, 9.0, 0.0, 4.0], 2);
        let target = Table::new(&[10.0, 20.0, 60.0, 5.0, 80.0, 7.0], 2);
        let masked = Mask::new(3, vec![true, false, true, false, true, true]).unwrap();
        let all =
            [transition(1.0, Some(Mask::all(2, 3))), transition(2.0, None), transition(0.0, Some(masked))];
        let batch: Vec<&Transition<()>> = all.iter().collect();
        // Double: the network chooses options 1 and 0; masked: 2 and 2.
        let double = targets(&network, &target, &batch, true).unwrap();
        assert_eq!(double, [1.0 + 0.5 * 12.5, 2.0, 0.5 * (60.0 + 7.0) / 2.0]);
        let plain = targets(&network, &target, &batch, false).unwrap();
        assert_eq!(plain, [1.0 + 0.5 * 70.0, 2.0, 0.5 * 70.0]);
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let start = [1.0_f32, 2.0, -3.0, 0.5, 4.0, 0.0, 7.0, 1.0];
        let chosen: [&[u32]; 2] = [&[1, 0], &[0]];
        let picks = [Pick { index: 0, weight: 1.0 }, Pick { index: 1, weight: 0.25 }];
        let run = |values: &[f32]| {
            let values = Var::from_slice(values, (2, 2, 2), &Device::Cpu).unwrap();
            let fit = fit(&values, &chosen, &[1.5, 0.0], &picks, 1.0).unwrap();
            let gradient = fit.surrogate.backward().unwrap();
            (
                fit.loss,
                fit.errors,
                gradient.get(&values).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap(),
            )
        };
        let (loss, errors, gradient) = run(&start);
        // Errors 0.5 (squared), -4.5 (linear) with 1/4 each, 4 (linear) with 1/8.
        assert!((loss - (0.125 / 4.0 + 4.0 / 4.0 + 3.5 / 8.0)).abs() < 1e-6, "{loss}");
        assert_eq!(errors, [2.5, 4.0]);
        assert_eq!(gradient, [0.0, 0.125, -0.25, 0.0, 0.125, 0.0, 0.0, 0.0]);
        for (i, gradient) in gradient.iter().enumerate() {
            let at = |step: f32| {
                let mut moved = start;
                moved[i] += step;
                run(&moved).0
            };
            let numeric = (at(0.01) - at(-0.01)) / 0.02;
            assert!((numeric - f64::from(*gradient)).abs() < 1e-4, "{i}: {numeric} {gradient}");
        }
    }

    #[test]
    fn best_options_keep_to_the_mask() {
        let network = Table::new(&[1.0, 3.0, 2.0, 9.0, 0.0, 4.0], 2);
        let masked = Mask::new(3, vec![true, false, true, false, true, true]).unwrap();
        assert_eq!(best(&network, &[&(), &()], &[&masked, &Mask::all(1, 2)]).unwrap(), [vec![2, 2], vec![1]]);
        let broken = Table::new(&[1.0, f32::NAN], 1);
        assert!(matches!(best(&broken, &[&()], &[&Mask::all(1, 2)]), Err(Error::NotFinite { .. })));
    }

    #[test]
    fn exploring_keeps_to_the_mask() {
        let mask = Mask::new(3, vec![true, false, true, false, true, false]).unwrap();
        let mut rng = Rng::seed_from_u64(5);
        let mut seen = [false; 3];
        for _ in 0..100 {
            let mut choices = [0, 1];
            explore(&mask, &mut choices, 1.0, &mut rng);
            seen[choices[0] as usize] = true;
            assert_eq!(choices[1], 1);
        }
        assert_eq!(seen, [true, false, true]);
        let mut choices = [0, 1];
        explore(&mask, &mut choices, 0.0, &mut rng);
        assert_eq!(choices, [0, 1]);
    }

    #[test]
    fn settings() {
        let new = |config| {
            Dqn::new(Table::new(&[0.0; 2], 1), Table::new(&[0.0; 2], 1), config).map(|_| ()).is_err()
        };
        assert!(!new(DqnConfig::default()));
        assert!(new(DqnConfig { batch: 0, ..Default::default() }));
        assert!(new(DqnConfig { start: 9, capacity: 8, ..Default::default() }));
        assert!(new(DqnConfig { discount: 1.5, ..Default::default() }));
        assert!(new(DqnConfig { follow: Follow::Blend { share: 0.0 }, ..Default::default() }));
        assert!(new(DqnConfig { epsilon: Schedule::constant(2.0), ..Default::default() }));
        let two = Dqn::new(Table::new(&[0.0; 2], 1), Table::new(&[0.0; 3], 1), DqnConfig::default());
        assert!(matches!(two.map(|_| ()), Err(Error::Size { .. })));
    }
}
