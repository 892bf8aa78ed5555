//! The commands, one file each.

mod bench;
mod cache;
mod cancel;
mod compare;
mod completions;
mod convert;
mod dry_run;
mod inspect;
mod keep;
mod log;
mod logs;
mod plan;
mod policies;
mod predict;
mod reproduce;
mod retry;
mod run;
mod serve;
mod slurm;
mod status;
mod train;

use std::process::ExitCode;

use clap::Subcommand;

use crate::args::Args;
use crate::error::Result;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show size, shape and lower bounds of a workflow
    Inspect(inspect::Inspect),
    /// Plan a workflow on a cluster, verify the plan and show it
    Plan(plan::Plan),
    /// Compare policies on one or more workflows, in plans or in simulation
    Compare(compare::Compare),
    /// Run a workflow
    Run(Box<run::Run>),
    /// Tell how a run stands, and why its tasks are not running
    Status(status::Status),
    /// Stop a run, or tasks of it, from another terminal
    Cancel(cancel::Cancel),
    /// Let failed tasks of a run run again
    Retry(retry::Retry),
    /// Show what a cache of outputs holds, or make room in it
    Cache(cache::CacheCommand),
    /// Print what a task of a run has written
    Logs(logs::Logs),
    /// Print the journal of a run as JSON lines
    Log(log::Log),
    /// Look after the tasks of a run; mdts run starts this itself
    #[command(hide = true)]
    Keep(keep::Keep),
    /// Convert a workflow to another format, or generate one
    Convert(convert::Convert),
    /// Measure time and memory of planning and reading
    Bench(bench::Bench),
    /// Learn run times from workflows, or measure how well they are predicted
    Predict(predict::Predict),
    /// Learn weights for the policies mdts and mdts-raw
    Train(train::Train),
    /// Repeat the comparison of a paper that a policy comes from
    Reproduce(reproduce::Reproduce),
    /// Answer workflow engines that ask where their tasks are to run
    Serve(Box<serve::Serve>),
    /// Steer the submissions of a Slurm cluster
    Slurm(slurm::Slurm),
    /// List the policies
    Policies(policies::Policies),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}

impl Command {
    /// Where spans are sent.
    pub(crate) fn collector(&self) -> Option<&str> {
        match self {
            Self::Serve(serve) => serve.collector(),
            _ => None,
        }
    }
}

/// Carries out a command; the exit code is 0, or 1 if the work failed.
///
/// # Errors
/// The command's own.
pub(crate) fn carry_out(args: &Args) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match &args.command {
        Command::Inspect(command) => command.carry_out(args.quiet).map(done),
        Command::Plan(command) => command.carry_out(args.quiet).map(done),
        Command::Compare(command) => command.carry_out(args.quiet).map(done),
        Command::Run(command) => command.carry_out(args.quiet),
        Command::Status(command) => command.carry_out().map(done),
        Command::Cancel(command) => command.carry_out(args.quiet).map(done),
        Command::Retry(command) => command.carry_out(args.quiet).map(done),
        Command::Cache(command) => command.carry_out(args.quiet).map(done),
        Command::Logs(command) => command.carry_out().map(done),
        Command::Log(command) => command.carry_out().map(done),
        Command::Keep(command) => command.carry_out().map(done),
        Command::Convert(command) => command.carry_out(args.quiet).map(done),
        Command::Bench(command) => command.carry_out(args.quiet).map(done),
        Command::Predict(command) => command.carry_out(args.quiet).map(done),
        Command::Train(command) => command.carry_out(args.quiet).map(done),
        Command::Reproduce(command) => command.carry_out(args.quiet).map(done),
        Command::Serve(command) => command.carry_out(args.quiet).map(done),
        Command::Slurm(command) => command.carry_out(args.quiet),
        Command::Policies(command) => command.carry_out().map(done),
        Command::Completions(command) => command.carry_out().map(done),
    }
}
