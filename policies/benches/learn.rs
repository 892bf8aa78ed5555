//! One update and one decision of a policy network: 128 inputs, a trunk of 256 and 256, K branches of N options.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use mdts_core::Rng;
use mdts_policies::learn::{
    Activation, ActorCritic, ActorCriticConfig, BranchConfig, Choose, Mask, Network, PolicyNetwork, Sample,
    decide,
};
use rand::{Rng as _, SeedableRng};

const INPUTS: usize = 128;
const BATCH: usize = 64;
const SIZES: [(usize, usize); 4] = [(10, 10), (10, 100), (100, 10), (100, 100)];

fn network(branches: usize, options: usize) -> PolicyNetwork {
    let trunk = vec![256, 256];
    let config = BranchConfig { inputs: INPUTS, trunk, activation: Activation::Relu, branches, options };
    PolicyNetwork::new(config, &mut Rng::seed_from_u64(1)).expect("a network")
}

fn observations(count: usize) -> Vec<Vec<f32>> {
    let mut rng = Rng::seed_from_u64(2);
    (0..count).map(|_| (0..INPUTS).map(|_| rng.random_range(-1.0..1.0)).collect()).collect()
}

fn train(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("train step, batch {BATCH}"));
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2)).sample_size(20);
    for (branches, options) in SIZES {
        let mut learner =
            ActorCritic::new(network(branches, options), ActorCriticConfig::default()).expect("a learner");
        let observations = observations(BATCH);
        let mask = Mask::all(branches, options);
        let choices: Vec<u32> = (0..branches).map(|k| (k % options) as u32).collect();
        let sample = |(i, observation)| {
            let advantage = (i as f32 / BATCH as f32) - 0.5;
            Sample { observation, mask: &mask, choices: &choices, log_prob: 0.0, advantage, target: 0.1 }
        };
        let samples: Vec<_> = observations.iter().enumerate().map(sample).collect();
        group.bench_function(format!("K{branches} N{options}"), |bench| {
            bench.iter(|| learner.learn(black_box(&mut samples.clone())).expect("an update"));
        });
    }
    group.finish();
}

fn forward(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("forward");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).sample_size(20);
    for (branches, options) in SIZES {
        let network = network(branches, options);
        for batch in [1, BATCH] {
            let observations = observations(batch);
            let observations: Vec<&Vec<f32>> = observations.iter().collect();
            group.bench_function(format!("K{branches} N{options}, batch {batch}"), |bench| {
                bench.iter(|| network.forward(black_box(&observations)).expect("outputs"));
            });
        }
        let observation = &observations(1)[0];
        let mask = Mask::all(branches, options);
        group.bench_function(format!("K{branches} N{options}, a decision"), |bench| {
            bench.iter(|| {
                decide(&network, black_box(&[observation]), &[&mask], Choose::Best).expect("a decision")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, train, forward);
criterion_main!(benches);
