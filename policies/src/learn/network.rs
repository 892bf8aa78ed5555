//! What trainers ask of a network, and the two networks that most policies need: a shared trunk below one branch per
//! decision.
//!
//! All branches are one matrix [width, branches x options], computed at once: the same numbers as separate matrices,
//! several times faster. Sources: Mnih et al.: Asynchronous methods for deep reinforcement learning, ICML 2016 (policy
//! and value on one trunk); Wang et al.: Dueling network architectures for deep reinforcement learning, ICML 2016;
//! Tavakoli, Pardo, Kormushev: Action branching architectures for deep reinforcement learning, AAAI 2018.

use candle_core::{D, Device, Tensor};
use mdts_core::Rng;
use serde::{Deserialize, Serialize};

use super::affine::Activation;
use super::error::{Error, Result};
use super::layers::{Linear, Mlp};
use super::params::{Init, Params};

/// A network that trainers can train.
///
/// **An implementer** computes each sample independently of the others in the batch, and only from the observations
/// and [`Network::params`].
pub trait Network {
    /// What it sees of one sample.
    type Observation;
    /// What it gives for a batch: [`Heads`] for policies, a tensor [samples, branches, options] for values of options.
    type Output;

    /// All its parameters.
    fn params(&self) -> &Params;

    /// The outputs for a batch.
    ///
    /// # Errors
    /// [`Error::Size`] or [`Error::Tensor`] if observations do not fit the network.
    fn forward(&self, observations: &[&Self::Observation]) -> Result<Self::Output>;
}

/// What a policy network gives.
#[derive(Debug, Clone)]
pub struct Heads {
    /// [samples, branches, options]; samples with fewer branches or options fill only the first.
    pub logits: Tensor,
    /// What each state is worth, one number per sample.
    pub values: Tensor,
}

/// The shape of a network with branches on a flat observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchConfig {
    /// Numbers in an observation.
    pub inputs: usize,
    /// Widths of the layers that all branches share.
    pub trunk: Vec<usize>,
    /// What follows each layer of the trunk.
    pub activation: Activation,
    /// Decisions made at once.
    pub branches: usize,
    /// Options of each decision.
    pub options: usize,
}

/// A shared trunk, policy branches and a value.
#[derive(Debug)]
pub struct PolicyNetwork {
    params: Params,
    config: BranchConfig,
    trunk: Mlp,
    branches: Linear,
    value: Linear,
}

impl PolicyNetwork {
    /// A network with random weights. All options begin nearly equally likely.
    ///
    /// # Errors
    /// [`Error::Tensor`] if a tensor cannot be made.
    pub fn new(config: BranchConfig, rng: &mut Rng) -> Result<Self> {
        let mut params = Params::default();
        let (trunk, width) = trunk(&config, &mut params, rng)?;
        let outputs = config.branches * config.options;
        let small = Init::Orthogonal { gain: 0.01 };
        let branches = Linear::new(&mut params, "branches", width, outputs, small, rng)?;
        let value = Linear::new(&mut params, "value", width, 1, Init::Orthogonal { gain: 1.0 }, rng)?;
        Ok(Self { params, config, trunk, branches, value })
    }
}

impl Network for PolicyNetwork {
    type Observation = Vec<f32>;
    type Output = Heads;

    fn params(&self) -> &Params {
        &self.params
    }

    fn forward(&self, observations: &[&Vec<f32>]) -> Result<Heads> {
        let hidden = self.trunk.forward(&stack(observations, self.config.inputs)?)?;
        Ok(Heads {
            logits: split(&self.branches.forward(&hidden)?, &self.config)?,
            values: self.value.forward(&hidden)?.squeeze(1)?,
        })
    }
}

/// A shared trunk, a value of the state, and for every branch the advantages of its options.
#[derive(Debug)]
pub struct DuelingNetwork {
    params: Params,
    config: BranchConfig,
    trunk: Mlp,
    advantages: Linear,
    value: Linear,
}

impl DuelingNetwork {
    /// A network with random weights.
    ///
    /// # Errors
    /// [`Error::Tensor`] if a tensor cannot be made.
    pub fn new(config: BranchConfig, rng: &mut Rng) -> Result<Self> {
        let mut params = Params::default();
        let (trunk, width) = trunk(&config, &mut params, rng)?;
        let outputs = config.branches * config.options;
        let init = Init::Orthogonal { gain: 1.0 };
        let advantages = Linear::new(&mut params, "advantages", width, outputs, init, rng)?;
        let value = Linear::new(&mut params, "value", width, 1, init, rng)?;
        Ok(Self { params, config, trunk, advantages, value })
    }
}

