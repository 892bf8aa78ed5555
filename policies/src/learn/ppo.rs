//! Proximal policy optimisation: several passes over the same steps, none of which may move the policy far.
//!
//! Source: Schulman et al.: Proximal policy optimization algorithms, 2017. The policy term of a sample is
//! -min(r A, clip(r, 1 - e, 1 + e) A) with r = exp(log pi - log pi at the time of acting), log pi summed over branches.

use mdts_core::Rng;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use super::actor_critic::{ActorCriticConfig, Progress, normalise_advantages};
use super::environment::Environment;
use super::error::{Error, Result};
use super::gradients::Gradients;
use super::network::{Heads, Network};
use super::optimizer::Adam;
use super::policy_gradient::{Losses, Term, Weights, surrogate};
use super::rollout::{Rollout, Sample};

/// Settings of [`Ppo`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PpoConfig {
    /// What it shares with actor-critic. An update is one round of acting with all its passes.
    pub common: ActorCriticConfig,
    /// How far the ratio of probabilities may leave 1 before a sample counts no more.
    pub clip: f32,
    /// Passes over the steps of a round.
    pub epochs: usize,
    /// Samples per step of the optimizer.
    pub minibatch: usize,
}

impl Default for PpoConfig {
    fn default() -> Self {
        let common = ActorCriticConfig { steps: 64, lambda: 0.95, ..Default::default() };
        Self { common, clip: 0.2, epochs: 4, minibatch: 64 }
    }
}

/// A network that learns by proximal policy optimisation.
#[derive(Debug)]
pub struct Ppo<N> {
    network: N,
    optimizer: Adam,
    config: PpoConfig,
    updates: u64,
}

impl<N: Network<Output = Heads>> Ppo<N> {
    /// A learner that has made no updates.
    ///
    /// # Errors
    /// [`Error::Setting`] if a setting makes no sense.
    pub fn new(network: N, config: PpoConfig) -> Result<Self> {
        config.common.check()?;
        if !(config.clip > 0.0 && config.clip.is_finite()) {
            let found = config.clip.to_string();
            return Err(Error::Setting { what: "clip", found, expected: "more than 0" });
        }
        for (what, value) in [("epochs", config.epochs), ("minibatch", config.minibatch)] {
            if value == 0 {
                return Err(Error::Setting { what, found: "0".into(), expected: "at least 1" });
            }
        }
        let optimizer = Adam::new(network.params(), config.common.adam.clone())?;
        Ok(Self { network, optimizer, config, updates: 0 })
    }

    /// Continues after so many updates with the optimizer as [`Adam::state`] gave it.
    ///
    /// # Errors
    /// [`Error::Size`] if the state belongs to another network.
    pub fn resume(&mut self, updates: u64, optimizer: &super::Params) -> Result<()> {
        self.optimizer.restore(optimizer)?;
        self.updates = updates;
        Ok(())
    }

    /// The network as it is now.
    pub fn network(&self) -> &N {
        &self.network
    }

    /// The optimizer as it is now.
    pub fn optimizer(&self) -> &Adam {
        &self.optimizer
    }

    /// Acts in all environments and learns from it. Environments must have been reset before the first call.
    ///
    /// # Errors
    /// What the network or an environment refuses; [`Error::NotFinite`] if learning broke down. The weights are those
    /// of the last good step of the optimizer then.
    pub fn update<E>(&mut self, environments: &mut [E], rng: &mut Rng) -> Result<Progress>
    where
        N::Observation: Clone,
        E: Environment<Observation = N::Observation>,
    {
        let common = &self.config.common;
        let rollout = Rollout::collect(&self.network, environments, common.steps, rng)?;
        let mut samples = rollout.samples(common.discount, common.lambda);
        if common.normalise {
            normalise_advantages(&mut samples);
        }
        let (mut losses, mut norm) = (Losses::default(), 0.0);
        for _ in 0..self.config.epochs {
            samples.shuffle(rng);
            for minibatch in samples.chunks(self.config.minibatch) {
                (losses, norm) = self.learn(minibatch)?;
            }
        }
        self.updates += 1;
        Ok(Progress { updates: self.updates, reward: rollout.mean_reward(), losses, norm })
    }

    fn learn(&mut self, minibatch: &[Sample<'_, N::Observation>]) -> Result<(Losses, f64)> {
        let common = &self.config.common;
        let entropy = common.entropy_weight.at(self.updates) as f32;
        let observations: Vec<_> = minibatch.iter().map(|s| s.observation).collect();
        let heads = self.network.forward(&observations)?;
        let weights = Weights { value: common.value_weight, entropy };
        let clip = self.config.clip;
        let (loss, losses) = surrogate(&heads, minibatch, weights, |sample, log_prob| {
            clipped((log_prob - sample.log_prob).exp(), sample.advantage, clip)
        })?;
        let gradients = Gradients::of(&loss, self.network.params())?.clip(common.largest_norm);
        self.optimizer.step(self.network.params(), &gradients, common.rate.at(self.updates))?;
        Ok((losses, gradients.norm()))
    }
}

/// The clipped term and its slope by the logarithm of the probability, which is 0 where clipping holds it.
fn clipped(ratio: f32, advantage: f32, clip: f32) -> Term {
    let free = ratio * advantage;
    let held = ratio.clamp(1.0 - clip, 1.0 + clip) * advantage;
    if held < free { Term { loss: -held, slope: 0.0 } } else { Term { loss: -free, slope: -free } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_by_hand() {
        // ratio, advantage: loss, slope
        let cases = [
            (1.0, 2.0, -2.0, -2.0),
            (1.1, 2.0, -2.2, -2.2),
            (1.5, 2.0, -2.4, 0.0),
            (0.5, 2.0, -1.0, -1.0),
            (1.5, -2.0, 3.0, 3.0),
            (0.5, -2.0, 1.6, 0.0),
        ];
        for (ratio, advantage, loss, slope) in cases {
            let term = clipped(ratio, advantage, 0.2);
            assert!(
                (term.loss - loss).abs() < 1e-6 && (term.slope - slope).abs() < 1e-6,
                "{ratio} {advantage}"
            );
        }
    }

    #[test]
    fn the_slope_is_that_of_the_loss() {
        for ratio in [0.3_f32, 0.7, 0.95, 1.0, 1.1, 1.3, 2.0] {
            for advantage in [-1.5, 0.5] {
                let at = |step: f32| clipped((ratio.ln() + step).exp(), advantage, 0.2).loss;
                let numeric = (at(1e-3) - at(-1e-3)) / 2e-3;
                assert!((clipped(ratio, advantage, 0.2).slope - numeric).abs() < 1e-3, "{ratio} {advantage}");
            }
        }
    }
}
