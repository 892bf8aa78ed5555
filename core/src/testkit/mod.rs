//! Conformance kit: checks a third party's policy or executor against its contract.
//!
//! The checks return what is wrong as text rather than panicking, so that any test framework can use them:
//! [`check_planner`], [`check_placer`], [`check_executor`]. [`instances`] are the jobs that policies are tried on.

mod executor;
mod instances;
mod policy;
#[cfg(test)]
mod tests;

pub use executor::{SampleTasks, check_executor};
pub use instances::instances;
pub use policy::{check_placer, check_planner};
