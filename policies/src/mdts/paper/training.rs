//! Training by advantage actor-critic, with one softmax per child task or one over all joint actions.

use std::sync::Arc;

use mdts_core::Rng;
use rand::{Rng as _, SeedableRng};

use super::environment::{Episode, JointEpisode, decode};
use super::world::World;
use crate::learn::{
    Activation, Actor, ActorCritic, ActorCriticConfig, BranchConfig, Choose, Environment, Mask,
    PolicyNetwork, Progress, Result, Schedule, decide, train_asynchronously,
};

/// What the network decides. The trunk and everything else are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// MDTS: a node for every child task, one branch each. K x N outputs.
    Branches,
    /// Raw DRL: one of all joint actions. N^K outputs.
    Joint,
}

/// Settings of a training.
#[derive(Debug, Clone, PartialEq)]
pub struct Training {
    /// Streams of jobs that are learnt from at once.
    pub environments: usize,
    /// Jobs per stream and update.
    pub steps: usize,
    /// Widths of the shared layers.
    pub trunk: Vec<usize>,
    /// What a reward one job later is worth.
    pub discount: f32,
    /// How far advantages look ahead.
    pub lambda: f32,
    /// Learning rate of [`Head::Branches`] at the beginning; it falls to a twentieth of it.
    pub rate: f64,
    /// The same for [`Head::Joint`].
    pub joint_rate: f64,
    /// Weight of the entropy at the beginning; it falls to 0.
    pub entropy: f64,
    /// Threads that learn at once: 1 is A2C, more are A3C, each with streams of its own.
    pub actors: usize,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            environments: 16,
            steps: 8,
            trunk: vec![192, 192],
            discount: 0.8,
            lambda: 0.7,
            rate: 4e-4,
            joint_rate: 7e-4,
            entropy: 0.02,
            actors: 1,
        }
    }
}

impl Training {
    /// Jobs that one update learns from.
    pub fn jobs_per_update(&self) -> u64 {
        (self.environments * self.steps) as u64
    }

    fn config(&self, head: Head, updates: u64) -> ActorCriticConfig {
        let rate = match head {
            Head::Branches => self.rate,
            Head::Joint => self.joint_rate,
        };
        ActorCriticConfig {
            steps: self.steps,
            discount: self.discount,
            lambda: self.lambda,
            rate: Schedule::linear(rate, rate * 0.05, updates),
            entropy_weight: Schedule::linear(self.entropy, 0.0, updates),
            ..Default::default()
        }
    }
}

/// A trained network that places jobs.
#[derive(Debug)]
pub struct Learned {
    network: PolicyNetwork,
    head: Head,
    updates: u64,
}

/// Learns for so many updates, or until `go_on` says no. One actor with the same seed gives the same weights.
///
/// # Errors [`crate::learn::Error::Setting`] for settings that make no sense, [`crate::learn::Error::NotFinite`] if
/// learning breaks down.
pub fn train(
    world: &Arc<World>,
    head: Head,
    training: &Training,
    updates: u64,
    seed: u64,
    go_on: impl FnMut(&Progress) -> bool + Send,
) -> Result<Learned> {
    let mut rng = Rng::seed_from_u64(seed);
    let shape = shape(world, head, training)?;
    let run = Run { shape, training, updates };
    let stream = |rng: &mut Rng| Episode::new(world.clone(), rng.random());
    match head {
        Head::Branches => run.train(head, &mut rng, |rng| Ok(stream(rng)), go_on),
        Head::Joint => run.train(head, &mut rng, |rng| JointEpisode::new(stream(rng)), go_on),
    }
}

fn shape(world: &World, head: Head, training: &Training) -> Result<BranchConfig> {
    let (branches, options) = match head {
        Head::Branches => (world.parameters.child_tasks, world.parameters.nodes),
        Head::Joint => (1, JointEpisode::actions(world)?),
    };
    let (inputs, trunk) = (Episode::inputs(world), training.trunk.clone());
    Ok(BranchConfig { inputs, trunk, activation: Activation::Relu, branches, options })
}

struct Run<'a> {
    shape: BranchConfig,
    training: &'a Training,
    updates: u64,
}

