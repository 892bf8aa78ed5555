//! Load balancing: ready tasks are spread over the nodes while the job runs, without a plan.
//!
//! All of them choose among the nodes that are there and can run the task; a task without such a node waits.

mod eft;
mod least_connection;
mod random;
mod round_robin;

pub use eft::Eft;
pub use least_connection::LeastConnection;
pub use random::Random;
pub use round_robin::RoundRobin;
