//! Simulated annealing on the order of tasks and their nodes.
//!
//! A move takes a task, mostly one of the critical path, to another node, or past its neighbour on its node, or to
//! another place in the order. Whether a longer schedule will do is drawn before its makespan is known, so that most
//! trials end early. Temperature falls in cycles of growing length; each begins at the best schedule known, at the
//! present one, or at a greedy one under noise. Sources: Kirkpatrick, Gelatt, Vecchi: Optimization by simulated
//! annealing, Science 220, 1983; van Laarhoven, Aarts, Lenstra: Job shop scheduling by simulated annealing,
//! Operations Research 40(1), 1992 (moves on the critical path). A move costs O(tasks + dependencies) at most.

use mdts_core::{NodeId, Placement, Rng, Schedule};
use mdts_dag::TaskId;
use rand::Rng as _;

use super::budget::Limit;
use super::model::Model;
use super::sequence::{Nodes, Sequence};
use super::team::{Best, Worker};

/// Moves in the first cycle, at least.
const FIRST_CYCLE: u64 = 4000;
/// Moves in a cycle, at most.
const LAST_CYCLE: u64 = 1 << 20;
/// Tasks placed between two looks at the clock, about.
const PATIENCE: usize = 5000;

#[derive(Debug)]
pub(super) struct Anneal<'a, N> {
    sequence: Sequence<'a, N>,
    rng: Rng,
    best: Best,
    cycle: Cycle,
    /// Mean over all tasks of the shortest run time: what temperatures are measured in.
    scale: f64,
    /// Tasks of the critical path of the present schedule; empty: not known.
    critical: Vec<u32>,
    /// Tasks that can choose between nodes.
    movable: Vec<bool>,
    by_node: Vec<Vec<u32>>,
    /// The last change: tasks with their nodes before, and a shift in the order.
    moved: Vec<(u32, u32)>,
    shifted: Option<(usize, usize)>,
}

#[derive(Debug, Clone, Copy)]
struct Cycle {
    moves: u64,
    done: u64,
    hot: f64,
}

impl<'a, N: Nodes> Anneal<'a, N> {
    pub(super) fn new(model: &'a Model<'a>, nodes: N, start: &Schedule, rng: Rng) -> Self {
        let mut sequence = Sequence::new(model, nodes);
        let node: Vec<u32> = start.placements().iter().map(|p| p.node.get()).collect();
        sequence.set(&model.order_of(start), &node);
        let best =
            Best { makespan: sequence.makespan, order: sequence.order.clone(), node: sequence.node.clone() };
        let work: f64 = (0..model.tasks).map(|t| model.instance.min_exec(TaskId::new(t))).sum();
        let movable = |t| model.exec_row(t).iter().filter(|e| e.is_finite()).count() > 1;
        Self {
            rng,
            best,
            cycle: Cycle { moves: FIRST_CYCLE.max(4 * model.tasks as u64), done: 0, hot: 0.05 },
            scale: work / model.tasks.max(1) as f64,
            critical: Vec::new(),
            movable: (0..model.tasks).map(movable).collect(),
            by_node: vec![Vec::new(); model.nodes],
            moved: Vec::new(),
            shifted: None,
            sequence,
        }
    }

    /// Ends a cycle and begins the next.
    fn next_cycle(&mut self) {
        let hot = 2.0_f64.powf(self.rng.random_range(-8.0..1.0));
        self.cycle = Cycle { moves: (self.cycle.moves * 6 / 5).min(LAST_CYCLE), done: 0, hot };
        match self.rng.random_range(0..10) {
            0..6 => self.sequence.set(&self.best.order, &self.best.node),
            6..8 => {}
            _ => self.greedy(),
        }
        self.sequence.sort();
        self.critical.clear();
        self.note();
    }

    /// A greedy schedule by upward rank under noise.
    fn greedy(&mut self) {
        let model = self.sequence.model;
        let noise = self.rng.random_range(0.0..0.5);
        let mut key = vec![0.0; model.tasks];
        let mut order = self.best.order.clone();
        order.sort_unstable_by_key(|t| std::cmp::Reverse(model.position[*t as usize]));
        for &task in &order {
            let t = task as usize;
            let behind = model.children.of(t).iter().map(|c| key[*c as usize]).fold(0.0, f64::min);
            let own = model.instance.mean_exec(TaskId::new(t));
            key[t] = behind - own * (1.0 + noise * self.rng.random_range(-1.0..1.0));
        }
        model.sort_by_time(&mut order, &key);
        self.sequence.set_greedily(&order);
    }

    /// Remembers the present schedule if it is the best.
    fn note(&mut self) {
        if self.sequence.makespan < self.best.makespan {
            self.best.makespan = self.sequence.makespan;
            self.best.order.clone_from(&self.sequence.order);
            self.best.node.clone_from(&self.sequence.node);
        }
    }

