//! MDTS as published, and what it was compared with.
//!
//! Source: Zhang, Qi, Wang, Sun, Liao: Multi-task deep reinforcement learning for scalable parallel task scheduling,
//! IEEE Big Data 2019. Jobs of K parallel child tasks arrive at N unequal nodes; all child tasks are placed at once.
//! The paper's environment is not public: [`Parameters`] declares the one that is used here.
//!
//! [`World`] and [`Episode`] are the environment, [`train`] learns in it with one softmax per child task
//! ([`Head::Branches`]) or one over all joint actions ([`Head::Joint`], raw DRL), [`Baseline`] has the rules without
//! learning, [`evaluate`] measures them all on the same streams of jobs, and [`compare`] does all of it for one
//! setting and seed.

mod baselines;
mod comparison;
mod environment;
mod evaluation;
mod parameters;
mod pso;
mod queues;
mod training;
mod world;

pub use baselines::Baseline;
pub use comparison::{Budget, Comparison, Measured, Moment, Stage, compare};
pub use environment::{Episode, JointEpisode};
pub use evaluation::{Metric, Metrics, Summary, change, evaluate};
pub use parameters::Parameters;
pub use pso::Swarm;
pub use queues::{Outcome, Queues};
pub use training::{Head, Learned, Training, train};
pub use world::{ChildTask, Job, Machines, World};
