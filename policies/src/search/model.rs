//! The flat copy of an instance that the inner loops read: rows of numbers, no hashing, no allocation.

use mdts_core::{Instance, NodeId, Placement, Schedule, SlotModel, remaining_paths};
use mdts_dag::TaskId;

use super::team::Best;

/// An instance with all costs in rows. Memory: O(tasks x nodes + dependencies).
#[derive(Debug)]
pub(super) struct Model<'a> {
    pub(super) instance: &'a Instance,
    pub(super) tasks: usize,
    pub(super) nodes: usize,
    pub(super) parents: Links,
    pub(super) children: Links,
    /// Seconds of every task on every node; infinite where it cannot run.
    exec: Vec<f64>,
    /// Longest path behind every task, on the fastest nodes and without transfers.
    pub(super) tail: Vec<f64>,
    /// Longest path behind every task on every node, with the transfers that it cannot avoid.
    behind: Vec<f64>,
    /// Position of every task in topological order.
    pub(super) position: Vec<u32>,
    pub(super) exclusive: bool,
    /// Resource dimensions that can run short.
    dimensions: Vec<usize>,
    /// Every connection is the same, and `Links::seconds` holds its times.
    uniform: bool,
    pub(super) now: f64,
    /// Tasks that have started already, with node, start and finish.
    pub(super) started: Vec<Placement>,
}

/// Neighbours of every task.
#[derive(Debug, Default)]
pub(super) struct Links {
    offsets: Vec<u32>,
    tasks: Vec<u32>,
    bytes: Vec<f64>,
    /// Transfer over the uniform network; unused otherwise.
    seconds: Vec<f64>,
}

impl Links {
    fn add<'i>(&mut self, instance: &Instance, neighbours: impl Iterator<Item = (&'i TaskId, &'i f64)>) {
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        let link = instance.cluster().network().as_uniform();
        for (task, bytes) in neighbours {
            self.tasks.push(task.get());
            self.bytes.push(*bytes);
            self.seconds.push(link.map_or(0.0, |link| link.seconds(*bytes)));
        }
        self.offsets.push(self.tasks.len() as u32);
    }

    #[inline]
    fn range(&self, task: usize) -> std::ops::Range<usize> {
        self.offsets[task] as usize..self.offsets[task + 1] as usize
    }

    /// Whether both tasks have the same neighbours, with the same bytes.
    fn same(&self, a: usize, b: usize) -> bool {
        self.of(a) == self.of(b) && self.bytes[self.range(a)] == self.bytes[self.range(b)]
    }

    #[inline]
    pub(super) fn of(&self, task: usize) -> &[u32] {
        &self.tasks[self.range(task)]
    }
}

impl<'a> Model<'a> {
    pub(super) fn new(instance: &'a Instance) -> Self {
        let (graph, tasks, nodes) = (instance.graph(), instance.tasks(), instance.nodes());
        let (mut parents, mut children) = (Links::default(), Links::default());
        let mut exec = vec![0.0; tasks * nodes];
        let progress = instance.progress();
        for task in graph.tasks() {
            parents.add(instance, graph.parents(task).iter().zip(instance.parent_bytes(task)));
            children.add(instance, graph.children(task).iter().zip(instance.child_bytes(task)));
            let row = &mut exec[task.index() * nodes..(task.index() + 1) * nodes];
            instance.exec_all(task, row);
            for lost in progress.iter().flat_map(|p| &p.lost) {
                row[lost.index()] = f64::INFINITY;
            }
        }
        let mut position = vec![0; tasks];
        let mut tail = vec![0.0_f64; tasks];
        for (at, task) in graph.topological_order().iter().enumerate().rev() {
            position[task.index()] = at as u32;
            let behind = graph.children(*task).iter().map(|c| tail[c.index()] + instance.min_exec(*c));
            tail[task.index()] = behind.fold(0.0, f64::max);
        }
        Self {
            instance,
            tasks,
            nodes,
            parents,
            children,
            behind: remaining_paths(instance),
            exec,
            tail,
            position,
            exclusive: instance.slots() == SlotModel::Exclusive,
            dimensions: scarce(instance),
            uniform: instance.cluster().network().as_uniform().is_some(),
            now: progress.map_or(0.0, |p| p.now),
            started: progress.map_or(Vec::new(), |p| p.started.clone()),
        }
    }

    #[inline]
    pub(super) fn exec(&self, task: usize, node: usize) -> f64 {
        self.exec[task * self.nodes + node]
    }

    #[inline]
    pub(super) fn exec_row(&self, task: usize) -> &[f64] {
        &self.exec[task * self.nodes..(task + 1) * self.nodes]
    }

    /// What has to follow a task that ends on `node`, in seconds at least.
    #[inline]
    pub(super) fn behind(&self, task: usize, node: usize) -> f64 {
        self.behind[task * self.nodes + node]
    }

