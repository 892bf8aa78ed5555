//! A state as bytes, for journals: everything but the instances, which are given again when it is read.

use std::sync::Arc;

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

use super::node::NodeState;
use super::speculation::Second;
use super::state::{Job, TaskState};
use super::{JobId, State, TaskRun};
use crate::{Instance, plain};

#[derive(Debug, Serialize, Deserialize)]
struct Image {
    now: f64,
    tickets: u64,
    held: bool,
    overdue: Vec<TaskRun>,
    staging: bool,
    nodes: Vec<NodeState>,
    jobs: Vec<JobImage>,
}

#[derive(Debug, Serialize, Deserialize)]
struct JobImage {
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
    pub(crate) fn to_bytes(&self) -> postcard::Result<Vec<u8>> {
        let job = |job: &Job| JobImage {
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
            staging: self.staging,
            nodes: self.nodes.clone(),
            jobs: self.jobs.iter().map(job).collect(),
        })
    }

    /// The state that these bytes were made from, whose jobs were all submitted with `instance`; `None` if they do not
    /// fit it.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub(crate) fn from_bytes(bytes: &[u8], instance: &Arc<Instance>) -> postcard::Result<Option<Self>> {
        let image: Image = postcard::from_bytes(bytes)?;
        let fits = image.jobs.iter().all(|job| job.tasks.len() == instance.tasks());
        if !fits || image.nodes.len() != instance.nodes() {
            return Ok(None);
        }
        let mut state = Self::new(instance.cluster(), image.staging);
        (state.now, state.tickets, state.held) = (image.now, image.tickets, image.held);
        state.overdue = image.overdue.into_iter().collect();
        state.nodes = image.nodes;
        let job = |job: JobImage| Job {
            instance: instance.clone(),
            tasks: job.tasks,
            ready: job.ready,
            second: job.second.into_iter().map(|(task, second)| (task.into(), second)).collect(),
            trigger: None,
            remaining: job.remaining as usize,
            lost: job.lost as usize,
            closed: job.closed,
        };
        state.jobs = image.jobs.into_iter().map(job).collect();
        state.open = state.jobs.iter().filter(|job| !job.closed).count();
        let unplaced = |(_, job): &(JobId, &Job)| !job.ready.is_empty();
        let jobs = state.jobs.iter().enumerate().map(|(i, job)| (JobId::new(i), job));
        state.unplaced = jobs.filter(unplaced).map(|(id, _)| id).collect();
        Ok(Some(state))
    }
}
