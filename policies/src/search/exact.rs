//! Branch and bound: the best schedule of few tasks, and the proof that it is.
//!
//! A branch puts a task whose parents are placed on a node, at the earliest moment not before the last start. Some
//! best schedule has every task at its earliest place, and its tasks in the order of their starts are such a
//! sequence of branches: whatever starts later cannot be in the way of a task that is moved to the left, as it
//! would overlap with it already. A branch is cut if the longest path or the work that is left makes it no better than
//! the best schedule, or if a state that is no worse in any respect was searched before. Source of the scheme:
//! Kohler, Steiglitz: Characterization and theoretical comparison of branch-and-bound algorithms for permutation
//! problems, J. ACM 21(1), 1974. Exponential in the tasks; the number of branches is limited.

use mdts_core::{NodeId, Placement, Schedule};
use mdts_dag::TaskId;

use super::bound::weights;
use super::budget::Limit;
use super::model::Model;
use super::seen::{Place, Seen, State};

/// Tasks at most; sets of them are kept as bits.
const MOST_TASKS: usize = 64;
/// Nodes at most; more make too many branches.
const MOST_NODES: usize = 64;

/// A schedule is optimal if none is shorter by more than this part.
const PRECISION: f64 = 1e-9;

/// Whether an instance is one for this search.
pub(super) fn is_small(model: &Model<'_>) -> bool {
    model.tasks <= MOST_TASKS && model.nodes <= MOST_NODES && model.instance.progress().is_none()
}

/// A search that goes on where it was left, with as many branches as it is given.
#[derive(Debug)]
pub(super) struct Exact<'a> {
    model: &'a Model<'a>,
    /// Where the search is: the branches from the first to the last.
    path: Vec<Step>,
    has_begun: bool,
    /// The makespan to beat, and what beats it.
    best: f64,
    better: Option<Schedule>,
    node: Vec<u32>,
    start: Vec<f64>,
    finish: Vec<f64>,
    placed: Vec<u32>,
    /// From when an exclusive node is free.
    free: Vec<f64>,
    /// Number of tasks on every node, and for every node those before it that are alike.
    count: Vec<u32>,
    twins: Vec<Vec<usize>>,
    /// For every task the one before it that is alike.
    twin: Vec<Option<usize>>,
    areas: Vec<Area>,
    order: Vec<usize>,
    /// Tasks from the longest to the shortest, on their fastest nodes.
    longest: Vec<usize>,
    /// What every task takes of every resource, and what all nodes have.
    demands: Vec<f64>,
    capacities: Vec<f64>,
    /// Scratch: from when every task can be on every node, at least.
    ready: Vec<f64>,
    /// Scratch: what every node can do for some tasks.
    rooms: Vec<Room>,
    instant: bool,
    seen: Seen,
    /// Scratch: the state that is looked for.
    state: State,
}

/// A state of the search, the ways to go on that are left, and what is undone before the next is taken.
#[derive(Debug)]
struct Step {
    set: u64,
    makespan: f64,
    ways: std::vec::IntoIter<Branch>,
    undo: Option<Undo>,
}

/// The node of the last placed task, and from when it was free before.
#[derive(Debug, Clone, Copy)]
struct Undo {
    node: usize,
    free: f64,
}

/// Node weights, with the least weighted time of every task.
#[derive(Debug)]
struct Area {
    weights: Vec<f64>,
    tasks: Vec<f64>,
}

/// The time of a node that some tasks could have: between the first moment at which one of them is ready and the last
/// at which one of them may end.
#[derive(Debug, Clone, Copy)]
struct Room {
    ready: f64,
    /// What follows each of them, at least.
    behind: f64,
    /// The shortest of them.
    shortest: f64,
}

impl Room {
    const EMPTY: Self = Self { ready: f64::INFINITY, behind: f64::INFINITY, shortest: f64::INFINITY };
}

#[derive(Debug, Clone, Copy)]
struct Branch {
    task: usize,
    node: usize,
    start: f64,
    finish: f64,
}

