//! All that is known before the run begins: from the flags and files of a new run, or from the journal of an earlier one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use mdts_core::journal::{Folder, Journal};
use mdts_core::runner::Executor;
use mdts_core::{Cluster, Error as CoreError, Instance};
use mdts_dag::JobGraph;
use mdts_local::{EmulatedExecutor, KeeperOptions, LocalExecutor, LocalOptions};
use mdts_policies::mdts::Experience;
use mdts_slurm::SlurmHandle;

use super::command::{Place, Run};
use crate::cache::{Cache, Cached};
use crate::course::CourseFlags;
use crate::error::{Error, Result};
use crate::history;
use crate::input::{self, Job, Machines};
use crate::interrupt::Interrupts;
use crate::journal::{self, Kept};
use crate::life::LifeFlags;
use crate::on_slurm::{self, OnSlurm};
use crate::output;
use crate::policy::{self, Plan, Policy};
use crate::search;
use crate::settings::{OtherFlags, Settings};

/// The folder in which the built-in example runs, made when needed.
const EXAMPLE_FOLDER: &str = ".mdts/example";
/// The folder for the output of tasks in a journal's folder.
const LOGS: &str = "logs";

/// What is said when Ctrl-C was pressed during the search.
const SAID: &str = "interrupted: the search ends, and the run begins with the best plan so far; press Ctrl-C again to stop it";

/// What is to be run, and how.
pub(super) struct Work {
    pub(super) job: Job,
    pub(super) machines: Machines,
    pub(super) instance: Arc<Instance>,
    /// Sleep instead of running commands, by this factor.
    pub(super) emulate: Option<f64>,
    /// Where commands run.
    pub(super) folder: PathBuf,
    pub(super) life: LifeFlags,
    pub(super) course: CourseFlags,
    /// What there is to know of Slurm, if the tasks run through it.
    pub(super) slurm: Option<OnSlurm>,
}

/// The work with its plan.
pub(super) struct Ready {
    pub(super) work: Work,
    pub(super) settings: Settings,
    pub(super) policy: Policy,
    pub(super) plan: Plan,
    pub(super) journal: Option<PathBuf>,
    /// Watches for Ctrl-C from the search on until the run listens itself.
    pub(super) interrupts: Option<Interrupts>,
    /// Tasks that the cache answered for.
    pub(super) cached: Arc<AtomicUsize>,
}

impl Ready {
    /// Seconds of the run per second of the plan.
    pub(super) fn scale(&self) -> f64 {
        self.work.emulate.unwrap_or(1.0)
    }

    /// What earlier runs have taught of the nodes, for a policy that can use it. Tasks that sleep know no nodes.
    pub(super) fn experience(&self) -> Result<Experience> {
        match self.work.emulate {
            None if self.policy.has_experience() => {
                history::experience(&self.work.machines.cluster, &self.settings)
            }
            _ => Ok(Experience::default()),
        }
    }

    /// What runs the tasks, behind the cache if there is one.
    ///
    /// # Errors
    /// Those of [`executor`], and of the cache.
    pub(super) fn executor(&self) -> Result<(Box<dyn Executor>, Option<SlurmHandle>)> {
        let Work { machines, emulate, folder, life, slurm, .. } = &self.work;
        let (logs, journal) = (&self.settings.logs, self.journal.as_deref());
        let (executor, handle): (Box<dyn Executor>, _) = match slurm {
            Some(slurm) => {
                let (executor, handle) = slurm.executor(logs, folder, &machines.cluster, journal)?;
                (Box::new(executor), Some(handle))
            }
            None => (executor(*emulate, life, logs, folder, &machines.cluster, journal)?, None),
        };
        match &self.settings.cache {
            Some(kept) if emulate.is_none() => {
                let cache = Cache::open(kept, folder, true);
                let cache = cache.map_err(|error| self.settings.blame("cache", error))?;
                Ok((Box::new(Cached::new(executor, cache, self.cached.clone())), handle))
            }
            _ => Ok((executor, handle)),
        }
    }

    /// Whether Slurm gets all tasks at once.
    pub(super) fn submits_graph(&self, detaches: bool) -> bool {
        let graph = &self.work.job.graph;
        let are_times_known = graph.tasks().all(|task| task.work != mdts_dag::Work::Unknown);
        self.settings.cache.is_none()
            && self
                .work
                .slurm
                .as_ref()
                .is_some_and(|slurm| slurm.submits_graph(graph.len(), are_times_known, detaches))
    }

