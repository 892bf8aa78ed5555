//! Laws that hold for every policy of the registry, on random graphs and clusters.

use std::sync::Arc;

use mdts_core::engine::{Speculation, State};
use mdts_core::roles::Planned;
use mdts_core::sim::{Conditions, Failures, simulate, simulate_recorded};
use mdts_core::{Instance, Rng, Schedule, SlotModel, lower_bounds, objectives};
use mdts_dag::DataModel;
use mdts_integration_tests::random_instance;
use mdts_policies::{PolicyInfo, policies};
use proptest::prelude::*;
use rand::SeedableRng;

fn models() -> impl Strategy<Value = (SlotModel, DataModel)> {
    (
        prop_oneof![Just(SlotModel::Exclusive), Just(SlotModel::Resources)],
        prop_oneof![Just(DataModel::Edges), Just(DataModel::Files)],
    )
}

fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// What searches takes a thousand times as long as the others: it takes part in few cases.
fn policies_of(seed: u64) -> impl Iterator<Item = &'static PolicyInfo> {
    policies().iter().filter(move |p| !["search", "mdts"].contains(&p.name) || seed.is_multiple_of(8))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_is_valid_bounded_and_repeatable((slots, data) in models(), seed: u64) {
        let instance = random_instance(&mut rng(seed), slots, data)?;
        let bound = lower_bounds(&instance).best();
        for policy in policies_of(seed) {
            let plan = policy.planner().plan(&instance, &mut rng(seed))?;
            prop_assert_eq!(plan.verify(&instance), Ok(()), "{}", policy.name);
            prop_assert!(plan.makespan() >= bound * (1.0 - 1e-9), "{} is below the bound", policy.name);
            prop_assert!(objectives(&instance, &plan).slr >= 1.0 - 1e-9);
            let again = policy.planner().plan(&instance, &mut rng(seed))?;
            prop_assert_eq!(again, plan, "{} is not repeatable", policy.name);
        }
    }

    #[test]
    fn following_a_plan_reproduces_it((slots, data) in models(), seed: u64) {
        let instance = random_instance(&mut rng(seed), slots, data)?;
        for policy in policies_of(seed) {
            let plan = policy.planner().plan(&instance, &mut rng(seed))?;
            let follow = Planned::new(policy.planner(), rng(seed));
            let trace = simulate(&vec![(0.0, instance.clone())], follow, &Conditions::default())?;
            check_reproduced(policy.name, &instance, &plan, &trace.jobs[0].schedule())?;
        }
    }

    #[test]
    fn every_policy_finishes_in_a_hard_world_and_replays((slots, data) in models(), seed: u64, contention: bool) {
        let instance = random_instance(&mut rng(seed), slots, data)?;
        let bound = lower_bounds(&instance).best().max(1.0);
        let failures = Some(Failures { mean_between: 2.0 * bound, repair: 0.1 * bound, most: 3 });
        let speculation = seed.is_multiple_of(2).then_some(Speculation { factor: 1.2, least: 0.0 });
        let conditions =
            Conditions { seed, noise: 0.3, affinity: 0.3, contention, failures, speculation, ..Conditions::default() };
        let arrivals = vec![(0.0, instance.clone())];
        for policy in policies_of(seed) {
            let (trace, state, records) = simulate_recorded(&arrivals, policy.placer(seed), &conditions)?;
            prop_assert_eq!(trace.jobs[0].schedule().placements().len(), instance.tasks(), "{}", policy.name);
            let replayed = State::replay(instance.cluster(), true, &records)?;
            prop_assert!(replayed == state, "{}: replay differs", policy.name);
        }
    }
}

/// A plan of the search whose starts were once finishes less run times, rounded.
#[test]
fn starts_of_a_searched_plan_are_not_rounded() -> Result<(), TestCaseError> {
    let seed = 13_776_896_489_098_953_432;
    let instance = random_instance(&mut rng(seed), SlotModel::Resources, DataModel::Edges)?;
    let search = mdts_policies::find("search")?;
    let plan = search.planner().plan(&instance, &mut rng(seed))?;
    let follow = Planned::new(search.planner(), rng(seed));
    let trace = simulate(&vec![(0.0, instance.clone())], follow, &Conditions::default())?;
    check_reproduced("search", &instance, &plan, &trace.jobs[0].schedule())
}

/// Exclusive nodes: the same, bit for bit. Shared nodes: the same nodes, and nothing starts later. (A plan may keep
/// room free for a task that needs more; tasks that take no time need room when they run, but none in a plan.)
fn check_reproduced(
    name: &str,
    instance: &Arc<Instance>,
    plan: &Schedule,
    run: &Schedule,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(run.verify(instance), Ok(()), "{}", name);
    if instance.slots() == SlotModel::Exclusive {
        prop_assert_eq!(run, plan, "{}", name);
    }
    for (run, plan) in run.placements().iter().zip(plan.placements()) {
        prop_assert_eq!(run.node, plan.node, "{}", name);
        prop_assert!(run.start <= plan.start, "{}: {:?} after {:?}", name, run, plan);
    }
    Ok(())
}