impl<'a> Exact<'a> {
    /// For an instance that [`is_small`].
    pub(super) fn new(model: &'a Model<'a>) -> Self {
        let area = |weights: Vec<f64>| {
            let cheapest = |t: usize| {
                let times = model.exec_row(t).iter().zip(&weights);
                times.map(|(e, w)| e * w).fold(f64::INFINITY, f64::min)
            };
            Area { tasks: (0..model.tasks).map(cheapest).collect(), weights }
        };
        let total =
            |d: usize| (0..model.nodes).filter_map(|n| model.capacity(n).nth(d)).map(|c| c as f64).sum();
        let mut order: Vec<usize> = (0..model.tasks).collect();
        order.sort_unstable_by_key(|t| model.position[*t]);
        let mut longest = order.clone();
        let least = |t: usize| model.instance.min_exec(TaskId::new(t));
        longest.sort_by(|&a, &b| least(b).total_cmp(&least(a)));
        Self {
            model,
            path: Vec::new(),
            has_begun: false,
            best: f64::INFINITY,
            better: None,
            node: vec![0; model.tasks],
            start: vec![0.0; model.tasks],
            finish: vec![0.0; model.tasks],
            placed: Vec::new(),
            free: vec![0.0; model.nodes],
            count: vec![0; model.nodes],
            twins: (0..model.nodes).map(|n| (0..n).filter(|m| model.alike(*m, n)).collect()).collect(),
            twin: (0..model.tasks).map(|t| (0..t).rev().find(|u| model.alike_tasks(*u, t))).collect(),
            areas: if model.exclusive { weights(model).into_iter().map(area).collect() } else { Vec::new() },
            order,
            longest,
            demands: (0..model.tasks).flat_map(|t| model.demand(t)).map(|d| d as f64).collect(),
            capacities: (0..model.dimensions()).map(total).collect(),
            ready: vec![0.0; model.tasks * model.nodes],
            rooms: vec![Room::EMPTY; model.nodes],
            instant: model.is_instant(),
            seen: Seen::default(),
            state: State::default(),
        }
    }

    /// Goes on for so many branches, in search of a schedule that is shorter than `makespan` and what was found before.
    pub(super) fn advance(&mut self, makespan: f64, mut branches: u64, limit: &Limit<'_>) {
        self.best = self.best.min(makespan);
        if !self.has_begun {
            self.has_begun = true;
            self.enter(0, 0.0, 0.0);
        }
        while let Some(step) = self.path.last_mut() {
            if branches == 0 || branches.is_multiple_of(256) && limit.is_over() {
                return;
            }
            if let Some(Undo { node, free }) = step.undo.take() {
                self.placed.pop();
                self.count[node] -= 1;
                self.free[node] = free;
            }
            match step.ways.next() {
                None => drop(self.path.pop()),
                Some(way) if way.finish + self.model.behind(way.task, way.node) < self.goal() => {
                    branches -= 1;
                    self.take(way);
                }
                Some(_) => {}
            }
        }
    }

    /// Whether all branches were searched: no schedule is shorter than those that were given or found.
    pub(super) fn is_complete(&self) -> bool {
        self.has_begun && self.path.is_empty()
    }

    /// The schedule that was found since this was last asked, if one was.
    pub(super) fn found(&mut self) -> Option<Schedule> {
        self.better.take()
    }

    /// Goes down a way from the state at the end of the path.
    fn take(&mut self, way: Branch) {
        let Branch { task, node, start, finish } = way;
        let Some(step) = self.path.last_mut() else { return };
        step.undo = Some(Undo { node, free: self.free[node] });
        let (set, makespan) = (step.set | 1 << task, step.makespan.max(finish));
        if finish > start {
            self.free[node] = finish;
        }
        (self.node[task], self.start[task], self.finish[task]) = (node as u32, start, finish);
        self.count[node] += 1;
        self.placed.push(task as u32);
        self.enter(set, start, makespan);
    }