    /// Begins the journal of a new run in a locked folder; `source` is the workflow as it was read.
    fn record(&self, locked: Folder, source: &JobGraph) -> Result<Journal> {
        let Work { job, machines, instance, emulate, folder, life, course, slurm } = &self.work;
        let mut flags = life.notes()?;
        flags.extend(course.notes());
        flags.extend(slurm.as_ref().map(OnSlurm::note).transpose()?);
        let new = journal::New {
            job,
            source,
            machines,
            instance,
            settings: &self.settings,
            policy: self.policy.name(),
            folder,
            emulate: *emulate,
            flags: &flags,
        };
        let manifest = new.manifest(locked.path())?;
        Ok(locked.begin(manifest, self.settings.durability)?)
    }

    /// After an error of the run: what becomes of the tasks that run.
    pub(super) fn tell_of_the_rest(&self, error: &Error, executor: &dyn Executor) {
        let is_left = matches!(error, Error::Core(CoreError::NotRecorded { .. } | CoreError::Executor(_)));
        if let Some(folder) = self.journal.as_deref().filter(|_| is_left && executor.survives()) {
            let folder = folder.display();
            output::complain(&format!(
                "tasks that run go on; --resume finds them again, and mdts cancel --journal {folder} ends them\n"
            ));
        }
    }
}

impl Run {
    /// What is to be run, and the journal that records it.
    pub(super) fn prepare(&self, quiet: bool) -> Result<(Ready, Option<Journal>)> {
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
        self.check_place()?;
        self.journal.as_deref().map(journal::check_new).transpose()?;
        let policy = self.policy(&settings.policy, &settings);
        let policy = policy.map_err(|error| settings.blame("policy", error))?;
        let read = input::job(self.dag.as_deref())?;
        let source = read.graph.clone();
        let job = self.life.fill(history::fill_if_there(read, &settings)?)?;
        if self.emulate.is_none() {
            check_commands(&job)?;
        }
        let (machines, slurm) = match self.on {
            Place::Local => (input::machines(&settings)?, None),
            Place::Slurm => {
                let (machines, slurm) = on_slurm::machines(&settings, &self.slurm)?;
                (machines, Some(slurm))
            }
        };
        let instance = input::instance(&job, &machines, settings.data_model)?;
        if self.emulate.is_none() && !self.dry_run {
            history::check(&settings)?;
        }
        // A folder is made for what makes sense alone; from here on others see that a run begins there.
        let locked = self.journal.as_deref().map(journal::lock_new).transpose()?;
        let (emulate, folder) = (self.emulate, self.working_folder()?);
        let (life, course) = (self.life.clone(), self.course.clone());
        let work = Work { job, machines, instance, emulate, folder, life, course, slurm };
        let ready = self.ready(work, settings, policy, quiet)?;
        let journal = locked.map(|locked| ready.record(locked, &source)).transpose()?;
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
        let Kept { job, machines, folder, emulate, slurm, .. } = kept;
        let slurm = slurm.map(|slurm| slurm.with(&self.slurm)).transpose()?;
        let work = Work { job, machines, instance, emulate, folder, life, course, slurm };
        Ok((self.ready(work, settings, policy, quiet)?, Some(journal)))
    }

    /// Plans the work.
    fn ready(&self, work: Work, settings: Settings, policy: Policy, quiet: bool) -> Result<Ready> {
        let interrupts = self.search.are_given().then(|| Interrupts::watch(SAID)).transpose()?;
        let plan = match self.search.search(&policy, &work.instance) {
            Some(search) => {
                search::plan(search, &policy, settings.seed, &work.instance, quiet, interrupts.as_ref())?
            }
            None => policy::plan(&policy, settings.seed, &work.instance)?,
        };
        let (journal, cached) = (self.journal.clone(), Arc::default());
        Ok(Ready { work, settings, policy, plan, journal, interrupts, cached })
    }

    /// The policy of this name, with other weights if there are any.
    fn policy(&self, name: &str, settings: &Settings) -> Result<Policy> {
        let info = policy::find(name)?;
        Ok(Policy::new(info, self.weights.load(&[info.name], settings)?.as_ref()))
    }

    /// Sees to it that the flags are of the place where the tasks run.
    fn check_place(&self) -> Result<()> {
        let wrong = match self.on {
            Place::Local if self.slurm.is_given() || self.detach => {
                "--partition, --mode, --placement, --no-arrays, --throttle, --pack, --pack-seconds, --rest, --sbatch, --patience, --outage and --detach are for --on slurm"
            }
            Place::Slurm if self.emulate.is_some() => "--emulate runs nothing; leave it or --on slurm out",
            Place::Slurm if self.life.is_local() => {
                "--output-limit, --no-limits, --cgroup, --max-processes and --pin are for --on local; Slurm has its own limits"
            }
            Place::Slurm if self.detach && self.journal.is_none() => {
                "--detach needs --journal DIR, from which mdts run --resume collects what became of the run"
            }
            _ => return Ok(()),
        };
        Err(Error::Usage(wrong.to_owned()))
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
pub(in crate::commands) fn executor(
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
