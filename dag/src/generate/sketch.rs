//! A job graph under construction whose run times and data sizes are drawn from [`Costs`].

use rand::Rng;

use super::Costs;
use crate::{JobGraph, JobGraphBuilder, Result, Task, TaskId};

pub(super) struct Sketch<'a, R: ?Sized> {
    job: JobGraphBuilder,
    costs: &'a Costs,
    rng: &'a mut R,
}

impl<'a, R: Rng + ?Sized> Sketch<'a, R> {
    pub(super) fn new(name: String, costs: &'a Costs, rng: &'a mut R) -> Self {
        Self { job: JobGraph::builder(name), costs, rng }
    }

    /// The random generator, for the structure.
    pub(super) fn rng(&mut self) -> &mut R {
        self.rng
    }

    /// Adds a task of `share` times the mean work.
    pub(super) fn task(&mut self, name: String, kind: &str, share: f64) -> Result<TaskId> {
        let seconds = self.costs.seconds(share, self.rng);
        self.job.task(Task::new(name).kind(kind).seconds(seconds))
    }

    /// Adds `count` tasks of mean work named by their number from 0.
    pub(super) fn tasks(&mut self, count: usize) -> Result<()> {
        for i in 0..count {
            self.task(format!("t{i}"), "task", 1.0)?;
        }
        Ok(())
    }

    /// Makes `child` wait for `parent`'s data.
    pub(super) fn depend(&mut self, child: TaskId, parent: TaskId) {
        let bytes = self.costs.bytes(self.rng);
        self.job.depend(child, parent, bytes);
    }

    pub(super) fn build(self) -> Result<JobGraph> {
        self.job.build()
    }
}
