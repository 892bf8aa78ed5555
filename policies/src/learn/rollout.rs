//! Acting in environments and remembering what came of it.

use mdts_core::Rng;

use super::categorical::{Categorical, Mask, check_fits};
use super::environment::{End, Environment};
use super::error::{Error, Result};
use super::network::{Heads, Network};
use super::returns::{self, Step};
use super::storage::with_values;

/// How a decision is taken from the probabilities.
#[derive(Debug)]
pub enum Choose<'a> {
    /// Drawn, to learn.
    Sample(&'a mut Rng),
    /// The likeliest, to use what was learnt.
    Best,
}

/// What a policy decides for one sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// One option per branch.
    pub choices: Vec<u32>,
    /// The sum over branches of the logarithms of their probabilities.
    pub log_prob: f32,
    /// What the state is worth.
    pub value: f32,
}

/// Decides for a batch of observations with one call of the network.
///
/// # Errors
/// What the network or [`Categorical::set`] refuses.
pub fn decide<N: Network<Output = Heads>>(
    network: &N,
    observations: &[&N::Observation],
    masks: &[&Mask],
    mut choose: Choose<'_>,
) -> Result<Vec<Decision>> {
    let heads = network.forward(observations)?;
    let (samples, branches, options) = heads.logits.dims3()?;
    if samples != masks.len() {
        return Err(Error::size("masks", masks.len(), samples));
    }
    let values = heads.values.to_vec1::<f32>()?;
    let mut choice = Categorical::default();
    with_values(&heads.logits.contiguous()?, |logits| {
        let decide = |(sample, mask): (usize, &&Mask)| {
            check_fits(mask, branches, options)?;
            let mut decision =
                Decision { choices: Vec::with_capacity(branches), log_prob: 0.0, value: values[sample] };
            for (branch, allowed) in mask.rows().enumerate() {
                choice.set(&logits[(sample * branches + branch) * options..][..allowed.len()], allowed)?;
                let option = match &mut choose {
                    Choose::Sample(rng) => choice.sample(rng),
                    Choose::Best => choice.best(),
                };
                decision.log_prob += choice.log_prob(option)?;
                decision.choices.push(option as u32);
            }
            Ok(decision)
        };
        masks.iter().enumerate().map(decide).collect()
    })?
}

/// One step that a policy made.
#[derive(Debug, Clone)]
pub struct Experience<O> {
    /// What it saw.
    pub observation: O,
    /// What it could choose.
    pub mask: Mask,
    /// What it chose.
    pub decision: Decision,
    /// What it got.
    pub reward: f32,
    /// The estimated value of what came after, 0 if nothing did.
    pub next_value: f32,
    /// Whether an episode ended with it.
    pub ended: bool,
}

/// The steps of all environments, one environment after the other.
#[derive(Debug, Clone)]
pub struct Rollout<O> {
    /// In the order of time within each environment.
    pub traces: Vec<Vec<Experience<O>>>,
}

impl<O: Clone> Rollout<O> {
    /// Makes so many steps in each environment, sampling. The environments go on from where they are.
    ///
    /// # Errors
    /// What the network or an environment refuses.
    pub fn collect<N, E>(network: &N, environments: &mut [E], steps: usize, rng: &mut Rng) -> Result<Self>
    where
        N: Network<Observation = O, Output = Heads>,
        E: Environment<Observation = O>,
    {
        let mut traces: Vec<Vec<_>> = environments.iter().map(|_| Vec::with_capacity(steps)).collect();
        // Steps whose next value must be asked for: the last ones, and those at which an episode was cut.
        let mut open: Vec<(usize, usize, O)> = Vec::new();
        for step in 0..steps {
            let observations: Vec<O> = environments.iter().map(E::observation).collect();
            let masks = environments.iter().map(E::mask).collect::<Result<Vec<_>>>()?;
            let seen: Vec<&O> = observations.iter().collect();
            let decisions = decide(network, &seen, &masks.iter().collect::<Vec<_>>(), Choose::Sample(rng))?;
            let all = environments.iter_mut().zip(observations).zip(masks).zip(decisions);
            for (i, (((environment, observation), mask), decision)) in all.enumerate() {
                let feedback = environment.step(&decision.choices)?;
                if feedback.end == End::Cut || feedback.end == End::Open && step + 1 == steps {
                    open.push((i, step, environment.observation()));
                }
                let ended = feedback.end != End::Open;
                if ended {
                    environment.reset()?;
                }
                let reward = feedback.reward;
                traces[i].push(Experience { observation, mask, decision, reward, next_value: 0.0, ended });
            }
        }
        for trace in &mut traces {
            for i in 1..trace.len() {
                if !trace[i - 1].ended {
                    trace[i - 1].next_value = trace[i].decision.value;
                }
            }
        }
        if !open.is_empty() {
            let values = network.forward(&open.iter().map(|o| &o.2).collect::<Vec<_>>())?.values;
            for ((i, step, _), value) in open.iter().zip(values.to_vec1::<f32>()?) {
                traces[*i][*step].next_value = value;
            }
        }
        Ok(Self { traces })
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.traces.iter().map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The mean reward of a step.
    pub fn mean_reward(&self) -> f64 {
        let sum: f64 = self.traces.iter().flatten().map(|e| f64::from(e.reward)).sum();
        sum / self.len().max(1) as f64
    }

    /// All steps with what they were worth; returns are advantages plus values.
    pub fn samples(&self, discount: f32, lambda: f32) -> Vec<Sample<'_, O>> {
        let mut samples = Vec::with_capacity(self.len());
        for trace in &self.traces {
            let steps: Vec<Step> = trace.iter().map(Experience::step).collect();
            let advantages = returns::advantages(&steps, discount, lambda);
            samples.extend(trace.iter().zip(advantages).map(|(experience, advantage)| Sample {
                observation: &experience.observation,
                mask: &experience.mask,
                choices: &experience.decision.choices,
                log_prob: experience.decision.log_prob,
                advantage,
                target: advantage + experience.decision.value,
            }));
        }
        samples
    }
}

impl<O> Experience<O> {
    fn step(&self) -> Step {
        let Self { reward, next_value, ended, .. } = *self;
        Step { reward, value: self.decision.value, next_value, ended }
    }
}

/// What a policy learns from: one decision and what it was worth.
#[derive(Debug)]
pub struct Sample<'a, O> {
    /// What the policy saw.
    pub observation: &'a O,
    /// What it could choose.
    pub mask: &'a Mask,
    /// What it chose, one option per branch.
    pub choices: &'a [u32],
    /// How likely that was, as the sum of logarithms, when it was chosen.
    pub log_prob: f32,
    /// How much better than expected it was.
    pub advantage: f32,
    /// What the state should be valued at.
    pub target: f32,
}

impl<O> Clone for Sample<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Sample<'_, O> {}
