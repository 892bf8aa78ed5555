//! What Slurm's users have already, as job graphs: folders of batch scripts, and logs of whole clusters.

mod indices;
mod scripts;
mod swf;

pub use scripts::read_scripts;
pub use swf::{Arrival, Workload, read_swf};
