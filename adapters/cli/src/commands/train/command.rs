//! The arguments, and what a training begins with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Config, File, FileFormat};
use mdts_core::{Cluster, Instance, SlotModel};
use mdts_dag::{DataModel, FlatGraph};
use mdts_policies::mdts::training::{State, TrainConfig, Trainer};

use super::files::Files;
use super::session::Session;
use super::show::{self, Progress};
use crate::error::{Error, Result, one_line};
use crate::input;
use crate::output;
use crate::settings;

/// Where weights go if nothing else is said.
const OUT: &str = "mdts.safetensors";

const HELP: &str = "\
Learns from plans and simulated runs of random jobs on random clusters: first rounds in which a search is imitated,
then rounds of lessons from plans, then generations of runs. Every few of them the weights are measured: plans
beside HEFT's, runs with noise, hidden affinity and failures beside those of online EFT. OUT holds the best weights
measured so far, OUT.state all that is needed to resume. Ctrl-C ends after the round.

Settings in the configuration: seed, imitation, search, rounds, generations, pairs, shift, stride, trials, jobs,
updates, batch, memory, rate, nodes, measure, runs, share, ridge.

Examples:
  mdts train weights.safetensors --curve curve.csv --plot curve.svg
  mdts train weights.safetensors --resume     # after Ctrl-C or a crash; the outcome is the same
  mdts train weights.safetensors --jobs traces/*.json --rounds 300
  mdts plan workflow.json --policy mdts-raw --weights weights.safetensors";

/// Arguments of `mdts train`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Train {
    /// File for the weights [default: mdts.safetensors]
    #[arg(value_name = "OUT")]
    positional: Option<PathBuf>,
    /// The same as a flag
    #[arg(short, long, value_name = "OUT", conflicts_with = "positional")]
    out: Option<PathBuf>,
    /// Rounds in which the plans of a search are imitated [default: 80]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    imitation: Option<u64>,
    /// Rounds of lessons from plans after that [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rounds: Option<u64>,
    /// Generations after that, in which runs are learnt [default: 300]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    generations: Option<u64>,
    /// Seed of all that is random [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Configuration in TOML; flags come before it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Workflows to learn from beside generated ones: half of all jobs
    #[arg(long, value_name = "FILE", num_args = 1..)]
    jobs: Vec<PathBuf>,
    /// Threads; the weights do not depend on them [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// Measure and save every so many rounds [default: 20]
    #[arg(long, value_name = "ROUNDS", value_parser = clap::value_parser!(u64).range(1..))]
    measure: Option<u64>,
    /// Write the measured rounds as CSV
    #[arg(long, value_name = "FILE")]
    curve: Option<PathBuf>,
    /// Draw them as .svg or .html
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Continue the training of OUT.state; if it is not there, begin one. OUT is replaced by better weights only
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Begin anew though OUT is there. It is still replaced by better weights only
    #[arg(long)]
    force: bool,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

impl Train {
    pub(in crate::commands) fn carry_out(&self, quiet: bool) -> Result<()> {
        let out = self.positional.as_deref().or(self.out.as_deref()).unwrap_or(Path::new(OUT));
        let files = Files::create(out, self.curve.as_deref(), self.plot.as_deref())?;
        let state = self.state(&files)?;
        let config = self.config(state.as_ref())?;
        config.check().map_err(Error::learning)?;
        let graphs = self.graphs()?;
        let threads = self.threads.map_or_else(
            || std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            usize::from,
        );
        let progress = Progress::new(config.steps(), quiet);
        let trainer = match &state {
            None => Trainer::new(config, graphs).map_err(Error::learning)?,
            Some(state) => {
                let mut observe = |done, of| progress.refill(done, of);
                let trainer = Trainer::resume(config, graphs, state, threads, &mut observe);
                trainer.map_err(|e| {
                    let path = files.state().display();
                    Error::Usage(format!(
                        "{path}: {e}; resume with the same settings and --jobs, or begin anew with --force"
                    ))
                })?
            }
        };
        let report = Session::new(trainer, files, progress, threads)?.run(threads)?;
        match (self.json, quiet) {
            (true, _) => output::print_json(&report),
            (false, true) => Ok(()),
            (false, false) => output::print(&show::told(&report)),
        }
    }

    /// The state to resume from.
    fn state(&self, files: &Files) -> Result<Option<State>> {
        if self.resume {
            if files.state().exists() {
                return State::read(files.state()).map(Some).map_err(Error::reading);
            }
            tracing::warn!(
                "{} is not there: the training begins at its first round",
                files.state().display()
            );
        } else if !self.force
            && let Some(found) = [files.out(), files.state()].into_iter().find(|path| path.exists())
        {
            return Err(Error::Usage(format!(
                "{}: is there already; continue its training with --resume, begin another with --force (better weights \
                 only replace it), or name another file",
                found.display()
            )));
        }
        Ok(None)
    }

    fn config(&self, state: Option<&State>) -> Result<TrainConfig> {
        let mut config = match (&self.config, state) {
            (Some(path), _) => read_config(path)?,
            (None, Some(state)) => state.config().clone(),
            (None, None) => default_config()?,
        };
        config.imitation = self.imitation.unwrap_or(config.imitation);
        config.rounds = self.rounds.unwrap_or(config.rounds);
        config.generations = self.generations.unwrap_or(config.generations);
        config.seed = self.seed.unwrap_or(config.seed);
        config.measure = self.measure.unwrap_or(config.measure);
        Ok(config)
    }

    /// The workflows, by path, as shells differ in how they sort; each must fit on the nodes that training makes.
    fn graphs(&self) -> Result<Vec<Arc<FlatGraph>>> {
        let cluster = Arc::new(Cluster::identical(2, SlotModel::Exclusive)?);
        let read = |path: &PathBuf| {
            let job = input::job(Some(path))?;
            let graph = Arc::new(job.graph.freeze());
            Instance::new(graph.clone(), cluster.clone(), DataModel::Edges).map_err(|error| {
                let remedy = "jobs to learn from must run on nodes of one core; leave this one out";
                Error::Usage(format!("{}: {error}; {remedy}", job.label))
            })?;
            Ok(graph)
        };
        let mut paths: Vec<&PathBuf> = self.jobs.iter().collect();
        paths.sort_unstable();
        paths.into_iter().map(read).collect()
    }
}

/// The defaults, with the seed of the settings if they have one.
fn default_config() -> Result<TrainConfig> {
    let config = TrainConfig::default();
    let seed = settings::given_seed()?.unwrap_or(config.seed);
    Ok(TrainConfig { seed, ..config })
}

fn read_config(path: &Path) -> Result<TrainConfig> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Input { path: path.into(), source })?;
    let source = File::from_str(&text, FileFormat::Toml);
    let builder = Config::builder().set_default("seed", default_config()?.seed);
    let config =
        builder.and_then(|builder| builder.add_source(source).build()).and_then(Config::try_deserialize);
    config.map_err(|error| {
        let message = one_line(&error.to_string());
        Error::Usage(format!("{}: {message}; mdts train --help lists the settings", path.display()))
    })
}
