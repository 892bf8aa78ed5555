//! Requests that no state of the cluster can satisfy, and what to say of them. O(nodes).
//!
//! Nodes that are down count, since they may come back; what only Slurm can judge is never called hopeless.

use super::demand::{cpus_of_a_task, demand};
use super::features::Features;
use super::{Memory, Node, Partition, Request, View};

/// Why the job can never run in the partition.
pub(super) fn reason(request: &Request, partition: &Partition, view: &View) -> Option<String> {
    let place = format!("in partition {}", partition.name);
    if let (Some(minutes), Some(most)) = (request.minutes, partition.most_minutes)
        && minutes > most
    {
        return Some(format!(
            "the time limit is {minutes} minutes, and partition {} allows {most}; ask for less with --time, or name another partition",
            partition.name
        ));
    }
    let all: Vec<&Node> = partition.nodes.iter().filter_map(|at| view.nodes.get(*at)).collect();
    let features = request.features.as_deref().and_then(Features::read);
    let nodes: Vec<&Node> =
        all.iter().copied().filter(|n| features.as_ref().is_none_or(|f| f.fit(&n.features))).collect();
    if nodes.is_empty() {
        let wanted = request.features.as_deref().filter(|_| !all.is_empty())?;
        return Some(format!(
            "no node {place} has the features {wanted}; there are {}",
            names_of_features(&all)
        ));
    }
    lacking(request, partition, view, &nodes, &place)
        .or_else(|| too_large(request, partition, &nodes, &place))
}

/// What no single node has enough of, for the smallest part of the job that has to be on one node.
fn lacking(
    request: &Request,
    partition: &Partition,
    view: &View,
    nodes: &[&Node],
    place: &str,
) -> Option<String> {
    let largest =
        |of: &dyn Fn(&Node) -> u64| nodes.iter().max_by_key(|n| of(n)).map(|n| (n.name.clone(), of(n)));
    let cpus = cpus_of_a_task(request).max(request.cpus_per_node.unwrap_or(0));
    let (name, most) = largest(&|n| n.cpus)?;
    if cpus > most {
        return Some(format!(
            "no node {place} has {cpus} CPUs; the largest, {name}, has {most}; ask for fewer with --cpus-per-task, or for more tasks with --ntasks"
        ));
    }
    // One task alone, with all that comes with every node.
    let one = Request { tasks: Some(1), cpus: None, tasks_per_node: None, gpus: None, ..request.clone() };
    let one = demand(&one, 1, partition.default_memory.unwrap_or(view.default_memory));
    let (name, most) = largest(&|n| n.memory)?;
    if let Some(memory) = one.memory.filter(|_| request.memory != Memory::Default)
        && memory > most
    {
        return Some(format!(
            "no node {place} has {memory} MiB of memory; the largest, {name}, has {most} MiB; ask for less with --mem or --mem-per-cpu"
        ));
    }
    for (kind, count) in &one.gres {
        let (name, most) = largest(&|n| n.gres.get(kind).copied().unwrap_or(0))?;
        if most == 0 {
            return Some(format!(
                "no node {place} has the generic resource {kind}; sinfo -o '%n %G' shows what there is"
            ));
        }
        if *count > most {
            return Some(format!(
                "no node {place} has {count} of the generic resource {kind}; {name} has the most, {most}; ask for fewer, or for several nodes"
            ));
        }
    }
    let together = nodes.iter().any(|node| one.fits(node));
    (!together).then(|| format!("no single node {place} has all that one task needs: {}", show(&one)))
}

/// What all nodes together have too little of.
fn too_large(request: &Request, partition: &Partition, nodes: &[&Node], place: &str) -> Option<String> {
    let least = request.nodes.map_or(1, |(least, _)| least);
    if least > nodes.len() as u64 {
        let have = nodes.len();
        return Some(format!(
            "{least} nodes are asked for, and there are {have} {place}; ask for fewer with --nodes"
        ));
    }
    if let Some(most) = partition.most_nodes.filter(|most| least > *most) {
        return Some(format!(
            "{least} nodes are asked for, and partition {} allows {most}; ask for fewer with --nodes",
            partition.name
        ));
    }
    let each = cpus_of_a_task(request);
    let (tasks, cpus) = match request.tasks {
        Some(tasks) => (tasks, request.cpus.unwrap_or(0)),
        None => (0, request.cpus?),
    };
    let most_nodes =
        request.nodes.map_or(u64::MAX, |(_, most)| most).min(partition.most_nodes.unwrap_or(u64::MAX));
    let mut of_nodes: Vec<u64> = nodes.iter().map(|n| n.cpus).collect();
    of_nodes.sort_unstable_by(|a, b| b.cmp(a));
    let of_nodes = &of_nodes[..of_nodes.len().min(usize::try_from(most_nodes).unwrap_or(usize::MAX))];
    let slots: u64 =
        of_nodes.iter().map(|cpus| (cpus / each).min(request.tasks_per_node.unwrap_or(u64::MAX))).sum();
    if tasks > slots {
        return Some(format!(
            "{tasks} tasks of {each} CPUs are asked for, and {slots} fit on {} nodes {place}; ask for fewer with --ntasks or --cpus-per-task",
            of_nodes.len()
        ));
    }
    let have: u64 = of_nodes.iter().sum();
    (cpus > have).then(|| {
        format!("{cpus} CPUs are asked for, and {} nodes {place} have {have}; ask for fewer", of_nodes.len())
    })
}

fn names_of_features(nodes: &[&Node]) -> String {
    const SHOWN: usize = 20;
    let mut names: Vec<&str> = nodes.iter().flat_map(|n| &n.features).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    match names.len() {
        0 => "none".to_owned(),
        n if n > SHOWN => format!("{} and {} more", names[..SHOWN].join(", "), n - SHOWN),
        _ => names.join(", "),
    }
}

fn show(one: &super::Demand) -> String {
    let mut parts = vec![format!("{} CPUs", one.cpus)];
    parts.extend(one.memory.map(|memory| format!("{memory} MiB")));
    // A family is told by its types, if it has any.
    let is_told = |name: &str| one.gres.keys().any(|other| other.starts_with(&format!("{name}:")));
    parts.extend(
        one.gres.iter().filter(|(name, _)| !is_told(name)).map(|(name, count)| format!("{name}:{count}")),
    );
    parts.join(", ")
}