    /// Adds a state to the path unless nothing better lies behind it. `set`: the placed tasks; `last`: the latest start.
    fn enter(&mut self, set: u64, last: f64, makespan: f64) {
        if self.placed.len() == self.model.tasks {
            if makespan < self.best * (1.0 - 1e-12) {
                self.best = makespan;
                self.better = Some(self.schedule());
            }
            return;
        }
        let goal = self.goal();
        let is_hopeless = self.bound(set, last) >= goal || self.are_too_many(set, last, goal);
        if !is_hopeless && !self.is_dominated(set, last, makespan) {
            let ways = self.ways(set, last).into_iter();
            self.path.push(Step { set, makespan, ways, undo: None });
        }
    }

    fn schedule(&self) -> Schedule {
        let place = |t: usize| Placement {
            task: TaskId::new(t),
            node: NodeId::new(self.node[t] as usize),
            start: self.start[t],
            finish: self.finish[t],
        };
        Schedule::new((0..self.model.tasks).map(place).collect())
    }

    /// What is not shorter than this is no better than the best.
    fn goal(&self) -> f64 {
        self.best * (1.0 - PRECISION)
    }

    /// All pairs of ready task and node; early starts first, of equal ones those with the longest way behind.
    fn ways(&self, set: u64, last: f64) -> Vec<Branch> {
        let mut ways = Vec::new();
        for &task in &self.order {
            let parents = self.model.parents.of(task);
            if set >> task & 1 == 1 || parents.iter().any(|p| set >> p & 1 == 0) {
                continue;
            }
            if self.twin[task].is_some_and(|twin| set >> twin & 1 == 0) {
                continue;
            }
            for (node, &exec) in self.model.exec_row(task).iter().enumerate() {
                // An unused node that is like another unused one before it brings nothing new.
                let idle = |n: &usize| self.count[*n] == 0;
                if exec.is_infinite() || idle(&node) && self.twins[node].iter().any(idle) {
                    continue;
                }
                let ready = self.model.ready(task, node as u32, &self.node, &self.finish).max(last);
                let start = self.earliest(task, node, ready, exec);
                ways.push(Branch { task, node, start, finish: start + exec });
            }
        }
        ways.sort_by(|a, b| {
            let behind = |w: &Branch| self.model.behind(w.task, w.node) + w.finish - w.start;
            a.start.total_cmp(&b.start).then(behind(b).total_cmp(&behind(a)))
        });
        ways
    }

    /// The earliest start, not before `ready`, which is not before the last start.
    fn earliest(&self, task: usize, node: usize, ready: f64, exec: f64) -> f64 {
        if exec <= 0.0 {
            return ready;
        }
        if self.model.exclusive {
            return ready.max(self.free[node]);
        }
        // From the last start on tasks only end: it fits for good as soon as it fits.
        let running = |at: f64| {
            let here = self.placed.iter().map(|t| *t as usize);
            here.filter(move |t| {
                self.node[*t] as usize == node && self.finish[*t] > at && self.start[*t] < self.finish[*t]
            })
        };
        let fits = |at: f64| {
            let needs = self.model.demand(task).zip(self.model.capacity(node)).enumerate();
            needs.into_iter().all(|(d, (demand, capacity))| {
                let used: i64 = running(at).filter_map(|t| self.model.demand(t).nth(d)).sum();
                used + demand <= capacity
            })
        };
        let mut at = ready;
        while !fits(at) {
            at = running(at).map(|t| self.finish[t]).fold(f64::INFINITY, f64::min);
        }
        at
    }

