//! `mdts bench`: how time and memory grow with tasks, edges and nodes.
//!
//! [`command`] holds the arguments and the usual cases, and gives each case a process of its own; [`planning`] and
//! [`reading`] measure one case; [`show`] makes tables.

mod command;
mod planning;
mod reading;
mod show;

pub(crate) use command::Bench;
