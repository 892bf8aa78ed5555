//! What a job needs on each of its nodes.

use std::collections::BTreeMap;

use super::{Memory, Node, Request};

/// The family of generic resources that GPUs are.
pub(super) const GPU: &str = "gpu";

/// Needs of a job on each of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// On so many nodes.
    pub nodes: u64,
    /// CPUs.
    pub cpus: u64,
    /// Mebibytes; none is all that a node has.
    pub memory: Option<u64>,
    /// Generic resources.
    pub gres: BTreeMap<String, u64>,
    /// Whole nodes.
    pub is_exclusive: bool,
}

/// The needs of a job that is spread evenly over `nodes` nodes; `default` is the memory of jobs that state none.
pub fn demand(request: &Request, nodes: u64, default: Memory) -> Demand {
    let nodes = nodes.max(1);
    let tasks = tasks_on_a_node(request, nodes);
    let mut gres = request.gres.clone();
    let in_all = request.gpus.map(|gpus| gpus.div_ceil(nodes));
    let of_tasks = request.gpus_per_task.map(|each| each.saturating_mul(tasks));
    let gpus = [gres.get(GPU).copied(), in_all, of_tasks].into_iter().flatten().max().unwrap_or(0);
    if gpus > 0 {
        gres.insert(GPU.to_owned(), gpus);
    }
    let of_gpus = request.cpus_per_gpu.map_or(0, |each| each.saturating_mul(gpus));
    let of_tasks = tasks.saturating_mul(cpus_of_a_task(request));
    let in_all = request.cpus.map_or(0, |cpus| cpus.div_ceil(nodes));
    let cpus = of_tasks.max(of_gpus).max(in_all).max(request.cpus_per_node.unwrap_or(0)).max(1);
    let memory = if request.memory == Memory::Default { default } else { request.memory };
    let memory = match memory {
        // Where the site says nothing, a job takes all.
        Memory::Default | Memory::PerNode(0) => None,
        Memory::PerNode(each) => Some(each),
        Memory::PerCpu(each) => Some(each.saturating_mul(cpus)),
        Memory::PerGpu(each) => Some(each.saturating_mul(gpus)),
    };
    Demand { nodes, cpus, memory, gres, is_exclusive: request.exclusive }
}

/// CPUs that one task needs on one node.
pub(super) fn cpus_of_a_task(request: &Request) -> u64 {
    request.cpus_per_task.unwrap_or(1).max(1)
}

fn tasks_on_a_node(request: &Request, nodes: u64) -> u64 {
    match (request.tasks, request.tasks_per_node) {
        (Some(tasks), _) => tasks.div_ceil(nodes),
        (None, Some(each)) => each,
        (None, None) => 1,
    }
    .max(1)
}

impl Demand {
    /// Whether the node could ever hold it.
    pub(super) fn fits(&self, node: &Node) -> bool {
        self.cpus <= node.cpus
            && self.memory.is_none_or(|memory| memory <= node.memory)
            && self.gres.iter().all(|(name, count)| node.gres.get(name).is_some_and(|has| has >= count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_follow_from_what_is_asked() {
        let table: [(Request, u64, u64, Option<u64>, u64); 8] = [
            (Request::default(), 1, 1, Some(100), 0),
            (Request { tasks: Some(6), cpus_per_task: Some(2), ..Request::default() }, 1, 12, Some(1200), 0),
            (Request { tasks: Some(6), cpus_per_task: Some(2), ..Request::default() }, 4, 4, Some(400), 0),
            (Request { tasks_per_node: Some(3), ..Request::default() }, 2, 3, Some(300), 0),
            (Request { gpus: Some(3), cpus_per_gpu: Some(4), ..Request::default() }, 2, 8, Some(800), 2),
            (
                Request {
                    gpus_per_task: Some(2),
                    tasks: Some(2),
                    memory: Memory::PerGpu(10),
                    ..Request::default()
                },
                1,
                2,
                Some(40),
                4,
            ),
            (Request { cpus: Some(7), memory: Memory::PerNode(0), ..Request::default() }, 2, 4, None, 0),
            (
                Request { memory: Memory::PerNode(5), cpus_per_node: Some(9), ..Request::default() },
                1,
                9,
                Some(5),
                0,
            ),
        ];
        for (request, nodes, cpus, memory, gpus) in table {
            let got = demand(&request, nodes, Memory::PerCpu(100));
            let has = got.gres.get(GPU).copied().unwrap_or(0);
            assert_eq!((got.cpus, got.memory, has), (cpus, memory, gpus), "{request:?}");
        }
        assert_eq!(demand(&Request::default(), 1, Memory::Default).memory, None);
    }

    #[test]
    fn huge_numbers_do_not_overflow() {
        let all = u64::MAX;
        let request = Request {
            tasks: Some(all),
            cpus_per_task: Some(all),
            gpus_per_task: Some(all),
            cpus_per_gpu: Some(all),
            memory: Memory::PerCpu(all),
            ..Request::default()
        };
        assert_eq!(demand(&request, 1, Memory::Default).memory, Some(all));
    }
}
