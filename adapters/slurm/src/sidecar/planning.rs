//! What to change about jobs that wait: the whole queue is planned as one graph, and its workflows' jobs are led to the nodes that
//! the plan gives them.
//!
//! Only jobs of workflows (with dependencies), jobs that ask for it (`mdts:place`) and jobs that were led before are changed; what
//! users have fixed stays. A job is pinned when all that it waits for runs or has ended, not before, and the pin moves with the plan.
//! Every change is marked in the job's administrator's comment, so that it is known again and can be taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mdts_core::{Cluster, Instance, Link, Network, NodeId, Placement, Planner, Progress, Rng, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task, TaskId};

use super::survey::Look;
use crate::brain::{Memory, Request, Running, Standing, Tag, View, eligible};
use crate::queue::{Queued, Standings};
use crate::{Change, JobRecord, spell};

/// Marks jobs that were changed, in their administrator's comment.
const MARK: &str = "mdts:placed";
/// Reasons to wait that a place may end, or that end by themselves.
const PATIENT: [&str; 6] = ["Priority", "Resources", "Dependency", "", "ReqNodeNotAvail", "BeginTime"];
/// A job that its user holds.
const HELD: &str = "JobHeldUser";
/// The priority is changed only for more than this part of its range.
const NICE_STEP: f64 = 0.05;
/// Most run times, jobs times nodes, that a plan looks at; a longer queue is planned from its front.
const MOST_TIMES: usize = 4_000_000;

/// What a plan comes to.
#[derive(Debug, Default)]
pub struct Steps {
    /// What to change in Slurm.
    pub changes: Vec<Change>,
    /// Where jobs that wait are expected, for the brain.
    pub planned: Vec<Running>,
}

/// Everything that planning looks at.
#[derive(Debug)]
pub struct Situation<'a> {
    /// What was seen.
    pub look: &'a Look,
    /// The same as a view.
    pub view: &'a View,
    /// The jobs that have not ended, as a graph whose run times are at speed 1.
    pub queued: &'a Queued,
    /// How urgent they are.
    pub standings: &'a Standings,
    /// How far priorities are lowered; 0 leaves them alone.
    pub nice_range: u32,
}

