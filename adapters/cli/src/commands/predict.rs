//! `mdts predict`: learns run times from workflows that state them, and measures how well others are predicted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use mdts_dag::JobGraph;
use mdts_policies::predict::{Score, leave_one_out, score, typical_score};
use serde::Serialize;

use crate::error::Result;
use crate::history;
use crate::input;
use crate::output;
use crate::text::{Table, count};

/// Arguments of `mdts predict`.
#[derive(Debug, clap::Args)]
pub(crate) struct Predict {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Learn the run times that workflows (traces) state, for plan, compare and run with --history
    Learn(Learn),
    /// Leave out every workflow in turn, predict its run times from the others and show the errors
    Evaluate(Evaluate),
}

#[derive(Debug, clap::Args)]
struct Learn {
    /// Workflow files with run times
    #[arg(required = true)]
    dags: Vec<PathBuf>,
    /// The history to add to, made if it is not there
    #[arg(short = 'o', long, value_name = "FILE")]
    history: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Evaluate {
    /// Workflow files with run times, at least two
    #[arg(required = true)]
    dags: Vec<PathBuf>,
    /// Hide memory and bytes written from the tasks to be predicted: traces know them only after the run
    #[arg(long)]
    known_before: bool,
    /// Seed of folds and of the search for types
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Learnt {
    history: PathBuf,
    learnt: usize,
    runs: usize,
    samples: usize,
    kinds: usize,
}

/// Median absolute percentage errors: by workflow, of all tasks, and the median of those of all instances.
#[derive(Debug, Serialize)]
struct Report {
    seed: u64,
    known_before: bool,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    workflow: String,
    instances: usize,
    tasks: usize,
    /// Null where all run times are 0.
    predicted: Option<f64>,
    type_median: Option<f64>,
    kind_median: Option<f64>,
    kind_mean: Option<f64>,
    /// Percentage of run times inside their 80 % interval.
    covered: Option<f64>,
}

impl Predict {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<()> {
        match &self.what {
            What::Learn(learn) => learn.carry_out(quiet),
            What::Evaluate(evaluate) => evaluate.carry_out(quiet),
        }
    }
}

impl Learn {
    fn carry_out(&self, quiet: bool) -> Result<()> {
        let _locked = history::lock(&self.history)?;
        let mut predictor = history::open(&self.history, 0)?;
        let mut learnt = 0;
        for path in &self.dags {
            learnt += predictor.learn(&input::job(Some(path))?.graph)?;
        }
        history::save(&predictor, &self.history)?;
        let report = Learnt {
            history: self.history.clone(),
            learnt,
            runs: predictor.runs(),
            samples: predictor.samples(),
            kinds: predictor.kinds().len(),
        };
        let (runs, kinds) = (count(report.runs, "run"), count(report.kinds, "kind"));
        match (self.json, quiet) {
            (true, _) => output::print_json(&report),
            (false, true) => Ok(()),
            (false, false) => output::print(&format!(
                "learnt {}; {} has {} of {kinds} from {runs}\n",
                count(learnt, "run time"),
                self.history.display(),
                report.samples
            )),
        }
    }
}

impl Evaluate {
    fn carry_out(&self, quiet: bool) -> Result<()> {
        let mut jobs: Vec<JobGraph> = Vec::new();
        for path in &self.dags {
            let job = input::job(Some(path))?;
            jobs.push(JobGraph::clone(&job.graph));
        }
        let trials = leave_one_out(&jobs, self.known_before, self.seed)?;
        let mut families: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, path) in self.dags.iter().enumerate() {
            families.entry(family(path)).or_default().push(i);
        }
        let mut rows: Vec<Row> = families
            .into_iter()
            .map(|(name, instances)| {
                let own = trials.iter().filter(|trial| instances.contains(&trial.instance));
                row(&name, instances.len(), score(own))
            })
            .collect();
        rows.push(row("all tasks", jobs.len(), score(&trials)));
        rows.push(row("median instance", jobs.len(), typical_score(&trials)));
        let report = Report { seed: self.seed, known_before: self.known_before, rows };
        match (self.json, quiet) {
            (true, _) => output::print_json(&report),
            (false, true) => Ok(()),
            (false, false) => output::print(&show(&report)),
        }
    }
}

/// What the name of a file begins with, up to the first `-` or `.`: the instances of a workflow are shown together.
fn family(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(['-', '.']).next().unwrap_or_default().into()
}

fn row(name: &str, instances: usize, score: Score) -> Row {
    let Score { tasks, predicted, type_median, kind_mean, kind_median, covered } = score;
    let percent = |part: f64| part.is_finite().then_some(part * 100.0);
    Row {
        workflow: name.into(),
        instances,
        tasks,
        predicted: percent(predicted),
        type_median: percent(type_median),
        kind_median: percent(kind_median),
        kind_mean: percent(kind_mean),
        covered: percent(covered),
    }
}

fn show(report: &Report) -> String {
    let mut table = Table::new([
        "workflow",
        ">instances",
        ">tasks",
        ">predicted",
        ">type median",
        ">kind median",
        ">kind mean",
        ">in 80 % interval",
    ]);
    let percent = |part: Option<f64>| part.map_or("-".into(), |x| format!("{x:.1} %"));
    for row in &report.rows {
        table.row([
            row.workflow.clone(),
            row.instances.to_string(),
            row.tasks.to_string(),
            percent(row.predicted),
            percent(row.type_median),
            percent(row.kind_median),
            percent(row.kind_mean),
            percent(row.covered),
        ]);
    }
    "median absolute error of run times, every instance predicted from all others\n".to_owned()
        + &table.show()
}
