//! A solution as the annealing sees it: an order of all tasks and a node for each.
//!
//! Tasks are placed in their order; on an exclusive node each goes behind the one before it, on a shared node to the
//! earliest place in the profile. The order by start of any best schedule gives that schedule, so nothing is lost. A
//! change at one position leaves all before it as they were: times are computed anew only from there on, and given up
//! as soon as the makespan must exceed a limit. O(tasks + dependencies) at most.

use super::model::Model;
use super::profile::{Amounts, Profile, amounts};

/// The time of all nodes while an order is carried out.
pub(super) trait Nodes: Send {
    /// Everything as it was at the beginning of a block of positions.
    fn restart(&mut self, block: usize);
    /// Remembers the state at the beginning of a block, until the next trial.
    fn mark(&mut self, block: usize);
    /// Makes what was marked from `block` on the state to restart from.
    fn keep(&mut self, block: usize, blocks: usize);
    /// Earliest start of a task that takes time.
    fn earliest(&self, task: usize, node: usize, ready: f64, duration: f64) -> f64;
    /// Takes that place.
    fn take(&mut self, task: usize, node: usize, start: f64, finish: f64);
    /// Positions per block; 0: only the beginning can be returned to.
    const BLOCK: usize;
}

/// Exclusive nodes: the time from which each is free.
#[derive(Debug)]
pub(super) struct Exclusive {
    free: Vec<f64>,
    kept: Vec<f64>,
    marked: Vec<f64>,
}

impl Exclusive {
    pub(super) fn new(model: &Model<'_>) -> Self {
        let mut free = vec![model.now; model.nodes];
        for p in &model.started {
            free[p.node.index()] = free[p.node.index()].max(p.finish);
        }
        let kept = free.repeat(model.tasks / Self::BLOCK + 1);
        Self { free, marked: kept.clone(), kept }
    }

    fn row(&self, block: usize) -> std::ops::Range<usize> {
        block * self.free.len()..(block + 1) * self.free.len()
    }
}

impl Nodes for Exclusive {
    const BLOCK: usize = 16;

    fn restart(&mut self, block: usize) {
        let row = self.row(block);
        self.free.copy_from_slice(&self.kept[row]);
    }

    fn mark(&mut self, block: usize) {
        let row = self.row(block);
        self.marked[row].copy_from_slice(&self.free);
    }

    fn keep(&mut self, block: usize, blocks: usize) {
        let rows = self.row(block).start..self.row(blocks).start;
        self.kept[rows.clone()].copy_from_slice(&self.marked[rows]);
    }

    #[inline]
    fn earliest(&self, _: usize, node: usize, ready: f64, _: f64) -> f64 {
        self.free[node].max(ready)
    }

    #[inline]
    fn take(&mut self, _: usize, node: usize, _: f64, finish: f64) {
        self.free[node] = finish;
    }
}

/// Shared nodes: a profile each.
#[derive(Debug)]
pub(super) struct Shared<const K: usize> {
    demand: Vec<Amounts<K>>,
    first: Vec<Profile<K>>,
    profiles: Vec<Profile<K>>,
}

impl<const K: usize> Shared<K> {
    pub(super) fn new(model: &Model<'_>) -> Self {
        let demand: Vec<_> = (0..model.tasks).map(|t| amounts(model.demand(t))).collect();
        let mut first: Vec<_> = (0..model.nodes).map(|n| Profile::new(amounts(model.capacity(n)))).collect();
        for p in model.started.iter().filter(|p| p.finish > p.start) {
            first[p.node.index()].take_at(p.start, p.finish, &demand[p.task.index()]);
        }
        Self { demand, profiles: first.clone(), first }
    }
}

impl<const K: usize> Nodes for Shared<K> {
    const BLOCK: usize = 0;

    fn restart(&mut self, _: usize) {
        self.profiles.iter_mut().zip(&self.first).for_each(|(p, first)| p.copy_from(first));
    }

    fn mark(&mut self, _: usize) {}

    fn keep(&mut self, _: usize, _: usize) {}

    #[inline]
    fn earliest(&self, task: usize, node: usize, ready: f64, duration: f64) -> f64 {
        self.profiles[node].earliest(ready, duration, &self.demand[task])
    }

    #[inline]
    fn take(&mut self, task: usize, node: usize, start: f64, finish: f64) {
        self.profiles[node].take_at(start, finish, &self.demand[task]);
    }
}

/// An order with nodes, its times, and the means to change both.
#[derive(Debug)]
pub(super) struct Sequence<'a, N> {
    pub(super) model: &'a Model<'a>,
    nodes: N,
    pub(super) order: Vec<u32>,
    /// Position of every task in `order`.
    at: Vec<u32>,
    pub(super) node: Vec<u32>,
    pub(super) start: Vec<f64>,
    pub(super) finish: Vec<f64>,
    pub(super) makespan: f64,
    /// Latest finish before every block, and of the trial.
    peaks: Vec<f64>,
    trial_peaks: Vec<f64>,
    /// Times before the trial, by position.
    old: Vec<(f64, f64)>,
}

/// What a trial has overwritten.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    block: usize,
    first: usize,
    /// Position that was reached.
    reached: usize,
    /// The makespan; infinite if it exceeds the limit.
    pub(super) makespan: f64,
}

