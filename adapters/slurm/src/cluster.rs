//! The nodes of a partition as a cluster that policies can plan for.
//!
//! Slurm knows cores, memory, GPUs and other generic resources, but not how fast a node is. A feature such as `speed_2.5` tells
//! that; so does a cluster file, which may also tell speeds for kinds of tasks, the network, prices and power. O(nodes).

use std::collections::BTreeMap;

use mdts_core::{Capacity, Cluster, Link, Network, Node, SlotModel};

use crate::{Error, NodeRecord, PartitionRecord, Result, Slurm};

/// A feature that begins so tells the speed of its node.
const SPEED: &str = "speed_";

/// What was found out about a partition.
#[derive(Debug, Clone)]
pub struct Discovered {
    /// Its nodes that are in service, in the resources model; those of the cluster file if there is one, in its model.
    pub cluster: Cluster,
    /// Its name.
    pub partition: String,
    /// Memory in MiB that is a core's share, if jobs that ask for none would otherwise get that of a whole node.
    pub memory_per_core_mib: Option<u64>,
    /// Nodes that are not in service, with their states.
    pub left_out: Vec<String>,
}

/// Finds out about a partition, Slurm's default if none is named. A cluster file (`given`) tells which of its nodes to use and
/// how fast they are.
///
/// # Errors
/// [`Error::Usage`] if there is no such partition, it is not up or has no node in service, or the file names a node that it
/// does not have; those of every call.
pub async fn discover(
    slurm: &dyn Slurm,
    partition: Option<&str>,
    given: Option<&Cluster>,
) -> Result<Discovered> {
    let partitions = slurm.partitions().await?;
    let partition = choose(&partitions, partition)?;
    let all = slurm.nodes().await?;
    let own: Vec<&NodeRecord> = all.iter().filter(|node| node.partitions.contains(&partition.name)).collect();
    let (usable, others): (Vec<&NodeRecord>, Vec<&NodeRecord>) =
        own.iter().partition(|node| node.is_usable());
    let left_out: Vec<String> = others.iter().map(|node| format!("{} ({})", node.name, node.state)).collect();
    if usable.is_empty() {
        return Err(Error::Usage(format!(
            "partition '{}' has no node in service: {}; wait, or name another one with --partition",
            partition.name,
            if left_out.is_empty() { "it has none at all".to_owned() } else { left_out.join(", ") }
        )));
    }
    let cluster = if let Some(given) = given {
        fill(given, &own, &partition.name)?
    } else {
        let nodes = usable.iter().map(|node| described(node)).collect::<Result<_>>()?;
        let network = Network::uniform(Link::INSTANT);
        Cluster::new(nodes, network, SlotModel::Resources).map_err(|error| of_core(&error))?
    };
    let has_default = partition.memory_per_cpu_mib.is_some() || partition.memory_per_node_mib.is_some();
    let memory_per_core_mib = if has_default || has_default_memory(&slurm.config().await?) {
        None
    } else {
        usable.iter().map(|node| node.memory_mib / u64::from(node.cpus.max(1))).min().filter(|mib| *mib > 0)
    };
    Ok(Discovered { cluster, partition: partition.name.clone(), memory_per_core_mib, left_out })
}

fn choose<'a>(partitions: &'a [PartitionRecord], name: Option<&str>) -> Result<&'a PartitionRecord> {
    let names = || partitions.iter().map(|partition| partition.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = match name {
        Some(name) => partitions
            .iter()
            .find(|partition| partition.name == name)
            .ok_or_else(|| Error::Usage(format!("Slurm has no partition '{name}'; it has {}", names())))?,
        None => partitions.iter().find(|partition| partition.is_default).ok_or_else(|| {
            Error::Usage(format!("Slurm has no default partition; choose one with --partition: {}", names()))
        })?,
    };
    if !found.is_up {
        let name = &found.name;
        return Err(Error::Usage(format!(
            "partition '{name}' is not up; wait, or choose another one: {}",
            names()
        )));
    }
    Ok(found)
}

fn has_default_memory(config: &BTreeMap<String, String>) -> bool {
    ["DefMemPerCPU", "DefMemPerNode", "DefMemPerGPU"]
        .iter()
        .any(|key| config.get(*key).is_some_and(|value| value.parse::<u64>().is_ok()))
}

/// A node with what Slurm tells of it.
fn described(record: &NodeRecord) -> Result<Node> {
    let mut node = Node::new(&record.name);
    node.capacity = capacity(record);
    let speeds: Vec<&str> =
        record.features.iter().filter_map(|feature| feature.strip_prefix(SPEED)).collect();
    if let Some(speed) = speeds.first() {
        node.speed = speed.parse().map_err(|_| {
            Error::Usage(format!(
                "node {}: its feature '{SPEED}{speed}' tells no speed; expected a number such as {SPEED}2.5",
                record.name
            ))
        })?;
    }
    Ok(node)
}

