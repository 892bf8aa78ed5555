//! A task: one unit of work that runs on one node from start to finish.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{FileId, RetryRule};

/// How long a task runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Work {
    /// Not known; the scheduler estimates it from tasks of the same kind.
    #[default]
    Unknown,
    /// Seconds on a node of speed 1.
    Seconds(f64),
    /// Seconds per node name, for unrelated machines. A node that is not named cannot run the task.
    PerNode(Box<[(Arc<str>, f64)]>),
}

/// What a task occupies while it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// Processor cores; fractions are kept to a thousandth.
    pub cores: f64,
    /// Memory in bytes.
    pub memory: u64,
    /// GPUs; fractions are kept to a thousandth.
    pub gpus: f64,
    /// Other resources by name, for example licences.
    pub other: BTreeMap<String, f64>,
    /// On how many nodes at once (1 for an ordinary task).
    pub gang: u32,
}

impl Default for Demand {
    fn default() -> Self {
        Self { cores: 1.0, memory: 0, gpus: 0.0, other: BTreeMap::new(), gang: 1 }
    }
}

/// A task of a job graph.
///
/// ```
/// use mdts_dag::Task;
/// let task = Task::new("align_7").seconds(12.0).cores(2.0).command(["sh", "-c", "sort in > out"]);
/// assert_eq!(&*task.kind, "align");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Unique in the graph.
    pub name: Arc<str>,
    /// Category, for prediction and affinity; by default the name without its trailing number and what joins
    /// the number to it (`_`, `-`, `.` or `_ID`).
    pub kind: Arc<str>,
    /// Run time.
    pub work: Work,
    /// Resources held while running; `None` is the default demand (one core).
    pub demand: Option<Arc<Demand>>,
    /// Files read. An input that another task writes makes that task a parent in the project's own format.
    pub inputs: Vec<FileId>,
    /// Files written.
    pub outputs: Vec<FileId>,
    /// What to execute, for runners.
    pub run: Option<Box<Execution>>,
}

/// How a runner executes a task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Execution {
    /// Program and arguments; empty when the task has none (a trace).
    pub command: Vec<String>,
    /// Variables that its environment has beside those of the runner, or instead of them.
    pub env: Vec<(String, String)>,
    /// Where it runs, from the folder of the workflow; `None`: there. Files keep being named from that folder.
    pub directory: Option<String>,
    /// How often a failed attempt is repeated; `None`: as the runner has it, by itself never.
    pub retries: Option<u32>,
    /// After which failures it is repeated.
    pub retry: RetryRule,
    /// Seconds between its first failure and the next attempt, which grow with every further failure; `None`: as the
    /// runner has it.
    pub retry_delay: Option<f64>,
    /// Longest run time of one attempt in seconds.
    pub timeout: Option<f64>,
}

impl Task {
    /// A task of unknown run time that needs one core.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        let kind = Arc::from(default_kind(&name));
        Self {
            name,
            kind,
            work: Work::Unknown,
            demand: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            run: None,
        }
    }

    /// Sets the run time on a node of speed 1, in seconds.
    #[must_use]
    pub fn seconds(mut self, seconds: f64) -> Self {
        self.work = Work::Seconds(seconds);
        self
    }

    /// Sets the run time in seconds on each named node; other nodes cannot run the task.
    #[must_use]
    pub fn times<N: Into<Arc<str>>>(mut self, times: impl IntoIterator<Item = (N, f64)>) -> Self {
        self.work = Work::PerNode(times.into_iter().map(|(node, time)| (node.into(), time)).collect());
        self
    }

    /// Sets the category.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Arc<str>>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Sets the number of cores.
    #[must_use]
    pub fn cores(self, cores: f64) -> Self {
        self.with_demand(|d| d.cores = cores)
    }

    /// Sets the memory in bytes.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        self.with_demand(|d| d.memory = bytes)
    }

    /// Sets the number of GPUs.
    #[must_use]
    pub fn gpus(self, gpus: f64) -> Self {
        self.with_demand(|d| d.gpus = gpus)
    }

    /// Changes the demand in place.
    #[must_use]
    pub fn with_demand(mut self, change: impl FnOnce(&mut Demand)) -> Self {
        change(Arc::make_mut(self.demand.get_or_insert_with(Arc::default)));
        self
    }

    /// Sets program and arguments.
    #[must_use]
    pub fn command<S: Into<String>>(self, command: impl IntoIterator<Item = S>) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        self.with_execution(|run| run.command = command)
    }

    /// Sets how often a failed attempt is repeated.
    #[must_use]
    pub fn retries(self, retries: u32) -> Self {
        self.with_execution(|run| run.retries = Some(retries))
    }

    /// Sets the seconds between the first failure and the next attempt.
    #[must_use]
    pub fn retry_delay(self, seconds: f64) -> Self {
        self.with_execution(|run| run.retry_delay = Some(seconds))
    }

    /// Sets the longest run time of one attempt, in seconds.
    #[must_use]
    pub fn timeout(self, seconds: f64) -> Self {
        self.with_execution(|run| run.timeout = Some(seconds))
    }

    /// Changes how the task is executed.
    #[must_use]
    pub fn with_execution(mut self, change: impl FnOnce(&mut Execution)) -> Self {
        change(self.run.get_or_insert_with(Box::default));
        self
    }
}

/// The name without its trailing number and the `_`, `-`, `.` or `_ID` that joins the number to it; the whole
/// name when there is no number or nothing else is left.
pub(crate) fn default_kind(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() {
        return name;
    }
    let kind = stem.strip_suffix("_ID").unwrap_or(stem).trim_end_matches(['_', '-', '.']);
    if kind.is_empty() { name } else { kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_the_name_without_trailing_number() {
        let table = [
            ("align12", "align"),
            ("align_7", "align"),
            ("12", "12"),
            ("_12", "_12"),
            ("a1b", "a1b"),
            ("open_", "open_"),
            ("mAdd_ID0000004", "mAdd"),
            ("ID00012", "ID"),
        ];
        for (name, kind) in table {
            assert_eq!(default_kind(name), kind, "{name}");
        }
    }

    #[test]
    fn a_task_without_extras_stays_small() {
        assert!(size_of::<Task>() <= 120, "{}", size_of::<Task>());
    }
}
