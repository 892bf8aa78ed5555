//! The building blocks that all learned policies share, on candle.
//!
//! A policy brings a [`Network`] over its own observations and an [`Environment`] to learn in; trainers do the rest:
//! [`ActorCritic`] (A2C, and A3C with [`train_asynchronously`]), [`Ppo`] and [`Dqn`]. Each trainer has an `update` that
//! the caller repeats, so that progress, checkpoints and the end of a run are the caller's. Randomness comes from the
//! generators that are handed in: on one thread the same seed gives the same weights.
//!
//! Layers compute on the calling thread: networks are small, and further cores serve better for further environments or
//! seeds. An update makes and frees many tensors: in a program whose allocator keeps freed memory, instead of returning
//! it to the operating system, it takes about half the time.
//!
//! Below the trainers: parameters ([`Params`]) and layers ([`Linear`], [`Mlp`], [`LayerNorm`]); masked choices with
//! branches ([`Categorical`], [`BranchDistribution`]); [`Gradients`] with clipping, [`Adam`], [`Schedule`]s; [`returns`] and
//! [`Replay`]; and [`checkpoint`]s that refuse what does not fit.

mod actor_critic;
mod affine;
mod categorical;
pub mod checkpoint;
pub mod dqn;
mod environment;
mod error;
mod gradients;
mod layer_norm;
mod layers;
mod network;
#[cfg(test)]
mod numeric;
mod optimizer;
mod params;
mod policy_gradient;
mod ppo;
mod replay;
pub mod returns;
mod rollout;
mod schedule;
mod storage;
mod sum_tree;
mod transition;

pub use actor_critic::{Actor, ActorCritic, ActorCriticConfig, Progress, train_asynchronously};
pub use affine::Activation;
pub use categorical::{BranchDistribution, Categorical, Mask};
pub use checkpoint::{Checkpoint, Header};
pub use dqn::{Dqn, DqnConfig, Follow};
pub use environment::{End, Environment, Feedback};
pub use error::{Error, Result};
pub use gradients::Gradients;
pub use layer_norm::LayerNorm;
pub use layers::{Linear, Mlp};
pub use network::{BranchConfig, DuelingNetwork, Heads, Network, PolicyNetwork, dueling, stack};
pub use optimizer::{Adam, AdamConfig};
pub use params::{Init, Params};
pub use policy_gradient::Losses;
pub use ppo::{Ppo, PpoConfig};
pub use replay::{Pick, Priorities, Replay};
pub use rollout::{Choose, Decision, Experience, Rollout, Sample, decide};
pub use schedule::{Curve, Schedule};
pub use transition::Transition;
