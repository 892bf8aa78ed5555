//! Nodes: registered by name, alive as long as they are heard of.

use std::collections::BTreeSet;
use std::sync::Arc;

use mdts_core::engine::{Engine, Event, JobId, State};
use mdts_core::{Capacity, Cluster, Instance, Node, NodeId, SlotModel};
use mdts_dag::{JobGraph, Task};
use rustc_hash::FxHashSet;

use super::{Brain, Outcome};
use crate::api::{NodeSpec, NodeState, Problem};

/// Most nodes that are known at a time.
const MOST_NODES: usize = 10_000;
/// Longest name of a node, a resource or a kind, in bytes.
const LONGEST_NAME: usize = 255;
/// Most resources that all nodes together offer by name.
const MOST_RESOURCES: usize = 64;
/// Most kinds that a node has speeds for.
const MOST_SPEEDS: usize = 256;

/// A node and when it was heard of last.
#[derive(Debug, Clone)]
pub(super) struct NodeEntry {
    pub(super) name: String,
    pub(super) spec: NodeSpec,
    pub(super) heard: f64,
    /// Another node may take its number and its name.
    pub(super) removed: bool,
    /// Another node has its name.
    pub(super) renamed: bool,
}

/// What a registration means for one node.
struct Placing {
    at: usize,
    entry: NodeEntry,
    /// The node was not there, or not like this.
    is_new: bool,
    /// The node that had its name.
    replaces: Option<NodeId>,
}

impl Brain {
    /// Registers nodes. One that is known as it is counts as heard of; one that has changed is another one under a number of
    /// its own, so that what ran on the old one is still told of that.
    pub(super) fn register(&mut self, nodes: &[(String, String)]) -> Result<Outcome, Problem> {
        let mut placings = self.placings(nodes, true)?;
        let mut entries = self.entries_with(&placings);
        let is_new = placings.iter().any(|placing| placing.is_new);
        let mut change = is_new.then(|| self.changed_cluster(&entries)).transpose();
        if change.is_err() {
            // Jobs may need removed nodes, whose numbers were to be used again, to be there by name.
            placings = self.placings(nodes, false)?;
            entries = self.entries_with(&placings);
            change = self.changed_cluster(&entries).map(Some);
        }
        let change = change?;
        // From here on nothing is refused.
        for node in placings.iter().filter_map(|placing| placing.replaces).collect::<Vec<_>>() {
            self.node_gone(node, true)?;
        }
        if let Some((cluster, instances)) = change {
            self.take_cluster(cluster, &instances)?;
        }
        let joined = placings.iter().map(|p| Event::NodeJoined(NodeId::new(p.at)));
        let draining = |event: &Event| match event {
            Event::NodeJoined(node) => self.node_state(*node) == NodeState::Draining,
            _ => false,
        };
        let joined: Vec<Event> = joined.filter(|event| !draining(event)).collect();
        for Placing { at, entry, is_new, .. } in placings {
            if is_new && let Some(engine) = &mut self.engine {
                engine.policy_mut().forget_node(NodeId::new(at));
            }
            self.node_names.insert(entry.name, NodeId::new(at));
        }
        self.nodes = entries;
        self.advance(joined)?;
        Ok(Outcome::Done)
    }

    /// Finds a number for every node; with `reuse`, those of removed nodes that no job tells of.
    fn placings(&self, nodes: &[(String, String)], reuse: bool) -> Result<Vec<Placing>, Problem> {
        let told = if reuse { self.nodes_told_of() } else { Vec::new() };
        let is_free = |at: &usize| reuse && self.nodes[*at].removed && !told[*at];
        let mut free = (0..self.nodes.len()).filter(is_free).chain(self.nodes.len()..);
        let mut placings = Vec::with_capacity(nodes.len());
        for (name, spec) in nodes {
            check_name("node", name)?;
            let spec: NodeSpec = serde_json::from_str(spec)
                .map_err(|error| Problem::bad_request(format!("node '{name}': {error}")))?;
            check_spec(name, &spec)?;
            let known = self.node_names.get(name).copied();
            let same = known.filter(|id| offers(&self.nodes[id.index()].spec) == offers(&spec));
            let Some(at) = same.map(NodeId::index).or_else(|| free.next()) else { continue };
            let entry =
                NodeEntry { name: name.clone(), spec, heard: self.now, removed: false, renamed: false };
            let replaces = known.filter(|_| same.is_none());
            placings.push(Placing { at, entry, is_new: same.is_none(), replaces });
        }
        let new = placings.iter().filter(|p| p.is_new && p.replaces.is_none()).count();
        let highest = placings.iter().map(|p| p.at).max().unwrap_or_default();
        if self.node_names.len() + new > MOST_NODES || highest >= 2 * MOST_NODES {
            return Err(Problem::conflict(format!("more than {MOST_NODES} nodes; remove some first")));
        }
        self.check_resources(&placings)?;
        Ok(placings)
    }

