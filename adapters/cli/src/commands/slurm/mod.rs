//! `mdts slurm`: what steers the submissions of a Slurm cluster.

mod common;
mod doctor;
mod filter;
mod sidecar;

use std::process::ExitCode;

use clap::Subcommand;

use crate::error::Result;

pub(crate) use sidecar::SidecarFlags;

/// Arguments of `mdts slurm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Slurm {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add to a batch script what its author has left open: standard input to standard output
    Filter(filter::Filter),
    /// Check installation, rights and settings of a cluster, and say what to change
    Doctor(doctor::Doctor),
}

impl Slurm {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<ExitCode> {
        match &self.command {
            Command::Filter(command) => command.carry_out(quiet),
            Command::Doctor(command) => command.carry_out(quiet),
        }
    }
}
