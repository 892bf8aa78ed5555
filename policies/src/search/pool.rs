//! One pool of resources for all tasks: only the order of tasks decides.
//!
//! A shared node is such a pool; so are identical exclusive nodes whose data moves in no time (the resource is the
//! number of free nodes, and tasks are dealt out to nodes afterwards). Orders become schedules by serial schedule
//! generation: each task at its earliest place in a profile of free capacity.

use mdts_core::{NodeId, Placement, Schedule};
use mdts_dag::TaskId;

use super::model::Model;
use super::profile::{Amounts, Profile, amounts};

/// The instance as a pool of `K` resources.
#[derive(Debug)]
pub(super) struct Pool<'a, const K: usize> {
    pub(super) model: &'a Model<'a>,
    pub(super) duration: Vec<f64>,
    demand: Vec<Amounts<K>>,
    capacity: Amounts<K>,
}

/// Whether the instance is a pool.
pub(super) fn is_pool(model: &Model<'_>) -> bool {
    let fresh = model.instance.progress().is_none();
    let same = || (1..model.nodes).all(|n| model.alike(0, n));
    fresh && (model.nodes == 1 || model.exclusive && model.is_instant() && same())
}

/// Which way time runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

impl<'a, const K: usize> Pool<'a, K> {
    /// Of an instance that [`is_pool`] and has at most `K` scarce resources.
    pub(super) fn new(model: &'a Model<'a>) -> Self {
        let (demand, capacity) = if model.exclusive {
            (
                vec![amounts([1].into_iter()); model.tasks],
                amounts([model.nodes.cast_signed() as i64].into_iter()),
            )
        } else {
            ((0..model.tasks).map(|t| amounts(model.demand(t))).collect(), amounts(model.capacity(0)))
        };
        let duration = (0..model.tasks).map(|t| model.exec(t, 0)).collect();
        Self { model, duration, demand, capacity }
    }

    pub(super) fn profile(&self) -> Profile<K> {
        Profile::new(self.capacity)
    }

    /// Places all tasks in this order and gives the makespan. Backward, time runs from the end, children come
    /// first, and `finish` counts from the end.
    pub(super) fn decode(
        &self,
        order: &[u32],
        direction: Direction,
        profile: &mut Profile<K>,
        finish: &mut [f64],
    ) -> f64 {
        self.decode_and_tell(order, direction, profile, finish, |_, _| {})
    }

    /// The same; `tell` is told the start of every task.
    fn decode_and_tell(
        &self,
        order: &[u32],
        direction: Direction,
        profile: &mut Profile<K>,
        finish: &mut [f64],
        mut tell: impl FnMut(usize, f64),
    ) -> f64 {
        profile.reset(self.capacity);
        let before = match direction {
            Direction::Forward => &self.model.parents,
            Direction::Backward => &self.model.children,
        };
        let mut makespan = 0.0_f64;
        for &task in order {
            let task = task as usize;
            let ready = before.of(task).iter().fold(0.0, |ready: f64, p| ready.max(finish[*p as usize]));
            let duration = self.duration[task];
            let start = if duration > 0.0 {
                profile.take_earliest(ready, duration, &self.demand[task])
            } else {
                ready
            };
            finish[task] = start + duration;
            tell(task, start);
            makespan = makespan.max(finish[task]);
        }
        makespan
    }

    /// The schedule of an order, with tasks dealt out to nodes.
    pub(super) fn schedule(&self, order: &[u32]) -> Schedule {
        let mut finish = vec![0.0; self.model.tasks];
        let mut start = finish.clone(); // finish less duration would round
        self.decode_and_tell(order, Direction::Forward, &mut self.profile(), &mut finish, |t, at| {
            start[t] = at;
        });
        let mut by_start = order.to_vec();
        self.model.sort_by_time(&mut by_start, &start);
        // The node that has been free for longest is free if any is.
        let mut free = vec![0.0; self.model.nodes];
        let placed = by_start.iter().map(|&task| {
            let t = task as usize;
            let node = (0..free.len()).reduce(|a, b| if free[b] < free[a] { b } else { a }).unwrap_or(0);
            if self.duration[t] > 0.0 {
                free[node] = finish[t];
            }
            Placement { task: TaskId::new(t), node: NodeId::new(node), start: start[t], finish: finish[t] }
        });
        Schedule::new(placed.collect())
    }
}
