//! Runs job graphs through Slurm, and steers what Slurm accepts.
//!
//! - [`filter`]: what batch scripts ask for, and what is added to them
//! - [`brain`]: where a submission should run, how urgent it is, and whether it can run at all
//! - [`spell`]: how Slurm spells times, sizes and lists

pub mod brain;
pub mod filter;
pub mod spell;
