//! A teacher who may search: where it would run every task.
//!
//! It begins with the shortest plan of the list policies and improves it for a number of trials. What is learnt from it
//! is not that its nodes are right and all others wrong, as most choices are a matter of taste, but what another choice
//! would cost if all later ones were the teacher's (Ross, Bagnell: Reinforcement and imitation learning via interactive
//! no-regret learning, 2014).

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mdts_core::{Instance, NodeId, Rng};

use crate::search::{Budget, Search};

/// The nodes of a searched plan, by task. On one thread, as jobs are taught on several.
pub(crate) fn teacher(instance: &Instance, trials: u64, rng: &mut Rng) -> Option<Vec<NodeId>> {
    let search = Search { budget: Budget::Iterations(trials), threads: 1 };
    let found = search.improve(instance, rng, &AtomicBool::new(false), &|| Duration::ZERO).ok()?;
    Some(found.schedule.placements().iter().map(|placement| placement.node).collect())
}
