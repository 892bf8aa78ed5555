//! What is told of jobs, tasks and nodes.

use mdts_core::NodeId;
use mdts_core::engine::{JobId, Phase, State};
use mdts_dag::TaskId;

use super::grants::Granted;
use super::{Brain, Totals};
use crate::api::{
    self, Grant, Grants, JobState, NodeState, Placement, PlacementState, Problem, Submitted, Tasks,
};

/// Most jobs, tasks and grants in one answer.
const PAGE: usize = 1000;
const MOST_GRANTS: usize = 10_000;
/// Most parents that are named.
const NAMED: usize = 5;

/// Numbers for `/metrics`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    pub(crate) totals: Totals,
    pub(crate) steps: u64,
    pub(crate) decisions: u64,
    pub(crate) fallbacks: u64,
    pub(crate) open_jobs: usize,
    pub(crate) nodes: [usize; 3],
    pub(crate) running: usize,
    pub(crate) queued: usize,
    /// Ready, asked for, and without a node.
    pub(crate) unplaced: usize,
    pub(crate) predictor_samples: usize,
    pub(crate) busy: usize,
    pub(crate) known_jobs: usize,
    pub(crate) graph_bytes: usize,
    /// Name, running and waiting tasks.
    pub(crate) of_nodes: Vec<(String, usize, usize)>,
}

/// The first hundred bytes of a name.
fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(100)]
}

impl Brain {
    pub(crate) fn job_lease(&self) -> f64 {
        self.terms.job_lease
    }

    pub(crate) fn submitted(&self, job: JobId) -> Result<Submitted, Problem> {
        let (entry, state) = (self.job(job)?, self.state()?);
        let ready = state.ready_tasks(job).into_iter();
        Ok(Submitted {
            id: format!("{job:?}"),
            tasks: entry.graph.len(),
            ready: ready.map(|task| entry.graph.task(task).name.to_string()).collect(),
        })
    }

    pub(crate) fn job_view(&self, job: JobId) -> Result<api::Job, Problem> {
        let (entry, state) = (self.job(job)?, self.state()?);
        let mut counts = [0; 6];
        for task in entry.flat.tasks() {
            counts[match state.phase(job, task) {
                Phase::Waiting => 0,
                Phase::Ready => 1,
                Phase::Running => 2,
                Phase::Done => 3,
                Phase::Failed => 4,
                Phase::Blocked => 5,
            }] += 1;
        }
        let [waiting, ready, running, done, failed, blocked] = counts;
        let state = match entry.ended {
            _ if entry.cancelled => JobState::Cancelled,
            Some((_, true)) => JobState::Succeeded,
            Some((_, false)) => JobState::Failed,
            None if entry.lapsed => JobState::Lapsed,
            None => JobState::Open,
        };
        Ok(api::Job {
            id: format!("{job:?}"),
            name: entry.graph.name().to_owned(),
            client: entry.client.clone(),
            priority: entry.priority,
            share: entry.share,
            state,
            tasks: entry.graph.len(),
            waiting,
            ready,
            running,
            done,
            failed,
            blocked,
            granted: entry.grants.starts(),
            lease_seconds: entry.lease_seconds,
            age: self.now - entry.submitted,
        })
    }

    /// The newest jobs.
    pub(crate) fn job_views(&self) -> Vec<api::Job> {
        let mut ids: Vec<JobId> = self.jobs.keys().copied().collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.into_iter().take(PAGE).filter_map(|id| self.job_view(id).ok()).collect()
    }

    pub(crate) fn task_views(&self, job: JobId, offset: usize) -> Result<Tasks, Problem> {
        let all = self.job(job)?.graph.len();
        let end = offset.saturating_add(PAGE).min(all);
        let tasks = (offset.min(end)..end).map(|task| self.placement(job, TaskId::new(task)));
        Ok(Tasks { tasks: tasks.collect::<Result<_, _>>()?, next: (end < all).then_some(end) })
    }

    /// What a client may do about a task.
    pub(crate) fn placement(&self, job: JobId, task: TaskId) -> Result<Placement, Problem> {
        let (entry, state) = (self.job(job)?, self.state()?);
        let node = state.node_of(job, task);
        let attempt = Some(state.attempts(job, task)).filter(|attempt| *attempt > 0);
        let is_started = entry.started.get(&task).copied() == attempt && attempt.is_some();
        let told = match (state.phase(job, task), node) {
            (Phase::Running, _) if is_started => PlacementState::Running,
            (Phase::Running, _) => PlacementState::Start,
            (Phase::Done, _) => PlacementState::Done,
            (Phase::Failed, _) => PlacementState::Failed,
            (Phase::Blocked, _) => PlacementState::Blocked,
            _ if !state.is_asked(job, task) => PlacementState::Idle,
            (Phase::Ready, Some(_)) => PlacementState::Queued,
            _ => PlacementState::Waiting,
        };
        let waits = matches!(told, PlacementState::Queued | PlacementState::Waiting);
        // A job that has ended has no run times any more.
        let expected = node.filter(|_| entry.ended.is_none());
        let expected = expected.map(|node| state.step(job).instance().exec(task, node));
        Ok(Placement {
            task: entry.graph.task(task).name.to_string(),
            state: told,
            node: node.filter(|_| told != PlacementState::Idle).map(|node| self.node_name(node)),
            attempt,
            expected_seconds: expected.filter(|seconds| seconds.is_finite()),
            why: waits.then(|| self.why_waiting(job, task)),
        })
    }

