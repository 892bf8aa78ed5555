//! Settings: flags before environment before `mdts.toml` before defaults.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::Args;
use config::builder::DefaultState;
use config::{Config, ConfigBuilder, ConfigError, Environment, File, Value, ValueKind};
use mdts_core::SlotModel;
use mdts_core::journal::Durability;
use mdts_dag::DataModel;
use serde::Deserialize;

use crate::choice::Choice;
use crate::error::{Error, Result, did_you_mean, one_line};

/// The file with settings, in the folder where a command runs.
const FILE: &str = "mdts.toml";

/// What `--help` says about settings.
pub(crate) const HELP: &str = "\
Settings: a flag comes before the environment, that before mdts.toml in the current folder, that before the default.
  flag         environment      mdts.toml    default
  --cluster    MDTS_CLUSTER     cluster      this machine
  --policy     MDTS_POLICY      policy       heft
  --slots      MDTS_SLOTS       slots        the cluster's own
  --data       MDTS_DATA_MODEL  data_model   edges
  --seed       MDTS_SEED        seed         0
  --logs       MDTS_LOGS        logs         .mdts/logs/TIME-PROCESS, one per run
  --durability MDTS_DURABILITY  durability    process
  --history    MDTS_HISTORY     history      none; unknown run times count as the mean of the known ones
  --weights    MDTS_WEIGHTS     weights      those that come with the program
  --cache      MDTS_CACHE       cache        none; every task of a run runs
  -v, -q       MDTS_LOG                      warn (also error, info, debug, or a tracing filter)

Exit status: 0 done; 1 the work failed; 2 bad input or usage.";

/// What the crate `config` calls the origin of variables.
const ENVIRONMENT: &str = "the environment";

/// All names, as in the file; in the environment they are in capitals behind `MDTS_`.
const NAMES: [&str; 10] =
    ["cluster", "policy", "slots", "data_model", "seed", "logs", "history", "weights", "durability", "cache"];

/// Flags about the cluster and the model, common to most commands.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ModelFlags {
    /// Cluster file (TOML, YAML or JSON); default: this machine
    #[arg(long, value_name = "FILE")]
    pub(crate) cluster: Option<PathBuf>,
    /// How many tasks a node runs at a time: one, or as many as its resources hold; default: the cluster's own
    #[arg(long, value_name = "MODEL", value_parser = SlotModel::parser())]
    pub(crate) slots: Option<SlotModel>,
    /// What moves between nodes: every dependency's own bytes, or each file once [default: edges]
    #[arg(long, value_name = "MODEL", value_parser = DataModel::parser())]
    pub(crate) data: Option<DataModel>,
    /// Seed of all that is random [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// Flags that some commands have beside [`ModelFlags`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OtherFlags<'a> {
    /// `--policy`.
    pub(crate) policy: Option<&'a str>,
    /// The policy if nothing names one; none: HEFT.
    pub(crate) default_policy: Option<&'a str>,
    /// `--logs`.
    pub(crate) logs: Option<&'a Path>,
    /// `--history`.
    pub(crate) history: Option<&'a Path>,
    /// `--durability`.
    pub(crate) durability: Option<Durability>,
    /// `--weights`.
    pub(crate) weights: Option<&'a Path>,
    /// `--cache`.
    pub(crate) cache: Option<&'a Path>,
}

/// What the sources say, choices still as they are written.
#[derive(Debug, Deserialize)]
struct Raw {
    cluster: Option<PathBuf>,
    policy: String,
    slots: Option<String>,
    data_model: String,
    /// As text, since a truth value would pass for a number.
    seed: String,
    logs: PathBuf,
    history: Option<PathBuf>,
    durability: String,
    weights: Option<PathBuf>,
    cache: Option<PathBuf>,
}

/// What holds after all sources were heard.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Cluster file; absent: this machine.
    pub(crate) cluster: Option<PathBuf>,
    /// Name of the policy.
    pub(crate) policy: String,
    /// Slot model instead of the cluster's own.
    pub(crate) slots: Option<SlotModel>,
    /// Data model.
    pub(crate) data_model: DataModel,
    /// Seed of all that is random.
    pub(crate) seed: u64,
    /// Where the output of tasks goes.
    pub(crate) logs: PathBuf,
    /// Earlier run times, to predict unknown ones from.
    pub(crate) history: Option<PathBuf>,
    /// What recorded events survive.
    pub(crate) durability: Durability,
    /// What the learned policies know instead of what comes with the program.
    pub(crate) weights: Option<PathBuf>,
    /// Where outputs of earlier successes are kept.
    pub(crate) cache: Option<PathBuf>,
    /// Settings that are from the environment or the file, with where they were found.
    origins: Vec<(&'static str, String)>,
}

impl Settings {
    /// What is wrong with something that a setting names, told with where the setting is if it is no flag.
    pub(crate) fn blame(&self, name: &str, error: impl Into<Error>) -> Error {
        let error = error.into();
        match self.origins.iter().find(|(known, _)| *known == name) {
            Some((_, origin)) => Error::Setting { origin: origin.clone(), error: Box::new(error) },
            None => error,
        }
    }