    /// When the data of all parents is on `node`, not before the present.
    #[inline]
    pub(super) fn ready(&self, task: usize, node: u32, nodes: &[u32], finish: &[f64]) -> f64 {
        let range = self.parents.range(task);
        let mut ready = self.now;
        for edge in range {
            let parent = self.parents.tasks[edge] as usize;
            let mut arrival = finish[parent];
            if nodes[parent] != node {
                arrival += self.delay(edge, nodes[parent], node);
            }
            if arrival > ready {
                ready = arrival;
            }
        }
        ready
    }

    /// The parent whose data comes last, with its arrival.
    pub(super) fn last_parent(&self, task: usize, nodes: &[u32], finish: &[f64]) -> Option<(usize, f64)> {
        let arrival = |edge: usize| {
            let parent = self.parents.tasks[edge] as usize;
            let delay =
                if nodes[parent] == nodes[task] { 0.0 } else { self.delay(edge, nodes[parent], nodes[task]) };
            (parent, finish[parent] + delay)
        };
        self.parents.range(task).map(arrival).reduce(|a, b| if b.1 > a.1 { b } else { a })
    }

    #[inline]
    fn delay(&self, edge: usize, from: u32, to: u32) -> f64 {
        if self.uniform {
            return self.parents.seconds[edge];
        }
        let (from, to) = (NodeId::new(from as usize), NodeId::new(to as usize));
        self.instance.transfer(self.parents.bytes[edge], from, to)
    }

    /// Whether data moves in no time between all nodes.
    pub(super) fn is_instant(&self) -> bool {
        self.nodes == 1 || self.uniform && self.parents.seconds.iter().all(|s| *s == 0.0)
    }

    /// Whether nodes `a` and `b` may change their names without changing anything.
    pub(super) fn alike(&self, a: usize, b: usize) -> bool {
        self.uniform
            && (0..self.tasks).all(|t| self.exec(t, a) == self.exec(t, b))
            && (self.exclusive || self.capacity(a).eq(self.capacity(b)))
    }

    /// Whether tasks `a` and `b` may change their names without changing anything.
    pub(super) fn alike_tasks(&self, a: usize, b: usize) -> bool {
        self.exec_row(a) == self.exec_row(b)
            && self.demand(a).eq(self.demand(b))
            && [&self.parents, &self.children].into_iter().all(|links| links.same(a, b))
    }

    /// Number of resources that can run short.
    pub(super) fn dimensions(&self) -> usize {
        self.dimensions.len()
    }

    /// What `task` takes of every resource that can run short.
    pub(super) fn demand(&self, task: usize) -> impl Iterator<Item = i64> {
        let demand = self.instance.demand(TaskId::new(task));
        self.dimensions.iter().map(|d| demand[*d].cast_signed())
    }

    /// What `node` has of every resource that can run short.
    pub(super) fn capacity(&self, node: usize) -> impl Iterator<Item = i64> {
        let capacity = self.instance.capacity(NodeId::new(node));
        self.dimensions.iter().map(|d| capacity[*d].cast_signed())
    }

    /// All tasks that have not started, by start in a schedule; parents first.
    pub(super) fn order_of(&self, schedule: &Schedule) -> Vec<u32> {
        let mut started = vec![false; self.tasks];
        self.started.iter().for_each(|p| started[p.task.index()] = true);
        let start: Vec<f64> = schedule.placements().iter().map(|p| p.start).collect();
        let mut order: Vec<u32> = (0..self.tasks as u32).filter(|t| !started[*t as usize]).collect();
        self.sort_by_time(&mut order, &start);
        order
    }

    /// A schedule as a solution of workers.
    pub(super) fn best_of(&self, schedule: &Schedule) -> Best {
        Best {
            makespan: schedule.makespan(),
            order: self.order_of(schedule),
            node: schedule.placements().iter().map(|p| p.node.get()).collect(),
        }
    }

    /// Sorts tasks by time; of equal times parents come first.
    pub(super) fn sort_by_time(&self, order: &mut [u32], time: &[f64]) {
        order.sort_unstable_by(|&a, &b| {
            let (x, y) = (a as usize, b as usize);
            time[x].total_cmp(&time[y]).then(self.position[x].cmp(&self.position[y]))
        });
    }
}

/// Dimensions in which some node could not run all tasks at once.
fn scarce(instance: &Instance) -> Vec<usize> {
    if instance.slots() == SlotModel::Exclusive {
        return Vec::new();
    }
    let all = |d: usize| instance.graph().tasks().map(|t| u128::from(instance.demand(t)[d])).sum::<u128>();
    let least = |d: usize| (0..instance.nodes()).map(|n| instance.capacity(NodeId::new(n))[d]).min();
    (0..instance.resources().dimensions()).filter(|&d| all(d) > u128::from(least(d).unwrap_or(0))).collect()
}