    /// Why a task that was asked for does not run.
    pub(super) fn why_waiting(&self, job: JobId, task: TaskId) -> String {
        let (Ok(entry), Ok(state)) = (self.job(job), self.state()) else { return String::new() };
        if state.phase(job, task) == Phase::Waiting {
            let is_open = |parent: &&TaskId| state.phase(job, **parent) != Phase::Done;
            let open: Vec<&TaskId> = entry.flat.parents(task).iter().filter(is_open).collect();
            let name = |task: &&TaskId| cut(&entry.graph.task(**task).name);
            let names: Vec<&str> = open.iter().take(NAMED).map(name).collect();
            let more = open.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return format!("waits for {}{more}", names.join(", "));
        }
        let step = state.step(job);
        match state.node_of(job, task) {
            Some(node) => {
                let name = self.node_name(node);
                match state.waits_behind(job, task) {
                    0 => format!("{name} is not free yet"),
                    1 => format!("waits behind one task of its client for {name}"),
                    State::COUNTED => format!("waits behind many tasks of its client for {name}"),
                    n => format!("waits behind {n} tasks of its client for {name}"),
                }
            }
            None if step.instance().cluster().node_ids().any(|node| step.can_run(task, node)) => {
                "the policy waits for a node to be free".to_owned()
            }
            None => "no node that is there can run it".to_owned(),
        }
    }

    pub(super) fn node_name(&self, node: NodeId) -> String {
        self.nodes.get(node.index()).map_or_else(String::new, |node| node.name.clone())
    }

    /// Whether a job has come to its end.
    pub(crate) fn has_ended(&self, job: JobId) -> Result<bool, Problem> {
        Ok(self.job(job)?.ended.is_some())
    }

    /// Number of the latest grant of a job.
    pub(crate) fn latest_grant(&self, job: JobId) -> Result<u64, Problem> {
        Ok(self.job(job)?.grants.latest())
    }

    pub(crate) fn grants(&self, job: JobId, after: u64) -> Result<Grants, Problem> {
        let entry = self.job(job)?;
        let later = entry.grants.after(after);
        let told = &later[..later.len().min(MOST_GRANTS)];
        let grant = |granted: &Granted| Grant {
            number: granted.number,
            task: entry.graph.task(granted.task.into()).name.to_string(),
            attempt: granted.attempt,
            node: self.node_name(granted.node.into()),
            start: granted.start,
        };
        Ok(Grants {
            grants: told.iter().map(grant).collect(),
            after: told.last().map_or(after.min(entry.grants.latest()), |granted| granted.number),
            ended: entry.ended.is_some(),
        })
    }

    pub(crate) fn node_view(&self, node: NodeId) -> api::Node {
        let entry = &self.nodes[node.index()];
        let state = self.engine.as_ref().map(mdts_core::engine::Engine::state);
        let state = state.filter(|state| node.index() < state.node_count());
        api::Node {
            name: entry.name.clone(),
            state: self.node_state(node),
            running: state.map_or(0, |state| state.running_on(node)),
            waiting: state.map_or(0, |state| state.waiting_on(node)),
            expires_in: self.expiry(node).map(|expiry| (expiry - self.now).max(0.0)),
            offers: entry.spec.clone(),
        }
    }

    pub(crate) fn node_views(&self) -> Vec<api::Node> {
        let known = self.nodes.iter().enumerate().filter(|(_, node)| !node.removed);
        known.map(|(at, _)| self.node_view(NodeId::new(at))).collect()
    }

    /// Decision steps so far.
    pub(crate) fn steps(&self) -> u64 {
        self.engine.as_ref().map_or(0, |engine| engine.policy().steps)
    }

    pub(crate) fn figures(&self) -> Figures {
        let mut figures = Figures {
            totals: self.totals,
            predictor_samples: self.predictor.samples(),
            known_jobs: self.jobs.len(),
            graph_bytes: self.bytes,
            ..Figures::default()
        };
        let Some(engine) = &self.engine else { return figures };
        let (state, policy) = (engine.state(), engine.policy());
        (figures.steps, figures.decisions, figures.fallbacks) =
            (policy.steps, policy.decisions, policy.fallbacks);
        figures.open_jobs = state.open_jobs().len();
        for job in state.open_jobs() {
            let waits = |task: &TaskId| state.is_asked(job, *task) && state.node_of(job, *task).is_none();
            figures.unplaced += state.ready_tasks(job).iter().filter(|task| waits(task)).count();
        }
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.removed) {
            let id = NodeId::new(at);
            let (running, waiting) = (state.running_on(id), state.waiting_on(id));
            figures.of_nodes.push((node.name.clone(), running, waiting));
            figures.busy += usize::from(running > 0);
            figures.nodes[match self.node_state(id) {
                NodeState::Ready => 0,
                NodeState::Draining => 1,
                NodeState::Lost => 2,
            }] += 1;
            figures.running += running;
            figures.queued += waiting;
        }
        figures
    }
}
