//! A state as bytes, for journals: everything but the instances, which are given again when it is read.

use std::sync::Arc;

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

use super::fair::Terms;
use super::jobs::Jobs;
use super::node::NodeState;
use super::ready::SeenReady;
use super::speculation::Second;
use super::state::{Job, TaskState};
use super::{JobId, Phase, State, TaskRun};
use crate::{Cluster, Instance, plain};

#[derive(Debug, Serialize, Deserialize)]
struct Image {
    now: f64,
    tickets: u64,
    held: bool,
    overdue: Vec<TaskRun>,
    /// Job, task and until when.
    resting: Vec<(JobId, u32, f64)>,
    staging: bool,
    on_demand: bool,
    nodes: Vec<NodeState>,
    /// The number of the first job, and all from there on; none for those that are forgotten.
    first: u64,
    jobs: Vec<Option<JobImage>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct JobImage {
    terms: Terms,
    tasks: Vec<TaskState>,
    #[serde(with = "plain::tasks")]
    ready: Vec<TaskId>,
    second: Vec<(u32, Second)>,
    remaining: u64,
    lost: u64,
    closed: bool,
}

impl State {
    /// The state as bytes. Between two calls of an engine nothing else belongs to it.
    ///
    /// # Errors
    /// None is known.
    pub fn to_bytes(&self) -> postcard::Result<Vec<u8>> {
        let job = |job: &Job| JobImage {
            terms: job.terms,
            tasks: job.tasks.clone(),
            ready: job.ready.clone(),
            second: job.second.iter().map(|(task, second)| (task.get(), *second)).collect(),
            remaining: job.remaining as u64,
            lost: job.lost as u64,
            closed: job.closed,
        };
        postcard::to_stdvec(&Image {
            now: self.now,
            tickets: self.tickets,
            held: self.held,
            overdue: self.overdue.iter().copied().collect(),
            resting: self.resting.iter().map(|(job, task, until)| (job, task.get(), until)).collect(),
            staging: self.staging,
            on_demand: self.on_demand,
            nodes: self.nodes.clone(),
            first: self.jobs.first() as u64,
            jobs: self.jobs.slots().map(|slot| slot.map(job)).collect(),
        })
    }

    /// The state that these bytes were made from; `None` if they do not fit the cluster or the instances of its jobs. Of jobs that have
    /// ended any instance does where tasks are placed on demand, as for [`State::retire`].
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn from_bytes(
        bytes: &[u8],
        cluster: &Cluster,
        mut instance: impl FnMut(JobId) -> Option<Arc<Instance>>,
    ) -> postcard::Result<Option<Self>> {
        let image: Image = postcard::from_bytes(bytes)?;
        if image.nodes.len() != cluster.len() {
            return Ok(None);
        }
        let mut state = Self::new(cluster, image.staging);
        (state.now, state.tickets, state.held) = (image.now, image.tickets, image.held);
        state.overdue = image.overdue.into_iter().collect();
        for (job, task, until) in image.resting {
            state.resting.add(job, task.into(), until);
        }
        (state.nodes, state.on_demand) = (image.nodes, image.on_demand);
        state.jobs = Jobs::beginning_at(image.first as usize);
        for job in image.jobs {
            let Some(job) = job else {
                state.jobs.push(None);
                continue;
            };
            let id = JobId::new(state.jobs.len());
            let Some(instance) = instance(id) else { return Ok(None) };
            let fits = job.tasks.len() == instance.tasks() && instance.nodes() == cluster.len();
            let needs_none = job.closed && image.on_demand;
            if !fits && !needs_none {
                return Ok(None);
            }
            if !job.closed {
                state.open.insert(id);
            }
            if !job.ready.is_empty() {
                state.unplaced.insert(id);
            }
            state.jobs.push(Some(Job {
                instance,
                terms: job.terms,
                tasks: job.tasks,
                ready: job.ready,
                seen_ready: SeenReady::default(),
                second: job.second.into_iter().map(|(task, second)| (task.into(), second)).collect(),
                trigger: None,
                remaining: job.remaining as usize,
                lost: job.lost as usize,
                closed: job.closed,
            }));
        }
        state.find_tasks();
        state.find_ready();
        Ok(Some(state))
    }

    /// Notes which tasks are ready.
    fn find_ready(&mut self) {
        for job in self.open.clone() {
            let tasks = self.jobs[job.index()].tasks.iter().enumerate();
            let ready = tasks.filter(|(_, t)| t.phase == Phase::Ready).map(|(at, _)| TaskId::new(at));
            for task in ready.collect::<Vec<_>>() {
                self.note_ready(job, task);
            }
        }
    }

    /// Notes which tasks are on which nodes.
    fn find_tasks(&mut self) {
        for job in self.open.iter().copied() {
            let of = &self.jobs[job.index()];
            let on_nodes = of.tasks.iter().enumerate().filter_map(|(at, t)| {
                let is_open = matches!(t.phase, Phase::Waiting | Phase::Ready | Phase::Running);
                t.node.filter(|_| is_open).map(|node| (node, TaskId::new(at)))
            });
            let seconds = of.second.iter().map(|(task, second)| (second.node, *task));
            for (node, task) in on_nodes.chain(seconds) {
                self.nodes[node.index()].here.insert((job, task));
            }
        }
    }
}
