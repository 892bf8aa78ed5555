//! A state as bytes, for journals: everything but the instances, which are given again when it is read.

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize, Serializer};

use super::fair::Terms;
use super::jobs::Jobs;
use super::node::NodeState;
use super::ready::SeenReady;
use super::speculation::Second;
use super::state::{Job, TaskState};
use super::{JobId, Phase, State, TaskRun};
use crate::{Cluster, Instance, plain};

/// `J` is a list of [`JobImage`]s, none for the jobs that are forgotten.
#[derive(Serialize, Deserialize)]
struct Image<'a, J> {
    now: f64,
    tickets: u64,
    held: bool,
    overdue: Vec<TaskRun>,
    /// Job, task and until when.
    resting: Vec<(JobId, u32, f64)>,
    staging: bool,
    on_demand: bool,
    nodes: Cow<'a, [NodeState]>,
    /// The number of the first job, and all from there on.
    first: u64,
    jobs: J,
}

#[derive(Serialize, Deserialize)]
struct JobImage<'a> {
    terms: Terms,
    tasks: Cow<'a, [TaskState]>,
    #[serde(with = "plain::tasks")]
    ready: Cow<'a, [TaskId]>,
    second: Vec<(u32, Second)>,
    remaining: u64,
    lost: u64,
    closed: bool,
}

/// Jobs that become their images one after the other.
struct Written<'a>(&'a Jobs);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.slots().map(|slot| slot.map(JobImage::new)))
    }
}

impl<'a> JobImage<'a> {
    fn new(job: &'a Job) -> Self {
        Self {
            terms: job.terms,
            tasks: Cow::Borrowed(&job.tasks),
            ready: Cow::Borrowed(&job.ready),
            second: job.second.iter().map(|(task, second)| (task.get(), *second)).collect(),
            remaining: job.remaining as u64,
            lost: job.lost as u64,
            closed: job.closed,
        }
    }
}

impl State {
    /// The state as bytes. Between two calls of an engine nothing else belongs to it.
    ///
    /// # Errors
    /// None is known.
    pub fn to_bytes(&self) -> postcard::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes [`State::to_bytes`] job by job.
    ///
    /// # Errors
    /// [`postcard::Error::SerializeBufferFull`] if they cannot be written.
    pub fn write(&self, to: impl Write) -> postcard::Result<()> {
        let image = Image {
            now: self.now,
            tickets: self.tickets,
            held: self.held,
            overdue: self.overdue.iter().copied().collect(),
            resting: self.resting.iter().map(|(job, task, until)| (job, task.get(), until)).collect(),
            staging: self.staging,
            on_demand: self.on_demand,
            nodes: Cow::Borrowed(&self.nodes),
            first: self.jobs.first() as u64,
            jobs: Written(&self.jobs),
        };
        postcard::to_io(&image, to).map(drop)
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
        let image: Image<'_, Vec<Option<JobImage<'_>>>> = postcard::from_bytes(bytes)?;
        if image.nodes.len() != cluster.len() {
            return Ok(None);
        }
        let mut state = Self::new(cluster, image.staging);
        (state.now, state.tickets, state.held) = (image.now, image.tickets, image.held);
        state.overdue = image.overdue.into_iter().collect();
        for (job, task, until) in image.resting {
            state.resting.add(job, task.into(), until);
        }
        (state.nodes, state.on_demand) = (image.nodes.into_owned(), image.on_demand);
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
                tasks: job.tasks.into_owned(),
                ready: job.ready.into_owned(),
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
