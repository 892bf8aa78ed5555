//! The learners really learn: each one finds the known optimum of two small worlds.

mod dqn;
mod faults;
mod policies;
mod rollouts;
mod toys;
