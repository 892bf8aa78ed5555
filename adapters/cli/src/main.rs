//! The command line `mdts`: plans, compares and runs workflows on unequal machines.

mod args;
mod cache;
mod choice;
mod commands;
mod control;
mod course;
mod error;
mod forecast;
mod gantt;
mod history;
mod input;
mod interrupt;
mod journal;
mod life;
mod on_slurm;
mod otlp;
mod output;
mod plot;
mod policy;
mod progress;
mod search;
mod settings;
mod signals;
mod speculate;
mod text;
mod usage;
mod weights;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(told)
            if told.use_stderr() && told.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            output::complain(&format!("{}\n", error::usage(&told.render().to_string())));
            return ExitCode::from(2);
        }
        Err(help) => help.exit(),
    };
    let outcome = args.start_log().and_then(|exporter| {
        let code = commands::carry_out(&args);
        drop(exporter);
        code
    });
    match outcome {
        Ok(code) => code,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            output::complain_of(&error);
            error.exit_code()
        }
    }
}
