//! Facts about a graph that need no machine: widths, ranks and critical paths under given weights.

mod rank;
mod shape;

pub use rank::{CriticalPath, critical_path, downward_rank, upward_rank};
pub use shape::{Shape, level_widths, shape};
