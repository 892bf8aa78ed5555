//! Nodes: registered by name, alive as long as they are heard of.

use std::sync::Arc;

use mdts_core::engine::{Engine, Event, JobId, Phase, State, TaskRun};
use mdts_core::{Capacity, Cluster, Instance, Node, NodeId};
use mdts_dag::{JobGraph, Task};

use super::{Brain, Outcome};
use crate::api::{NodeSpec, NodeState, Problem};

/// Most nodes that are known at a time.
const MOST_NODES: usize = 10_000;
/// Longest name of a node, in bytes.
const LONGEST_NAME: usize = 255;

/// A node and when it was heard of last.
#[derive(Debug, Clone)]
pub(super) struct NodeEntry {
    pub(super) name: String,
    pub(super) spec: NodeSpec,
    pub(super) heard: f64,
    /// Another node may take its number.
    pub(super) removed: bool,
}

/// What a registration means for one node.
struct Placing {
    at: usize,
    entry: NodeEntry,
    /// The node was not there, or not like this.
    is_new: bool,
}

impl Brain {
    /// Registers nodes. One that is known as it is counts as heard of; one that has changed is another one, whose work
    /// starts anew.
    pub(super) fn register(&mut self, nodes: &[(String, String)]) -> Result<Outcome, Problem> {
        let placings = self.placings(nodes)?;
        let is_new = placings.iter().any(|p| p.is_new);
        let change = if is_new { Some(self.changed_cluster(&placings)?) } else { None };
        // From here on nothing is refused.
        let gone = placings.iter().filter(|p| p.is_new).map(|p| NodeId::new(p.at));
        for node in gone.collect::<Vec<_>>() {
            self.lose(node)?;
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
        for Placing { at, entry, .. } in placings {
            self.node_names.insert(entry.name.clone(), NodeId::new(at));
            if at < self.nodes.len() {
                self.nodes[at] = entry;
            } else {
                self.nodes.push(entry);
            }
        }
        self.advance(joined)?;
        Ok(Outcome::Done)
    }

    /// Finds a number for every node.
    fn placings(&self, nodes: &[(String, String)]) -> Result<Vec<Placing>, Problem> {
        let mut free = (0..self.nodes.len()).filter(|at| self.nodes[*at].removed).chain(self.nodes.len()..);
        let mut placings = Vec::with_capacity(nodes.len());
        for (name, spec) in nodes {
            if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
                let what = "is empty, has control characters or more than 255 bytes";
                return Err(Problem::unusable(format!(
                    "the name of a node, '{}', {what}",
                    name.escape_debug()
                )));
            }
            let spec: NodeSpec = serde_json::from_str(spec)
                .map_err(|error| Problem::bad_request(format!("node '{name}': {error}")))?;
            if spec.lease_seconds.is_some_and(|s| !(0.0..=1e9).contains(&s)) {
                return Err(Problem::unusable(format!("node '{name}': lease_seconds must be 0 to 1e9")));
            }
            let known = self.node_names.get(name).map(|id| id.index());
            let is_new = known.is_none_or(|at| offers(&self.nodes[at].spec) != offers(&spec));
            let Some(at) = known.or_else(|| free.next()) else { continue };
            if at >= MOST_NODES {
                return Err(Problem::conflict(format!("more than {MOST_NODES} nodes; remove some first")));
            }
            let entry = NodeEntry { name: name.clone(), spec, heard: self.now, removed: false };
            placings.push(Placing { at, entry, is_new });
        }
        Ok(placings)
    }

    /// The cluster with these nodes, and all open jobs on it.
    #[allow(clippy::type_complexity)]
    fn changed_cluster(
        &self,
        placings: &[Placing],
    ) -> Result<(Arc<Cluster>, Vec<(JobId, Arc<Instance>)>), Problem> {
        let mut nodes: Vec<Node> = self.nodes.iter().enumerate().map(|(at, n)| node(n, at)).collect();
        for placing in placings {
            let node = node(&placing.entry, placing.at);
            if placing.at < nodes.len() {
                nodes[placing.at] = node;
            } else {
                nodes.push(node);
            }
        }
        let network = self.terms.network.resized(nodes.len());
        let cluster = Cluster::new(nodes, network, self.terms.slots);
        let cluster = Arc::new(cluster.map_err(|error| Problem::unusable(error.to_string()))?);
        let open = self.engine.iter().flat_map(|engine| engine.state().open_jobs());
        let instances = open.map(|job| {
            let graph = self.jobs[&job].flat.clone();
            let instance = Instance::new(graph, cluster.clone(), self.terms.data);
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
        self.nothing = Some(Arc::new(nothing(&cluster).map_err(fault)?));
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
        for run in running_on(engine.state(), node, &self.jobs) {
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

/// The node of the cluster. One that was removed keeps its number under a name that no node can have.
pub(super) fn node(entry: &NodeEntry, at: usize) -> Node {
    let NodeSpec { speed, speeds, cores, memory, gpus, resources, .. } = entry.spec.clone();
    let name = if entry.removed { format!("\u{0}{at}") } else { entry.name.clone() };
    let mut node = Node::new(name).speed(speed);
    node.capacity = Capacity { cores, memory, gpus, other: resources };
    node.speeds = speeds;
    node
}

/// An instance of one task that needs nothing.
pub(super) fn nothing(cluster: &Arc<Cluster>) -> mdts_core::Result<Instance> {
    let mut job = JobGraph::builder("forgotten");
    job.task(Task::new("nothing").seconds(0.0).cores(0.001))?;
    Instance::new(job.build()?.freeze().into(), cluster.clone(), mdts_dag::DataModel::Edges)
}

fn running_on(
    state: &State,
    node: NodeId,
    jobs: &rustc_hash::FxHashMap<JobId, super::JobEntry>,
) -> Vec<TaskRun> {
    let mut runs = Vec::new();
    for job in state.open_jobs() {
        for task in jobs.get(&job).into_iter().flat_map(|entry| entry.flat.tasks()) {
            if state.node_of(job, task) == Some(node) && state.phase(job, task) == Phase::Running {
                runs.push(TaskRun { job, task, attempt: state.attempts(job, task) });
            }
        }
    }
    runs
}
