//! Where and when every task runs.

use mdts_dag::TaskId;

use crate::NodeId;

/// One task on one node from start to finish, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// The task.
    pub task: TaskId,
    /// Where it runs.
    pub node: NodeId,
    /// When it starts.
    pub start: f64,
    /// When it finishes.
    pub finish: f64,
}

/// A plan for a whole job. [`Schedule::verify`] tells whether it is right.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schedule {
    placements: Vec<Placement>,
}

impl Schedule {
    /// A schedule of these placements, in any order.
    pub fn new(mut placements: Vec<Placement>) -> Self {
        placements.sort_by_key(|p| p.task);
        Self { placements }
    }

    /// All placements, ascending by task; in a verified schedule, placement `i` is that of task `i`.
    pub fn placements(&self) -> &[Placement] {
        &self.placements
    }

    /// The latest finish; 0 for an empty schedule.
    pub fn makespan(&self) -> f64 {
        self.placements.iter().fold(0.0, |latest, p| latest.max(p.finish))
    }

    /// The placement of a task. O(log tasks).
    pub fn find(&self, task: TaskId) -> Option<&Placement> {
        let at = self.placements.binary_search_by_key(&task, |p| p.task).ok()?;
        Some(&self.placements[at])
    }

    /// The placements on every node, ascending by start.
    pub fn by_node(&self, nodes: usize) -> Vec<Vec<Placement>> {
        let mut rows = vec![Vec::new(); nodes];
        for placement in &self.placements {
            rows[placement.node.index()].push(*placement);
        }
        for row in &mut rows {
            row.sort_by(|a, b| {
                a.start.total_cmp(&b.start).then(a.finish.total_cmp(&b.finish)).then(a.task.cmp(&b.task))
            });
        }
        rows
    }
}
