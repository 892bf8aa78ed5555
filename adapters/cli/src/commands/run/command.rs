//! The flags of `mdts run`, and what it does from the first to the last word.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use mdts_core::journal::{Durability, Journal};
use mdts_core::runner::{Executor, RunOptions, RunReport, Runner};
use mdts_core::{NodeId, Placer};
use mdts_slurm::SlurmHandle;

use super::ready::Ready;
use super::report::{show_failures, show_plan, show_report};
use super::through_slurm::{AsSubmitted, say_detached, submit_graph, tidy};
use crate::cache::Cache;
use crate::choice::Choice;
use crate::commands::dry_run;
use crate::control::Control;
use crate::course::CourseFlags;
use crate::error::{Error, Result};
use crate::forecast::Outlook;
use crate::gantt::{self, Form};
use crate::history::{self, HistoryFlag};
use crate::interrupt::Interrupts;
use crate::life::LifeFlags;
use crate::on_slurm::SlurmFlags;
use crate::output::{self, OutputFile};
use crate::progress::{RunProgress, Watched};
use crate::search::{self, SearchFlags};
use crate::settings::ModelFlags;
use crate::signals::Signals;
use crate::usage::Meter;
use crate::weights::WeightsFlag;

/// Arguments of `mdts run`.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools)] // flags
#[command(after_help = search::HELP)]
pub(crate) struct Run {
    /// Workflow file; default: a built-in example. Commands run in the folder of the file
    pub(super) dag: Option<PathBuf>,
    /// Where the tasks run
    #[arg(long, value_enum, default_value_t = Place::Local)]
    pub(super) on: Place,
    /// Policy, see mdts policies; after a search it plans anew what is late [default: heft]
    #[arg(long, value_name = "NAME")]
    pub(super) policy: Option<String>,
    #[command(flatten)]
    pub(super) search: SearchFlags,
    #[command(flatten)]
    pub(super) model: ModelFlags,
    #[command(flatten)]
    pub(super) history: HistoryFlag,
    #[command(flatten)]
    pub(super) weights: WeightsFlag,
    #[command(flatten)]
    pub(super) course: CourseFlags,
    #[command(flatten)]
    pub(super) slurm: SlurmFlags,
    /// Submit the whole graph and leave; mdts run --resume tells later what became of it
    #[arg(long)]
    pub(super) detach: bool,
    /// Run no commands: every task sleeps for its run time on its node times SCALE
    #[arg(long, value_name = "SCALE", allow_negative_numbers = true)]
    pub(super) emulate: Option<f64>,
    /// Skip tasks whose command, environment and inputs are those of an earlier success; their outputs are kept here
    #[arg(long, value_name = "DIR", conflicts_with = "emulate")]
    pub(super) cache: Option<PathBuf>,
    /// Run nothing: tell what would run, where, and why
    #[arg(long, conflicts_with_all = ["journal", "emulate", "gantt"])]
    pub(super) dry_run: bool,
    /// Folder for the output of the tasks [default: one per run in .mdts/logs]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(super) logs: Option<PathBuf>,
    /// Record the run in this folder, so that it can be resumed; its logs go there, too
    #[arg(long, value_name = "DIR")]
    pub(super) journal: Option<PathBuf>,
    /// Go on with the run that is recorded in the journal; DAG and cluster are those that it began with
    #[arg(long, requires = "journal")]
    pub(super) resume: bool,
    /// What the journal survives: the death of the process, or also the loss of power [default: process]
    #[arg(long, value_name = "WHAT", value_parser = Durability::parser(), requires = "journal")]
    pub(super) durability: Option<Durability>,
    #[command(flatten)]
    pub(super) life: LifeFlags,
    /// Draw what really happened as .svg or .html
    #[arg(long, value_name = "FILE")]
    pub(super) gantt: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Executors by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Place {
    /// Processes of this machine
    Local,
    /// Jobs of Slurm
    Slurm,
}

impl Run {
    pub(in crate::commands) fn carry_out(&self, quiet: bool) -> Result<ExitCode> {
        let meter = Meter::begin();
        let form = self.gantt.as_deref().map(Form::of).transpose()?;
        let gantt = OutputFile::create_if(self.gantt.as_deref())?;
        let (mut ready, journal) = self.prepare(quiet)?;
        if self.dry_run {
            return self.tell(&ready, quiet);
        }
        let silent = quiet || self.json;
        // One thread: handing little pieces of work to others costs more than the work.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| Error::System { what: "the runtime cannot start", source })?;
        let options = ready.work.course.options(ready.settings.seed)?;
        if options.speculation.is_some() && ready.work.instance.nodes() == 1 {
            tracing::warn!("--speculate: a second attempt needs a second node, and the cluster has one");
        }
        let inside = runtime.enter(); // an executor may begin to work at once
        let (mut executor, slurm) = ready.executor()?;
        drop(inside);
        let mut submitted = None;
        if let Some(slurm) = slurm.as_ref().filter(|_| ready.submits_graph(self.detach)) {
            submitted = Some(runtime.block_on(submit_graph(&ready, slurm))?);
            if self.detach {
                return say_detached(&ready, slurm, silent);
            }
        }
        // The work does not depend on whether somebody reads what is said of it.
        let mut said = if silent { Ok(()) } else { output::print(&show_plan(&ready)?) };
        let interrupts = ready.interrupts.take();
        let run = async {
            let came_of_it =
                drive(&ready, journal, options, &mut *executor, submitted, interrupts, quiet).await?;
            if let Some(slurm) = &slurm {
                tidy(slurm, &came_of_it).await;
            }
            Ok(came_of_it)
        };
        let came_of_it = runtime.block_on(run);
        let came_of_it = came_of_it.inspect_err(|error| ready.tell_of_the_rest(error, &*executor))?;
        drop(executor);
        let mut report = ready.report(&came_of_it, meter.read());
        report.slurm = slurm.as_ref().map(SlurmHandle::summary);
        if self.json {
            said = said.and(output::print_json(&report));
        } else if quiet {
            output::complain(&show_failures(&report));
        } else {
            said = said.and(output::print(&show_report(&report, ready.scale())));
        }
        if let (Some(file), Some(form)) = (gantt, form) {
            let drawn = file.write(&gantt::draw(&ready.chart(&came_of_it, &report), form));
            let wrote = format!("wrote {}\n", self.gantt.as_deref().unwrap_or(Path::new("")).display());
            said = said.and(drawn).and_then(|()| if silent { Ok(()) } else { output::print(&wrote) });
        }
        // Tasks that did not run would teach that they take no time.
        if came_of_it.is_success() && ready.work.emulate.is_none() && report.cached == 0 {
            said = said.and(history::learn(
                &ready.work.job,
                &ready.work.machines.cluster,
                &came_of_it,
                &ready.settings,
            ));
        }
        match said {
            // Whatever it was: by now it is no longer bad input.
            Err(error) if !error.is_broken_pipe() => {
                output::complain_of(&error);
                Ok(ExitCode::FAILURE)
            }
            _ if came_of_it.is_success() => Ok(ExitCode::SUCCESS),
            _ => Ok(ExitCode::FAILURE),
        }
    }

