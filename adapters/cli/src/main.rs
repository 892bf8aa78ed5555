//! The command line `mdts`: plans, compares and runs workflows on unequal machines.

mod args;
mod choice;
mod commands;
mod error;
mod gantt;
mod input;
mod output;
mod plot;
mod policy;
mod progress;
mod settings;
mod text;
mod usage;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    match args.start_log().and_then(|()| commands::carry_out(&args)) {
        Ok(code) => code,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            let message = error::one_line(&error.to_string());
            output::complain(&format!("error: {message}\n"));
            error.exit_code()
        }
    }
}
