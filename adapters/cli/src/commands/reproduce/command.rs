//! The arguments, and the choice of papers.

use serde::Serialize;

use super::report::Report;
use super::{PAPERS, Paper, Size, Wanted};
use crate::error::{Error, Result, did_you_mean};
use crate::output;

/// Arguments of `mdts reproduce`.
///
/// Trains what the paper trains, measures it and what it was compared with on the same inputs, and prints every
/// measure against every baseline, with the paper's own figures beside.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  mdts reproduce mdts --quick\n  mdts reproduce mdts --json > mdts.json")]
pub(crate) struct Reproduce {
    /// Paper: mdts, or all
    #[arg(value_name = "NAME|all")]
    name: String,
    /// Fewer settings and shorter trainings: less than two minutes on two cores
    #[arg(long)]
    quick: bool,
    /// Sizes to compare at instead of the usual ones: nodes x child tasks, as in 6x4,10x5
    #[arg(long, value_name = "NxK,..", value_delimiter = ',', value_parser = Size::parse)]
    sizes: Vec<Size>,
    /// Number of seeds; each has a cluster, trainings and inputs of its own
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Steps to learn from, instead of the usual number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    steps: Option<u64>,
    /// Seeds and settings that run at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// Threads that learn together in each training (A3C); 1 learns synchronously (A2C) and can be repeated exactly
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    actors: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What `all` gives.
#[derive(Debug, Serialize)]
struct Reports {
    papers: Vec<Report>,
}

impl Reproduce {
    pub(in crate::commands) fn carry_out(&self, quiet: bool) -> Result<()> {
        let papers = self.papers()?;
        let threads = self.threads.map_or_else(
            || std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            usize::from,
        );
        let (seeds, steps, actors) = (self.seeds, self.steps, usize::from(self.actors));
        let (quick, sizes) = (self.quick, self.sizes.clone());
        let wanted = Wanted { quick, sizes, seeds, steps, threads, actors, quiet };
        let mut reports = Vec::new();
        for paper in papers {
            let found = (paper.run)(&wanted)?;
            if !self.json && !quiet {
                output::print(&found.text)?;
            }
            reports.push(found.report);
        }
        match (self.json, self.name.as_str(), reports.as_slice()) {
            (false, ..) => Ok(()),
            (true, name, [report]) if name != "all" => output::print_json(report),
            (true, ..) => output::print_json(&Reports { papers: reports }),
        }
    }

    fn papers(&self) -> Result<Vec<&'static Paper>> {
        let named = |paper: &&Paper| self.name == "all" || self.name == paper.name;
        let papers: Vec<_> = PAPERS.iter().filter(named).collect();
        if papers.is_empty() {
            let known: Vec<String> = PAPERS.iter().map(|p| format!("{} ({})", p.name, p.about)).collect();
            return Err(Error::Usage(format!(
                "unknown paper '{}'{}; there are {}, and all",
                self.name,
                did_you_mean(&self.name, PAPERS.iter().map(|p| p.name)),
                known.join(", ")
            )));
        }
        Ok(papers)
    }
}

impl Size {
    /// All placements of a job must be so few that one network can have an output for each.
    const MOST_PLACEMENTS: usize = 1_000_000;

    fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split_once('x').and_then(|(n, k)| Some((n.parse().ok()?, k.parse().ok()?)));
        let Some((nodes, child_tasks)) = parts.filter(|(nodes, tasks)| *nodes > 0 && *tasks > 0) else {
            return Err("expected nodes x child tasks, for example 6x4".into());
        };
        let placements = u32::try_from(child_tasks).ok().and_then(|k| usize::checked_pow(nodes, k));
        match placements {
            Some(placements) if placements <= Self::MOST_PLACEMENTS => Ok(Self { nodes, child_tasks }),
            _ => Err(format!("N^K may be at most {}", Self::MOST_PLACEMENTS)),
        }
    }
}