    /// Asks all sources.
    ///
    /// # Errors
    /// [`Error::Usage`] if the file or the environment has an unknown name or a value out of range.
    pub(crate) fn load(flags: &ModelFlags, other: OtherFlags<'_>) -> Result<Self> {
        check_names()?;
        let merged = merge(flags, other).map_err(|error| explain(&error))?;
        let raw: Raw = merged.clone().try_deserialize().map_err(|error| explain(&error))?;
        Ok(Self {
            // As they were given: the sources have texts alone.
            cluster: flags.cluster.clone().or(raw.cluster),
            policy: raw.policy,
            slots: raw.slots.map(|word| choice("slots", &word, &merged)).transpose()?,
            data_model: choice("data_model", &raw.data_model, &merged)?,
            seed: seed(&raw.seed, &merged)?,
            logs: other.logs.map_or(raw.logs, Path::to_owned),
            history: other.history.map(Path::to_owned).or(raw.history),
            durability: choice("durability", &raw.durability, &merged)?,
            weights: other.weights.map(Path::to_owned).or(raw.weights),
            cache: other.cache.map(Path::to_owned).or(raw.cache),
            origins: NAMES.iter().filter_map(|name| Some((*name, found(&merged, name)?))).collect(),
        })
    }
}

/// The seed, if a file or the environment has one: for commands with a default of their own.
///
/// # Errors
/// As [`Settings::load`].
pub(crate) fn given_seed() -> Result<Option<u64>> {
    check_names()?;
    let merged = sources(Config::builder()).build().map_err(|error| explain(&error))?;
    match merged.get::<String>("seed") {
        Ok(text) => seed(&text, &merged).map(Some),
        Err(ConfigError::NotFound(_)) => Ok(None),
        Err(error) => Err(explain(&error)),
    }
}

/// Where a setting was found, or its name.
fn origin(from: &Config, name: &str) -> String {
    found(from, name).unwrap_or_else(|| name.to_owned())
}

fn seed(text: &str, from: &Config) -> Result<u64> {
    text.parse().map_err(|_| {
        let (origin, text) = (origin(from, "seed"), text.escape_debug());
        Error::Usage(format!("{origin}: '{text}' is not a whole number of at least 0"))
    })
}

fn choice<T: Choice>(name: &str, word: &str, from: &Config) -> Result<T> {
    T::of_word(word).ok_or_else(|| {
        let (origin, word) = (origin(from, name), word.escape_debug());
        Error::Usage(format!("{origin}: '{word}' is not known; write {}", T::all_words()))
    })
}

/// Where a setting was found: its variable or the file; `None` if it is a flag or a default.
fn found(from: &Config, name: &str) -> Option<String> {
    let ValueKind::Table(table) = &from.cache.kind else { return None };
    match table.get(name)?.origin()? {
        ENVIRONMENT => Some(variable(name)),
        file => Some(format!("{file}: {name}")),
    }
}

/// Asks all sources.
fn merge(flags: &ModelFlags, other: OtherFlags<'_>) -> Result<Config, ConfigError> {
    let path = |path: Option<&Path>| path.map(|p| p.to_string_lossy().into_owned());
    let (slots, data) = (flags.slots.map(Choice::word), flags.data.map(Choice::word));
    let defaults = Config::builder()
        .set_default("policy", other.default_policy.unwrap_or("heft"))?
        .set_default("data_model", "edges")?
        .set_default("durability", "process")?
        .set_default("seed", 0)?
        .set_default("logs", logs_of_this_run())?;
    sources(defaults)
        .set_override_option("cluster", path(flags.cluster.as_deref()))?
        .set_override_option("policy", other.policy)?
        .set_override_option("slots", slots)?
        .set_override_option("data_model", data)?
        .set_override_option("seed", flags.seed)?
        .set_override_option("logs", path(other.logs))?
        .set_override_option("history", path(other.history))?
        .set_override_option("durability", other.durability.map(Choice::word))?
        .set_override_option("weights", path(other.weights))?
        .set_override_option("cache", path(other.cache))?
        .build()
}

/// The file and the environment.
fn sources(defaults: ConfigBuilder<DefaultState>) -> ConfigBuilder<DefaultState> {
    defaults
        .add_source(File::from(Path::new(FILE)).required(false))
        .add_source(Environment::with_prefix("MDTS").ignore_empty(true).source(Some(environment())))
}

/// The variable of a setting.
fn variable(name: &str) -> String {
    format!("MDTS_{}", name.to_uppercase())
}

/// The variables that are settings; others that begin with `MDTS_` are not ours to judge.
fn environment() -> HashMap<String, String> {
    let found = NAMES.map(variable).into_iter();
    found.filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))).collect()
}

/// Refuses names that the file should not have.
fn check_names() -> Result<()> {
    let source = File::from(Path::new(FILE)).required(false);
    let config = Config::builder().add_source(source).build().map_err(|error| explain(&error))?;
    let table: HashMap<String, Value> = config.try_deserialize().map_err(|error| explain(&error))?;
    let mut unknown: Vec<&String> = table.keys().filter(|key| !NAMES.contains(&key.as_str())).collect();
    unknown.sort();
    match unknown.first() {
        None => Ok(()),
        Some(name) => Err(Error::Usage(format!(
            "{FILE}: '{name}' is not a setting{}; there are {}",
            did_you_mean(name, NAMES),
            NAMES.join(", ")
        ))),
    }
}

/// The places of a setting, and what was wrong.
fn explain(error: &ConfigError) -> Error {
    let message = match error {
        ConfigError::Type { origin, unexpected, expected, key } => format!(
            "{}: {}: found {unexpected}; expected {expected}",
            origin.as_deref().unwrap_or("settings"),
            key.as_deref().unwrap_or("a value"),
        ),
        ConfigError::At { error, origin, key } => {
            let place = origin.as_deref().unwrap_or("settings");
            format!("{place}: {}: {error}", key.as_deref().unwrap_or("a value"))
        }
        ConfigError::FileParse { cause, .. } => format!("{FILE}: {cause}"),
        other => format!("settings: {other}"),
    };
    Error::Usage(one_line(&message) + "; mdts --help lists the settings")
}
/// A folder of its own for every run, so that two of them never write into one file.
fn logs_of_this_run() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!(".mdts/logs/{}-{}", now.map_or(0, |t| t.as_secs()), std::process::id())
}