impl<'a, N: Nodes> Sequence<'a, N> {
    /// All tasks in topological order on their fastest nodes; [`Sequence::set`] comes next.
    pub(super) fn new(model: &'a Model<'a>, nodes: N) -> Self {
        let started = model.started.iter().fold(0.0, |m: f64, p| m.max(p.finish));
        let blocks = model.tasks.checked_div(N::BLOCK).unwrap_or(0) + 1;
        let mut sequence = Self {
            model,
            nodes,
            order: Vec::new(),
            at: vec![0; model.tasks],
            node: vec![0; model.tasks],
            start: vec![0.0; model.tasks],
            finish: vec![0.0; model.tasks],
            makespan: 0.0,
            peaks: vec![started; blocks],
            trial_peaks: vec![started; blocks],
            old: vec![(0.0, 0.0); model.tasks],
        };
        for p in &model.started {
            let t = p.task.index();
            (sequence.node[t], sequence.start[t], sequence.finish[t]) = (p.node.get(), p.start, p.finish);
        }
        sequence
    }

    /// Takes over a solution.
    pub(super) fn set(&mut self, order: &[u32], node: &[u32]) {
        self.order.clear();
        self.order.extend_from_slice(order);
        self.node.copy_from_slice(node);
        self.refresh();
    }

    /// Computes all times after the order was changed as a whole.
    fn refresh(&mut self) {
        for (at, task) in self.order.iter().enumerate() {
            self.at[*task as usize] = at as u32;
        }
        let trial = self.trial(0, f64::INFINITY);
        self.accept(trial);
    }

    /// Puts the order into that of starts. The times stay, or get better on shared nodes.
    pub(super) fn sort(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        self.model.sort_by_time(&mut order, &self.start);
        self.order = order;
        self.refresh();
    }

    /// Places all tasks of an order anew, each where it finishes first.
    pub(super) fn set_greedily(&mut self, order: &[u32]) {
        self.order.clear();
        self.order.extend_from_slice(order);
        self.nodes.restart(0);
        for &task in order {
            let t = task as usize;
            let mut best = (f64::INFINITY, 0, 0.0);
            for (n, &exec) in self.model.exec_row(t).iter().enumerate() {
                if exec.is_infinite() {
                    continue;
                }
                let ready = self.model.ready(t, n as u32, &self.node, &self.finish);
                let start = if exec > 0.0 { self.nodes.earliest(t, n, ready, exec) } else { ready };
                if start + exec < best.0 {
                    best = (start + exec, n, start);
                }
            }
            let (finish, node, start) = best;
            if finish > start {
                self.nodes.take(t, node, start, finish);
            }
            (self.node[t], self.start[t], self.finish[t]) = (node as u32, start, finish);
        }
        self.refresh();
    }

    /// Position of a task that has not started.
    pub(super) fn position(&self, task: usize) -> usize {
        self.at[task] as usize
    }

    /// Position of a task; `None` if it has started already.
    pub(super) fn place(&self, task: u32) -> Option<usize> {
        let at = self.at[task as usize] as usize;
        (self.order.get(at) == Some(&task)).then_some(at)
    }

    /// Moves the task at one position to another; those between shift by one.
    pub(super) fn shift(&mut self, from: usize, to: usize) {
        if from < to {
            self.order[from..=to].rotate_left(1);
        } else {
            self.order[to..=from].rotate_right(1);
        }
        for at in from.min(to)..=from.max(to) {
            self.at[self.order[at] as usize] = at as u32;
        }
    }

    /// Computes the times of all tasks from a position on, until the makespan must exceed `limit`.
    pub(super) fn trial(&mut self, from: usize, limit: f64) -> Trial {
        let block = from.checked_div(N::BLOCK).unwrap_or(0);
        let first = block * N::BLOCK;
        self.nodes.restart(block);
        let mut peak = self.peaks[block];
        for at in first..self.order.len() {
            if N::BLOCK > 0 && at % N::BLOCK == 0 {
                self.nodes.mark(at / N::BLOCK);
                self.trial_peaks[at / N::BLOCK] = peak;
            }
            let t = self.order[at] as usize;
            let node = self.node[t];
            let duration = self.model.exec(t, node as usize);
            let ready = self.model.ready(t, node, &self.node, &self.finish);
            self.old[at] = (self.start[t], self.finish[t]);
            let start =
                if duration > 0.0 { self.nodes.earliest(t, node as usize, ready, duration) } else { ready };
            let finish = start + duration;
            (self.start[t], self.finish[t]) = (start, finish);
            if finish + self.model.behind(t, node as usize) > limit {
                return Trial { block, first, reached: at + 1, makespan: f64::INFINITY };
            }
            if duration > 0.0 {
                self.nodes.take(t, node as usize, start, finish);
            }
            peak = peak.max(finish);
        }
        Trial { block, first, reached: self.order.len(), makespan: peak }
    }

    /// Keeps what a finished trial has computed.
    pub(super) fn accept(&mut self, trial: Trial) {
        if let Some(last) = self.order.len().saturating_sub(1).checked_div(N::BLOCK) {
            let blocks = last + 1;
            self.nodes.keep(trial.block, blocks);
            self.peaks[trial.block..blocks].copy_from_slice(&self.trial_peaks[trial.block..blocks]);
        }
        self.makespan = trial.makespan;
    }

    /// Brings back the times before a trial. The order is that of the trial still.
    pub(super) fn reject(&mut self, trial: Trial) {
        for at in trial.first..trial.reached {
            let t = self.order[at] as usize;
            (self.start[t], self.finish[t]) = self.old[at];
        }
    }
}
