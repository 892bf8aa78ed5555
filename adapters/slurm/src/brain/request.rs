//! What a job asks for.

use std::collections::BTreeMap;

/// Memory that a job asks for, in mebibytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Memory {
    /// As the site has it.
    #[default]
    Default,
    /// On every node; 0 is all of a node.
    PerNode(u64),
    /// For every CPU.
    PerCpu(u64),
    /// For every GPU.
    PerGpu(u64),
}

/// What a job asks for, from a script, a command line or Slurm's description of it. What is absent was left open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub struct Request {
    /// Name of the job.
    pub name: Option<String>,
    /// Number of the user who submits it.
    pub user: Option<u32>,
    /// Its comment, where a tag may stand.
    pub comment: Option<String>,
    /// What it waits for.
    pub dependency: Option<String>,
    /// Partitions, separated by commas.
    pub partition: Option<String>,
    /// Nodes that must be among its own.
    pub nodelist: Option<String>,
    /// Nodes that must not.
    pub exclude: Option<String>,
    /// Features that nodes must have.
    pub features: Option<String>,
    /// Features that nodes should have.
    pub prefer: Option<String>,
    /// A reservation.
    pub reservation: Option<String>,
    /// Fewest and most nodes.
    pub nodes: Option<(u64, u64)>,
    /// Number of tasks (processes).
    pub tasks: Option<u64>,
    /// Most tasks on one node.
    pub tasks_per_node: Option<u64>,
    /// CPUs of each task.
    pub cpus_per_task: Option<u64>,
    /// Least CPUs in all.
    pub cpus: Option<u64>,
    /// Least CPUs of a node.
    pub cpus_per_node: Option<u64>,
    /// CPUs for each GPU.
    pub cpus_per_gpu: Option<u64>,
    /// Memory.
    pub memory: Memory,
    /// Generic resources of each node, as [`crate::spell::gres`] gives them.
    pub gres: BTreeMap<String, u64>,
    /// GPUs in all.
    pub gpus: Option<u64>,
    /// GPUs of each task.
    pub gpus_per_task: Option<u64>,
    /// Time limit in minutes.
    pub minutes: Option<u64>,
    /// Nobody else on its nodes.
    pub exclusive: bool,
    /// The indices of an array of jobs.
    pub array: Option<String>,
    /// It is one component of several.
    pub component: bool,
    /// It does not start now: it is held, or begins later. A job with a dependency waits without this.
    pub waits: bool,
    /// It asks for something that only Slurm can judge.
    pub opaque: bool,
    /// The user has fixed its priority: by a nice value, a priority or by holding it.
    pub has_priority: bool,
}
