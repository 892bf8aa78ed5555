//! Processes that a task has left to themselves: daemons in sessions of their own.
//!
//! This process is the *subreaper* of its descendants: one whose parent has ended becomes its child, whatever group or
//! session it is in, and so is found. The variable [`MARK`] in its environment tells whose it is.

use std::fs;

use mdts_core::engine::{JobId, TaskRun};
use mdts_dag::TaskId;
use rustc_hash::FxHashMap;
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};

use crate::launch::MARK;

/// The orphans that this process has for children.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    /// Whose they are, if that is known.
    of: FxHashMap<i32, Option<TaskRun>>,
}

/// From now on this process gets the orphans among its descendants; where the system has no such thing, nobody does.
pub(crate) fn adopt() {
    set_child_subreaper(Some(getpid())).ok();
}

impl Orphans {
    /// Looks for children that are none of `leaders`. O(children).
    pub(crate) fn look(&mut self, is_leader: impl Fn(i32) -> bool) {
        let mut known = std::mem::take(&mut self.of);
        for child in children().into_iter().filter(|child| !is_leader(*child)) {
            // A process that is just beginning to run a program has no environment for a moment.
            let owner = known.remove(&child).flatten().or_else(|| owner(child));
            self.of.insert(child, owner);
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The orphans of which the owner is known, with it.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (i32, TaskRun)> {
        self.of.iter().filter_map(|(child, owner)| Some((*child, (*owner)?)))
    }

    /// Kills those whose attempt has ended: of those whose attempt is not known that is said when none runs any more.
    pub(crate) fn kill(&self, runs: impl Fn(TaskRun) -> bool, is_idle: bool) {
        for (child, owner) in &self.of {
            if owner.map_or(is_idle, |owner| !runs(owner)) {
                kill(*child);
            }
        }
    }
}

pub(crate) fn kill(process: i32) {
    if let Some(process) = Pid::from_raw(process) {
        kill_process(process, Signal::KILL).ok(); // an error says that it has ended
    }
}

/// The children of this process; none where the system does not tell.
fn children() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|n| n.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// The attempt in the environment of a process.
fn owner(process: i32) -> Option<TaskRun> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|v| std::str::from_utf8(v).ok()?.strip_prefix(MARK)?.strip_prefix('='))?;
    let mut numbers = value.split('.').map(str::parse::<u32>);
    let (job, task, attempt) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(TaskRun { job: JobId::from(job), task: TaskId::from(task), attempt })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn children_and_their_attempts_are_found() -> std::io::Result<()> {
        let run = TaskRun { job: JobId::from(3_u32), task: TaskId::from(14_u32), attempt: 2 };
        let mut child = Command::new("sleep").arg("100").env(MARK, crate::launch::mark(run)).spawn()?;
        let number = child.id().cast_signed();
        let mut orphans = Orphans::default();
        while orphans.owned().next().is_none() {
            orphans.look(|other| other != number);
        }
        assert_eq!(orphans.owned().collect::<Vec<_>>(), [(number, run)]);
        orphans.kill(|other| other == run, false);
        assert!(child.try_wait()?.is_none(), "its attempt runs");
        orphans.kill(|_| false, false);
        assert!(!child.wait()?.success());
        Ok(())
    }
}
