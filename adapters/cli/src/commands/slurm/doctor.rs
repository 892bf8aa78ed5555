//! `mdts slurm doctor`: is this Slurm fit for workflows, and what to change.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use mdts_slurm::doctor::{Finding, Level, findings, gather};
use mdts_slurm::{Commands, CommandsOptions};
use serde::Serialize;

use super::common::{self, SOCKET};
use crate::error::Result;
use crate::output;
use crate::text::count;

/// How long Slurm may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Arguments of `mdts slurm doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct Doctor {
    /// Socket of the sidecar [default: /run/mdts/slurm.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    findings: Vec<Finding>,
    broken: usize,
    warnings: usize,
}

impl Doctor {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<ExitCode> {
        let socket = self.socket.as_deref().unwrap_or(Path::new(SOCKET));
        let slurm = Commands::new(CommandsOptions { limit: LIMIT, ..CommandsOptions::default() });
        let facts = common::runtime()?.block_on(gather(&slurm, socket));
        let findings = findings(&facts);
        let of = |level| findings.iter().filter(|finding| finding.level == level).count();
        let report = Report { broken: of(Level::Broken), warnings: of(Level::Warning), findings };
        match (self.json, quiet) {
            (true, _) => output::print_json(&report)?,
            (false, true) => {}
            (false, false) => output::print(&show(&report))?,
        }
        Ok(if report.broken > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}

fn show(report: &Report) -> String {
    let mut text = String::new();
    for Finding { subject, level, found, remedy } in &report.findings {
        let level = match level {
            Level::Good => "good",
            Level::Note => "note",
            Level::Warning => "WARNING",
            Level::Broken => "BROKEN",
        };
        _ = writeln!(text, "{level:<8} {subject:<15} {found}");
        if !remedy.is_empty() {
            _ = writeln!(text, "{:<24} -> {remedy}", "");
        }
    }
    _ = writeln!(text, "\n{} broken, {}", report.broken, count(report.warnings, "warning"));
    text
}