impl Situation<'_> {
    /// Plans the queue; what is to be changed.
    ///
    /// # Errors
    /// What keeps the planner from planning.
    pub fn steps(&self, planner: &dyn Planner, rng: &mut Rng) -> mdts_core::Result<Steps> {
        let led: BTreeSet<usize> =
            (0..self.look.jobs.len()).filter(|at| self.is_led(&self.look.jobs[*at])).collect();
        let mut steps = Steps::default();
        if led.is_empty() {
            return Ok(steps);
        }
        let Some(problem) = Problem::new(self, &led)? else { return Ok(steps) };
        let schedule = planner.plan(&problem.instance, rng)?;
        for placement in schedule.placements() {
            let Some(at) = problem.waiting.get(&placement.task).copied().filter(|at| led.contains(at)) else {
                continue;
            };
            let node = problem.nodes[placement.node.index()];
            steps.planned.push(self.reservation(at, node, placement));
            steps.changes.extend(self.change(at, node));
        }
        Ok(steps)
    }

    /// Whether the job is one to lead.
    fn is_led(&self, job: &JobRecord) -> bool {
        let tag = Tag::read(&job.comment);
        let is_marked = job.admin_comment.starts_with(MARK);
        let asks = tag == Some(Tag::Place);
        let is_patient = PATIENT.contains(&job.reason.split(',').next().unwrap_or_default());
        job.state.is_waiting()
            && job.id.element.is_none()
            && !job.is_component
            && job.node_count <= 1
            && tag != Some(Tag::Run)
            && (is_patient || asks && job.reason == HELD)
            && (job.admin_comment.is_empty() || is_marked)
            && (job.required_nodes.is_empty() || is_marked)
            && (asks || is_marked || self.standings.of(job.id.job).is_some())
    }

    /// What to change of a job that goes to a node, if anything.
    fn change(&self, at: usize, node: usize) -> Option<Change> {
        let job = &self.look.jobs[at];
        let mut change = Change::of(job.id);
        let node = &self.view.nodes[node].name;
        let is_soon = !self.waits_for_waiting(at);
        if is_soon && job.required_nodes != *node {
            change.nodes = Some(node.clone());
        }
        change.nice = self.nice(job);
        if job.reason == HELD && is_soon {
            change.held = Some(false);
        }
        let changes = change.nodes.is_some() || change.nice.is_some();
        if changes && job.admin_comment.is_empty() {
            change.admin_comment = Some(MARK.to_owned());
        }
        (changes || change.held.is_some()).then_some(change)
    }

    /// The nice value that a job should have, unless it is near enough or not ours to set.
    fn nice(&self, job: &JobRecord) -> Option<i32> {
        let is_ours = job.nice == 0 || job.admin_comment.starts_with(MARK);
        let standing: Standing = self.standings.of(job.id.job).filter(|_| is_ours && self.nice_range > 0)?;
        let wanted = i64::from(standing.nice(self.nice_range)?);
        let step = (f64::from(self.nice_range) * NICE_STEP).max(1.0) as i64;
        (job.reason != HELD && (wanted - job.nice).abs() >= step).then(|| i32::try_from(wanted).unwrap_or(0))
    }

    fn waits_for_waiting(&self, at: usize) -> bool {
        let task = self.queued.jobs.binary_search(&at).ok();
        let parents = task.map(|task| self.queued.graph.parents(TaskId::new(task)));
        parents.into_iter().flatten().any(|p| self.look.jobs[self.queued.jobs[p.index()]].state.is_waiting())
    }

    fn reservation(&self, at: usize, node: usize, placement: &Placement) -> Running {
        let job = &self.look.jobs[at];
        let cpus = u64::from(job.cpus.max(1));
        let memory = if job.is_memory_per_cpu { job.memory_mib.saturating_mul(cpus) } else { job.memory_mib };
        Running {
            nodes: vec![node],
            cpus,
            memory,
            gres: spell::gres(&job.gres).unwrap_or_default(),
            start: placement.start.max(1e-3),
            seconds: placement.finish - placement.start,
        }
    }
}

/// The changes that take back what was done to jobs that still wait.
pub fn undone(jobs: &[JobRecord]) -> Vec<Change> {
    let marked = jobs.iter().filter(|job| job.state.is_waiting() && job.admin_comment.starts_with(MARK));
    let undo = |job: &JobRecord| Change {
        nodes: Some(String::new()),
        nice: Some(0),
        admin_comment: Some(String::new()),
        ..Change::of(job.id)
    };
    marked.map(undo).collect()
}

/// The queue as an instance: run times by node, what runs as started.
struct Problem {
    instance: Instance,
    /// Position in the view of every node of the instance.
    nodes: Vec<usize>,
    /// Waiting tasks with the positions of their jobs.
    waiting: BTreeMap<TaskId, usize>,
}

