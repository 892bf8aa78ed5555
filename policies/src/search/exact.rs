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
use rustc_hash::FxHashMap;

use super::bound::weights;
use super::budget::Limit;
use super::model::Model;

/// Tasks at most; sets of them are kept as bits.
pub(super) const MOST_TASKS: usize = 24;
/// Nodes at most; more make too many branches.
pub(super) const MOST_NODES: usize = 64;
/// States remembered, of one set of tasks and in all.
const STATES_PER_SET: usize = 24;
const STATES: usize = 100_000;

/// A schedule is optimal if none is shorter by more than this part.
const PRECISION: f64 = 1e-9;

/// What came out.
#[derive(Debug)]
pub(super) struct Outcome {
    /// A schedule that is better than the one to beat.
    pub(super) schedule: Option<Schedule>,
    /// Whether all branches were searched: nothing is better than this schedule, or else than the one to beat.
    pub(super) complete: bool,
}

/// Searches for a schedule that is shorter than `makespan`. The instance has no progress.
pub(super) fn search(model: &Model<'_>, makespan: f64, branches: u64, limit: &Limit<'_>) -> Outcome {
    let mut search = Exact::new(model, makespan, branches, limit);
    search.branch(0, 0.0, 0.0);
    let place = |t: usize| {
        let (node, start, finish) = search.best_plan[t];
        Placement { task: TaskId::new(t), node: NodeId::new(node as usize), start, finish }
    };
    let found = !search.best_plan.is_empty();
    Outcome {
        schedule: found.then(|| Schedule::new((0..model.tasks).map(place).collect())),
        complete: search.branches > 0,
    }
}

struct Exact<'a> {
    model: &'a Model<'a>,
    limit: &'a Limit<'a>,
    /// Branches left; at 0 the search ends.
    branches: u64,
    best: f64,
    best_plan: Vec<(u32, f64, f64)>,
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
    /// Scratch: from when every task can be on every node, at least.
    ready: Vec<f64>,
    /// Scratch: what every node can do for some tasks.
    rooms: Vec<Room>,
    instant: bool,
    seen: FxHashMap<u64, Vec<State>>,
    states: usize,
}

/// Node weights, with the least weighted time of every task.
struct Area {
    weights: Vec<f64>,
    tasks: Vec<f64>,
}

/// The time of a node that some tasks could have: between the first moment at which one of them is ready and the last
/// at which one of them may end.
#[derive(Clone, Copy)]
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

/// What the future depends on, for one set of placed tasks.
struct State {
    last: f64,
    makespan: f64,
    /// Exclusive nodes: from when they are free.
    free: Vec<f64>,
    /// Every placed task in ascending order: node and finish.
    placed: Vec<(u32, f64)>,
}

#[derive(Clone, Copy)]
struct Branch {
    task: usize,
    node: usize,
    start: f64,
    finish: f64,
}

impl<'a> Exact<'a> {
    fn new(model: &'a Model<'a>, best: f64, branches: u64, limit: &'a Limit<'a>) -> Self {
        let area = |weights: Vec<f64>| {
            let cheapest = |t: usize| {
                let times = model.exec_row(t).iter().zip(&weights);
                times.map(|(e, w)| e * w).fold(f64::INFINITY, f64::min)
            };
            Area { tasks: (0..model.tasks).map(cheapest).collect(), weights }
        };
        let mut order: Vec<usize> = (0..model.tasks).collect();
        order.sort_unstable_by_key(|t| model.position[*t]);
        let mut longest = order.clone();
        let least = |t: usize| model.instance.min_exec(TaskId::new(t));
        longest.sort_by(|&a, &b| least(b).total_cmp(&least(a)));
        Self {
            model,
            limit,
            branches,
            best,
            best_plan: Vec::new(),
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
            ready: vec![0.0; model.tasks * model.nodes],
            rooms: vec![Room::EMPTY; model.nodes],
            instant: model.is_instant(),
            seen: FxHashMap::default(),
            states: 0,
        }
    }

    /// Searches all ways to go on. `set`: the placed tasks; `last`: the latest start.
    fn branch(&mut self, set: u64, last: f64, makespan: f64) {
        if self.placed.len() == self.model.tasks {
            if makespan < self.best * (1.0 - 1e-12) {
                self.best = makespan;
                let plan = self.node.iter().zip(&self.start).zip(&self.finish);
                self.best_plan = plan.map(|((n, s), f)| (*n, *s, *f)).collect();
            }
            return;
        }
        self.branches = self.branches.saturating_sub(1);
        if self.branches.is_multiple_of(256) && self.limit.is_over() {
            self.branches = 0;
        }
        let goal = self.goal();
        if self.branches == 0 || self.bound(set, last) >= goal || self.are_too_many(set, last, goal) {
            return;
        }
        if self.is_dominated(set, last, makespan) {
            return;
        }
        for Branch { task, node, start, finish } in self.ways(set, last) {
            if finish + self.model.behind(task, node) >= self.goal() {
                continue;
            }
            let free = self.free[node];
            if finish > start {
                self.free[node] = finish;
            }
            (self.node[task], self.start[task], self.finish[task]) = (node as u32, start, finish);
            self.count[node] += 1;
            self.placed.push(task as u32);
            self.branch(set | 1 << task, start, makespan.max(finish));
            self.placed.pop();
            self.count[node] -= 1;
            self.free[node] = free;
            if self.branches == 0 {
                return;
            }
        }
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
            return false;
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

    /// Whether a state that was searched before is as good in every respect; remembers this one otherwise.
    fn is_dominated(&mut self, set: u64, last: f64, makespan: f64) -> bool {
        let placed = self.order.iter().filter(|t| set >> **t & 1 == 1);
        let placed: Vec<(u32, f64)> = placed.map(|&t| (self.node[t], self.finish[t])).collect();
        let state = State { last, makespan, free: self.free.clone(), placed };
        // Whether some child of each placed task is still to come.
        let open: Vec<bool> = (self.order.iter().filter(|t| set >> **t & 1 == 1))
            .map(|t| self.model.children.of(*t).iter().any(|c| set >> c & 1 == 0))
            .collect();
        let (exclusive, instant) = (self.model.exclusive, self.instant);
        let better = |old: &State| {
            old.last <= last
                && old.makespan <= makespan
                && (!exclusive || old.free.iter().zip(&state.free).all(|(o, n)| o.max(last) <= n.max(last)))
                && old.placed.iter().zip(&state.placed).zip(&open).all(|((o, n), open)| {
                    let same = o.0 == n.0;
                    let data = !open || (o.1 <= n.1.max(last) && (same || instant));
                    let space = exclusive || o.1 <= last || (same && o.1 <= n.1);
                    data && space
                })
        };
        let known = self.seen.entry(set).or_default();
        if known.iter().any(better) {
            return true;
        }
        if known.len() < STATES_PER_SET && self.states < STATES {
            self.states += 1;
            known.push(state);
        }
        false
    }
}