impl Network for DuelingNetwork {
    type Observation = Vec<f32>;
    type Output = Tensor;

    fn params(&self) -> &Params {
        &self.params
    }

    fn forward(&self, observations: &[&Vec<f32>]) -> Result<Tensor> {
        let hidden = self.trunk.forward(&stack(observations, self.config.inputs)?)?;
        let advantages = split(&self.advantages.forward(&hidden)?, &self.config)?;
        dueling(&self.value.forward(&hidden)?, &advantages)
    }
}

/// Q = V + A - mean of A over the options, from values [samples, 1] and advantages [samples, branches, options].
///
/// # Errors
/// [`Error::Tensor`] if the shapes do not fit.
pub fn dueling(values: &Tensor, advantages: &Tensor) -> Result<Tensor> {
    let centred = advantages.broadcast_sub(&advantages.mean_keepdim(D::Minus1)?)?;
    Ok(centred.broadcast_add(&values.unsqueeze(D::Minus1)?)?)
}

/// Flat observations as a matrix [samples, inputs].
///
/// # Errors
/// [`Error::Size`] if one has another length.
pub fn stack(observations: &[&Vec<f32>], inputs: usize) -> Result<Tensor> {
    let mut flat = Vec::with_capacity(observations.len() * inputs);
    for observation in observations {
        if observation.len() != inputs {
            return Err(Error::size("observation", observation.len(), inputs));
        }
        flat.extend_from_slice(observation);
    }
    Ok(Tensor::from_vec(flat, (observations.len(), inputs), &Device::Cpu)?)
}

fn trunk(config: &BranchConfig, params: &mut Params, rng: &mut Rng) -> Result<(Mlp, usize)> {
    let trunk = Mlp::new(params, "trunk", config.inputs, &config.trunk, config.activation, rng)?;
    Ok((trunk, config.trunk.last().copied().unwrap_or(config.inputs)))
}

fn split(fused: &Tensor, config: &BranchConfig) -> Result<Tensor> {
    Ok(fused.reshape((fused.dim(0)?, config.branches, config.options))?)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn config() -> BranchConfig {
        let trunk = vec![8, 6];
        BranchConfig { inputs: 3, trunk, activation: Activation::Tanh, branches: 2, options: 4 }
    }

    #[test]
    fn dueling_by_hand() {
        let values = Tensor::new(&[[10.0_f32], [20.0]], &Device::Cpu).unwrap();
        let advantages = Tensor::new(&[[[1.0_f32, 3.0]], [[0.0, -4.0]]], &Device::Cpu).unwrap();
        let q = dueling(&values, &advantages).unwrap();
        assert_eq!(q.to_vec3::<f32>().unwrap(), [[[9.0, 11.0]], [[22.0, 18.0]]]);
    }

    #[test]
    fn shapes_and_batches() {
        let mut rng = Rng::seed_from_u64(1);
        let policy = PolicyNetwork::new(config(), &mut rng).unwrap();
        let (a, b) = (vec![0.1, -0.2, 0.3], vec![1.0, 2.0, -1.0]);
        let both = policy.forward(&[&a, &b]).unwrap();
        assert_eq!((both.logits.dims(), both.values.dims()), (&[2, 2, 4][..], &[2][..]));
        let alone = policy.forward(&[&b]).unwrap();
        let (together, alone) =
            (both.logits.to_vec3::<f32>().unwrap(), alone.logits.to_vec3::<f32>().unwrap());
        for (x, y) in together[1].concat().iter().zip(alone[0].concat()) {
            assert!((x - y).abs() < 1e-6, "a sample must not depend on its batch");
            assert!(x.abs() < 0.1, "options must begin nearly equally likely");
        }
        let dueling = DuelingNetwork::new(config(), &mut rng).unwrap();
        assert_eq!(dueling.forward(&[&a, &b]).unwrap().dims(), [2, 2, 4]);
        assert!(matches!(policy.forward(&[&vec![0.0; 2]]), Err(Error::Size { .. })));
    }
}
