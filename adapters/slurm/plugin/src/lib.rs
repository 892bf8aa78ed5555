//! `job_submit_mdts.so`: a job submit plugin of slurmctld that asks the sidecar of mdts about every submission.
//!
//! slurmctld holds locks while this runs, so it asks one question over a Unix socket, waits 20 ms at most, and after any failure the job
//! passes unchanged. No panic leaves it, nothing is started, and strings are made by Slurm's own allocator, which will free them.
//! `JobSubmitPlugins=mdts`; the sidecar's socket is `/run/mdts/slurm.sock`, or what `MDTS_SLURM_SOCKET` says when slurmctld starts.

mod answer;
#[path = "../../src/ask.rs"]
#[allow(unreachable_pub)] // it is public in mdts-slurm
mod ask;
pub mod entry;
#[path = "../../src/escape.rs"]
#[allow(unreachable_pub)]
mod escape;
mod job;
mod layout;
mod request;
mod slurm;
