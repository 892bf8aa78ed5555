//! `mdts reproduce`: the comparisons of the papers that the policies come from, as tables.
//!
//! [`command`] holds the arguments and [`PAPERS`] the papers, one file each; [`report`] is the form in which all of
//! them tell what they found.

mod command;
mod mdts;
mod mdts_tables;
mod report;

pub(crate) use command::Reproduce;

use crate::error::Result;

/// What a paper's comparison is asked for.
#[derive(Debug, Clone)]
struct Wanted {
    quick: bool,
    /// Sizes instead of the usual ones.
    sizes: Vec<Size>,
    seeds: u64,
    /// Jobs or steps to learn from instead of the usual number.
    steps: Option<u64>,
    /// Comparisons that run at once.
    threads: usize,
    /// Threads that learn at once in one training.
    actors: usize,
    /// Whether nobody wants to see progress.
    quiet: bool,
}

/// Nodes, and child tasks per job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    nodes: usize,
    child_tasks: usize,
}

/// A paper with its comparison.
#[derive(Debug)]
struct Paper {
    name: &'static str,
    about: &'static str,
    run: fn(&Wanted) -> Result<report::Found>,
}

/// All papers.
const PAPERS: &[Paper] = &[mdts::PAPER];
