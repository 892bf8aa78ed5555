//! A whole job submitted at once: every task waits in Slurm for those before it, and nothing of mdts has to stay alive.
//!
//! Tasks of the same level (edges on the longest way from a source) that ask for the same become one wave; an element waits
//! for elements of earlier waves alone, as Slurm does not take dependencies within an array. O(tasks + edges).

use std::collections::BTreeMap;
use std::sync::Arc;

use mdts_core::engine::{JobId, TaskRun};
use mdts_core::runner::Assignment;
use mdts_core::{Error as CoreError, Instance, NodeId, Result as CoreResult, Schedule};
use mdts_dag::{JobGraph, TaskId};

use super::book::Stage;
use super::conductor::{Conductor, GraphReply};
use super::wave::{Element, Group, Ticket, Wave, groups};
use crate::Result;

impl Conductor {
    /// Writes down all tasks as waves, to be submitted in this order; `reply` is answered when all are.
    pub(super) fn begin_graph(
        &mut self,
        job: &Arc<JobGraph>,
        instance: &Arc<Instance>,
        schedule: &Schedule,
        reply: GraphReply,
    ) -> Result<()> {
        if self.book.waves.is_empty() {
            let levels = levels(job, instance, schedule).into_iter();
            let groups: Vec<Group> =
                levels.flat_map(|batch| groups(batch, &self.options, self.most_elements())).collect();
            let mut nice = nice(&groups, schedule, job.len()).into_iter();
            for group in groups {
                let nice = nice.by_ref().take(group.elements.len()).collect();
                self.add_level(job, group, nice)?;
            }
        }
        self.graph_reply = Some(reply);
        Ok(())
    }

    /// The nodes to which the tasks were submitted, if all were.
    pub(super) fn graph_outcome(&self) -> CoreResult<Vec<Option<NodeId>>> {
        match self.book.waves.iter().filter(|wave| wave.stage == Stage::Dropped).count() {
            0 => {
                let tasks = self.book.seats.keys().map(|run| run.task.index() + 1).max().unwrap_or_default();
                let mut nodes = vec![None; tasks];
                for (run, seat) in self.book.seats.iter().filter(|(run, _)| run.attempt == 1) {
                    nodes[run.task.index()] = Some(self.book.element(seat.wave, seat.element).node.into());
                }
                Ok(nodes)
            }
            dropped => Err(CoreError::Executor(format!(
                "Slurm refuses {dropped} of {} parts of the job; the log tells why",
                self.book.waves.len()
            ))),
        }
    }

    fn add_level(&mut self, job: &Arc<JobGraph>, group: Group, nice: Vec<i32>) -> Result<()> {
        let number = self.book.new_number();
        let (mut elements, mut scripts) = (Vec::new(), Vec::new());
        for (assignments, nice) in group.elements.iter().zip(nice) {
            let tickets: Vec<Ticket> = assignments.iter().map(|of| Ticket::first(of.run)).collect();
            let mut parents: Vec<TaskRun> =
                assignments.iter().flat_map(|of| job.parents(of.run.task)).map(first_attempt).collect();
            parents.sort_unstable();
            parents.dedup();
            let names: Vec<Ticket> = parents.iter().copied().map(Ticket::first).collect();
            scripts.push(self.script(&tickets, assignments, &names)?);
            let seats = parents.iter().filter_map(|parent| self.book.seats.get(parent));
            let mut after: Vec<(u32, u32)> =
                seats.map(|seat| (self.book.waves[seat.wave].wave.number, seat.element as u32)).collect();
            after.sort_unstable();
            after.dedup();
            let node = assignments.first().map_or(0, |first| first.node.get());
            elements.push(Element { node, tickets, after, nice });
        }
        let wave = Wave { number, name: group.name, shape: group.shape, elements };
        self.folder.write_wave(&wave, &scripts)?;
        let at = self.book.add(wave, Stage::New, None);
        self.book.queue.push_back(at);
        self.summarize(|summary| summary.waves += 1);
        Ok(())
    }
}

fn first_attempt(task: TaskId) -> TaskRun {
    TaskRun { job: JobId::default(), task, attempt: 1 }
}

/// What is taken off the priority of every element, so that those that can begin do so in the order of the schedule although
/// Slurm prefers what was submitted first; as little as that takes.
fn nice(groups: &[Group], schedule: &Schedule, tasks: usize) -> Vec<i32> {
    let mut order: Vec<_> = schedule.placements().iter().map(|p| (p.start, p.task)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut position = vec![0_i64; tasks];
    for (at, (_, task)) in (0..).zip(order) {
        position[task.index()] = at;
    }
    let elements = groups.iter().flat_map(|group| &group.elements);
    let first = elements.map(|element| element.first().map_or(0, |first| position[first.run.task.index()]));
    let nice: Vec<i64> = (0..).zip(first).map(|(submitted, at): (i64, i64)| 2 * at - submitted).collect();
    let least = nice.iter().copied().min().unwrap_or_default();
    nice.into_iter().map(|nice| i32::try_from(nice - least).unwrap_or(i32::MAX)).collect()
}

/// The tasks of every level in the order of the schedule.
fn levels(job: &Arc<JobGraph>, instance: &Instance, schedule: &Schedule) -> Vec<Vec<Assignment>> {
    let graph = instance.graph();
    let mut level = vec![0_usize; job.len()];
    for &task in graph.topological_order() {
        let parents = graph.parents(task).iter().map(|parent| level[parent.index()] + 1);
        level[task.index()] = parents.max().unwrap_or(0);
    }
    let mut placements = schedule.placements().to_vec();
    placements.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.task.cmp(&b.task)));
    let mut levels: BTreeMap<usize, Vec<Assignment>> = BTreeMap::new();
    for p in placements {
        let expected_seconds = instance.exec(p.task, p.node);
        let assignment =
            Assignment { run: first_attempt(p.task), node: p.node, expected_seconds, job: job.clone() };
        levels.entry(level[p.task.index()]).or_default().push(assignment);
    }
    levels.into_values().collect()
}
