//! Runs through Slurm: their flags, what a journal keeps of them, and what they need beside an executor.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use mdts_core::{Capacity, Cluster};
use mdts_dag::units::parse_seconds;
use mdts_slurm::{
    Commands, CommandsOptions, Discovered, Packing, Placement, Rest, RestAddress, RestOptions, Slurm,
    SlurmExecutor, SlurmHandle, SlurmOptions, discover,
};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::input::Machines;
use crate::journal::Note;
use crate::settings::Settings;

/// The folder of a run in that of its journal.
const FOLDER: &str = "slurm";
/// The folder for those of runs without a journal.
const FOLDERS: &str = ".mdts/slurm";

/// The note of a run through Slurm in its journal.
pub(crate) const NOTE: &str = "slurm";

/// The flags.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "With --on slurm")]
pub(crate) struct SlurmFlags {
    /// Partition [default: Slurm's own]
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Submit the whole graph at once, or tasks when they are ready [default: auto: the graph with --detach alone]
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<Mode>,
    /// How binding the planned nodes are: hard, soft (any other if it is not free soon), or none: Slurm chooses [default: hard]
    #[arg(long, value_enum, value_name = "HOW")]
    placement: Option<How>,
    /// One submission per job, no arrays
    #[arg(long)]
    no_arrays: bool,
    /// Elements of an array that run at a time at most [default: any number]
    #[arg(long, value_name = "N")]
    throttle: Option<NonZeroU32>,
    /// Run so many tasks one after the other in one job [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "pack_seconds")]
    pack: Option<NonZeroU32>,
    /// Run as many tasks one after the other in one job as should take this long
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pack_seconds: Option<f64>,
    /// Call slurmrestd at this socket (a path) or HOST:PORT, with the token in `SLURM_JWT`, instead of Slurm's programs
    #[arg(long, value_name = "ADDRESS")]
    rest: Option<String>,
    /// A further option of sbatch, such as --sbatch=--account=x; may be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// How long a job may wait for a reason that cannot pass, until it may run anywhere or its task fails [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    patience: Option<f64>,
    /// How long Slurm may be out of reach [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    outage: Option<f64>,
}

/// When tasks are submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Live, but with --detach the graph
    #[default]
    Auto,
    /// All at once, each waiting in Slurm for those before it: nothing of mdts has to stay alive
    Graph,
    /// When they are ready; the rest is planned again when that helps
    Live,
}

/// Names of [`Placement`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    #[default]
    Hard,
    Soft,
    None,
}

/// What a run through Slurm is made of, as its journal keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OnSlurm {
    flags: SlurmFlags,
    partition: String,
    memory_per_core_mib: Option<u64>,
    /// What Slurm said that the nodes have.
    capacities: BTreeMap<String, NodeCapacity>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct NodeCapacity {
    cores: Option<f64>,
    memory: Option<u64>,
    gpus: f64,
    other: BTreeMap<String, f64>,
}

impl SlurmFlags {
    /// Whether one was given.
    pub(crate) fn is_given(&self) -> bool {
        *self != Self::default()
    }

    /// Whether tasks are to be submitted only when they are ready.
    pub(crate) fn is_live(&self) -> bool {
        self.mode == Some(Mode::Live)
    }
}

/// Asks Slurm for the machines; a cluster file tells which of them to use, and how fast they are.
///
/// # Errors
/// [`Error::Slurm`] if Slurm does not answer or there is no such partition, those of [`Cluster::read`].
pub(crate) fn machines(settings: &Settings, flags: &SlurmFlags) -> Result<(Machines, OnSlurm)> {
    let given = match &settings.cluster {
        None => None,
        Some(path) => Some(Cluster::read_with_text(path).map_err(|error| settings.blame("cluster", error))?),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Error::System { what: "the runtime cannot start", source })?;
    let cluster = given.as_ref().map(|(cluster, ..)| cluster);
    let slurm = connect(flags)?;
    let found = runtime.block_on(discover(&*slurm, flags.partition.as_deref(), cluster))?;
    let Discovered { cluster, partition, memory_per_core_mib, left_out } = found;
    if !left_out.is_empty() {
        tracing::warn!("not in service: {}", left_out.join(", "));
    }
    let capacities = cluster.nodes().iter().map(|node| (node.name.clone(), NodeCapacity::of(&node.capacity)));
    let on =
        OnSlurm { flags: flags.clone(), partition, memory_per_core_mib, capacities: capacities.collect() };
    let slots = settings.slots.unwrap_or(cluster.slots());
    let machines = Machines {
        cluster: Arc::new(cluster.with_slots(slots)),
        label: format!("Slurm's partition {}", on.partition),
        is_default: false,
        text: given.map(|(_, text, syntax)| (text, syntax)),
    };
    Ok((machines, on))
}

/// Asks Slurm for something.
///
/// # Errors
/// [`Error::Slurm`].
pub(crate) fn ask<T, F>(question: impl FnOnce(Arc<dyn Slurm>) -> F) -> Result<T>
where
    F: Future<Output = mdts_slurm::Result<T>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Error::System { what: "the runtime cannot start", source })?;
    Ok(runtime.block_on(question(connect(&SlurmFlags::default())?))?)
}

/// The name of who runs this process, where no variable tells it.
fn user_by_id() -> Option<String> {
    let output = std::process::Command::new("id").arg("-un").output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !name.is_empty()).then_some(name)
}