fn capacity(record: &NodeRecord) -> Capacity {
    let mut capacity = Capacity {
        cores: Some(f64::from(record.cpus.max(1))),
        memory: Some(record.memory_mib << 20).filter(|bytes| *bytes > 0),
        ..Capacity::default()
    };
    for (name, _, count) in &record.gres {
        if name == "gpu" {
            capacity.gpus += *count as f64;
        } else {
            *capacity.other.entry(name.clone()).or_default() += *count as f64;
        }
    }
    capacity
}

/// The nodes of a file with the capacities that Slurm knows.
fn fill(given: &Cluster, own: &[&NodeRecord], partition: &str) -> Result<Cluster> {
    let find = |name: &str| own.iter().find(|record| record.name == name);
    let unknown: Vec<&str> =
        given.nodes().iter().map(|node| node.name.as_str()).filter(|name| find(name).is_none()).collect();
    if !unknown.is_empty() {
        let known: Vec<&str> = own.iter().map(|record| record.name.as_str()).collect();
        return Err(Error::Usage(format!(
            "the cluster file names nodes that partition '{partition}' of Slurm does not have: {}; it has {}",
            unknown.join(", "),
            known.join(", ")
        )));
    }
    let nodes = given.nodes().iter().filter_map(|node| {
        let mut node = node.clone();
        node.capacity = capacity(find(&node.name)?);
        Some(node)
    });
    Cluster::new(nodes.collect(), given.network().clone(), given.slots()).map_err(|error| of_core(&error))
}

fn of_core(error: &mdts_core::Error) -> Error {
    Error::Usage(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, features: &[&str]) -> NodeRecord {
        NodeRecord {
            name: name.into(),
            state: "IDLE".into(),
            reason: String::new(),
            cpus: 8,
            memory_mib: 1000,
            features: features.iter().map(|feature| (*feature).to_owned()).collect(),
            gres: vec![
                ("gpu".into(), "a".into(), 2),
                ("gpu".into(), "b".into(), 1),
                ("fpga".into(), String::new(), 4),
            ],
            partitions: vec!["main".into()],
            weight: 1,
            cpus_held: 0,
        }
    }

    #[test]
    fn a_node_is_described() -> Result<()> {
        let node = described(&record("a", &["avx", "speed_2.5"]))?;
        assert_eq!((node.speed, node.capacity.cores, node.capacity.gpus), (2.5, Some(8.0), 3.0));
        assert_eq!(node.capacity.memory, Some(1000 << 20));
        assert_eq!(node.capacity.other.get("fpga"), Some(&4.0));
        let wrong = described(&record("a", &["speed_fast"])).map_err(|error| error.to_string());
        assert!(wrong.is_err_and(|message| message.contains("speed_fast")));
        Ok(())
    }

    #[test]
    fn a_file_adds_speeds_and_names_no_strangers() -> Result<(), Box<dyn std::error::Error>> {
        let (a, b) = (record("a", &[]), record("b", &[]));
        let file = |name: &str| {
            Cluster::from_text(&format!("[[node]]\nname = '{name}'\nspeed = 3.0\ncores = 99"), "toml")
        };
        let cluster = fill(&file("b")?, &[&a, &b], "main")?;
        assert_eq!(
            (cluster.len(), cluster.nodes()[0].speed, cluster.nodes()[0].capacity.cores),
            (1, 3.0, Some(8.0))
        );
        let message = fill(&file("c")?, &[&a, &b], "main").map(drop).map_err(|error| error.to_string());
        assert_eq!(
            message.err().as_deref(),
            Some("the cluster file names nodes that partition 'main' of Slurm does not have: c; it has a, b")
        );
        Ok(())
    }

    #[test]
    fn partitions_are_chosen() {
        let partition = |name: &str, is_default, is_up| PartitionRecord {
            name: name.into(),
            is_default,
            is_up,
            limit_seconds: None,
            memory_per_cpu_mib: None,
            memory_per_node_mib: None,
            default_seconds: None,
            most_nodes: None,
            is_open: true,
            is_exclusive: false,
        };
        let all = [partition("a", false, true), partition("b", true, true), partition("c", false, false)];
        let name =
            |wanted| choose(&all, wanted).map(|found| found.name.clone()).map_err(|error| error.to_string());
        assert_eq!(name(None).as_deref(), Ok("b"));
        assert_eq!(name(Some("a")).as_deref(), Ok("a"));
        assert!(name(Some("x")).is_err_and(|message| message.contains("a, b, c")));
        assert!(name(Some("c")).is_err_and(|message| message.contains("not up")));
    }
}
