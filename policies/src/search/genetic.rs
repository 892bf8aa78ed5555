//! A genetic algorithm on orders of tasks, with double justification.
//!
//! Two parents give a child by two-point crossover, some neighbours in it change places, and the child is justified:
//! all tasks are moved as far to the end as they can go, last ones first, and then back to the beginning, first
//! ones first; the schedule never gets longer. Sources: Hartmann: A competitive genetic algorithm for
//! resource-constrained project scheduling, Naval Research Logistics 45, 1998; Valls, Ballestin, Quintanilla: A hybrid
//! genetic algorithm for the RCPSP, EJOR 185, 2008. One child costs three schedules of O(tasks x steps of the profile).

use mdts_core::{Rng, Schedule};
use rand::Rng as _;

use super::budget::Limit;
use super::pool::{Direction, Pool};
use super::profile::Profile;
use super::team::{Best, Worker};

/// Orders kept at a time.
const POPULATION: usize = 40;
/// Children without progress after which a population is given up.
const PATIENCE: u32 = 4000;
/// How many tasks of a child change places with their neighbours, one in so many.
const MUTATION: f64 = 0.05;

#[derive(Debug)]
pub(super) struct Genetic<'a, const K: usize> {
    pool: Pool<'a, K>,
    rng: Rng,
    population: Vec<Member>,
    best: Member,
    idle: u32,
    scratch: Scratch<K>,
}

#[derive(Debug, Clone, Default)]
struct Member {
    order: Vec<u32>,
    makespan: f64,
}

#[derive(Debug)]
struct Scratch<const K: usize> {
    profile: Profile<K>,
    finish: Vec<f64>,
    key: Vec<f64>,
    taken: Vec<bool>,
    child: Vec<u32>,
}

impl<'a, const K: usize> Genetic<'a, K> {
    pub(super) fn new(pool: Pool<'a, K>, start: &Schedule, rng: Rng) -> Self {
        let tasks = pool.model.tasks;
        let scratch = Scratch {
            profile: pool.profile(),
            finish: vec![0.0; tasks],
            key: vec![0.0; tasks],
            taken: vec![false; tasks],
            child: Vec::with_capacity(tasks),
        };
        let best = Member { order: pool.model.order_of(start), makespan: f64::INFINITY };
        let mut genetic = Self { pool, rng, population: Vec::new(), best: best.clone(), idle: 0, scratch };
        genetic.scratch.child.clone_from(&best.order);
        genetic.best = genetic.justified();
        genetic
    }

    /// Schedules the child, justifies it and gives its new order.
    fn justified(&mut self) -> Member {
        let Scratch { profile, finish, key, child, .. } = &mut self.scratch;
        let model = self.pool.model;
        self.pool.decode(child, Direction::Forward, profile, finish);
        for direction in [Direction::Backward, Direction::Forward] {
            // Last to finish, first to be placed in the other direction.
            for t in 0..model.tasks {
                key[t] = -finish[t];
            }
            match direction {
                Direction::Forward => model.sort_by_time(child, key),
                Direction::Backward => child.sort_unstable_by(|&a, &b| {
                    let (x, y) = (a as usize, b as usize);
                    key[x].total_cmp(&key[y]).then(model.position[y].cmp(&model.position[x]))
                }),
            }
            self.pool.decode(child, direction, profile, finish);
        }
        for t in 0..model.tasks {
            key[t] = finish[t] - self.pool.duration[t];
        }
        model.sort_by_time(child, key);
        let makespan = finish.iter().copied().fold(0.0, f64::max);
        Member { order: child.clone(), makespan }
    }

