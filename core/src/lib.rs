//! Where and when: clusters, costs, schedules and their check, the policy traits, the engine, its drivers and its journal.

pub mod cluster;
pub mod engine;
mod error;
pub mod journal;
mod plain;
mod plan;
mod policy;
pub mod roles;
pub mod runner;
pub mod sim;
pub mod testkit;

pub use cluster::{Capacity, Cluster, Link, Network, NetworkBuilder, Node, NodeId, SlotModel};
pub use error::{Error, Result};
pub use plan::{
    Arrival, Bounds, Instance, Objectives, PartialSchedule, Placement, Progress, Resources, Schedule, Slot,
    Timeline, Violation, lower_bounds, objectives, remaining_paths,
};
pub use policy::{Decision, Decisions, Order, Placer, Planner, Rng};
