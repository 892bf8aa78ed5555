//! Public benchmark instances with makespans to compare with: STG, PSPLIB, and workflows on eight unequal machines.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::Path;

use mdts_core::{Cluster, Instance, Link, Network, Node, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task, TaskId, Work, format};
use serde::Deserialize;

use super::instance;

/// An instance and what is known of its makespan.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) instance: Instance,
    /// A proven lower bound; 0 if none is known.
    pub(crate) lower: f64,
    /// The best makespan known; NaN if none is.
    pub(crate) best: f64,
    /// Whether `best` is proven to be the optimum.
    pub(crate) proven: bool,
}

/// Every `every`-th row of the standard task graphs with known optima.
pub(crate) fn stg(data: &Path, every: usize) -> Vec<Row> {
    let stg = data.join("stg");
    let table = read_to_string(stg.join("optimal_makespans.csv")).unwrap();
    let row = |line: &str| {
        let [file, processors, lower, upper, status] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let job = format::read_path(stg.join(file)).unwrap();
        let cluster = Cluster::identical(processors.parse().unwrap(), SlotModel::Exclusive).unwrap();
        Row {
            name: format!("{file} x {processors}"),
            instance: instance(&job, cluster, DataModel::Edges),
            lower: lower.parse().unwrap(),
            best: upper.parse().unwrap(),
            proven: status == "proven",
        }
    };
    table.lines().skip(1).step_by(every).map(row).collect()
}

/// Every `every`-th project of one size.
pub(crate) fn psplib(data: &Path, size: &str, every: usize) -> Vec<Row> {
    let folder = data.join("rcpsp_psplib");
    let known = known_makespans(&folder);
    let mut files: Vec<_> =
        std::fs::read_dir(folder.join(size)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let row = |path: &std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (lower, best, proven) = known.get(&name).copied().unwrap_or((0.0, f64::NAN, false));
        Row { instance: rcp(&read_to_string(path).unwrap()), name, lower, best, proven }
    };
    files.iter().step_by(every).map(row).collect()
}

/// The best makespans known of the projects with 120 tasks (parameter group, instance 1), which the data lacks: the list
/// of heuristic solutions `j120hrs.sm` of PSPLIB, state of September 2024.
const J120_BEST: [(usize, f64); 10] = [
    (2, 87.0),
    (7, 101.0),
    (13, 126.0),
    (19, 88.0),
    (24, 93.0),
    (35, 87.0),
    (40, 81.0),
    (46, 187.0),
    (51, 206.0),
    (57, 185.0),
];

/// Lower bound, best makespan and whether it is the optimum.
fn known_makespans(folder: &Path) -> BTreeMap<String, (f64, f64, bool)> {
    let mut known = BTreeMap::new();
    for line in read_to_string(folder.join("cpsat_makespans.csv")).unwrap().lines().skip(1) {
        let [file, _, status, makespan, lower] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let name = file.split('/').next_back().unwrap().trim_end_matches(".rcp").to_owned();
        known.insert(name, (lower.parse().unwrap(), makespan.parse().unwrap(), status == "OPTIMAL"));
    }
    for line in read_to_string(folder.join("j90lb.sm")).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<f64> = words.iter().map_while(|word| word.parse().ok()).collect();
        if let [parameter, number, upper, lower] = numbers[..] {
            known.insert(format!("j90_{parameter}_{number}"), (lower, upper, words.get(4) == Some(&"*")));
        }
    }
    known.extend(J120_BEST.map(|(group, best)| (format!("j120_{group}_1"), (0.0, best, false))));
    known
}

/// A project in Patterson's format: tasks on one node with several resources.
fn rcp(text: &str) -> Instance {
    let mut numbers = text.split_whitespace().map(|word| word.parse::<usize>().unwrap());
    let mut next = || numbers.next().unwrap();
    let (tasks, resources) = (next(), next());
    let mut node = Node::new("pool").cores(1.0);
    for r in 0..resources {
        node.capacity.other.insert(format!("r{r}"), next() as f64);
    }
    let mut job = JobGraph::builder("project");
    let mut edges = Vec::new();
    for t in 0..tasks {
        let task = Task::new(format!("t{t}")).seconds(next() as f64);
        let task = task.with_demand(|demand| {
            demand.cores = 0.0;
            demand.other.extend((0..resources).map(|r| (format!("r{r}"), next() as f64)));
        });
        job.task(task).unwrap();
        edges.extend((0..next()).map(|_| (t, next() - 1)));
    }
    for (parent, child) in edges {
        job.depend(TaskId::new(child), TaskId::new(parent), 0.0);
    }
    let network = Network::uniform(Link::INSTANT);
    let cluster = Cluster::new(vec![node], network, SlotModel::Resources).unwrap();
    instance(&job.build().unwrap(), cluster, DataModel::Edges)
}

/// The eight machines of the reference makespans.
#[derive(Deserialize)]
pub(crate) struct Machines {
    machines: Vec<Machine>,
    bandwidth_bytes_per_s: f64,
    latency_s: f64,
}

#[derive(Deserialize)]
struct Machine {
    name: String,
    speed: f64,
}

impl Machines {
    pub(crate) fn read(data: &Path) -> Self {
        serde_json::from_slice(&std::fs::read(data.join("reference/machines_q8.json")).unwrap()).unwrap()
    }

    fn cluster(&self) -> Cluster {
        let nodes = self.machines.iter().map(|m| Node::new(m.name.clone()).speed(m.speed)).collect();
        let link = Link { latency: self.latency_s, bandwidth: self.bandwidth_bytes_per_s };
        Cluster::new(nodes, Network::uniform(link), SlotModel::Exclusive).unwrap()
    }

    /// The instance as the authors of the reference makespans made it; its file may be packed.
    pub(crate) fn instance(&self, data: &Path, name: &str) -> Instance {
        let job = format::read_path(data.join("wfinstances").join(name)).unwrap();
        instance(&with_least_time(&job), self.cluster(), DataModel::Edges)
    }
}

/// The reference model gives tasks without run time a nanosecond.
fn with_least_time(job: &JobGraph) -> JobGraph {
    let mut copy = JobGraph::builder(job.name());
    for task in job.tasks() {
        let Work::Seconds(seconds) = task.work else { panic!("task {} has no run time", task.name) };
        copy.task(Task::new(task.name.clone()).seconds(seconds.max(1e-9))).unwrap();
    }
    for (parent, child, dependency) in job.dependencies() {
        copy.depend(child, parent, dependency.bytes);
    }
    copy.build().unwrap()
}

/// Workflows on eight unequal machines, with the best makespan of other planners. A solver that proved optima
/// rounded times to milliseconds.
pub(crate) fn q8(data: &Path) -> Vec<Row> {
    let machines = Machines::read(data);
    let table = read_to_string(data.join("reference/makespans_q8.csv")).unwrap();
    let mut best: BTreeMap<&str, (f64, f64, bool)> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let [name, _, _, peer, makespan, lower, _] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let (makespan, lower): (f64, f64) = (makespan.parse().unwrap(), lower.parse().unwrap());
        let known = best.entry(name).or_insert((makespan, lower, false));
        known.0 = known.0.min(makespan);
        known.2 |= peer.ends_with("OPTIMAL");
    }
    let row = |(name, (best, lower, proven)): (&str, (f64, f64, bool))| Row {
        name: name.to_owned(),
        instance: machines.instance(data, name),
        lower,
        best,
        proven,
    };
    best.into_iter().map(row).collect()
}