/// The way to Slurm.
fn connect(flags: &SlurmFlags) -> Result<Arc<dyn Slurm>> {
    /// How long a call may take.
    const LIMIT: Duration = Duration::from_secs(30);
    let Some(address) = &flags.rest else { return Ok(Arc::new(Commands::new(CommandsOptions::default()))) };
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(user) = variable("USER").or_else(|| variable("LOGNAME")).or_else(user_by_id) else {
        let message = "--rest: neither USER, LOGNAME nor id -un tells whose jobs they are";
        return Err(Error::Usage(message.to_owned()));
    };
    let token = variable("SLURM_JWT");
    let address = match address.strip_prefix("unix:").unwrap_or(address) {
        path if path.contains('/') => RestAddress::Unix(path.into()),
        place if token.is_some() => RestAddress::Tcp(place.to_owned()),
        place => {
            return Err(Error::Usage(format!(
                "--rest {place}: a token is needed over TCP: export SLURM_JWT, which scontrol token prints"
            )));
        }
    };
    let token = token.map(|token| (user.clone(), token));
    Ok(Arc::new(Rest::new(RestOptions { address, token, user, limit: LIMIT })))
}

impl NodeCapacity {
    fn of(capacity: &Capacity) -> Self {
        let Capacity { cores, memory, gpus, other } = capacity.clone();
        Self { cores, memory, gpus, other }
    }
}

impl OnSlurm {
    /// For the journal.
    ///
    /// # Errors
    /// None is known.
    pub(crate) fn note(&self) -> Result<Note> {
        let text = serde_json::to_string(self).map_err(|error| Error::Failed(error.to_string()))?;
        Ok((NOTE, text))
    }

    /// From the journal.
    pub(crate) fn of_note(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// What the run began with, but for the flags that are given now.
    pub(crate) fn with(mut self, now: &SlurmFlags) -> Result<Self> {
        let begun = &mut self.flags;
        let fixed = [
            ("--partition", now.partition.is_some() && now.partition.as_deref() != Some(&self.partition)),
            ("--mode", now.mode.is_some() && now.mode != begun.mode),
        ];
        if let Some((flag, _)) = fixed.iter().find(|(_, differs)| *differs) {
            return Err(Error::Usage(format!(
                "--resume: {flag} is not what the run began with; leave it out, or begin a new run in another folder"
            )));
        }
        begun.placement = now.placement.or(begun.placement);
        begun.throttle = now.throttle.or(begun.throttle);
        if now.pack.is_some() || now.pack_seconds.is_some() {
            (begun.pack, begun.pack_seconds) = (now.pack, now.pack_seconds);
        }
        begun.no_arrays |= now.no_arrays;
        if !now.sbatch.is_empty() {
            begun.sbatch.clone_from(&now.sbatch);
        }
        begun.patience = now.patience.or(begun.patience);
        begun.rest = now.rest.clone().or(begun.rest.take());
        begun.outage = now.outage.or(begun.outage);
        Ok(self)
    }

    /// A cluster file's machines with what Slurm said that they have.
    ///
    /// # Errors
    /// Those of [`Cluster::new`].
    pub(crate) fn fill(&self, cluster: &Cluster) -> Result<Cluster> {
        let nodes = cluster.nodes().iter().map(|node| {
            let mut node = node.clone();
            if let Some(NodeCapacity { cores, memory, gpus, other }) =
                self.capacities.get(&node.name).cloned()
            {
                node.capacity = Capacity { cores, memory, gpus, other };
            }
            node
        });
        Ok(Cluster::new(nodes.collect(), cluster.network().clone(), cluster.slots())?)
    }

    /// Whether the whole graph is submitted at once.
    pub(crate) fn submits_graph(&self, detaches: bool) -> bool {
        match self.flags.mode.unwrap_or_default() {
            Mode::Graph => true,
            Mode::Live => false,
            Mode::Auto => detaches,
        }
    }

    /// What runs the tasks. Needs a tokio runtime.
    ///
    /// # Errors
    /// Those of [`SlurmExecutor::new`].
    pub(crate) fn executor(
        &self,
        logs: &Path,
        folder: &Path,
        cluster: &Arc<Cluster>,
        journal: Option<&Path>,
    ) -> Result<(SlurmExecutor, SlurmHandle)> {
        let run = journal.map_or_else(|| Path::new(FOLDERS).join(own_name()), run_folder);
        let flags = &self.flags;
        let mut options = SlurmOptions::new(run, logs, folder);
        options.partition = Some(self.partition.clone());
        options.memory_per_core_mib = self.memory_per_core_mib;
        options.placement = match flags.placement.unwrap_or_default() {
            How::Hard => Placement::Hard,
            How::Soft => Placement::Soft,
            How::None => Placement::None,
        };
        options.arrays = !flags.no_arrays;
        options.throttle = flags.throttle.map(NonZeroU32::get);
        options.packing = match (flags.pack, flags.pack_seconds) {
            (Some(tasks), _) => Packing::Tasks(tasks.get() as usize),
            (None, Some(seconds)) => Packing::Seconds(seconds),
            (None, None) => Packing::Off,
        };
        options.submit_options.clone_from(&flags.sbatch);
        options.patience = seconds(flags.patience).unwrap_or(options.patience);
        options.outage_limit = seconds(flags.outage).unwrap_or(options.outage_limit);
        let executor = SlurmExecutor::new(connect(flags)?, options, cluster.clone())?;
        let handle = executor.handle();
        Ok((executor, handle))
    }
}

/// The folder of a run in that of its journal.
pub(crate) fn run_folder(journal: &Path) -> PathBuf {
    journal.join(FOLDER)
}

fn seconds(seconds: Option<f64>) -> Option<Duration> {
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// A name for the folder of a run without a journal.
fn own_name() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{}-{}", now.map_or(0, |now| now.as_millis()), std::process::id())
}
