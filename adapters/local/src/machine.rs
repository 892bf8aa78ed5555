//! This machine as a cluster of one node.

use std::thread::available_parallelism;

use mdts_core::{Cluster, Link, Network, Node, Result, SlotModel};

/// One node of speed 1 with this machine's name, processor cores and memory, in the resources model.
///
/// The cores are those that this process may use, the GPUs those of the NVIDIA driver; the memory is left open where the system does not tell.
///
/// # Errors
/// None is known; the cluster is checked like any other.
pub fn this_machine() -> Result<Cluster> {
    let cores = available_parallelism().map_or(1.0, |n| n.get() as f64);
    let mut node = Node::new(host_name()).cores(cores);
    node.capacity.gpus = gpus() as f64;
    node.capacity.memory = std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(total_memory);
    Cluster::new(vec![node], Network::uniform(Link::INSTANT), SlotModel::Resources)
}

/// GPUs as their driver lists them.
fn gpus() -> usize {
    std::fs::read_dir("/proc/driver/nvidia/gpus").map_or(0, Iterator::count)
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// Bytes, from the line `MemTotal:  16308460 kB`.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_total_line() {
        let cases = [
            ("MemFree: 1 kB\nMemTotal:       16308460 kB\n", Some(16_308_460 * 1024)),
            ("MemTotal: 0 kB", None),
            ("MemTotal: many kB", None),
            ("MemTotal: 99999999999999999999 kB", None),
            ("", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(total_memory(text), bytes, "{text}");
        }
    }

    #[test]
    fn this_machine_has_a_core() -> Result<()> {
        let cluster = this_machine()?;
        assert_eq!((cluster.len(), cluster.slots()), (1, SlotModel::Resources));
        assert!(cluster.node(0.into()).capacity.cores.is_some_and(|cores| cores >= 1.0));
        Ok(())
    }
}