    fn step(&mut self) {
        if self.cycle.done >= self.cycle.moves {
            self.next_cycle();
        }
        let cold = 1.0 - self.cycle.done as f64 / self.cycle.moves as f64;
        self.cycle.done += 1;
        let temperature = self.scale * self.cycle.hot * cold * cold;
        let luck: f64 = self.rng.random();
        let limit = self.sequence.makespan - temperature * luck.max(1e-12).ln();
        if self.critical.is_empty() {
            self.find_critical();
        }
        let first = self.propose();
        let Some(first) = first else { return };
        let trial = self.sequence.trial(first, limit);
        if trial.makespan <= limit {
            self.sequence.accept(trial);
            self.critical.clear();
            self.note();
        } else {
            self.sequence.reject(trial);
            self.take_back();
        }
    }

    /// Makes a change and gives the first position that it touches.
    fn propose(&mut self) -> Option<usize> {
        self.moved.clear();
        self.shifted = None;
        let s = &self.sequence;
        let random = self.critical.is_empty() || self.rng.random_bool(0.4);
        let from: &[u32] = if random { &s.order } else { &self.critical };
        let task = *from.get(self.rng.random_range(0..from.len().max(1)))? as usize;
        if !self.movable[task] || self.rng.random_bool(0.4) {
            return self.move_in_order(task);
        }
        let node = self.other_node(task);
        match self.rng.random_range(0..20) {
            0..11 => Some(self.move_to(task, node)),
            11..15 => self.swap(task, node),
            15..19 => Some(self.move_group(task, node)),
            _ => Some(self.swap_nodes(task, node)),
        }
    }

    /// Undoes the last change.
    fn take_back(&mut self) {
        for (task, node) in self.moved.drain(..).rev() {
            self.sequence.node[task as usize] = node;
        }
        if let Some((from, to)) = self.shifted {
            self.sequence.shift(to, from);
        }
    }

    fn put(&mut self, task: usize, node: u32) {
        self.moved.push((task as u32, self.sequence.node[task]));
        self.sequence.node[task] = node;
    }

    fn shift(&mut self, from: usize, to: usize) -> usize {
        self.shifted = Some((from, to));
        self.sequence.shift(from, to);
        from.min(to)
    }

    /// The positions between a task's last parent and its first child.
    fn range(&self, task: usize) -> (usize, usize) {
        let s = &self.sequence;
        let parents = s.model.parents.of(task).iter();
        let children = s.model.children.of(task).iter().map(|c| s.position(*c as usize));
        (
            parents.filter_map(|p| s.place(*p)).max().map_or(0, |at| at + 1),
            children.min().unwrap_or(s.order.len()) - 1,
        )
    }

    /// Another node, and often another position.
    fn move_to(&mut self, task: usize, node: u32) -> usize {
        let at = self.sequence.position(task);
        self.put(task, node);
        if self.rng.random_bool(0.3) {
            return at;
        }
        let (low, high) = self.range(task);
        let to = self.rng.random_range(low..=high);
        self.shift(at, to)
    }

    /// The task changes its node with one that is there, near in the order.
    fn swap(&mut self, task: usize, node: u32) -> Option<usize> {
        let s = &self.sequence;
        let (at, home) = (s.position(task), s.node[task]);
        let fits = |u: usize| s.node[u] == node && s.model.exec(u, home as usize).is_finite();
        let mut passes = self.rng.random_range(1..=3);
        let mut find = |to: usize| {
            passes -= i32::from(fits(s.order[to] as usize));
            passes == 0
        };
        let other = if self.rng.random() {
            (0..at).rev().find(|to| find(*to))
        } else {
            (at + 1..s.order.len()).find(|to| find(*to))
        }?;
        let other = s.order[other] as usize;
        let first = at.min(s.position(other));
        if self.rng.random() {
            self.put(task, node);
            self.put(other, home);
            return Some(first);
        }
        let first = self.move_group(task, node);
        // A neighbour that has come along must not be taken back.
        Some(if self.sequence.node[other] == node { first.min(self.move_group(other, home)) } else { first })
    }

    /// Tasks on the same node that hang together with the task in the graph come with it, as far as luck carries.
    fn move_group(&mut self, task: usize, node: u32) -> usize {
        let model = self.sequence.model;
        let home = self.sequence.node[task];
        let reach = self.rng.random_range(0.3..1.0);
        let mut first = self.sequence.position(task);
        let mut next = self.moved.len();
        self.put(task, node);
        while let Some(&(member, _)) = self.moved.get(next) {
            next += 1;
            let member = member as usize;
            let (parents, children) = (model.parents.of(member), model.children.of(member));
            for &near in parents.iter().chain(children) {
                let u = near as usize;
                let here = self.sequence.node[u] == home && self.sequence.place(near).is_some();
                if here && model.exec(u, node as usize).is_finite() && self.rng.random_bool(reach) {
                    first = first.min(self.sequence.position(u));
                    self.put(u, node);
                }
            }
        }
        first
    }

