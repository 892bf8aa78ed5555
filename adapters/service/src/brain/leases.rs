//! Leases: who is silent for too long holds nothing.

use mdts_core::NodeId;
use mdts_core::engine::{Event, JobId};

use super::{Brain, Change, Outcome};
use crate::api::{NodeState, Problem};

impl Brain {
    /// Time has passed.
    pub(crate) fn set_now(&mut self, now: f64) {
        self.now = self.now.max(now);
    }

    /// Nobody could be heard for so many seconds: no lease ends because of them.
    pub(crate) fn be_patient(&mut self, seconds: f64) {
        self.nodes.iter_mut().for_each(|node| node.heard += seconds);
        self.jobs.values_mut().for_each(|job| job.heard += seconds);
    }

    /// What has become due: leases that are over, jobs to forget. O(nodes + open jobs).
    pub(crate) fn due(&self) -> Vec<Change> {
        let mut due = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.removed) {
            let id = NodeId::new(at);
            let is_over = self.expiry(id).is_some_and(|expiry| expiry <= self.now);
            if is_over && self.node_state(id) != NodeState::Lost {
                tracing::warn!(node = node.name, "not heard of for its lease; it counts as lost");
                due.push(Change::node_gone(id, false));
            }
            let is_old = self.expiry(id).is_some_and(|expiry| expiry + self.terms.keep_seconds <= self.now);
            if is_old && self.node_state(id) == NodeState::Lost {
                due.push(Change::node_gone(id, true));
            }
        }
        let open = self.engine.iter().flat_map(|engine| engine.state().open_jobs());
        for (id, job) in open.filter_map(|id| Some((id, self.jobs.get(&id)?))) {
            let is_over = job.lease_seconds > 0.0 && job.heard + job.lease_seconds <= self.now;
            if is_over && !job.lapsed {
                tracing::warn!(job = id.get(), "its client is silent; it loses its nodes");
                due.push(Change::Lapsed(id.get()));
            }
        }
        let old = self.old_jobs();
        if !old.is_empty() {
            due.push(Change::Forgotten(old));
        }
        due
    }

    /// Jobs that ended so long ago, or before so many others, that they are forgotten.
    fn old_jobs(&self) -> Vec<u32> {
        let (mut tasks, mut bytes) = (self.ended_tasks, self.bytes);
        let mut old = Vec::new();
        for id in &self.ended {
            let Some(job) = self.jobs.get(id) else { continue };
            let age = job.ended.map_or(0.0, |(at, _)| self.now - at);
            let is_much = tasks > self.terms.keep_tasks || bytes > self.terms.most_bytes / 2;
            if age < self.terms.keep_seconds && !is_much {
                break;
            }
            tasks -= job.graph.len();
            bytes -= job.bytes;
            old.push(id.get());
        }
        old
    }

    /// When a node counts as lost if it is not heard of.
    pub(super) fn expiry(&self, node: NodeId) -> Option<f64> {
        let node = &self.nodes[node.index()];
        let lease = node.spec.lease_seconds.unwrap_or(self.terms.node_lease);
        (lease > 0.0).then_some(node.heard + lease)
    }

    pub(super) fn lapsed(&mut self, job: JobId) -> Result<Outcome, Problem> {
        self.job(job)?;
        if let Some(entry) = self.jobs.get_mut(&job) {
            entry.lapsed = true;
        }
        self.advance(vec![Event::Withdrawn(job)])?;
        Ok(Outcome::Done)
    }

    /// Seconds of silence after which a job loses its nodes; 0: never.
    pub(crate) fn lease(&self, job: JobId) -> Result<f64, Problem> {
        Ok(self.job(job)?.lease_seconds)
    }

    /// The client of a job has spoken.
    ///
    /// # Errors
    /// If there is no such job.
    pub(crate) fn hear_job(&mut self, job: JobId) -> Result<(), Problem> {
        self.job(job)?;
        if let Some(entry) = self.jobs.get_mut(&job) {
            (entry.heard, entry.lapsed) = (self.now, false);
        }
        Ok(())
    }
}
