//! `mdts run DAG`: plans, shows the plan beside simple baselines, runs it and tells how it went.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::ValueEnum;
use mdts_core::journal::{Durability, Journal};
use mdts_core::runner::{Executor, RunOptions, RunReport, Runner, TaskOutcome};
use mdts_core::{Cluster, Instance, Placement};
use mdts_dag::{JobGraph, TaskId};
use mdts_local::{EmulatedExecutor, KeeperOptions, LocalExecutor, LocalOptions, log_files};
use serde::{Serialize, Serializer};

use super::dry_run;
use super::plan::above_bound;
use crate::cache::{Cache, Cached};
use crate::choice::Choice;
use crate::control::Control;
use crate::course::CourseFlags;
use crate::error::{Error, Result};
use crate::forecast::Outlook;
use crate::gantt::{self, Chart, Form};
use crate::history::{self, HistoryFlag};
use crate::input::{self, Job, Machines};
use crate::journal::{self, Kept, remedy};
use crate::life::LifeFlags;
use crate::output::{self, OutputFile};
use crate::policy::{self, Plan, Policy};
use crate::progress::{RunProgress, Watched};
use crate::search::{self, SearchFlags};
use crate::settings::{ModelFlags, OtherFlags, Settings};
use crate::signals::Signals;
use crate::text::{Table, column, count, number};
use crate::usage::{Meter, Usage};
use crate::weights::WeightsFlag;

/// What the plan is shown beside.
const BASELINES: [&str; 4] = ["eft", "fastest-node", "round-robin", "random"];
/// The folder in which the built-in example runs, made when needed.
const EXAMPLE_FOLDER: &str = ".mdts/example";
/// The folder for the output of tasks in a journal's folder.
const LOGS: &str = "logs";
/// Most failures that are listed.
const MOST_FAILURES: usize = 10;

/// Arguments of `mdts run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// Workflow file; default: a built-in example. Commands run in the folder of the file
    dag: Option<PathBuf>,
    /// Where the tasks run
    #[arg(long, value_enum, default_value_t = Place::Local)]
    on: Place,
    /// Policy, see mdts policies; after a search it plans anew what is late [default: heft]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    #[command(flatten)]
    search: SearchFlags,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    history: HistoryFlag,
    #[command(flatten)]
    weights: WeightsFlag,
    #[command(flatten)]
    course: CourseFlags,
    /// Run no commands: every task sleeps for its run time on its node times SCALE
    #[arg(long, value_name = "SCALE", allow_negative_numbers = true)]
    emulate: Option<f64>,
    /// Skip tasks whose command, environment and inputs are those of an earlier success; their outputs are kept here
    #[arg(long, value_name = "DIR", conflicts_with = "emulate")]
    cache: Option<PathBuf>,
    /// Run nothing: tell what would run, where, and why
    #[arg(long, conflicts_with_all = ["journal", "emulate", "gantt"])]
    dry_run: bool,
    /// Folder for the output of the tasks [default: one per run in .mdts/logs]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    logs: Option<PathBuf>,
    /// Record the run in this folder, so that it can be resumed; its logs go there, too
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Go on with the run that is recorded in the journal; DAG and cluster are those that it began with
    #[arg(long, requires = "journal")]
    resume: bool,
    /// What the journal survives: the death of the process, or also the loss of power [default: process]
    #[arg(long, value_name = "WHAT", value_parser = Durability::parser(), requires = "journal")]
    durability: Option<Durability>,
    #[command(flatten)]
    life: LifeFlags,
    /// Draw what really happened as .svg or .html
    #[arg(long, value_name = "FILE")]
    gantt: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Executors by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Place {
    /// Processes of this machine
    Local,
}

