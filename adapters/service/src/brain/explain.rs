//! Why a task is where it is.

use mdts_core::Arrival;
use mdts_core::engine::{JobId, Phase};
use mdts_dag::TaskId;

use super::Brain;
use super::guard::Comparison;
use crate::api::{Choice, Problem, Task, TaskState};

impl Brain {
    /// A task with the reasons for where it is. O(nodes + its parents).
    pub(crate) fn explain(&self, job: JobId, task: TaskId) -> Result<Task, Problem> {
        let (entry, state) = (self.job(job)?, self.state()?);
        let phase = state.phase(job, task);
        let placement = self.placement(job, task)?;
        let remembered = self.engine()?.policy().reason(job, task).copied();
        let comparison = match phase {
            Phase::Ready if state.node_of(job, task).is_none() => {
                Some(Comparison::new(&state.step(job), task, None, &mut Arrival::default()))
            }
            Phase::Waiting | Phase::Blocked => None,
            _ => remembered,
        };
        let why = match phase {
            Phase::Waiting | Phase::Ready if !state.is_asked(job, task) && entry.lapsed => {
                "its client is silent: the job holds no nodes until it asks again".to_owned()
            }
            Phase::Ready if !state.is_asked(job, task) => {
                "it is ready, and nobody has asked for it".to_owned()
            }
            Phase::Waiting => self.why_waiting(job, task),
            Phase::Ready => {
                format!("{}; {}", self.why_waiting(job, task), self.why_here(comparison.as_ref()))
            }
            Phase::Running | Phase::Done => self.why_here(comparison.as_ref()),
            Phase::Failed => "its last attempt failed, and no retries are left".to_owned(),
            Phase::Blocked if entry.cancelled => "the job was cancelled".to_owned(),
            Phase::Blocked => "a task before it failed".to_owned(),
        };
        let option = |&(starts_in, seconds, node): &(f64, f64, mdts_core::NodeId)| Choice {
            node: self.node_name(node),
            starts_in,
            seconds,
            done_in: starts_in + seconds,
        };
        let done = state.times(job, task).filter(|_| phase == Phase::Done);
        Ok(Task {
            task: placement.task.clone(),
            state: match phase {
                Phase::Waiting => TaskState::Waiting,
                Phase::Ready => TaskState::Ready,
                Phase::Running => TaskState::Running,
                Phase::Done => TaskState::Done,
                Phase::Failed => TaskState::Failed,
                Phase::Blocked => TaskState::Blocked,
            },
            placement,
            why,
            options: comparison.iter().flat_map(Comparison::options).map(option).collect(),
            seconds: done.map(|(start, finish)| finish - start),
            failure: entry.failures.get(&task).cloned(),
        })
    }

    /// Why a node was chosen.
    fn why_here(&self, comparison: Option<&Comparison>) -> String {
        let Some(comparison) = comparison else {
            return "the reasons are not known".to_owned();
        };
        let Some(chosen) = comparison.chosen else {
            return "these nodes can run it".to_owned();
        };
        let name = self.node_name(chosen);
        let rank = comparison.options().iter().position(|(.., node)| *node == chosen);
        match rank {
            Some(0) => format!("{name} was where it would be done first"),
            Some(n) => format!("the policy chose {name}, where it would be done as number {}", n + 1),
            None => format!("the policy chose {name}, though it would be done sooner elsewhere"),
        }
    }
}