    /// What would run.
    fn tell(&self, ready: &Ready, quiet: bool) -> Result<ExitCode> {
        let folder = ready.settings.cache.as_deref();
        let cache = folder.map(|folder| Cache::open(folder, &ready.work.folder, false)).transpose()?;
        let (job, instance) = (&ready.work.job, &ready.work.instance);
        let report = dry_run::report(job, instance, &ready.plan, cache.as_ref().zip(folder));
        if self.json {
            output::print_json(&report)?;
        } else if !quiet {
            output::print(&dry_run::show(&report))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs the job; Ctrl-C stops starting tasks, and cancels them the second time.
async fn drive(
    ready: &Ready,
    journal: Option<Journal>,
    options: RunOptions,
    executor: &mut dyn Executor,
    submitted: Option<Vec<Option<NodeId>>>,
    interrupts: Option<Interrupts>,
    quiet: bool,
) -> Result<RunReport> {
    let seed = ready.settings.seed;
    let placer: Box<dyn Placer> = match (submitted, ready.plan.search) {
        (Some(nodes), _) => Box::new(AsSubmitted::new(nodes)),
        (None, Some(_)) => search::base(&ready.policy)?.placer_with_plan(ready.plan.schedule.clone(), seed),
        (None, None) => ready.policy.placer_of_run(seed, ready.experience()?, ready.scale()),
    };
    let outlook = Outlook::new(&ready.plan.schedule, ready.work.instance.tasks(), ready.scale());
    let watched = Watched { instance: ready.work.instance.clone(), outlook };
    let mut progress = RunProgress::new(watched, quiet);
    let mut runner = Runner::new(ready.work.job.graph.clone(), ready.work.instance.clone(), placer)
        .options(options)
        .on_progress(move |moment| progress.show(moment));
    if let Some(journal) = journal {
        runner = runner.journal(journal);
    }
    let control = ready.journal.as_deref().map(|folder| Control::listen(folder, runner.stopper()));
    if let Some(Err(error)) = &control {
        tracing::warn!("mdts cancel cannot reach this run: {error}");
    }
    let signals = Signals::listen()?;
    drop(interrupts); // only now, so that none is lost
    let watcher = tokio::spawn(signals.obey(runner.stopper()));
    let came_of_it = runner.run(executor).await;
    watcher.abort();
    drop(control);
    Ok(came_of_it?)
}