impl Problem {
    /// None if no job can be placed.
    fn new(of: &Situation<'_>, led: &BTreeSet<usize>) -> mdts_core::Result<Option<Self>> {
        let nodes: Vec<usize> = (0..of.view.nodes.len()).filter(|at| of.view.nodes[*at].is_usable).collect();
        if nodes.is_empty() {
            return Ok(None);
        }
        let mut builder = JobGraph::builder("queue");
        let (mut tasks, mut waiting, mut started) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut known = BTreeMap::new();
        let mut left = MOST_TIMES;
        for (task, &at) in of.queued.jobs.iter().enumerate() {
            let job = &of.look.jobs[at];
            // Others find their places by Slurm alone.
            if job.state.is_waiting() && !led.contains(&at) && of.standings.of(job.id.job).is_none() {
                continue;
            }
            let original = of.queued.graph.task(TaskId::new(task));
            let (times, runs_on) = times(of, job, original, &nodes, &mut known);
            left = left.saturating_sub(times.len());
            if left == 0 {
                break;
            }
            if times.is_empty() || !(job.state.is_waiting() || runs_on.is_some()) {
                continue;
            }
            let one = Task { work: mdts_dag::Work::Unknown, ..original.clone() }.with_demand(|d| d.gang = 1);
            let id = builder.task(one.times(times.clone()))?;
            tasks.insert(task, id);
            match runs_on {
                Some(node) => started.push(Placement { task: id, node, start: 0.0, finish: times[0].1 }),
                None => _ = waiting.insert(id, at),
            }
        }
        if !waiting.values().any(|at| led.contains(at)) {
            return Ok(None);
        }
        for (parent, child, _) in of.queued.graph.dependencies() {
            if let (Some(parent), Some(child)) = (tasks.get(&parent.index()), tasks.get(&child.index())) {
                builder.depend(*child, *parent, 0.0);
            }
        }
        let cluster = cluster(of.view, &nodes)?;
        let graph = Arc::new(builder.build()?.freeze());
        let instance = Instance::new(graph, Arc::new(cluster), DataModel::Edges)?;
        let progress = Progress { started, ..Progress::default() };
        Ok(Some(Self { instance: instance.with_progress(progress), nodes, waiting }))
    }
}

/// Seconds on every node that the job may use; for one that runs, on its own, which is also told.
fn times(
    of: &Situation<'_>,
    job: &JobRecord,
    task: &Task,
    nodes: &[usize],
    known: &mut BTreeMap<String, Vec<usize>>,
) -> (Vec<(Arc<str>, f64)>, Option<NodeId>) {
    let mdts_dag::Work::Seconds(seconds) = task.work else { return (Vec::new(), None) };
    let name = |at: usize| Arc::from(of.view.nodes[at].name.as_str());
    if !job.state.is_waiting() {
        // A job of several nodes stands for itself on the first one.
        let first = spell::hosts(&job.nodes).and_then(|hosts| hosts.into_iter().next());
        let own = first.and_then(|host| nodes.iter().position(|at| of.view.nodes[*at].name == host));
        return match own {
            Some(own) => (vec![(name(nodes[own]), seconds)], Some(NodeId::new(own))),
            None => (Vec::new(), None),
        };
    }
    let request = request(job);
    // Jobs that ask for the same may use the same.
    let may_use = known.entry(request.to_wire()).or_insert_with(|| eligible(&request, of.view));
    let may_use = nodes.iter().filter(|at| may_use.binary_search(at).is_ok());
    (may_use.map(|&at| (name(at), seconds / of.view.nodes[at].speed)).collect(), None)
}

/// What a job of the queue asks for.
fn request(job: &JobRecord) -> Request {
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    Request {
        partition: some(&job.partition),
        features: some(&job.features),
        cpus: Some(u64::from(job.cpus)),
        memory: if job.is_memory_per_cpu {
            Memory::PerCpu(job.memory_mib)
        } else {
            Memory::PerNode(job.memory_mib)
        },
        gres: spell::gres(&job.gres).unwrap_or_default(),
        ..Request::default()
    }
}

fn cluster(view: &View, nodes: &[usize]) -> mdts_core::Result<Cluster> {
    let node = |at: &usize| {
        let node = &view.nodes[*at];
        let of =
            mdts_core::Node::new(node.name.as_str()).speed(node.speed).cores((node.cpus as f64).max(1.0));
        of.memory(node.memory.saturating_mul(1 << 20).clamp(1, 1 << 59))
            .gpus(node.gres.get("gpu").copied().unwrap_or(0) as f64)
    };
    Cluster::new(nodes.iter().map(node).collect(), Network::uniform(Link::INSTANT), SlotModel::Resources)
}

#[cfg(test)]
mod tests;