    /// A random order: the longest way behind, times a random factor, decides among the tasks that may come next.
    fn sample(&mut self) {
        let Scratch { key, child, .. } = &mut self.scratch;
        let model = self.pool.model;
        let noise = self.rng.random_range(0.05..0.8);
        child.clear();
        child.extend(0..model.tasks as u32);
        child.sort_unstable_by_key(|t| std::cmp::Reverse(model.position[*t as usize]));
        let most = self.best.makespan;
        for &task in child.iter() {
            let t = task as usize;
            let behind = model.children.of(t).iter().map(|c| key[*c as usize]).fold(f64::INFINITY, f64::min);
            let own =
                -(model.tail[t] + self.pool.duration[t]) + most * noise * self.rng.random_range(-0.5..0.5);
            key[t] = own.min(behind);
        }
        model.sort_by_time(child, key);
    }

    /// Mother's order before and behind two points, father's between.
    fn cross(&mut self, mother: usize, father: usize) {
        let Scratch { taken, child, .. } = &mut self.scratch;
        let tasks = self.pool.model.tasks;
        let (mut from, mut to) = (self.rng.random_range(0..=tasks), self.rng.random_range(0..=tasks));
        if from > to {
            std::mem::swap(&mut from, &mut to);
        }
        let (mother, father) = (&self.population[mother].order, &self.population[father].order);
        taken.fill(false);
        child.clear();
        for (source, until) in [(mother, from), (father, to), (mother, tasks)] {
            for &task in source {
                if child.len() == until {
                    break;
                }
                if !taken[task as usize] {
                    taken[task as usize] = true;
                    child.push(task);
                }
            }
        }
    }

    fn mutate(&mut self, rate: f64) {
        let child = &mut self.scratch.child;
        for at in 1..child.len() {
            let (a, b) = (child[at - 1], child[at]);
            if self.rng.random_bool(rate) && !self.pool.model.children.of(a as usize).contains(&b) {
                child.swap(at - 1, at);
            }
        }
    }

    /// Fills the population, or gives it a child.
    fn step(&mut self) {
        let size = self.population.len();
        if size < POPULATION {
            // Every other population grows around the best order.
            if size % 4 == 3 {
                self.scratch.child.clone_from(&self.best.order);
                self.mutate(0.3);
            } else {
                self.sample();
            }
        } else {
            let mother = self.choose();
            let father = self.choose();
            self.cross(mother, father);
            self.mutate(MUTATION);
        }
        let child = self.justified();
        self.idle += 1;
        if child.makespan < self.best.makespan {
            self.best = child.clone();
            self.idle = 0;
        }
        if size < POPULATION {
            self.population.push(child);
        } else {
            self.replace(child);
        }
        if self.idle > PATIENCE {
            self.population.clear();
            self.idle = 0;
        }
    }

    /// The better of two random members.
    fn choose(&mut self) -> usize {
        let (a, b) = (self.rng.random_range(0..POPULATION), self.rng.random_range(0..POPULATION));
        if self.population[b].makespan < self.population[a].makespan { b } else { a }
    }

    /// The child takes the place of the worst member, unless it is worse itself or known already.
    fn replace(&mut self, child: Member) {
        let worst = (0..POPULATION)
            .reduce(|a, b| if self.population[b].makespan > self.population[a].makespan { b } else { a });
        let Some(worst) = worst else { return };
        let known = |m: &Member| m.makespan == child.makespan && m.order == child.order;
        if child.makespan <= self.population[worst].makespan && !self.population.iter().any(known) {
            self.population[worst] = child;
        }
    }
}

impl<const K: usize> Worker for Genetic<'_, K> {
    fn run(&mut self, iterations: u64, goal: f64, limit: &Limit<'_>) -> u64 {
        for i in 0..iterations {
            if self.best.makespan <= goal || limit.is_over() {
                return i;
            }
            self.step();
        }
        iterations
    }

    fn best(&self) -> Best {
        Best { makespan: self.best.makespan, order: self.best.order.clone(), node: Vec::new() }
    }

    fn adopt(&mut self, best: &Best) {
        if best.makespan < self.best.makespan {
            self.best = Member { order: best.order.clone(), makespan: best.makespan };
            if self.population.len() == POPULATION {
                self.replace(self.best.clone());
            }
        }
    }

    fn schedule(&mut self, best: &Best) -> Schedule {
        self.pool.schedule(&best.order)
    }
}