    /// By number, whether some job that is remembered tells of a node.
    fn nodes_told_of(&self) -> Vec<bool> {
        let mut told = vec![false; self.nodes.len()];
        if self.nodes.iter().any(|node| node.removed) {
            for granted in self.jobs.values().flat_map(|job| job.grants.after(0)) {
                told[granted.node as usize] = true;
            }
        }
        told
    }

    /// Every node, also one that was removed, has a row of all resources, so that their number is limited.
    fn check_resources(&self, placings: &[Placing]) -> Result<(), Problem> {
        let stays = |(at, _): &(usize, &NodeEntry)| placings.iter().all(|placing| placing.at != *at);
        let old = self.nodes.iter().enumerate().filter(stays).map(|(_, node)| node);
        let specs = old.chain(placings.iter().map(|placing| &placing.entry));
        let names: BTreeSet<&String> = specs.flat_map(|node| node.spec.resources.keys()).collect();
        if names.len() > MOST_RESOURCES {
            return Err(Problem::unusable(format!(
                "the nodes offer more than {MOST_RESOURCES} different resources"
            )));
        }
        Ok(())
    }

    /// All nodes when these are registered.
    fn entries_with(&self, placings: &[Placing]) -> Vec<NodeEntry> {
        let mut entries = self.nodes.clone();
        for placing in placings {
            if let Some(old) = placing.replaces {
                entries[old.index()].removed = true;
            }
            if placing.at < entries.len() {
                entries[placing.at] = placing.entry.clone();
            } else {
                entries.push(placing.entry.clone());
            }
        }
        let names: FxHashSet<&str> = placings.iter().map(|placing| placing.entry.name.as_str()).collect();
        for entry in entries.iter_mut().filter(|entry| entry.removed && names.contains(entry.name.as_str())) {
            entry.renamed = true;
        }
        entries
    }

    /// The cluster of these nodes, and all open jobs on it.
    #[allow(clippy::type_complexity)]
    fn changed_cluster(
        &self,
        entries: &[NodeEntry],
    ) -> Result<(Arc<Cluster>, Vec<(JobId, Arc<Instance>)>), Problem> {
        let nodes = in_cluster(entries);
        let network = self.terms.network.resized(nodes.len());
        let cluster = Cluster::new(nodes, network, self.terms.slots);
        let cluster = Arc::new(cluster.map_err(|error| Problem::unusable(error.to_string()))?);
        let states = self.engine.iter().map(Engine::state);
        let open = states.flat_map(|state| state.open_jobs().map(|job| (job, state.step(job))));
        let instances = open.map(|(job, step)| {
            let instance = step.instance().on(cluster.clone());
            instance.map(|instance| (job, Arc::new(instance))).map_err(|error| {
                Problem::conflict(format!("{job:?} needs nodes as they are: {error}; cancel the job first"))
            })
        });
        let instances = instances.collect::<Result<_, _>>()?;
        Ok((cluster, instances))
    }

    fn take_cluster(
        &mut self,
        cluster: Arc<Cluster>,
        instances: &[(JobId, Arc<Instance>)],
    ) -> Result<(), Problem> {
        let fault = |error: mdts_core::Error| Problem::internal(error.to_string());
        if let Some(engine) = &mut self.engine {
            // Both are in the order of the jobs' numbers.
            let of_job = |job| {
                let at = instances.binary_search_by_key(&job, |(id, _)| *id).ok()?;
                Some(instances[at].1.clone())
            };
            engine.state_mut().change_cluster(&cluster, of_job).map_err(fault)?;
        } else {
            let Some(policy) = self.policy.take() else { return Ok(()) };
            let mut engine = Engine::with_state(State::new(&cluster, false).on_demand(), policy);
            engine.keep_records();
            self.engine = Some(engine);
        }
        self.cluster = Some(cluster);
        Ok(())
    }

