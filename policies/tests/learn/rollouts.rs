//! What is remembered of acting.

use mdts_policies::learn::{Heads, Network, Params, PolicyNetwork, Result, Rollout};

use crate::toys::{Chain, rng};

/// Always moves on (or back) in the chain; a state is worth its number plus 1.
#[derive(Debug)]
struct Sure {
    inner: PolicyNetwork,
    logit: f32,
}

impl Network for Sure {
    type Observation = Vec<f32>;
    type Output = Heads;

    fn params(&self) -> &Params {
        self.inner.params()
    }

    fn forward(&self, observations: &[&Vec<f32>]) -> Result<Heads> {
        let heads = self.inner.forward(observations)?;
        let device = heads.logits.device();
        let logits = [0.0, self.logit].repeat(observations.len());
        let state = |o: &&Vec<f32>| o.iter().position(|x| *x == 1.0).map_or(0.0, |s| s as f32 + 1.0);
        let values: Vec<f32> = observations.iter().map(state).collect();
        Ok(Heads {
            logits: candle_core::Tensor::from_vec(logits, heads.logits.shape(), device)?,
            values: candle_core::Tensor::from_vec(values, observations.len(), device)?,
        })
    }
}

fn collect(logit: f32, environments: usize, steps: usize) -> Rollout<Vec<f32>> {
    let inner = PolicyNetwork::new(Chain::shape(), &mut rng(1)).expect("a network");
    let mut chains: Vec<Chain> = (0..environments).map(|_| Chain::new()).collect();
    Rollout::collect(&Sure { inner, logit }, &mut chains, steps, &mut rng(2)).expect("a rollout")
}

#[test]
fn terminal_steps_are_followed_by_nothing() {
    let rollout = collect(100.0, 2, 7);
    assert_eq!((rollout.traces.len(), rollout.len()), (2, 14));
    for trace in &rollout.traces {
        let seen: Vec<_> =
            trace.iter().map(|e| (e.decision.value, e.reward, e.next_value, e.ended)).collect();
        let expected = [
            (1.0, 0.0, 2.0, false),
            (2.0, 0.0, 3.0, false),
            (3.0, 0.0, 4.0, false),
            (4.0, 0.0, 5.0, false),
            (5.0, 1.0, 0.0, true),
            (1.0, 0.0, 2.0, false),
            (2.0, 0.0, 3.0, false),
        ];
        assert_eq!(seen, expected);
    }
    assert!((rollout.mean_reward() - 1.0 / 7.0).abs() < 1e-9);
}

#[test]
fn cut_episodes_are_followed_by_the_value_of_the_last_state() {
    let rollout = collect(-100.0, 1, 13);
    for (i, step) in rollout.traces[0].iter().enumerate() {
        assert_eq!((step.next_value, step.ended), (1.0, i == 11), "{i}");
    }
}

#[test]
fn samples_hold_advantages_and_targets() {
    let rollout = collect(100.0, 2, 5);
    let samples = rollout.samples(0.5, 1.0);
    assert_eq!(samples.len(), 10);
    for (i, sample) in samples.iter().enumerate() {
        let worth = 0.5_f32.powf((4 - i % 5) as f32);
        assert!((sample.target - worth).abs() < 1e-6);
        assert!((sample.advantage - (worth - (i % 5 + 1) as f32)).abs() < 1e-6);
        assert_eq!((sample.choices, sample.log_prob), (&[1][..], 0.0));
    }
}
