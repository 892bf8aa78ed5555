//! Which tasks of a job are ready, placed or not, where a driver asks for them: found without a look at all tasks.
//!
//! A task that becomes ready is noted, and forgotten only when many have been noted that are ready no longer. So a transition costs
//! O(1) on average, and a question O(ready tasks) but for those that are forgotten next.

use mdts_dag::TaskId;
use rustc_hash::FxHashSet;

use super::{JobId, Phase, State};

/// At least so many are noted.
const MANY: usize = 64;

/// Tasks that have been ready, all that are among them.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenReady {
    tasks: FxHashSet<TaskId>,
    /// How many were ready when they were looked through last.
    left: usize,
}

impl State {
    /// A task of a job whose tasks are asked for has become ready.
    pub(super) fn note_ready(&mut self, job: JobId, task: TaskId) {
        if !self.on_demand {
            return;
        }
        let job = &mut self.jobs[job.index()];
        let seen = &mut job.seen_ready;
        seen.tasks.insert(task);
        if seen.tasks.len() > 2 * seen.left + MANY {
            let tasks = &job.tasks;
            seen.tasks.retain(|task| tasks[task.index()].phase == Phase::Ready);
            seen.left = seen.tasks.len();
        }
    }

    /// All tasks of a job that are ready, ascending. O(those tasks) where [tasks are placed on demand](State::on_demand), else
    /// O(tasks of the job).
    pub fn ready_tasks(&self, job: JobId) -> Vec<TaskId> {
        let of = &self.jobs[job.index()];
        let is_ready = |task: &TaskId| of.tasks[task.index()].phase == Phase::Ready;
        if !self.on_demand {
            return (0..of.tasks.len()).map(TaskId::new).filter(is_ready).collect();
        }
        let mut ready: Vec<TaskId> = of.seen_ready.tasks.iter().copied().filter(is_ready).collect();
        ready.sort_unstable();
        ready
    }
}