    /// A node is gone, with all that runs there.
    pub(super) fn node_gone(&mut self, node: NodeId, removed: bool) -> Result<Outcome, Problem> {
        self.lose(node)?;
        if let Some(entry) = self.nodes.get_mut(node.index()).filter(|_| removed) {
            entry.removed = true;
            self.node_names.remove(&entry.name);
        }
        Ok(Outcome::Done)
    }

    fn lose(&mut self, node: NodeId) -> Result<(), Problem> {
        let Some(engine) = &self.engine else { return Ok(()) };
        if node.index() >= engine.state().node_count() {
            return Ok(());
        }
        for run in engine.state().runs_on(node) {
            self.grant(run, node, false);
        }
        self.advance(vec![Event::NodeLost(node)])
    }

    pub(super) fn node_told(&mut self, event: Event) -> Result<Outcome, Problem> {
        self.advance(vec![event])?;
        Ok(Outcome::Done)
    }

    /// The node of this name.
    pub(crate) fn node(&self, name: &str) -> Result<NodeId, Problem> {
        let known = self.node_names.get(name).copied();
        known.ok_or_else(|| Problem::not_found(format!("no node is named '{}'", name.escape_debug())))
    }

    /// A node is alive; false if it is lost.
    pub(crate) fn hear_node(&mut self, node: NodeId) -> bool {
        self.nodes[node.index()].heard = self.now;
        self.node_state(node) != NodeState::Lost
    }

    pub(crate) fn node_state(&self, node: NodeId) -> NodeState {
        let Some(engine) = &self.engine else { return NodeState::Lost };
        let state = engine.state();
        if node.index() >= state.node_count() {
            return NodeState::Lost;
        }
        match (state.is_alive(node), state.is_draining(node)) {
            (true, _) => NodeState::Ready,
            (_, true) => NodeState::Draining,
            _ => NodeState::Lost,
        }
    }

    /// Whether registering these nodes changes nothing but when they were heard of.
    pub(crate) fn knows<'a>(&self, nodes: impl IntoIterator<Item = (&'a String, &'a NodeSpec)>) -> bool {
        nodes.into_iter().all(|(name, spec)| {
            let known = self.node_names.get(name);
            known.is_some_and(|id| {
                self.nodes[id.index()].spec == *spec && self.node_state(*id) != NodeState::Lost
            })
        })
    }
}

/// All but the lease.
fn offers(spec: &NodeSpec) -> NodeSpec {
    NodeSpec { lease_seconds: None, ..spec.clone() }
}

/// The nodes of the cluster. One that was removed keeps its number, and its name until another one gets it.
pub(super) fn in_cluster(entries: &[NodeEntry]) -> Vec<Node> {
    let nodes = entries.iter().enumerate().map(|(at, entry)| {
        let NodeSpec { speed, speeds, cores, memory, gpus, resources, .. } = entry.spec.clone();
        let name = if entry.renamed { format!("\u{0}{at}") } else { entry.name.clone() };
        let mut node = Node::new(name).speed(speed);
        node.capacity = Capacity { cores, memory, gpus, other: resources };
        node.speeds = speeds;
        node
    });
    nodes.collect()
}

fn check_name(what: &str, name: &str) -> Result<(), Problem> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        let begin: String = name.chars().take(40).collect();
        return Err(Problem::unusable(format!(
            "the name of a {what}, '{}', is empty, has control characters or more than {LONGEST_NAME} bytes",
            begin.escape_debug()
        )));
    }
    Ok(())
}

fn check_spec(name: &str, spec: &NodeSpec) -> Result<(), Problem> {
    if spec.lease_seconds.is_some_and(|s| !(0.0..=1e9).contains(&s)) {
        return Err(Problem::unusable(format!("node '{name}': lease_seconds must be 0 to 1e9")));
    }
    if spec.speeds.len() > MOST_SPEEDS {
        return Err(Problem::unusable(format!("node '{name}' has speeds for more than {MOST_SPEEDS} kinds")));
    }
    spec.resources.keys().chain(spec.speeds.keys()).try_for_each(|name| check_name("resource or kind", name))
}

/// An instance of one task on a node of its own.
pub(super) fn nothing() -> mdts_core::Result<Arc<Instance>> {
    let mut job = JobGraph::builder("over");
    job.task(Task::new("nothing").seconds(0.0).cores(0.001))?;
    let cluster = Arc::new(Cluster::identical(1, SlotModel::Exclusive)?);
    Instance::new(job.build()?.freeze().into(), cluster, mdts_dag::DataModel::Edges).map(Arc::new)
}
