//! What is asked of Slurm: jobs to submit, to look at and to change.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The number of a job, or of one element of an array: `12` or `12_3`.
///
/// ```
/// use mdts_slurm::JobId;
/// let element: JobId = "12_3".parse()?;
/// assert_eq!((element.job, element.element), (12, Some(3)));
/// assert_eq!(element.to_string(), "12_3");
/// assert!("12_".parse::<JobId>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct JobId {
    /// Number of the job; of the whole array for an element.
    pub job: u32,
    /// Number of the element.
    pub element: Option<u32>,
}

impl JobId {
    /// A job that is no array, or a whole array.
    pub fn whole(job: u32) -> Self {
        Self { job, element: None }
    }

    /// One element of an array.
    pub fn element(job: u32, element: u32) -> Self {
        Self { job, element: Some(element) }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.element {
            None => write!(f, "{}", self.job),
            Some(element) => write!(f, "{}_{element}", self.job),
        }
    }
}

impl FromStr for JobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |text: &str| text.parse::<u32>().ok();
        let id = match text.split_once('_') {
            None => parse(text).map(Self::whole),
            Some((job, element)) => parse(job).and_then(|job| Some(Self::element(job, parse(element)?))),
        };
        id.ok_or_else(|| format!("'{text}' is no number of a job; expected for example 12 or 12_3"))
    }
}

/// The elements of an array: `0` to `count - 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array {
    /// How many.
    pub count: u32,
    /// How many run at a time at most.
    pub throttle: Option<u32>,
}

/// A batch job to submit. What is `None` or empty is left to Slurm's own defaults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Submission {
    /// The batch script, beginning with `#!`.
    pub script: String,
    /// A file for the script, which stays locked as long as a program may submit it, whatever becomes of this process: who
    /// can lock it need not fear a late submission. Best effort: not every shared file system has such locks.
    pub spool: Option<PathBuf>,
    /// Name of the job.
    pub name: String,
    /// Its comment, by which it can be found again.
    pub comment: String,
    /// Where it runs, and from where relative paths count.
    pub directory: PathBuf,
    /// Where output and complaints of the script itself go.
    pub output: Option<PathBuf>,
    /// Elements, if it is an array.
    pub array: Option<Array>,
    /// Whether it waits until it is released.
    pub held: bool,
    /// Processors on its node.
    pub cpus: Option<u32>,
    /// Memory on its node, in MiB.
    pub memory_mib: Option<u64>,
    /// Generic resources on its node: name (with type, if one is wanted) and number.
    pub gres: Vec<(String, u32)>,
    /// Longest run time, in minutes.
    pub minutes: Option<u32>,
    /// Partitions, separated by commas.
    pub partition: Option<String>,
    /// The node that it needs.
    pub node: Option<String>,
    /// Features that it needs, in Slurm's syntax.
    pub features: Option<String>,
    /// Features that it would like, in Slurm's syntax; Slurm 22.05 and later.
    pub prefer: Option<String>,
    /// Before what it cannot begin, in Slurm's syntax; if that can never be, Slurm cancels it.
    pub dependency: Option<String>,
    /// Lowers its priority.
    pub nice: Option<i32>,
    /// Account, quality of service, reservation and whatever else the site wants: options of `sbatch` as they are, such as
    /// `--account=x`.
    pub options: Vec<String>,
}

/// Which jobs to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All.
    All,
    /// Those of the user who asks.
    Own,
    /// These, with all elements of whole arrays.
    Jobs(Vec<JobId>),
}

/// A change to a job that has not begun. What is `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// Which one; `None` changes nothing.
    pub job: Option<JobId>,
    /// The nodes that it needs, in Slurm's syntax; empty: any.
    pub nodes: Option<String>,
    /// Features that it needs; empty: none.
    pub features: Option<String>,
    /// Its partition.
    pub partition: Option<String>,
    /// Before what it cannot begin; empty: nothing.
    pub dependency: Option<String>,
    /// Lowers its priority.
    pub nice: Option<i32>,
    /// Its priority; for operators of the cluster.
    pub priority: Option<u32>,
    /// Its comment.
    pub comment: Option<String>,
    /// What administrators note about it; for operators of the cluster. Empty: nothing.
    pub admin_comment: Option<String>,
    /// Longest run time, in minutes.
    pub minutes: Option<u32>,
    /// Whether it waits until it is released. Done after the rest.
    pub held: Option<bool>,
}

impl Change {
    /// No change of this job, yet.
    pub fn of(job: JobId) -> Self {
        Self { job: Some(job), ..Self::default() }
    }
}
