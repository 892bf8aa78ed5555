//! Actor-critic, synchronous and asynchronous, and PPO.

use mdts_core::Rng;
use mdts_policies::learn::{
    Actor, ActorCritic, ActorCriticConfig, BranchConfig, Checkpoint, Choose, Environment, Header, Heads,
    Mask, Network, PolicyNetwork, Ppo, PpoConfig, Schedule, checkpoint, decide, train_asynchronously,
};

use crate::toys::{Bandit, Chain, DISCOUNT, rng};

fn config(updates: u64) -> ActorCriticConfig {
    ActorCriticConfig {
        steps: 8,
        discount: DISCOUNT,
        rate: Schedule::linear(1e-2, 1e-3, updates),
        entropy_weight: Schedule::linear(0.05, 0.0, updates),
        ..Default::default()
    }
}

fn ppo_config(updates: u64) -> PpoConfig {
    PpoConfig {
        common: ActorCriticConfig { steps: 16, lambda: 0.95, ..config(updates) },
        minibatch: 32,
        ..Default::default()
    }
}

fn network(shape: BranchConfig) -> PolicyNetwork {
    PolicyNetwork::new(shape, &mut rng(1)).expect("a network")
}

fn bandits() -> Vec<Bandit> {
    (0..8).map(|i| Bandit::new(100 + i)).collect()
}

fn chains() -> Vec<Chain> {
    (0..8).map(|_| Chain::new()).collect()
}

fn check_bandit(network: &impl Network<Observation = Vec<f32>, Output = Heads>) {
    for (observation, mask, right) in Bandit::solution() {
        let decision = &decide(network, &[&observation], &[&mask], Choose::Best).expect("a decision")[0];
        assert_eq!(decision.choices, right);
        assert!(decision.log_prob > 0.8_f32.ln(), "surely enough: {decision:?}");
        assert!((decision.value - 2.0).abs() < 0.2, "{decision:?}");
    }
}

fn check_chain(network: &impl Network<Observation = Vec<f32>, Output = Heads>) {
    for (observation, worth) in Chain::solution() {
        let masks = Mask::all(1, 2);
        let decision = &decide(network, &[&observation], &[&masks], Choose::Best).expect("a decision")[0];
        assert_eq!(decision.choices, [1]);
        assert!((decision.value - worth).abs() < 0.1, "{worth}: {decision:?}");
    }
}

fn actor_critic<E: Environment<Observation = Vec<f32>>>(
    shape: BranchConfig,
    mut environments: Vec<E>,
    updates: u64,
    rng: &mut Rng,
) -> (ActorCritic<PolicyNetwork>, f64) {
    let mut learner = ActorCritic::new(network(shape), config(updates)).expect("a learner");
    let mut reward = 0.0;
    for _ in 0..updates {
        reward = learner.update(&mut environments, rng).expect("an update").reward;
    }
    (learner, reward)
}

#[test]
fn actor_critic_learns_the_bandit() {
    let (learner, reward) = actor_critic(Bandit::shape(), bandits(), 400, &mut rng(2));
    check_bandit(learner.network());
    assert!(reward > 1.9, "{reward}");
}

#[test]
fn actor_critic_learns_the_chain() {
    check_chain(actor_critic(Chain::shape(), chains(), 600, &mut rng(2)).0.network());
}

#[test]
fn the_same_seed_learns_the_same_weights() {
    let weights = |seed: u64| -> Vec<Vec<Vec<f32>>> {
        let (learner, _) = actor_critic(Bandit::shape(), bandits(), 20, &mut rng(seed));
        learner.network().params().iter().map(|(_, var)| var.to_vec2().expect("values")).collect()
    };
    assert_eq!(weights(3), weights(3));
    assert_ne!(weights(3), weights(4));
}

#[test]
fn ppo_learns_the_bandit() {
    let mut learner = Ppo::new(network(Bandit::shape()), ppo_config(100)).expect("a learner");
    let (mut environments, mut rng) = (bandits(), rng(2));
    for _ in 0..100 {
        learner.update(&mut environments, &mut rng).expect("an update");
    }
    check_bandit(learner.network());
}

#[test]
fn ppo_learns_the_chain() {
    let mut learner = Ppo::new(network(Chain::shape()), ppo_config(150)).expect("a learner");
    let (mut environments, mut rng) = (chains(), rng(2));
    for _ in 0..150 {
        learner.update(&mut environments, &mut rng).expect("an update");
    }
    check_chain(learner.network());
}

fn asynchronous<E: Environment<Observation = Vec<f32>> + Send>(
    shape: &BranchConfig,
    environments: impl Fn() -> Vec<E>,
    updates: u64,
) -> ActorCritic<PolicyNetwork> {
    let mut learner = ActorCritic::new(network(shape.clone()), config(updates)).expect("a learner");
    let actor = |i| Actor { network: network(shape.clone()), environments: environments(), rng: rng(50 + i) };
    let mut actors: Vec<_> = (0..3_u64).map(actor).collect();
    let mut seen = Vec::new();
    train_asynchronously(&mut learner, &mut actors, updates, |_, progress| seen.push(progress.updates))
        .expect("training");
    assert_eq!(seen, (1..=updates).collect::<Vec<_>>());
    learner
}

#[test]
fn asynchronous_actors_learn_the_bandit() {
    check_bandit(asynchronous(&Bandit::shape(), bandits, 500).network());
}

#[test]
fn asynchronous_actors_learn_the_chain() {
    check_chain(asynchronous(&Chain::shape(), chains, 700).network());
}

#[test]
fn a_learner_resumed_from_a_checkpoint_continues_exactly() {
    const FEATURES: u32 = 1;
    let weights = |learner: &ActorCritic<PolicyNetwork>| -> Vec<Vec<Vec<f32>>> {
        learner.network().params().iter().map(|(_, var)| var.to_vec2().expect("values")).collect()
    };
    let (mut first, _) = actor_critic(Bandit::shape(), bandits(), 10, &mut rng(3));
    let params = first.network().params();
    let moments = first.optimizer().state(params).expect("a state");
    let header = Header { features: FEATURES, config: (Bandit::shape(), config(10), first.updates()) };
    let bytes = checkpoint::to_bytes(&header, &[params, &moments]).expect("bytes");

    let saved: Checkpoint<(BranchConfig, ActorCriticConfig, u64)> =
        Checkpoint::from_bytes(&bytes, FEATURES).expect("a checkpoint");
    let (shape, config, updates) = saved.config.clone();
    let mut second = ActorCritic::new(PolicyNetwork::new(shape, &mut rng(7)).expect("a network"), config)
        .expect("a learner");
    let moments = second.optimizer().state(second.network().params()).expect("a state");
    saved.load(&[second.network().params(), &moments]).expect("loaded");
    second.resume(updates, &moments).expect("resumed");

    for learner in [&mut first, &mut second] {
        learner.update(&mut bandits(), &mut rng(9)).expect("an update");
    }
    assert_eq!(weights(&first), weights(&second));
    assert_eq!(second.updates(), 11);
}