/// A superset of the stable keys.
#[derive(Debug, Serialize)]
struct Report<'a> {
    dag: &'a str,
    policy: &'static str,
    nodes: usize,
    slots: &'static str,
    data: &'static str,
    seed: u64,
    /// Seconds, those of the emulation if it is one.
    makespan: f64,
    planned_makespan: f64,
    lower_bound: f64,
    tasks: usize,
    succeeded: usize,
    failed: usize,
    blocked: usize,
    cancelled: usize,
    retried: usize,
    /// Attempts begun beside one that ran for too long.
    speculated: usize,
    end: &'static str,
    failures: Vec<Failure<'a>>,
    overhead_per_task_us: f64,
    /// Null where the system does not tell.
    peak_memory_mib: Option<f64>,
    /// Processor time of the last attempts of all tasks, as far as known; null if of none.
    tasks_cpu_seconds: Option<f64>,
    /// Most memory of one of them; null if it is of none known.
    tasks_peak_memory_mib: Option<f64>,
    /// Tasks that did not run because the cache had their outputs.
    cached: usize,
    /// Tasks that were done before this process went on with the run.
    done_before: usize,
    /// Folder where the run is recorded; null if it is not.
    journal: Option<Text<&'a Path>>,
}

#[derive(Debug, Serialize)]
struct Failure<'a> {
    task: &'a str,
    reason: &'a str,
    /// Where its error output is; null if it left none, as in an emulation.
    log: Option<Text<PathBuf>>,
}

/// A path that becomes text in JSON, which has none that are not UTF-8.
#[derive(Debug)]
struct Text<P>(P);

impl<P: AsRef<Path>> Serialize for Text<P> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.as_ref().to_string_lossy())
    }
}

/// All that is known before the run begins.
struct Ready {
    job: Job,
    machines: Machines,
    instance: Arc<Instance>,
    settings: Settings,
    policy: Policy,
    plan: Plan,
    /// Sleep instead of running commands, by this factor.
    emulate: Option<f64>,
    /// Where commands run.
    folder: PathBuf,
    journal: Option<PathBuf>,
    life: LifeFlags,
    course: CourseFlags,
    /// Tasks that the cache answered for.
    cached: Arc<AtomicUsize>,
}

impl Ready {
    /// Seconds of the run per second of the plan.
    fn scale(&self) -> f64 {
        self.emulate.unwrap_or(1.0)
    }
}

