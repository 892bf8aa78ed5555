//! Which jobs need a decision step, and why.

use super::state::State;
use super::{JobId, Trigger};
use crate::NodeId;

impl State {
    pub(super) fn hold(&mut self) {
        self.held = true;
        self.attention.clear();
        self.dirty.clear();
        self.overdue.clear();
        self.jobs.iter_mut().for_each(|job| job.trigger = None);
    }

    pub(super) fn resumed(&mut self) {
        self.held = false;
        self.dirty.extend((0..self.nodes.len()).map(NodeId::new));
        self.call_all_steps(Trigger::Submitted);
    }

    pub(super) fn call_step(&mut self, job: JobId, trigger: Trigger) {
        if self.held {
            return;
        }
        let state = &mut self.jobs[job.index()];
        if state.trigger.is_none() {
            self.attention.push_back(job);
            self.is_unsorted = true;
        }
        state.trigger = state.trigger.max(Some(trigger));
    }

    /// A task of this job has left its node, which may be what ready tasks of any job wait for.
    pub(super) fn call_waiting(&mut self, job: JobId) {
        self.call_step(job, Trigger::Finished);
        let waiting = std::mem::take(&mut self.unplaced);
        for other in &waiting {
            self.call_step(*other, Trigger::Finished);
        }
        self.unplaced = waiting;
    }

    pub(super) fn call_all_steps(&mut self, trigger: Trigger) {
        let open: Vec<JobId> = self.open.iter().copied().collect();
        for job in open {
            self.call_step(job, trigger);
        }
    }

    /// The next job that needs a decision step, and why.
    pub(super) fn next_step(&mut self) -> Option<(JobId, Trigger)> {
        if std::mem::take(&mut self.is_unsorted) {
            self.sort_attention();
        }
        while let Some(job) = self.attention.pop_front() {
            let Some(state) = self.jobs.get_mut(job.index()) else { continue };
            if let Some(trigger) = state.trigger.take().filter(|_| state.remaining > 0) {
                return Some((job, trigger));
            }
        }
        None
    }
}
