//! Search: plans that get better the longer one waits, and proofs that they cannot get better.
//!
//! [`Search`] starts from the best of the list policies and then does what suits the instance:
//!
//! - `genetic`: one pool of resources (one shared node, or identical nodes whose data moves in no time), where only
//!   the order of tasks matters: a genetic algorithm on orders whose children are justified back and forth.
//! - `anneal`: everything else: simulated annealing on the order of tasks and their nodes, with moves on the
//!   critical path.
//! - `exact`: beside these, for up to 64 tasks: branch and bound, which proves. The longer the search, the more it
//!   proves; `seen` is its memory.
//!
//! `team` lets them work in rounds. [`Quick`] is the search as a policy among others.
//!
//! `model` is the flat copy of the instance they read, `profile` and `sequence` turn orders into schedules.

mod anneal;
mod bound;
mod budget;
mod exact;
mod genetic;
mod improve;
mod model;
mod pool;
mod profile;
mod quick;
mod seen;
mod sequence;
mod team;

pub use budget::Budget;
pub use improve::{Control, Found, Search, Start};
pub use quick::Quick;