impl Run {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<ExitCode> {
        let meter = Meter::begin();
        let form = self.gantt.as_deref().map(Form::of).transpose()?;
        let gantt = OutputFile::create_if(self.gantt.as_deref())?;
        let (ready, journal) = self.prepare(quiet)?;
        if self.dry_run {
            return self.tell(&ready, quiet);
        }
        let silent = quiet || self.json;
        // One thread: handing little pieces of work to others costs more than the work.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| Error::System { what: "the runtime cannot start", source })?;
        let options = ready.course.options(ready.settings.seed)?;
        if options.speculation.is_some() && ready.instance.nodes() == 1 {
            tracing::warn!("--speculate: a second attempt needs a second node, and the cluster has one");
        }
        let mut executor = ready.executor()?;
        // The work does not depend on whether somebody reads what is said of it.
        let mut said = if silent { Ok(()) } else { output::print(&show_plan(&ready)?) };
        let came_of_it = runtime.block_on(drive(&ready, journal, options, &mut *executor, quiet))?;
        drop(executor);
        let report = ready.report(&came_of_it, meter.read());
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
        if came_of_it.is_success() && ready.emulate.is_none() && report.cached == 0 {
            said =
                said.and(history::learn(&ready.job, &ready.machines.cluster, &came_of_it, &ready.settings));
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
        let cache = folder.map(|folder| Cache::open(folder, &ready.folder, false)).transpose()?;
        let report = dry_run::report(&ready.job, &ready.instance, &ready.plan, cache.as_ref().zip(folder));
        if self.json {
            output::print_json(&report)?;
        } else if !quiet {
            output::print(&dry_run::show(&report))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn prepare(&self, quiet: bool) -> Result<(Ready, Option<Journal>)> {
        let own_logs = self.journal.as_ref().map(|folder| folder.join(LOGS));
        let other = OtherFlags {
            policy: self.policy.as_deref(),
            default_policy: None,
            logs: self.logs.as_deref().or(own_logs.as_deref()),
            history: self.history.path(),
            durability: self.durability,
            weights: self.weights.path(),
            cache: self.cache.as_deref(),
        };
        let settings = Settings::load(&self.model, other)?;
        match &self.journal {
            Some(folder) if self.resume => self.take_up(folder, settings, quiet),
            _ => self.begin(settings, quiet),
        }
    }

    /// A new run.
    fn begin(&self, settings: Settings, quiet: bool) -> Result<(Ready, Option<Journal>)> {
        self.journal.as_deref().map(journal::check_new).transpose()?;
        let policy = self.policy(&settings.policy, &settings);
        let policy = policy.map_err(|error| settings.blame("policy", error))?;
        let read = input::job(self.dag.as_deref())?;
        let source = read.graph.clone();
        let job = self.life.fill(history::fill_if_there(read, &settings)?)?;
        if self.emulate.is_none() {
            check_commands(&job)?;
        }
        let machines = input::machines(&settings)?;
        let instance = input::instance(&job, &machines, settings.data_model)?;
        if self.emulate.is_none() && !self.dry_run {
            history::check(&settings)?;
        }
        // A folder is made for what makes sense alone; from here on others see that a run begins there.
        let locked = self.journal.as_deref().map(journal::lock_new).transpose()?;
        let plan = self.plan(&policy, settings.seed, &instance, quiet)?;
        let folder = self.working_folder()?;
        let mut flags = self.life.notes()?;
        flags.extend(self.course.notes());
        let journal = locked.map(|locked| {
            let new = journal::New {
                job: &job,
                source: &source,
                machines: &machines,
                instance: &instance,
                settings: &settings,
                policy: policy.name(),
                folder: &folder,
                emulate: self.emulate,
                flags: &flags,
            };
            let manifest = new.manifest(locked.path())?;
            Ok::<_, Error>(locked.begin(manifest, settings.durability)?)
        });
        let journal = journal.transpose()?;
        let (emulate, kept_in) = (self.emulate, self.journal.clone());
        let ready = Ready {
            job,
            machines,
            instance,
            settings,
            policy,
            plan,
            emulate,
            folder,
            journal: kept_in,
            life: self.life.clone(),
            course: self.course.clone(),
            cached: Arc::default(),
        };
        Ok((ready, journal))
    }

    /// A run that an earlier process began.
    fn take_up(
        &self,
        folder: &Path,
        mut settings: Settings,
        quiet: bool,
    ) -> Result<(Ready, Option<Journal>)> {
        let journal = journal::resume(folder, self.durability, &mut settings)?;
        let kept = Kept::read(folder, journal.manifest())?;
        let given = self.dag.as_deref().map(|path| input::job(Some(path))).transpose()?;
        kept.check(given.as_ref().map(|job| &*job.graph), &self.model, self.emulate)?;
        let instance = kept.instance()?;
        settings.seed = kept.seed;
        settings.logs = kept.logs;
        // What the run began with holds, whatever the environment says by now.
        if self.weights.path().is_none() {
            settings.weights = kept.weights;
        }
        if self.cache.is_none() {
            settings.cache = kept.cache;
        }
        if self.history.path().is_none() {
            settings.history = kept.history;
        }
        if kept.emulate.is_none() {
            history::check(&settings)?;
        }
        let note = |name: &str| journal.manifest().note(name).map(str::to_owned);
        let (life, course) = (self.life.or_kept(note), self.course.or_kept(note));
        let policy = self.policy(self.policy.as_deref().unwrap_or(&kept.policy), &settings)?;
        let plan = self.plan(&policy, settings.seed, &instance, quiet)?;
        let Kept { job, machines, folder: working, emulate, .. } = kept;
        let kept_in = Some(folder.to_owned());
        let ready = Ready {
            job,
            machines,
            instance,
            settings,
            policy,
            plan,
            emulate,
            folder: working,
            journal: kept_in,
            life,
            course,
            cached: Arc::default(),
        };
        Ok((ready, Some(journal)))
    }

    /// The policy of this name, with other weights if there are any.
    fn policy(&self, name: &str, settings: &Settings) -> Result<Policy> {
        let info = policy::find(name)?;
        Ok(Policy::new(info, self.weights.load(&[info.name], settings)?.as_ref()))
    }

    fn plan(&self, policy: &Policy, seed: u64, instance: &Arc<Instance>, quiet: bool) -> Result<Plan> {
        match self.search.search(policy, instance) {
            Some(search) => search::plan(search, policy, seed, instance, quiet),
            None => policy::plan(policy, seed, instance),
        }
    }

    /// The folder of the workflow's file; the current one for standard input.
    fn working_folder(&self) -> Result<PathBuf> {
        match &self.dag {
            None => {
                let folder = PathBuf::from(EXAMPLE_FOLDER);
                let made = if self.dry_run { Ok(()) } else { std::fs::create_dir_all(&folder) };
                made.map_err(|source| Error::Output { path: folder.clone(), source })?;
                Ok(folder)
            }
            Some(path) => match path.parent() {
                Some(folder) if folder != Path::new("") => Ok(folder.into()),
                _ => Ok(".".into()),
            },
        }
    }
}

fn check_commands(job: &Job) -> Result<()> {
    match LocalExecutor::check(&job.graph) {
        Err(mdts_core::Error::Executor(message)) => Err(Error::Usage(format!("{}: {message}", job.label))),
        _ => Ok(()),
    }
}

/// What runs the tasks in `folder`; with a journal they outlive this process.
pub(super) fn executor(
    emulate: Option<f64>,
    life: &LifeFlags,
    logs: &Path,
    folder: &Path,
    cluster: &Arc<Cluster>,
    journal: Option<&Path>,
) -> Result<Box<dyn Executor>> {
    if let Some(scale) = emulate {
        return Ok(Box::new(EmulatedExecutor::new(scale)?));
    }
    let mut options = LocalOptions::new(logs, folder);
    life.set(&mut options);
    options.keeper = journal.map(keeper).transpose()?;
    let executor = LocalExecutor::new(options, cluster.clone());
    Ok(Box::new(executor.map_err(|error| match error {
        mdts_core::Error::Io { path, source } if path == folder => Error::Usage(format!(
            "{}: the tasks run in this folder, and it cannot be used: {source}; bring it back, or begin a new run",
            path.display()
        )),
        mdts_core::Error::Io { path, source } => Error::Output { path, source },
        other => other.into(),
    })?))
}

/// Tasks of a run that can be resumed belong to a process of their own: this program as `mdts keep`.
fn keeper(folder: &Path) -> Result<KeeperOptions> {
    let program = std::env::current_exe()
        .map_err(|source| Error::System { what: "the program cannot find itself", source })?;
    Ok(KeeperOptions { folder: folder.to_owned(), command: vec![program.into(), "keep".into()] })
}

/// Runs the job; Ctrl-C stops starting tasks, and cancels them the second time.
async fn drive(
    ready: &Ready,
    journal: Option<Journal>,
    options: RunOptions,
    executor: &mut dyn Executor,
    quiet: bool,
) -> Result<RunReport> {
    let seed = ready.settings.seed;
    let placer = match ready.plan.search {
        Some(_) => search::base(&ready.policy)?.placer_with_plan(ready.plan.schedule.clone(), seed),
        None => ready.policy.placer(seed),
    };
    let outlook = Outlook::new(&ready.plan.schedule, ready.instance.tasks(), ready.scale());
    let watched = Watched { instance: ready.instance.clone(), outlook };
    let mut progress = RunProgress::new(watched, quiet);
    let mut runner = Runner::new(ready.job.graph.clone(), ready.instance.clone(), placer)
        .options(options)
        .on_progress(move |moment| progress.show(moment));
    if let Some(journal) = journal {
        runner = runner.journal(journal);
    }
    let control = ready.journal.as_deref().map(|folder| Control::listen(folder, runner.stopper()));
    if let Some(Err(error)) = &control {
        tracing::warn!("mdts cancel cannot reach this run: {error}");
    }
    let watcher = tokio::spawn(Signals::listen()?.obey(runner.stopper()));
    let came_of_it = runner.run(executor).await;
    watcher.abort();
    drop(control);
    Ok(came_of_it?)
}

impl Ready {
    /// What runs the tasks, behind the cache if there is one.
    fn executor(&self) -> Result<Box<dyn Executor>> {
        let (life, logs, cluster) = (&self.life, &self.settings.logs, &self.machines.cluster);
        let executor = executor(self.emulate, life, logs, &self.folder, cluster, self.journal.as_deref())?;
        match &self.settings.cache {
            Some(folder) if self.emulate.is_none() => {
                let cache = Cache::open(folder, &self.folder, true);
                let cache = cache.map_err(|error| self.settings.blame("cache", error))?;
                Ok(Box::new(Cached::new(executor, cache, self.cached.clone())))
            }
            _ => Ok(executor),
        }
    }

    fn report<'a>(&'a self, run: &'a RunReport, usage: Usage) -> Report<'a> {
        let graph = &self.job.graph;
        let failures = run.failures().map(|(task, reason)| Failure {
            task: &graph.task(task).name,
            reason,
            log: self
                .emulate
                .is_none()
                .then(|| self.log(graph, run, task))
                .filter(|log| log.exists())
                .map(Text),
        });
        let used = || run.tasks.iter().filter_map(|task| task.usage);
        let most = used().map(|usage| usage.peak_memory).max();
        Report {
            tasks_cpu_seconds: most.map(|_| used().map(|usage| usage.cpu_seconds).sum()),
            tasks_peak_memory_mib: most.map(|bytes| bytes as f64 / f64::from(1 << 20)),
            dag: graph.name(),
            policy: self.plan.policy,
            nodes: self.instance.nodes(),
            slots: self.instance.slots().word(),
            data: self.instance.data().word(),
            seed: self.settings.seed,
            makespan: run.makespan,
            planned_makespan: self.plan.objectives.makespan * self.scale(),
            lower_bound: self.plan.lower_bound() * self.scale(),
            tasks: run.tasks.len(),
            succeeded: run.succeeded(),
            failed: run.failed(),
            blocked: run.blocked(),
            cancelled: run.cancelled(),
            retried: run.retried(),
            speculated: run.speculated,
            end: run.end.word(),
            failures: failures.collect(),
            overhead_per_task_us: usage.cpu_seconds * 1e6 / run.tasks.len() as f64,
            peak_memory_mib: usage.peak_memory_mib,
            cached: self.cached.load(Ordering::Relaxed),
            done_before: run.done_before,
            journal: self.journal.as_deref().map(Text),
        }
    }

    fn log(&self, graph: &JobGraph, run: &RunReport, task: TaskId) -> PathBuf {
        log_files(&self.settings.logs, graph, task, run.tasks[task.index()].attempts).err
    }

    fn chart(&self, run: &RunReport, report: &Report<'_>) -> Chart {
        let title = format!("{} run under {}", report.dag, report.policy);
        let subtitle = format!(
            "{} of {} succeeded; makespan {} s, planned {} s, lower bound {} s",
            report.succeeded,
            count(report.tasks, "task"),
            number(report.makespan),
            number(report.planned_makespan),
            number(report.lower_bound)
        );
        let attempts = run.tasks.iter().enumerate().filter_map(|(i, task)| {
            let node = task.node?;
            let failed = task.outcome != TaskOutcome::Succeeded;
            Some((Placement { task: TaskId::new(i), node, start: task.start, finish: task.finish }, failed))
        });
        let mut chart = Chart::new(&self.instance, title, subtitle, report.lower_bound);
        chart.add(&self.instance, attempts);
        chart
    }
}

/// The plan against the lower bound and simple policies.
fn show_plan(ready: &Ready) -> Result<String> {
    let graph = &ready.job.graph;
    let (name, makespan) = (ready.plan.policy, ready.plan.objectives.makespan);
    let mut text = format!(
        "{}: {}, {}; {}: {}, {} slots\n",
        graph.name(),
        count(graph.len(), "task"),
        count(graph.dependency_count(), "edge"),
        ready.machines.label,
        count(ready.instance.nodes(), "node"),
        ready.instance.slots().word()
    );
    _ = writeln!(
        text,
        "  planned by {name} in {:.3} ms: {} s, verified",
        ready.plan.seconds * 1e3,
        number(makespan)
    );
    if let Some(trace) = ready.plan.search {
        _ = writeln!(text, "  {}", trace.told(makespan));
    }
    _ = writeln!(
        text,
        "  lower bound {}\n",
        above_bound(makespan, ready.plan.lower_bound(), ready.plan.is_optimal())
    );
    let mut rows = vec![(name, makespan, ready.plan.objectives.slr)];
    for name in BASELINES.into_iter().filter(|known| *known != name) {
        let plan =
            policy::plan(&Policy::new(policy::find(name)?, None), ready.settings.seed, &ready.instance)?;
        rows.push((name, plan.objectives.makespan, plan.objectives.slr));
    }
    let numbers = |value: fn(&(&str, f64, f64)) -> f64| column(&rows.iter().map(value).collect::<Vec<_>>());
    let (makespans, slrs) = (numbers(|r| r.1), numbers(|r| r.2));
    let mut table = Table::new(["  plan by", ">makespan s", ">vs this plan", ">SLR"]);
    for (i, row) in rows.iter().enumerate() {
        let above = if makespan > 0.0 { (row.1 / makespan - 1.0) * 100.0 } else { 0.0 };
        let against = if i == 0 { String::new() } else { format!("{above:+.1} %") };
        table.row([format!("  {}", row.0), makespans[i].clone(), against, slrs[i].clone()]);
    }
    Ok(text + &table.show() + "\n")
}

fn show_report(report: &Report<'_>, scale: f64) -> String {
    let mut text = String::new();
    let mut line = |what: &str, value: String| _ = writeln!(text, "  {what:<12}{value}");
    let emulated =
        if scale == 1.0 { String::new() } else { format!(" (the plan's seconds times {})", number(scale)) };
    line(
        "makespan",
        format!(
            "{} s; planned {} s, lower bound {} s{emulated}",
            number(report.makespan),
            number(report.planned_makespan),
            number(report.lower_bound)
        ),
    );
    if report.makespan < report.lower_bound && report.succeeded == report.tasks && report.cached == 0 {
        line("", "faster than the lower bound: the tasks took less than their stated work".into());
    }
    let mut counts = format!("{} of {} succeeded", report.succeeded, report.tasks);
    let others = [
        (report.failed, "failed"),
        (report.blocked, "blocked behind them"),
        (report.cancelled, "cancelled"),
        (report.retried, "attempts repeated"),
        (report.speculated, "second attempts"),
        (report.cached, "from the cache"),
    ];
    for (n, what) in others.into_iter().filter(|(n, _)| *n > 0) {
        _ = write!(counts, ", {n} {what}");
    }
    if report.done_before > 0 {
        _ = write!(counts, "; {} before this process went on", report.done_before);
    }
    line("tasks", counts);
    if let Some(Text(folder)) = report.journal.as_ref().filter(|_| report.cancelled > 0) {
        line("", remedy(folder));
    }
    line(
        "overhead",
        format!(
            "{} us of processor time per task{}",
            number(report.overhead_per_task_us.round()),
            report
                .peak_memory_mib
                .map_or(String::new(), |m| format!(", {} MiB of memory at most", number(m.round())))
        ),
    );
    if let (Some(cpu), Some(most)) = (report.tasks_cpu_seconds, report.tasks_peak_memory_mib) {
        line(
            "used",
            format!("{} s of processor time by tasks, {most:.1} MiB of memory by one at most", number(cpu)),
        );
    }
    text + &show_failures(report)
}

/// The first tasks that failed for good, with reason and log.
fn show_failures(report: &Report<'_>) -> String {
    let mut text = String::new();
    for failure in report.failures.iter().take(MOST_FAILURES) {
        let log = failure.log.as_ref().map_or(String::new(), |log| format!("; see {}", log.0.display()));
        let task = failure.task.replace(char::is_control, " "); // it is from a file
        _ = writeln!(text, "  failed      {task}: {}{log}", failure.reason);
    }
    if report.failures.len() > MOST_FAILURES {
        _ = writeln!(text, "  and {} more", report.failures.len() - MOST_FAILURES);
    }
    text
}