    /// No schedule that goes on from here is shorter. Leaves in `ready` when tasks can be where.
    fn bound(&mut self, set: u64, last: f64) -> f64 {
        let (model, mut bound) = (self.model, 0.0_f64);
        for at in 0..self.order.len() {
            let task = self.order[at];
            if set >> task & 1 == 1 {
                continue;
            }
            let parents = model.parents.of(task);
            let placed = parents.iter().all(|p| set >> p & 1 == 1);
            let after = parents.iter().fold(last, |start: f64, p| start.max(self.finish[*p as usize]));
            let (mut finish, mut end) = (f64::INFINITY, f64::INFINITY);
            for (node, &exec) in model.exec_row(task).iter().enumerate() {
                let mut ready = after;
                if placed {
                    ready = ready.max(model.ready(task, node as u32, &self.node, &self.finish));
                }
                self.ready[task * model.nodes + node] = ready;
                if exec > 0.0 && model.exclusive {
                    ready = ready.max(self.free[node]);
                }
                finish = finish.min(ready + exec);
                end = end.min(ready + exec + model.behind(task, node));
            }
            self.finish[task] = finish;
            bound = bound.max(end);
        }
        bound
    }

    /// Whether exclusive nodes cannot do the longest of the tasks that are left before `goal`, for any number of them:
    /// their work is more than the time that is left, or they are more than fit if all took as long as the shortest.
    fn are_too_many(&mut self, set: u64, last: f64, goal: f64) -> bool {
        let model = self.model;
        if !model.exclusive {
            return self.is_too_much(set, last, goal);
        }
        let (mut count, mut works) = (0.0, [0.0; 2]);
        self.rooms.fill(Room::EMPTY);
        for &task in self.longest.iter().filter(|t| set >> **t & 1 == 0) {
            count += 1.0;
            for (work, area) in works.iter_mut().zip(&self.areas) {
                *work += area.tasks[task];
            }
            let (mut places, mut times) = (0.0, [0.0; 2]);
            let ready = &self.ready[task * model.nodes..];
            for (node, (room, exec)) in self.rooms.iter_mut().zip(model.exec_row(task)).enumerate() {
                if exec.is_finite() {
                    room.ready = room.ready.min(ready[node]);
                    room.behind = room.behind.min(model.behind(task, node));
                    room.shortest = room.shortest.min(*exec);
                }
                let time = goal - room.behind - room.ready.max(self.free[node]).max(last);
                if time > 0.0 {
                    // Rounding must not take away a place.
                    places += (time / room.shortest * (1.0 + 1e-12)).floor();
                    times
                        .iter_mut()
                        .zip(&self.areas)
                        .for_each(|(sum, area)| *sum += time * area.weights[node]);
                }
            }
            if places < count || works.iter().zip(times).any(|(work, time)| *work > time * (1.0 + 1e-12)) {
                return true;
            }
        }
        false
    }

    /// Whether shared nodes cannot do what is left of the work before `goal`, for any resource.
    fn is_too_much(&self, set: u64, last: f64, goal: f64) -> bool {
        let model = self.model;
        let seconds = |t: usize| match set >> t & 1 {
            0 => model.instance.min_exec(TaskId::new(t)),
            _ => (self.finish[t] - last).max(0.0),
        };
        (0..model.dimensions()).any(|d| {
            let work = |t: usize| seconds(t) * self.demands[t * model.dimensions() + d];
            let work: f64 = (0..model.tasks).map(work).sum();
            work > self.capacities[d] * (goal - last) * (1.0 + 1e-12)
        })
    }

    /// Whether a state that was searched before is as good in every respect; remembers this one otherwise.
    fn is_dominated(&mut self, set: u64, last: f64, makespan: f64) -> bool {
        let (model, state) = (self.model, &mut self.state);
        state.values.clear();
        state.values.extend([last, makespan]);
        if model.exclusive {
            state.values.extend(self.free.iter().map(|free| free.max(last)));
        }
        state.tasks.clear();
        for &t in self.order.iter().filter(|t| set >> **t & 1 == 1) {
            // On an exclusive node only the data of a task is of interest when it is placed, and on any node it is not
            // once all children are.
            let is_open = model.children.of(t).iter().any(|c| set >> c & 1 == 0);
            if is_open || !model.exclusive {
                let stays = is_open && !self.instant;
                let node = if model.exclusive && self.instant { 0 } else { self.node[t] as u8 };
                state.tasks.push(Place { node, finish: self.finish[t].max(last), stays });
            }
        }
        self.seen.dominates(set, &self.state)
    }
}
