//! The simulator: drives the engine in virtual time.
//!
//! Under ideal [`Conditions`] it follows the cost model to the letter: run times are the instance's, and data is
//! on a node `transfer` seconds after its producer finished, whenever the consumer was placed. Conditions add
//! what plans do not know: noise, hidden affinity, contention for the network, and node failures. All of it is
//! drawn from the seed and never depends on the policy, so that policies meet the same world (common random
//! numbers).

mod conditions;
mod fairness;
mod flows;
mod heap;
mod simulator;
mod trace;
mod transfers;

pub use conditions::{Conditions, Failures};
pub use simulator::{Arrivals, simulate, simulate_recorded};
pub use trace::{Attempt, JobTrace, Trace};
