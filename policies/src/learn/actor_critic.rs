//! Advantage actor-critic, synchronous by default (A2C) and asynchronous (A3C) with [`train_asynchronously`].
//!
//! Source: Mnih et al.: Asynchronous methods for deep reinforcement learning, ICML 2016. The policy term of a sample is
//! -A log pi; see [`super::policy_gradient`] for the whole loss. One update is one call of the network per step for all
//! environments, one forward and backward pass over all steps, and one step of the optimizer.

use std::sync::{Mutex, PoisonError};

use mdts_core::Rng;
use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::error::{Error, Result};
use super::gradients::Gradients;
use super::network::{Heads, Network};
use super::optimizer::{Adam, AdamConfig};
use super::policy_gradient::{Losses, Term, Weights, surrogate};
use super::returns::normalise;
use super::rollout::{Rollout, Sample};
use super::schedule::Schedule;

/// Settings of [`ActorCritic`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActorCriticConfig {
    /// Steps per environment and update.
    pub steps: usize,
    /// What a reward one step later is worth, 0 to 1.
    pub discount: f32,
    /// How far advantages look ahead, 0 to 1; 1 gives n-step returns as in the paper.
    pub lambda: f32,
    /// Learning rate by update.
    pub rate: Schedule,
    /// Weight of the value's squared error.
    pub value_weight: f32,
    /// Weight of the entropy by update: what keeps the policy trying.
    pub entropy_weight: Schedule,
    /// Largest global norm of the gradients.
    pub largest_norm: f64,
    /// Whether advantages are scaled to mean 0 and deviation 1 in each update.
    pub normalise: bool,
    /// Settings of the optimizer.
    pub adam: AdamConfig,
}

impl Default for ActorCriticConfig {
    fn default() -> Self {
        Self {
            steps: 8,
            discount: 0.99,
            lambda: 1.0,
            rate: Schedule::constant(7e-4),
            value_weight: 0.5,
            entropy_weight: Schedule::constant(0.01),
            largest_norm: 0.5,
            normalise: true,
            adam: AdamConfig::default(),
        }
    }
}

impl ActorCriticConfig {
    pub(super) fn check(&self) -> Result<()> {
        if self.steps == 0 {
            return Err(Error::Setting { what: "steps", found: "0".into(), expected: "at least 1" });
        }
        for (what, value) in [("discount", self.discount), ("lambda", self.lambda)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(Error::Setting { what, found: value.to_string(), expected: "0 to 1" });
            }
        }
        check_norm(self.largest_norm)?;
        self.rate.check("rate", 0.0.., "0 or more")?;
        self.entropy_weight.check("entropy_weight", 0.0.., "0 or more")
    }
}

/// Refuses a norm that no gradient can have.
pub(super) fn check_norm(largest: f64) -> Result<()> {
    if largest > 0.0 {
        return Ok(());
    }
    let found = largest.to_string();
    Err(Error::Setting { what: "largest_norm", found, expected: "more than 0" })
}

/// What an update did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Updates made, this one included.
    pub updates: u64,
    /// The mean reward of the steps it learnt from.
    pub reward: f64,
    /// The parts of the loss.
    pub losses: Losses,
    /// The global norm of the gradients before clipping.
    pub norm: f64,
}

/// A network that learns by advantage actor-critic.
#[derive(Debug)]
pub struct ActorCritic<N> {
    network: N,
    optimizer: Adam,
    config: ActorCriticConfig,
    updates: u64,
}

