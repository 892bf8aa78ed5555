//! What is right and wrong with a Slurm cluster for workflows, and what to change.
//!
//! [`gather`] looks, [`findings`] judges; the judgement is pure.

mod finding;
mod gather;
mod scheduler;
mod steering;

pub use finding::{Finding, Level};
pub use gather::{Facts, Sidecar, gather};

/// All findings about these facts, in the order in which a person would look.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = finding::of_installation(facts);
    if !facts.config.is_empty() {
        all.extend(scheduler::findings(&facts.config));
        all.extend(steering::findings(facts));
    }
    all.push(steering::of_sidecar(facts));
    all
}
