//! What Slurm tells of its jobs, nodes and partitions.

use super::{JobId, JobState};

/// A job, or an element of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRecord {
    /// Which one.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub user: String,
    /// Its partition, or those that it may run in, separated by commas.
    pub partition: String,
    /// How it stands.
    pub state: JobState,
    /// Why it stands so, in Slurm's own word; empty if there is none.
    pub reason: String,
    /// Its comment.
    pub comment: String,
    /// The script that it runs; empty if that came from standard input.
    pub command: String,
    /// Where it runs.
    pub directory: String,
    /// The nodes that it has, in Slurm's syntax; empty if it has none.
    pub nodes: String,
    /// The nodes that it needs, in Slurm's syntax; empty if any will do.
    pub required_nodes: String,
    /// The features that it needs.
    pub features: String,
    /// What it waits for, in Slurm's syntax.
    pub dependency: String,
    /// Its exit status, and the signal that ended it (0: none).
    pub exit: (i32, i32),
    /// Processors.
    pub cpus: u32,
    /// Memory in MiB per node, or per processor if `is_memory_per_cpu`.
    pub memory_mib: u64,
    /// See `memory_mib`.
    pub is_memory_per_cpu: bool,
    /// Generic resources per node, as Slurm writes them.
    pub gres: String,
    /// Longest run time in seconds; `None` if there is no limit.
    pub limit_seconds: Option<u64>,
    /// The higher, the sooner; 0 if it is held.
    pub priority: u64,
    /// What its owner took off its priority.
    pub nice: i64,
    /// When it was submitted, in seconds of Unix time.
    pub submitted: Option<u64>,
    /// When it began, or is expected to.
    pub began: Option<u64>,
    /// When it ended.
    pub ended: Option<u64>,
    /// How many nodes it has, or needs at least.
    pub node_count: u32,
    /// What administrators note about it.
    pub admin_comment: String,
    /// Whether it is one component of several that run together.
    pub is_component: bool,
}

impl JobRecord {
    /// A job that waits and of which nothing else is known.
    pub fn empty(id: JobId) -> Self {
        Self {
            id,
            name: String::new(),
            user: String::new(),
            partition: String::new(),
            state: JobState::Pending,
            reason: String::new(),
            comment: String::new(),
            command: String::new(),
            directory: String::new(),
            nodes: String::new(),
            required_nodes: String::new(),
            features: String::new(),
            dependency: String::new(),
            exit: (0, 0),
            cpus: 0,
            memory_mib: 0,
            is_memory_per_cpu: false,
            gres: String::new(),
            limit_seconds: None,
            priority: 0,
            nice: 0,
            submitted: None,
            began: None,
            ended: None,
            node_count: 1,
            admin_comment: String::new(),
            is_component: false,
        }
    }
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// Its state as Slurm writes it, such as `IDLE`, `MIXED+DRAIN` or `DOWN*`.
    pub state: String,
    /// Why it is not in service, if somebody said so.
    pub reason: String,
    /// Processors that jobs can have.
    pub cpus: u32,
    /// Memory that jobs can have, in MiB.
    pub memory_mib: u64,
    /// Its features.
    pub features: Vec<String>,
    /// Generic resources: name, type (perhaps empty) and number.
    pub gres: Vec<(String, String, u64)>,
    /// The partitions that it is in.
    pub partitions: Vec<String>,
    /// The higher, the later it is used.
    pub weight: u64,
    /// Processors that jobs hold.
    pub cpus_held: u32,
}

impl NodeRecord {
    /// Whether jobs can begin there now or when others have ended.
    pub fn is_usable(&self) -> bool {
        const GONE: [&str; 12] = [
            "DOWN",
            "DRAIN",
            "FAIL",
            "MAINT",
            "NO_RESPOND",
            "NOT_RESPONDING",
            "PLANNED_DOWN",
            "POWERED_DOWN",
            "POWERING_DOWN",
            "REBOOT",
            "RESERVED",
            "UNKNOWN",
        ];
        // What follows the words is a mark; a star says that the node does not answer.
        let is_gone = |word: &str| word.contains('*') || GONE.iter().any(|gone| word.starts_with(gone));
        !self.state.split('+').any(is_gone)
    }
}

/// A partition.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub struct PartitionRecord {
    /// Its name.
    pub name: String,
    /// Whether jobs that name none go there.
    pub is_default: bool,
    /// Whether it takes and starts jobs.
    pub is_up: bool,
    /// Longest run time of its jobs in seconds; `None` if there is no limit.
    pub limit_seconds: Option<u64>,
    /// Memory in MiB that a job gets per processor if it says nothing; `None` if that is not set.
    pub memory_per_cpu_mib: Option<u64>,
    /// Memory in MiB that a job gets per node if it says nothing; `None` if that is not set.
    pub memory_per_node_mib: Option<u64>,
    /// Longest run time in seconds of jobs that state none; `None` if that is not set.
    pub default_seconds: Option<u64>,
    /// Most nodes of a job; `None` if there is no limit.
    pub most_nodes: Option<u64>,
    /// Whether all groups and accounts may use it.
    pub is_open: bool,
    /// Whether jobs have whole nodes.
    pub is_exclusive: bool,
}