impl<N: Network<Output = Heads>> ActorCritic<N> {
    /// A learner that has made no updates.
    ///
    /// # Errors
    /// [`Error::Setting`] if a setting makes no sense.
    pub fn new(network: N, config: ActorCriticConfig) -> Result<Self> {
        config.check()?;
        let optimizer = Adam::new(network.params(), config.adam.clone())?;
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

    /// The network, to use it from now on.
    pub fn into_network(self) -> N {
        self.network
    }

    /// The optimizer as it is now.
    pub fn optimizer(&self) -> &Adam {
        &self.optimizer
    }

    /// How many updates have been made.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Acts in all environments and learns from it once. Environments must have been reset before the first call.
    ///
    /// # Errors
    /// What the network or an environment refuses; [`Error::NotFinite`] if learning broke down. The weights are as
    /// before then.
    pub fn update<E>(&mut self, environments: &mut [E], rng: &mut Rng) -> Result<Progress>
    where
        N::Observation: Clone,
        E: Environment<Observation = N::Observation>,
    {
        let rollout = Rollout::collect(&self.network, environments, self.config.steps, rng)?;
        let mut samples = rollout.samples(self.config.discount, self.config.lambda);
        let found = gradients(&self.network, &mut samples, &self.config, self.updates)?;
        self.apply(&found.0, found.1, rollout.mean_reward())
    }

    /// Learns once from samples that were made elsewhere.
    ///
    /// # Errors
    /// As [`ActorCritic::update`].
    pub fn learn(&mut self, samples: &mut [Sample<'_, N::Observation>]) -> Result<Losses> {
        let (gradients, losses) = gradients(&self.network, samples, &self.config, self.updates)?;
        self.apply(&gradients, losses, 0.0)?;
        Ok(losses)
    }

    fn apply(&mut self, gradients: &Gradients, losses: Losses, reward: f64) -> Result<Progress> {
        let rate = self.config.rate.at(self.updates);
        self.optimizer.step(self.network.params(), gradients, rate)?;
        self.updates += 1;
        Ok(Progress { updates: self.updates, reward, losses, norm: gradients.norm() })
    }
}

fn gradients<N: Network<Output = Heads>>(
    network: &N,
    samples: &mut [Sample<'_, N::Observation>],
    config: &ActorCriticConfig,
    update: u64,
) -> Result<(Gradients, Losses)> {
    if config.normalise {
        normalise_advantages(samples);
    }
    let weights = Weights { value: config.value_weight, entropy: config.entropy_weight.at(update) as f32 };
    let observations: Vec<_> = samples.iter().map(|s| s.observation).collect();
    let heads = network.forward(&observations)?;
    let (loss, losses) = surrogate(&heads, samples, weights, |sample, log_prob| Term {
        loss: -sample.advantage * log_prob,
        slope: -sample.advantage,
    })?;
    Ok((Gradients::of(&loss, network.params())?.clip(config.largest_norm), losses))
}

/// Mean 0 and deviation 1 over all samples.
pub(super) fn normalise_advantages<O>(samples: &mut [Sample<'_, O>]) {
    let mut advantages: Vec<f32> = samples.iter().map(|s| s.advantage).collect();
    normalise(&mut advantages);
    samples.iter_mut().zip(advantages).for_each(|(sample, advantage)| sample.advantage = advantage);
}

/// One thread of [`train_asynchronously`].
#[derive(Debug)]
pub struct Actor<N, E> {
    /// A network of the same shape as the learner's. Its weights are replaced.
    pub network: N,
    /// Environments of its own, which have been reset.
    pub environments: Vec<E>,
    /// Randomness of its own.
    pub rng: Rng,
}

/// A3C: each actor acts in its own thread with its own copy of the weights, computes gradients there, and applies them
/// to the learner's weights under a lock. `report` sees each update as it is applied; the run ends after `updates`
/// more of them.
///
/// The order of updates depends on the threads: unlike [`ActorCritic::update`], a run cannot be repeated exactly
/// unless there is one actor.
///
/// # Errors
/// The first error of any actor; the others stop at their next update. The weights are those of the last good update.
pub fn train_asynchronously<N, E>(
    learner: &mut ActorCritic<N>,
    actors: &mut [Actor<N, E>],
    updates: u64,
    report: impl FnMut(&N, &Progress) + Send,
) -> Result<()>
where
    N: Network<Output = Heads> + Send,
    N::Observation: Clone,
    E: Environment<Observation = N::Observation> + Send,
{
    let end = learner.updates + updates;
    let shared = Mutex::new(Shared { learner, report, failed: None });
    std::thread::scope(|scope| {
        for actor in actors {
            let shared = &shared;
            scope.spawn(move || {
                if let Err(error) = act(actor, shared, end) {
                    lock(shared).failed.get_or_insert(error);
                }
            });
        }
    });
    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    shared.failed.map_or(Ok(()), Err)
}

struct Shared<'a, N, R> {
    learner: &'a mut ActorCritic<N>,
    report: R,
    failed: Option<Error>,
}

/// A panic of another thread ends the scope anyway.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn act<N, E, R>(actor: &mut Actor<N, E>, shared: &Mutex<Shared<'_, N, R>>, end: u64) -> Result<()>
where
    N: Network<Output = Heads>,
    N::Observation: Clone,
    E: Environment<Observation = N::Observation>,
    R: FnMut(&N, &Progress),
{
    let config = lock(shared).learner.config.clone();
    let Actor { network, environments, rng } = actor;
    loop {
        let update = {
            let shared = lock(shared);
            if shared.failed.is_some() || shared.learner.updates >= end {
                return Ok(());
            }
            network.params().copy_from(shared.learner.network.params())?;
            shared.learner.updates
        };
        let rollout = Rollout::collect(network, environments, config.steps, rng)?;
        let mut samples = rollout.samples(config.discount, config.lambda);
        let (gradients, losses) = gradients(network, &mut samples, &config, update)?;
        let mut shared = lock(shared);
        if shared.failed.is_some() || shared.learner.updates >= end {
            return Ok(());
        }
        let Shared { learner, report, .. } = &mut *shared;
        let progress = learner.apply(&gradients, losses, rollout.mean_reward())?;
        report(&learner.network, &progress);
    }
}
