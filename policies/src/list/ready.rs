//! Which tasks are ready: all parents placed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use mdts_core::PartialSchedule;
use mdts_dag::TaskId;

use super::rank;

/// Counts the parents that are not placed yet.
#[derive(Debug)]
pub(super) struct Frontier {
    open_parents: Vec<u32>,
}

impl Frontier {
    /// Counts, and returns the tasks that are ready at once, in topological order. O(tasks + dependencies).
    pub(super) fn new(partial: &PartialSchedule<'_>) -> (Self, Vec<TaskId>) {
        let graph = partial.instance().graph();
        let open = |task: TaskId| graph.parents(task).iter().filter(|p| partial.is_open(**p)).count() as u32;
        let open_parents: Vec<u32> = graph.tasks().map(open).collect();
        let is_ready = |t: &TaskId| partial.is_open(*t) && open_parents[t.index()] == 0;
        let ready = graph.topological_order().iter().copied().filter(is_ready).collect();
        (Self { open_parents }, ready)
    }

    /// Notes that `task` is placed and reports the open children that became ready. O(children).
    pub(super) fn placed(
        &mut self,
        partial: &PartialSchedule<'_>,
        task: TaskId,
        mut ready: impl FnMut(TaskId),
    ) {
        for &child in partial.instance().graph().children(task) {
            let open = &mut self.open_parents[child.index()];
            *open -= 1;
            if *open == 0 && partial.is_open(child) {
                ready(child);
            }
        }
    }
}

/// Calls `place` for every open task: always the ready one with the highest rank, topological order between
/// equals. O(tasks log tasks + dependencies).
pub(super) fn by_rank_when_ready(
    partial: &mut PartialSchedule<'_>,
    rank: &[f64],
    mut place: impl FnMut(&mut PartialSchedule<'_>, TaskId),
) {
    let instance = partial.instance();
    let position = rank::positions(instance);
    let entry =
        |task: TaskId| Entry { rank: rank[task.index()], before: Reverse(position[task.index()]), task };
    let (mut frontier, ready) = Frontier::new(partial);
    let mut queue: BinaryHeap<Entry> = ready.into_iter().map(entry).collect();
    while let Some(Entry { task, .. }) = queue.pop() {
        place(partial, task);
        frontier.placed(partial, task, |child| queue.push(entry(child)));
    }
}

#[derive(Debug, PartialEq)]
struct Entry {
    rank: f64,
    before: Reverse<u32>,
    task: TaskId,
}

impl Eq for Entry {}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.total_cmp(&other.rank).then(self.before.cmp(&other.before))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
