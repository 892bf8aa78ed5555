//! What the commands about Slurm share.

use std::path::Path;

use mdts_core::Cluster;
use mdts_slurm::brain::{Settings, Steering};
use mdts_slurm::sidecar::Speeds;

use crate::choice::Choice;
use crate::error::{Error, Result};

/// Where the sidecar listens if nothing else is said.
pub(super) const SOCKET: &str = "/run/mdts/slurm.sock";

impl Choice for Steering {
    const WORDS: &'static [(&'static str, Self)] =
        &[("pin", Self::Pin), ("prefer", Self::Prefer), ("off", Self::Off)];
}

/// How submissions are steered.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct SteerFlags {
    /// How jobs are led to nodes: by naming them if they are free, by features that they should have, or not at all
    #[arg(long, value_name = "HOW", value_parser = Steering::parser(), default_value = "pin")]
    steer: Steering,
    /// How far the priority of a workflow's least urgent job is lowered (its nice value); 0 leaves priorities alone
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    nice_range: u32,
}

impl SteerFlags {
    pub(super) fn settings(&self, refuses: bool) -> Settings {
        Settings { steering: self.steer, nice_range: self.nice_range, refuses, ..Settings::default() }
    }

    pub(super) fn nice_range(&self) -> u32 {
        self.nice_range
    }
}

/// The speeds of nodes that a cluster file states.
pub(super) fn speeds(file: Option<&Path>) -> Result<Speeds> {
    let Some(file) = file else { return Ok(Speeds::default()) };
    let cluster = Cluster::read(file)?;
    Ok(Speeds::new(cluster.nodes().iter().map(|node| (node.name.clone(), node.speed))))
}

/// A runtime for Slurm's programs and the socket.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| Error::System { what: "no runtime", source })
}
