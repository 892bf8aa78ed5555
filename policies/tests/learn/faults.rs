//! A learner that breaks down says so and keeps its weights.

use mdts_policies::learn::{
    Actor, ActorCritic, ActorCriticConfig, Dqn, DqnConfig, DuelingNetwork, Environment, Error, Feedback,
    Mask, Network, Params, PolicyNetwork, Ppo, PpoConfig, Result, train_asynchronously,
};

use crate::toys::{Bandit, rng};

/// A bandit that pays nonsense, or fails, at its third step.
#[derive(Debug)]
struct Faulty {
    bandit: Bandit,
    steps: usize,
    fails: bool,
}

impl Faulty {
    fn new(fails: bool) -> Self {
        Self { bandit: Bandit::new(1), steps: 0, fails }
    }
}

impl Environment for Faulty {
    type Observation = Vec<f32>;

    fn reset(&mut self) -> Result<()> {
        self.bandit.reset()
    }

    fn observation(&self) -> Vec<f32> {
        self.bandit.observation()
    }

    fn mask(&self) -> Result<Mask> {
        self.bandit.mask()
    }

    fn step(&mut self, choices: &[u32]) -> Result<Feedback> {
        self.steps += 1;
        let feedback = self.bandit.step(choices)?;
        match (self.steps == 3, self.fails) {
            (true, true) => Err(Error::NothingAllowed { options: 4 }),
            (true, false) => Ok(Feedback { reward: f32::NAN, ..feedback }),
            _ => Ok(feedback),
        }
    }
}

fn weights(params: &Params) -> Vec<Vec<Vec<f32>>> {
    params.iter().map(|(_, var)| var.to_vec2().expect("values")).collect()
}

fn network() -> PolicyNetwork {
    PolicyNetwork::new(Bandit::shape(), &mut rng(1)).expect("a network")
}

#[test]
fn rewards_that_are_no_numbers() {
    let before = weights(network().params());
    let mut learner = ActorCritic::new(network(), ActorCriticConfig::default()).expect("a learner");
    let error = learner.update(&mut [Faulty::new(false)], &mut rng(1)).expect_err("an error");
    assert!(matches!(error, Error::NotFinite { .. }), "{error}");
    assert_eq!((weights(learner.network().params()), learner.updates()), (before.clone(), 0));

    let mut learner = Ppo::new(network(), PpoConfig::default()).expect("a learner");
    let error = learner.update(&mut [Faulty::new(false)], &mut rng(1)).expect_err("an error");
    assert!(matches!(error, Error::NotFinite { .. }), "{error}");
    assert_eq!(weights(learner.network().params()), before);

    let network = || DuelingNetwork::new(Bandit::shape(), &mut rng(1)).expect("a network");
    let config = DqnConfig { start: 3, steps: 3, ..Default::default() };
    let mut learner = Dqn::new(network(), network(), config).expect("a learner");
    let error = learner.update(&mut [Faulty::new(false)], &mut rng(1)).expect_err("an error");
    assert!(matches!(error, Error::NotFinite { .. }), "{error}");
    assert_eq!(weights(learner.network().params()), weights(network().params()));
}

#[test]
fn an_actor_that_fails_ends_the_run() {
    let mut learner = ActorCritic::new(network(), ActorCriticConfig::default()).expect("a learner");
    let actor = |fails| Actor { network: network(), environments: vec![Faulty::new(fails)], rng: rng(1) };
    let mut actors = [actor(true), actor(true)];
    let error =
        train_asynchronously(&mut learner, &mut actors, u64::MAX / 2, |_, _| {}).expect_err("an error");
    assert!(matches!(error, Error::NothingAllowed { options: 4 }), "{error}");
}

#[test]
fn settings_that_make_no_sense() {
    let refused = |config| ActorCritic::new(network(), config).map(|_| ()).expect_err("an error").to_string();
    let text = refused(ActorCriticConfig { discount: 1.5, ..Default::default() });
    assert_eq!(text, "discount: 1.5 given, 0 to 1 expected");
    assert!(refused(ActorCriticConfig { steps: 0, ..Default::default() }).contains("steps"));
    for config in [
        PpoConfig { clip: 0.0, ..Default::default() },
        PpoConfig { epochs: 0, ..Default::default() },
        PpoConfig { minibatch: 0, ..Default::default() },
    ] {
        assert!(Ppo::new(network(), config).is_err());
    }
}
