//! Who decides: the policies, by family, and the registry of all of them.
//!
//! ```
//! use mdts_core::{Cluster, Instance, Planner, Rng, SlotModel};
//! use mdts_dag::{DataModel, JobGraph, Task};
//! use mdts_policies::list::Heft;
//! use rand::SeedableRng;
//! let mut job = JobGraph::builder("two");
//! let first = job.task(Task::new("first").seconds(2.0))?;
//! let second = job.task(Task::new("second").seconds(3.0))?;
//! job.depend(second, first, 0.0);
//! let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
//! let instance = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
//! let schedule = Heft.plan(&instance, &mut Rng::seed_from_u64(1))?;
//! assert_eq!(schedule.makespan(), 5.0);
//! # Ok::<(), mdts_core::Error>(())
//! ```

pub mod balance;
mod error;
pub mod learn;
pub mod list;
pub mod mdts;
pub mod predict;
mod registry;
pub mod search;

pub use error::{Error, Result};
pub use registry::{AnyPolicy, PolicyInfo, Role, find, follow, policies};
