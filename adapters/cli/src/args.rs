//! The arguments that all commands share, and the log.

use std::io;

use clap::{ArgAction, Parser};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::commands::Command;
use crate::error::{Error, Result};
use crate::otlp::{self, Exporter};
use crate::settings;

/// Plans, compares and runs workflows on unequal machines.
///
/// A workflow is a file of tasks and dependencies (WfFormat, Pegasus DAX, STG, DOT, or the own YAML, JSON or TOML,
/// each also with .gz; - reads standard input). Without one, a built-in example is used; without a cluster, this
/// machine.
#[allow(clippy::doc_markdown)] // the text is for the terminal
#[derive(Debug, Parser)]
#[command(name = "mdts", version, max_term_width = 110, after_help = settings::HELP, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Say more on standard error; twice for even more
    #[arg(short, long, action = ArgAction::Count, global = true, conflicts_with = "quiet")]
    verbose: u8,
    /// Say nothing but errors and what was asked for with --json
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

impl Args {
    /// Sends the log to standard error, and spans to a collector if one is named, until what is returned is dropped.
    ///
    /// # Errors
    /// [`Error::Usage`] if `MDTS_LOG` is no filter or the collector has no address.
    pub(crate) fn start_log(&self) -> Result<Option<Exporter>> {
        let level = match (self.quiet, self.verbose) {
            (true, _) => "error",
            (_, 0) => "warn",
            (_, 1) => "info",
            _ => "debug",
        };
        let is_flag = self.quiet || self.verbose > 0;
        let wanted = std::env::var("MDTS_LOG").ok().filter(|text| !is_flag && !text.trim().is_empty());
        let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or(level)).map_err(|e| {
            Error::Usage(format!("MDTS_LOG: {e}; write for example info, or mdts_core=debug"))
        })?;
        let log = tracing_subscriber::fmt::layer().with_writer(io::stderr).without_time();
        // Where standard error is closed nobody is left to tell, and a panic would end whoever has something to say.
        let log = log.log_internal_errors(false);
        let log = log.with_target(false).with_ansi(io::IsTerminal::is_terminal(&io::stderr()));
        let (spans, exporter) = self.command.collector().map(otlp::begin).transpose()?.unzip();
        let of_service = Targets::new().with_target("mdts_service", Level::DEBUG);
        let spans = spans.map(|spans| spans.with_filter(of_service));
        tracing_subscriber::registry().with(log.with_filter(filter)).with(spans).init();
        Ok(exporter)
    }
}
