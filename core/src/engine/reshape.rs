//! Clusters that grow, jobs that grow, and jobs that are over.

use std::sync::Arc;

use mdts_dag::TaskId;

use super::node::NodeState;
use super::state::TaskState;
use super::{JobId, Phase, State, TaskRun, Trigger};
use crate::plan::require_single_nodes;
use crate::{Cluster, Error, Instance, NodeId, Resources, Result, SlotModel};

impl State {
    /// Puts another cluster in the place of the present one: nodes may have been added at its end, which are lost until
    /// they join, and lost nodes may have other capacity and speed. `instance` gives the jobs that have not ended theirs on
    /// the new cluster. O(open jobs + tasks that are placed + nodes).
    ///
    /// # Errors
    /// [`Error::BadSetting`] if a node or a job is missing, or the slot model is another; nothing is changed then.
    pub fn change_cluster(
        &mut self,
        cluster: &Cluster,
        instance: impl Fn(JobId) -> Option<Arc<Instance>>,
    ) -> Result<()> {
        let wrong = |expected| Err(Error::BadSetting { what: "cluster", value: "another".into(), expected });
        if cluster.len() < self.nodes.len() || cluster.slots() != self.slots {
            return wrong("all nodes of the present one, and its slot model");
        }
        let new: Option<Vec<_>> = self.open.iter().map(|job| Some((*job, instance(*job)?))).collect();
        let fits = |new: &[(JobId, Arc<Instance>)]| {
            new.iter()
                .all(|(job, i)| i.nodes() == cluster.len() && i.tasks() == self.jobs[job.index()].tasks.len())
        };
        let Some(new) = new.filter(|new| fits(new)) else {
            return wrong("an instance on the new cluster for every job that has not ended");
        };
        for (job, instance) in new {
            self.jobs[job.index()].instance = instance;
        }
        self.resources = Resources::new(&[], cluster);
        self.cores = cluster.nodes().iter().map(|n| n.capacity.cores.unwrap_or(1.0)).collect();
        for node in self.nodes.len()..cluster.len() {
            let mut state = NodeState::new(self.resources.capacity(node));
            state.alive = false;
            self.nodes.push(state);
        }
        self.count_free();
        Ok(())
    }

    /// Counts anew what is free on every node.
    fn count_free(&mut self) {
        for (i, node) in self.nodes.iter_mut().enumerate() {
            node.free = self.resources.capacity(i).to_vec();
        }
        if self.slots == SlotModel::Exclusive {
            return;
        }
        for (i, node) in self.nodes.iter_mut().enumerate() {
            for (job, task) in &node.here {
                let job = &self.jobs[job.index()];
                let t = &job.tasks[task.index()];
                let runs = t.phase == Phase::Running && t.node == Some(NodeId::new(i));
                if runs || job.second.get(task).is_some_and(|second| second.node == NodeId::new(i)) {
                    let demand = job.instance.demand(*task);
                    node.free.iter_mut().zip(demand).for_each(|(free, taken)| *free -= taken);
                }
            }
        }
    }

    /// Adds tasks to a job: `instance` is that of the job with more tasks at its end. A job that has ended begins anew.
    /// O(tasks added + their dependencies).
    ///
    /// # Errors
    /// [`Error::BadSetting`] if it is not, [`Error::Unsupported`] as for submitted jobs; nothing is changed then.
    pub fn extend(&mut self, job: JobId, instance: &Arc<Instance>) -> Result<()> {
        require_single_nodes(instance)?;
        let known = self.jobs.get(job.index()).map_or(usize::MAX, |job| job.tasks.len());
        if instance.tasks() < known || instance.nodes() != self.nodes.len() {
            let (what, expected) = ("extended job", "the present tasks with more at their end");
            return Err(Error::BadSetting { what, value: format!("{job:?}"), expected });
        }
        let graph = instance.graph();
        self.jobs[job.index()].instance = instance.clone();
        for task in graph.tasks().skip(known) {
            let tasks = &self.jobs[job.index()].tasks;
            let phase = |parent: &TaskId| tasks.get(parent.index()).map(|t| t.phase);
            let parents = graph.parents(task);
            let open = parents.iter().filter(|p| phase(p) != Some(Phase::Done)).count();
            self.jobs[job.index()].tasks.push(TaskState::new(open as u32, !self.on_demand));
            self.jobs[job.index()].remaining += 1;
        }
        self.jobs[job.index()].closed = false;
        self.open.insert(job);
        // Parents may follow their children in the order of ids.
        for task in graph.tasks().skip(known) {
            let is_lost = |p: &TaskId| matches!(self.phase(job, *p), Phase::Failed | Phase::Blocked);
            if self.phase(job, task) != Phase::Waiting {
                continue;
            }
            if graph.parents(task).iter().any(is_lost) {
                self.give_up(job, task);
                self.block_descendants(job, task);
            } else if self.task(job, task).open_parents == 0 {
                self.make_ready(job, task);
            }
        }
        self.call_step(job, Trigger::Submitted);
        Ok(())
    }

    /// Frees what the instance of a job that has ended takes: `nothing`, any other one, stands in its place until the job is
    /// [extended](State::extend) or [forgotten](State::forget). What has become of its tasks can still be asked about. Does
    /// nothing to other jobs.
    pub fn retire(&mut self, job: JobId, nothing: &Arc<Instance>) {
        if let Some(job) = self.jobs.get_mut(job.index()).filter(|job| job.closed) {
            job.instance = nothing.clone();
        }
    }

    /// Frees the memory of a job that has ended; nothing may be asked about it any more. Does nothing to other jobs.
    pub fn forget(&mut self, job: JobId) {
        if self.jobs.get(job.index()).is_some_and(|job| job.closed) {
            self.jobs.forget(job.index());
        }
    }

    /// Whether the memory of a job was freed.
    pub fn is_forgotten(&self, job: JobId) -> bool {
        job.index() < self.jobs.len() && self.jobs.get(job.index()).is_none()
    }

    /// Jobs that have not come to their end.
    pub fn open_jobs(&self) -> impl ExactSizeIterator<Item = JobId> + '_ {
        self.open.iter().copied()
    }

    /// Number of nodes, lost ones included.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The attempts that run on a node. O(tasks placed there).
    pub fn runs_on(&self, node: NodeId) -> Vec<TaskRun> {
        let run = |(job, task): (JobId, TaskId)| {
            let of = &self.jobs[job.index()];
            let t = &of.tasks[task.index()];
            let second = of.second.get(&task).filter(|second| second.node == node);
            let first = (t.phase == Phase::Running && t.node == Some(node)).then_some(t.number);
            let attempt = second.map(|second| second.number).or(first)?;
            Some(TaskRun { job, task, attempt })
        };
        self.nodes[node.index()].tasks().into_iter().filter_map(run).collect()
    }

    /// What is placed on a node and has not started.
    pub fn waiting_on(&self, node: NodeId) -> usize {
        self.nodes[node.index()].waiting as usize
    }
}
