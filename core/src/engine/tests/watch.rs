//! A second opinion on an engine: what must hold after every call, whatever happens.

use std::collections::BTreeMap;

use mdts_dag::TaskId;

use crate::engine::{Command, Event, JobId, Phase, State, TaskRun};
use crate::{Instance, NodeId, SlotModel};

/// Follows the events and commands of an engine and keeps its own books.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Attempts that run, by what was commanded and told.
    running: BTreeMap<TaskRun, NodeId>,
    /// Latest attempt begun per task.
    begun: BTreeMap<(JobId, TaskId), u32>,
    /// Tasks that were ever overdue.
    overdue: Vec<(JobId, TaskId)>,
}

impl Watch {
    /// Attempts that run.
    pub(crate) fn running(&self) -> Vec<TaskRun> {
        self.running.keys().copied().collect()
    }

    /// Takes note of a call and checks the state after it.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) fn check(
        &mut self,
        events: &[Event],
        commands: &[Command],
        state: &State,
        instance: &Instance,
    ) -> Result<(), String> {
        for event in events {
            self.told(event);
        }
        for command in commands {
            self.commanded(command, state)?;
        }
        self.check_attempts(state)?;
        self.check_nodes(state, instance)?;
        check_counts(state, instance)
    }

    fn told(&mut self, event: &Event) {
        match event {
            Event::Finished(run)
            | Event::Failed(run)
            | Event::FailedUntil { run, .. }
            | Event::FailedForGood(run)
            | Event::Interrupted(run) => {
                _ = self.running.remove(run);
            }
            Event::NodeLost(node) => self.running.retain(|_, on| on != node),
            Event::Overdue(run) => self.overdue.push((run.job, run.task)),
            _ => {}
        }
    }

    fn commanded(&mut self, command: &Command, state: &State) -> Result<(), String> {
        match *command {
            Command::Start { run, .. } if state.is_held() => {
                return Err(format!("{run:?} starts while held"));
            }
            Command::Start { run, node } => {
                let before = self.begun.insert((run.job, run.task), run.attempt);
                if run.attempt != before.unwrap_or(0) + 1 {
                    return Err(format!("{run:?} follows attempt {before:?}"));
                }
                self.running.insert(run, node);
            }
            Command::Cancel { run, node } => match self.running.remove(&run) {
                Some(on) if on == node => {}
                // Its end was told in the same call.
                _ if !state.is_running(run) => {}
                on => return Err(format!("{run:?} is cancelled on {node:?}, it runs on {on:?}")),
            },
            Command::Stage { .. } | Command::JobDone { .. } => {}
        }
        Ok(())
    }

    /// One attempt per task, or two on different nodes if it was overdue.
    fn check_attempts(&self, state: &State) -> Result<(), String> {
        let mut of_task: BTreeMap<(JobId, TaskId), Vec<NodeId>> = BTreeMap::new();
        for (run, node) in &self.running {
            if !state.is_running(*run) {
                return Err(format!("{run:?} runs, but not for the engine"));
            }
            of_task.entry((run.job, run.task)).or_default().push(*node);
        }
        for (task, nodes) in &of_task {
            match nodes.as_slice() {
                [_] => {}
                [a, b] if a != b && self.overdue.contains(task) => {}
                _ => return Err(format!("{task:?} runs on {nodes:?} at once")),
            }
        }
        let phases = (0..state.job_count()).flat_map(|job| {
            let tasks = (0..state.jobs[job].tasks.len()).map(TaskId::new);
            tasks.map(move |task| (JobId::new(job), task))
        });
        let running = phases.filter(|(job, task)| state.phase(*job, *task) == Phase::Running).count();
        if running == of_task.len() {
            Ok(())
        } else {
            Err(format!("{running} tasks run, not {}", of_task.len()))
        }
    }

    /// What runs on a node is what it is out of, and never more than it has.
    fn check_nodes(&self, state: &State, instance: &Instance) -> Result<(), String> {
        for node in instance.cluster().node_ids() {
            let here: Vec<&TaskRun> =
                self.running.iter().filter(|(_, on)| **on == node).map(|(run, _)| run).collect();
            if here.len() != state.running_on(node) {
                return Err(format!("{} run on {node:?}, not {}", state.running_on(node), here.len()));
            }
            if instance.slots() == SlotModel::Exclusive {
                if here.len() > 1 {
                    return Err(format!("{here:?} share {node:?}"));
                }
                continue;
            }
            for (dimension, (free, capacity)) in
                state.free(node).iter().zip(instance.capacity(node)).enumerate()
            {
                let taken: u64 = here.iter().map(|run| instance.demand(run.task)[dimension]).sum();
                if free.checked_add(taken) != Some(*capacity) {
                    return Err(format!("{node:?}: {free} free and {taken} taken of {capacity}"));
                }
            }
        }
        Ok(())
    }
}

/// Every task is in one phase, and those that have not come to their end are counted.
fn check_counts(state: &State, instance: &Instance) -> Result<(), String> {
    let mut finished = true;
    for job in (0..state.job_count()).map(JobId::new) {
        let ended =
            |task: &TaskId| matches!(state.phase(job, *task), Phase::Done | Phase::Failed | Phase::Blocked);
        let left = instance.graph().tasks().filter(|task| !ended(task)).count();
        if left != state.remaining(job) {
            return Err(format!("{left} tasks of {job:?} are left, not {}", state.remaining(job)));
        }
        finished &= left == 0;
        for task in instance.graph().tasks() {
            let mut parents = instance.graph().parents(task).iter();
            // What has failed may have been dropped before it began.
            let has_begun = matches!(state.phase(job, task), Phase::Running | Phase::Done);
            if has_begun && !parents.all(|parent| state.phase(job, *parent) == Phase::Done) {
                return Err(format!("{task:?} of {job:?} began before a parent was done"));
            }
        }
    }
    if finished == state.is_finished() { Ok(()) } else { Err("whether all jobs have ended".to_owned()) }
}
