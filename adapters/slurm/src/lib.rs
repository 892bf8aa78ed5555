//! Runs job graphs through Slurm, and steers what Slurm accepts.
