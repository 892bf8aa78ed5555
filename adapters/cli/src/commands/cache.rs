//! `mdts cache DIR`: how much a cache holds; with limits, makes room in it.

use std::path::PathBuf;
use std::time::Duration;

use mdts_dag::units;
use serde::Serialize;

use crate::cache::{self, Leave, Size};
use crate::error::Result;
use crate::output;
use crate::text::count;

/// Arguments of `mdts cache`.
#[derive(Debug, clap::Args)]
pub(crate) struct CacheCommand {
    /// Folder of the cache, as in run --cache
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Forget successes that were kept longer ago, for example 30d
    #[arg(long, value_name = "TIME", value_parser = age)]
    older_than: Option<Duration>,
    /// Forget the oldest successes until the contents of their outputs are not more than this; 0 forgets all
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    keep_size: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    /// What the cache holds now.
    #[serde(flatten)]
    size: Size,
    removed_records: u64,
    removed_bytes: u64,
}

fn age(text: &str) -> std::result::Result<Duration, String> {
    let seconds = units::parse_seconds(text)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "expected a time of at least 0".to_owned())
}

fn bytes(text: &str) -> std::result::Result<u64, String> {
    let bytes = units::parse_bytes(text)?;
    if bytes >= 0.0 { Ok(bytes as u64) } else { Err("expected a size of at least 0".to_owned()) }
}

impl CacheCommand {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<()> {
        let before = cache::size(&self.folder)?;
        let leave = Leave { younger_than: self.older_than, bytes: self.keep_size };
        let size = match (self.older_than, self.keep_size) {
            (None, None) => before,
            _ => cache::clear(&self.folder, &leave)?,
        };
        let report = Report {
            size,
            removed_records: before.records.saturating_sub(size.records),
            removed_bytes: before.bytes.saturating_sub(size.bytes),
        };
        match (self.json, quiet) {
            (true, _) => output::print_json(&report),
            (false, true) => Ok(()),
            (false, false) => output::print(&show(&report)),
        }
    }
}

fn show(report: &Report) -> String {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let removed = match report.removed_records + report.removed_bytes {
        0 => String::new(),
        _ => format!(
            "; forgot {}, and removed {:.1} MiB",
            count(report.removed_records as usize, "task"),
            mebibytes(report.removed_bytes)
        ),
    };
    format!(
        "{} known, {} with {:.1} MiB{removed}\n",
        count(report.size.records as usize, "task"),
        count(report.size.objects as usize, "output"),
        mebibytes(report.size.bytes)
    )
}
