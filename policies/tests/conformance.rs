//! Every policy of the registry keeps the contracts of both roles.

use mdts_core::testkit::{check_placer, check_planner};
use mdts_policies::policies;

#[test]
fn every_policy_is_a_planner() {
    for policy in policies() {
        assert_eq!(check_planner(&policy.planner()), Ok(()), "{}", policy.name);
    }
}

#[test]
fn every_policy_is_a_placer() {
    for policy in policies() {
        assert_eq!(check_placer(|| policy.placer(1)), Ok(()), "{}", policy.name);
    }
}