impl Run<'_> {
    fn train<E: Environment<Observation = Vec<f32>> + Send>(
        &self,
        head: Head,
        rng: &mut Rng,
        mut stream: impl FnMut(&mut Rng) -> Result<E>,
        go_on: impl FnMut(&Progress) -> bool + Send,
    ) -> Result<Learned> {
        let network = PolicyNetwork::new(self.shape.clone(), rng)?;
        let mut learner = ActorCritic::new(network, self.training.config(head, self.updates))?;
        if self.training.actors <= 1 {
            self.in_turn(&mut learner, &mut self.streams(rng, &mut stream)?, rng, go_on)?;
        } else {
            let actor = |_| {
                let network = PolicyNetwork::new(self.shape.clone(), rng)?;
                let environments = self.streams(rng, &mut stream)?;
                Ok(Actor { network, environments, rng: Rng::seed_from_u64(rng.random()) })
            };
            let mut actors = (0..self.training.actors).map(actor).collect::<Result<Vec<_>>>()?;
            self.at_once(&mut learner, &mut actors, go_on)?;
        }
        let updates = learner.updates();
        Ok(Learned { network: learner.into_network(), head, updates })
    }

    fn streams<E>(&self, rng: &mut Rng, stream: &mut impl FnMut(&mut Rng) -> Result<E>) -> Result<Vec<E>> {
        (0..self.training.environments).map(|_| stream(rng)).collect()
    }

    fn in_turn<E: Environment<Observation = Vec<f32>>>(
        &self,
        learner: &mut ActorCritic<PolicyNetwork>,
        environments: &mut [E],
        rng: &mut Rng,
        mut go_on: impl FnMut(&Progress) -> bool,
    ) -> Result<()> {
        while learner.updates() < self.updates {
            if !go_on(&learner.update(environments, rng)?) {
                break;
            }
        }
        Ok(())
    }

    /// `go_on` is asked between bursts, in which all actors run.
    fn at_once<E: Environment<Observation = Vec<f32>> + Send>(
        &self,
        learner: &mut ActorCritic<PolicyNetwork>,
        actors: &mut [Actor<PolicyNetwork, E>],
        mut go_on: impl FnMut(&Progress) -> bool,
    ) -> Result<()> {
        const UPDATES_EACH: u64 = 32;
        let burst = UPDATES_EACH * actors.len() as u64;
        while learner.updates() < self.updates {
            let mut last = None;
            let updates = burst.min(self.updates - learner.updates());
            train_asynchronously(learner, actors, updates, |_, progress| last = Some(*progress))?;
            if last.is_some_and(|progress| !go_on(&progress)) {
                break;
            }
        }
        Ok(())
    }
}

impl Learned {
    /// How many updates it has seen.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// The weights.
    pub fn network(&self) -> &PolicyNetwork {
        &self.network
    }

    /// The likeliest placement of the present job of every stream, with one call of the network for all.
    ///
    /// # Errors
    /// What the network refuses: streams of another size.
    pub fn place(&self, episodes: &[Episode]) -> Result<Vec<Vec<u32>>> {
        let Some(first) = episodes.first() else { return Ok(Vec::new()) };
        let parameters = &first.world().parameters;
        let mask = match self.head {
            Head::Branches => Mask::all(parameters.child_tasks, parameters.nodes),
            Head::Joint => Mask::all(1, JointEpisode::actions(first.world())?),
        };
        let seen: Vec<Vec<f32>> = episodes.iter().map(Environment::observation).collect();
        let masks = vec![&mask; episodes.len()];
        let decisions = decide(&self.network, &seen.iter().collect::<Vec<_>>(), &masks, Choose::Best)?;
        let nodes = |choices: Vec<u32>| match (self.head, choices.as_slice()) {
            (Head::Joint, [action]) => decode(*action, parameters.nodes, parameters.child_tasks),
            _ => choices,
        };
        Ok(decisions.into_iter().map(|decision| nodes(decision.choices)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::Network;
    use crate::mdts::paper::{Baseline, Metrics, Parameters, evaluate};

    fn world(affinity: f64) -> Arc<World> {
        let parameters = Parameters { nodes: 4, child_tasks: 2, affinity, ..Default::default() };
        Arc::new(World::new(parameters, &mut Rng::seed_from_u64(1)).unwrap())
    }

    fn weights(learned: &Learned) -> Vec<f32> {
        let flat = |(_, var): (_, &candle_core::Var)| var.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        learned.network().params().iter().flat_map(flat).collect()
    }

    fn measure(world: &Arc<World>, learned: &Learned) -> Metrics {
        evaluate(world, 9, 40, |episodes| learned.place(episodes)).unwrap()
    }

    #[test]
    fn a_short_training_beats_random_and_least_connection() {
        let world = world(0.7);
        let training = Training { trunk: vec![48, 48], rate: 3e-3, ..Default::default() };
        let learned = train(&world, Head::Branches, &training, 1_500, 3, |_| true).unwrap();
        let ours = measure(&world, &learned);
        for baseline in [Baseline::Random, Baseline::LeastConnection] {
            let theirs = baseline.evaluate(&world, 9, 40).unwrap();
            assert!(ours.time < theirs.time, "{ours:?} {theirs:?}");
            assert!(ours.reward > theirs.reward, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn equal_seeds_give_equal_weights() {
        let training = Training { trunk: vec![8], ..Default::default() };
        for head in [Head::Branches, Head::Joint] {
            let run = |seed| weights(&train(&world(0.4), head, &training, 5, seed, |_| true).unwrap());
            assert_eq!(run(1), run(1));
            assert_ne!(run(1), run(2));
        }
    }

    #[test]
    fn training_ends_when_it_is_told() {
        let training = Training { trunk: vec![8], ..Default::default() };
        let learned = train(&world(0.4), Head::Joint, &training, 100, 1, |p| p.updates < 7).unwrap();
        assert_eq!(learned.updates(), 7);
    }

    #[test]
    fn several_actors_learn_too() {
        let world = world(0.7);
        let training = Training { trunk: vec![32], actors: 3, rate: 3e-3, ..Default::default() };
        let start = measure(&world, &train(&world, Head::Branches, &training, 0, 1, |_| true).unwrap());
        let mut reports = 0;
        let learned = train(&world, Head::Branches, &training, 400, 1, |_| {
            reports += 1;
            true
        });
        let learned = learned.unwrap();
        assert_eq!((learned.updates(), reports), (400, 5));
        assert!(measure(&world, &learned).reward > start.reward);
    }
}
