//! Runs the tasks of a job as processes of this machine, or emulates them by sleeping.
//!
//! [`LocalExecutor`] starts every attempt as a process (no shell unless the command says so) in a process group of
//! its own, with its output in files, by itself or through a [keeper](keep) that outlives it. [`EmulatedExecutor`] sleeps for the expected run time instead.
//! [`this_machine`] describes the machine as a cluster of one node.

mod care;
mod cgroup;
mod cut;
mod devices;
mod emulated;
mod executor;
mod group;
mod keeper;
mod launch;
mod leader;
mod machine;
mod memory;
mod orphans;
mod output;
mod process;
mod programs;
mod reader;
mod spawn;

pub use emulated::EmulatedExecutor;
pub use executor::{KeeperOptions, LocalExecutor, LocalOptions};
pub use keeper::{keep, was_kept};
pub use machine::this_machine;
pub use mdts_core::runner::{LogFiles, log_files};
pub use reader::LogReader;