    /// All tasks of two nodes change places, from the task's position on.
    fn swap_nodes(&mut self, task: usize, node: u32) -> usize {
        let home = self.sequence.node[task];
        let first = self.sequence.position(task);
        for at in first..self.sequence.order.len() {
            let u = self.sequence.order[at] as usize;
            let to = match self.sequence.node[u] {
                n if n == home => node,
                n if n == node => home,
                _ => continue,
            };
            if self.sequence.model.exec(u, to as usize).is_finite() {
                self.put(u, to);
            }
        }
        first
    }

    /// Past one to three neighbours on its node, or anywhere.
    fn move_in_order(&mut self, task: usize) -> Option<usize> {
        let (low, high) = self.range(task);
        let s = &self.sequence;
        let (at, node) = (s.position(task), s.node[task]);
        if self.rng.random_bool(0.3) {
            let to = self.rng.random_range(low..=high);
            return (to != at).then(|| self.shift(at, to));
        }
        let mut passes = self.rng.random_range(1..=3);
        let mut step = |to: usize| {
            passes -= i32::from(s.node[s.order[to] as usize] == node);
            passes == 0
        };
        let to = if self.rng.random_bool(0.6) {
            (low..at).rev().find(|to| step(*to))
        } else {
            (at + 1..=high).find(|to| step(*to))
        };
        to.map(|to| self.shift(at, to))
    }

    /// Another node that can run the task: one of a neighbour in the graph, or any.
    fn other_node(&mut self, task: usize) -> u32 {
        let s = &self.sequence;
        let row = s.model.exec_row(task);
        let fits = |node: u32| node != s.node[task] && row[node as usize].is_finite();
        if self.rng.random_bool(0.3) {
            let (parents, children) = (s.model.parents.of(task), s.model.children.of(task));
            let count = parents.len() + children.len();
            if count > 0 {
                let i = self.rng.random_range(0..count);
                let near = if i < parents.len() { parents[i] } else { children[i - parents.len()] };
                if fits(s.node[near as usize]) {
                    return s.node[near as usize];
                }
            }
        }
        loop {
            let node = self.rng.random_range(0..row.len()) as u32;
            if fits(node) {
                return node;
            }
        }
    }

    /// Walks from the last task back through what each of them waited for.
    fn find_critical(&mut self) {
        let s = &self.sequence;
        self.by_node.iter_mut().for_each(Vec::clear);
        for &task in &s.order {
            self.by_node[s.node[task as usize] as usize].push(task);
        }
        let last = |a: u32, b: u32| if s.finish[b as usize] > s.finish[a as usize] { b } else { a };
        let mut next = s.order.iter().copied().reduce(last);
        while let Some(task) = next {
            self.critical.push(task);
            let t = task as usize;
            let slack = 1e-9 * s.start[t].max(1.0);
            let parent = s.model.last_parent(t, &s.node, &s.finish).filter(|(_, a)| *a >= s.start[t] - slack);
            let row = &self.by_node[s.node[t] as usize];
            let before = row.iter().copied().find(|&u| {
                let u = u as usize;
                u != t && (s.finish[u] - s.start[t]).abs() <= slack && s.start[u] < s.start[t]
            });
            let parent = parent.map(|(p, _)| p as u32).filter(|p| s.place(*p).is_some());
            next = match (parent, before) {
                (Some(a), Some(b)) => Some(if self.rng.random() { a } else { b }),
                (a, b) => a.or(b),
            };
        }
    }
}

impl<N: Nodes> Worker for Anneal<'_, N> {
    fn run(&mut self, iterations: u64, goal: f64, limit: &Limit<'_>) -> u64 {
        let patience = (PATIENCE / self.sequence.order.len()).clamp(1, 64) as u64;
        for i in 0..iterations {
            if self.best.makespan <= goal || i.is_multiple_of(patience) && limit.is_over() {
                return i;
            }
            self.step();
        }
        iterations
    }

    fn best(&self) -> Best {
        self.best.clone()
    }

    fn adopt(&mut self, best: &Best) {
        if best.makespan < self.best.makespan {
            self.best = best.clone();
        }
    }

    fn schedule(&mut self, best: &Best) -> Schedule {
        let s = &mut self.sequence;
        s.set(&best.order, &best.node);
        let place = |t: usize| Placement {
            task: TaskId::new(t),
            node: NodeId::new(s.node[t] as usize),
            start: s.start[t],
            finish: s.finish[t],
        };
        Schedule::new((0..s.model.tasks).map(place).collect())
    }
}
