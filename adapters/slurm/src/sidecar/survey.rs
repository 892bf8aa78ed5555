//! From Slurm's records to the brain's view.

use std::collections::BTreeMap;

use crate::brain::{Memory, Node, Partition, Running, View};
use crate::{JobRecord, NodeRecord, PartitionRecord, spell};

/// Seconds that stand for no time limit.
const NO_LIMIT: u64 = 1_000_000_000;
/// Begins the feature that tells a node's speed, as in `speed_2.5`.
const SPEED: &str = "speed_";

/// Speeds of nodes: as a site states them by name, else as a feature says, else 1.
#[derive(Debug, Clone, Default)]
pub struct Speeds(BTreeMap<String, f64>);

impl Speeds {
    /// Speeds by the names of nodes.
    pub fn new(named: impl IntoIterator<Item = (String, f64)>) -> Self {
        Self(named.into_iter().filter(|(_, speed)| is_speed(*speed)).collect())
    }

    fn of(&self, node: &NodeRecord) -> f64 {
        let told = || node.features.iter().find_map(|f| f.strip_prefix(SPEED)?.parse().ok());
        self.0.get(&node.name).copied().or_else(told).filter(|speed| is_speed(*speed)).unwrap_or(1.0)
    }
}

fn is_speed(speed: f64) -> bool {
    (1e-9..=1e9).contains(&speed)
}

/// What was seen in one look.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Nodes.
    pub nodes: Vec<NodeRecord>,
    /// Partitions.
    pub partitions: Vec<PartitionRecord>,
    /// Jobs.
    pub jobs: Vec<JobRecord>,
    /// The configuration.
    pub config: BTreeMap<String, String>,
    /// Seconds of Unix time.
    pub now: u64,
}

impl Look {
    /// The brain's view. O(nodes x partitions + jobs).
    pub fn view(&self, speeds: &Speeds) -> View {
        let nodes: Vec<Node> = self.nodes.iter().map(|node| of_node(node, speeds)).collect();
        let positions: BTreeMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
        let partitions = self.partitions.iter().map(|partition| self.partition(partition));
        let running = self.jobs.iter().filter_map(|job| of_job(job, &positions, self.now));
        View {
            partitions: partitions.collect(),
            running: running.collect(),
            default_memory: self.default_memory(),
            nodes,
        }
    }

    fn partition(&self, record: &PartitionRecord) -> Partition {
        let members =
            self.nodes.iter().enumerate().filter(|(_, node)| node.partitions.contains(&record.name));
        let minutes = |seconds: Option<u64>| seconds.map(|seconds| seconds.div_ceil(60));
        Partition {
            name: record.name.clone(),
            is_default: record.is_default,
            is_up: record.is_up,
            is_open: record.is_open,
            is_exclusive: record.is_exclusive,
            nodes: members.map(|(at, _)| at).collect(),
            most_minutes: minutes(record.limit_seconds),
            default_minutes: minutes(record.default_seconds.or(record.limit_seconds)),
            most_nodes: record.most_nodes,
            default_memory: (record.memory_per_cpu_mib.map(Memory::PerCpu))
                .or(record.memory_per_node_mib.map(Memory::PerNode)),
        }
    }

    fn default_memory(&self) -> Memory {
        let number = |key| self.config.get(key).and_then(|value| value.parse().ok());
        match (number("DefMemPerCPU"), number("DefMemPerNode")) {
            (Some(each), _) => Memory::PerCpu(each),
            (None, Some(each)) => Memory::PerNode(each),
            (None, None) => Memory::Default,
        }
    }
}

fn of_node(record: &NodeRecord, speeds: &Speeds) -> Node {
    let mut gres = BTreeMap::new();
    for (name, kind, count) in record.gres.iter().filter(|(_, _, count)| *count > 0) {
        *gres.entry(name.clone()).or_insert(0) += count;
        if !kind.is_empty() {
            *gres.entry(format!("{name}:{kind}")).or_insert(0) += count;
        }
    }
    Node {
        name: record.name.clone(),
        cpus: record.cpus.into(),
        cpus_held: record.cpus_held.into(),
        memory: record.memory_mib,
        gres,
        features: record.features.clone(),
        speed: speeds.of(record),
        weight: record.weight,
        is_usable: record.is_usable(),
    }
}

/// What a job that has nodes holds on each of them.
fn of_job(job: &JobRecord, positions: &BTreeMap<&str, usize>, now: u64) -> Option<Running> {
    if job.state.is_over() || job.nodes.is_empty() {
        return None;
    }
    let names = spell::hosts(&job.nodes)?;
    let nodes: Vec<usize> = names.iter().filter_map(|name| positions.get(name.as_str()).copied()).collect();
    let each = u64::from(job.cpus).div_ceil(nodes.len().max(1) as u64);
    let memory = if job.is_memory_per_cpu { job.memory_mib.saturating_mul(each) } else { job.memory_mib };
    Some(Running {
        nodes,
        cpus: each,
        memory,
        gres: spell::gres(&job.gres).unwrap_or_default(),
        start: 0.0,
        seconds: seconds_left(job, now) as f64,
    })
}

/// Until the time limit of a job, at least one.
pub(super) fn seconds_left(job: &JobRecord, now: u64) -> u64 {
    let spent = job.began.map_or(0, |began| now.saturating_sub(began));
    job.limit_seconds.unwrap_or(NO_LIMIT).saturating_sub(spent).max(1)
}
