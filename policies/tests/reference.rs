//! Makespans of another implementation on real workflows, with the same machines and cost model.

mod common;

use common::{data, instance, plan};
use mdts_core::{Cluster, Link, Network, Node, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task, Work, format};
use serde::Deserialize;

#[derive(Deserialize)]
struct Machines {
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
    fn cluster(&self) -> Cluster {
        let nodes = self.machines.iter().map(|m| Node::new(m.name.clone()).speed(m.speed)).collect();
        let link = Link { latency: self.latency_s, bandwidth: self.bandwidth_bytes_per_s };
        Cluster::new(nodes, Network::uniform(link), SlotModel::Exclusive).unwrap()
    }
}

/// The file's model gives tasks without run time a nanosecond.
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

const PEERS: [(&str, &str); 10] = [
    ("Heft", "heft"),
    ("Cpop", "cpop"),
    ("MCT", "mct"),
    ("MinMin", "min-min"),
    ("MaxMin", "max-min"),
    ("Sufferage", "sufferage"),
    ("OLB", "olb"),
    ("ETF", "etf"),
    ("MET", "met"),
    ("FastestNode", "fastest-node"),
];

#[test]
fn zz_print() {
    let Some(folder) = data("reference", "x") else { return };
    let machines: Machines =
        serde_json::from_slice(&std::fs::read(folder.join("machines_q8.json")).unwrap()).unwrap();
    let table = std::fs::read_to_string(folder.join("makespans_q8.csv")).unwrap();
    let mut last = (String::new(), None);
    for line in table.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let Some((_, ours)) = PEERS.iter().find(|(p, _)| cells[3] == format!("saga-2.0.2/{p}")) else {
            continue;
        };
        if last.0 != cells[0] {
            let path = folder.join("../wfinstances").join(cells[0]);
            let path = if path.exists() { path } else { format!("{}.gz", path.display()).into() };
            let job = with_least_time(&format::read_path(&path).unwrap());
            last = (cells[0].to_owned(), Some(instance(&job, machines.cluster(), DataModel::Edges)));
        }
        let inst = last.1.as_ref().unwrap();
        let theirs: f64 = cells[4].parse().unwrap();
        let got = plan(ours, inst).makespan();
        println!(
            "{:+.3}% {} {} {} {} ours {} theirs {}",
            (got / theirs - 1.0) * 100.0,
            ours,
            cells[0],
            cells[1],
            cells[2],
            got,
            theirs
        );
    }
}
