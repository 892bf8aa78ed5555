//! DQN in its variants.

use mdts_policies::learn::dqn::best;
use mdts_policies::learn::{
    BranchConfig, Dqn, DqnConfig, DuelingNetwork, Environment, Follow, Mask, Network, Priorities, Schedule,
};

use crate::toys::{Bandit, Chain, DISCOUNT, rng};

fn config(updates: u64) -> DqnConfig {
    DqnConfig {
        discount: DISCOUNT,
        capacity: 5_000,
        start: 100,
        batch: 32,
        follow: Follow::Copy { every: 50 },
        epsilon: Schedule::linear(1.0, 0.1, updates / 2),
        rate: Schedule::linear(5e-3, 5e-4, updates),
        ..Default::default()
    }
}

fn train<E: Environment<Observation = Vec<f32>>>(
    shape: &BranchConfig,
    mut environments: Vec<E>,
    config: DqnConfig,
    updates: u64,
) -> Dqn<DuelingNetwork> {
    let network = |seed| DuelingNetwork::new(shape.clone(), &mut rng(seed)).expect("a network");
    let mut learner = Dqn::new(network(1), network(2), config).expect("a learner");
    let mut rng = rng(3);
    for _ in 0..updates {
        learner.update(&mut environments, &mut rng).expect("an update");
    }
    learner
}

/// All variants learn the same: the best options, and what both options of every state are worth.
fn check_chain(config: DqnConfig, updates: u64) {
    let learner = train(&Chain::shape(), (0..4).map(|_| Chain::new()).collect(), config, updates);
    let start = Chain::solution()[0].1;
    for (observation, worth) in Chain::solution() {
        let values =
            learner.network().forward(&[&observation]).expect("values").to_vec3::<f32>().expect("f32");
        let [back, on] = values[0][0][..] else { panic!("two options expected") };
        assert!((on - worth).abs() < 0.05, "moving on: {on}, expected {worth}");
        let expected = Chain::BACK + DISCOUNT * start;
        assert!((back - expected).abs() < 0.05, "going back: {back}, expected {expected}");
        let choice = best(learner.network(), &[&observation], &[&Mask::all(1, 2)]).expect("a choice");
        assert_eq!(choice, [[1]]);
    }
}

#[test]
fn double_dqn_learns_the_chain() {
    check_chain(config(2000), 2000);
}

#[test]
fn plain_dqn_with_a_soft_target_learns_the_chain() {
    let follow = Follow::Blend { share: 0.02 };
    check_chain(DqnConfig { double: false, follow, ..config(2000) }, 2000);
}

#[test]
fn prioritised_n_step_dqn_learns_the_chain() {
    let priorities = Some(Priorities { alpha: 0.6, beta: Schedule::linear(0.4, 1.0, 2000) });
    // Rewards of several steps are those of the acting policy, so it must explore little in the end.
    let epsilon = Schedule::linear(1.0, 0.0, 1500);
    let config = DqnConfig { priorities, n_step: 2, epsilon, capacity: 1000, ..config(2000) };
    let learner = train(&Chain::shape(), (0..4).map(|_| Chain::new()).collect(), config, 2000);
    for (observation, worth) in Chain::solution() {
        let values =
            learner.network().forward(&[&observation]).expect("values").to_vec3::<f32>().expect("f32");
        assert!((values[0][0][1] - worth).abs() < 0.05, "{values:?} {worth}");
    }
}

#[test]
fn branches_learn_the_bandit() {
    let environments = (0..4).map(|i| Bandit::new(100 + i)).collect();
    let learner = train(&Bandit::shape(), environments, config(1000), 1000);
    for (observation, mask, right) in Bandit::solution() {
        assert_eq!(best(learner.network(), &[&observation], &[&mask]).expect("a choice"), [right]);
    }
}
