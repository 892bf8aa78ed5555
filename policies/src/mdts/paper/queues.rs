//! The queues of the nodes, and what a placement does to them.

use std::collections::VecDeque;

use super::world::{ChildTask, Machines, World};

/// The three measures of one job.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// Job execution time: seconds until its last child task ends.
    pub time: f64,
    /// Load imbalance value: population standard deviation over the nodes of the seconds of work queued, with this
    /// job.
    pub imbalance: f64,
    /// Total cost: busy seconds times prices.
    pub cost: f64,
}

/// What waits at the nodes.
#[derive(Debug, Clone)]
pub struct Queues {
    now: f64,
    /// Seconds until the node has nothing left to do.
    backlog: Vec<f64>,
    /// When the unfinished tasks of each node end, the earliest first.
    ends: Vec<VecDeque<f64>>,
}

impl Queues {
    /// Empty queues.
    pub fn new(nodes: usize) -> Self {
        Self { now: 0.0, backlog: vec![0.0; nodes], ends: vec![VecDeque::new(); nodes] }
    }

    /// Seconds of queued work per node.
    pub fn backlog(&self) -> &[f64] {
        &self.backlog
    }

    /// How many unfinished tasks a node has.
    pub fn unfinished(&self, node: usize) -> usize {
        self.ends[node].len()
    }

    /// Places a job; one node per child task.
    pub(super) fn place(&mut self, world: &World, tasks: &[ChildTask], nodes: &[u32]) -> Outcome {
        let Self { now, backlog, ends } = self;
        outcome(&world.machines, backlog, tasks, nodes, |task, node, backlog| {
            let (start, seconds) = run(&world.machines, task, node, backlog, world.seconds(task, node));
            ends[node].push_back(*now + start + seconds);
            (start, seconds)
        })
    }

    /// Time goes on.
    pub(super) fn wait(&mut self, gap: f64) {
        self.now += gap;
        for (backlog, ends) in self.backlog.iter_mut().zip(&mut self.ends) {
            *backlog = (*backlog - gap).max(0.0);
            while ends.front().is_some_and(|end| *end <= self.now) {
                ends.pop_front();
            }
        }
    }

    /// Nothing waits any more.
    pub(super) fn clear(&mut self) {
        self.now = 0.0;
        self.backlog.fill(0.0);
        self.ends.iter_mut().for_each(VecDeque::clear);
    }
}

/// What a placement would bring if nominal speeds were true. Changes the backlog.
pub(super) fn nominal_outcome(
    machines: &Machines,
    backlog: &mut [f64],
    tasks: &[ChildTask],
    nodes: &[u32],
) -> Outcome {
    outcome(machines, backlog, tasks, nodes, |task, node, backlog| {
        run(machines, task, node, backlog, machines.nominal(task, node))
    })
}

/// When a task starts that goes to the end of a queue, and how long it takes: data travels while the queue is worked
/// off.
pub(super) fn run(
    machines: &Machines,
    task: &ChildTask,
    node: usize,
    backlog: f64,
    seconds: f64,
) -> (f64, f64) {
    (backlog.max(machines.transfer(task, node)), seconds)
}

/// Places tasks in order. `run` gives start and seconds of a task on a node with this backlog.
fn outcome(
    machines: &Machines,
    backlog: &mut [f64],
    tasks: &[ChildTask],
    nodes: &[u32],
    mut run: impl FnMut(&ChildTask, usize, f64) -> (f64, f64),
) -> Outcome {
    let (mut time, mut cost) = (0.0_f64, 0.0);
    for (task, node) in tasks.iter().zip(nodes) {
        let node = *node as usize;
        let (start, seconds) = run(task, node, backlog[node]);
        backlog[node] = start + seconds;
        time = time.max(start + seconds);
        cost += machines.price[node] * seconds;
    }
    Outcome { time, imbalance: deviation(backlog), cost }
}

fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::mdts::paper::Parameters;

    /// Two nodes of speeds 1 and 2; kind 1 runs at half speed on the second.
    pub(in crate::mdts::paper) fn pair() -> World {
        let parameters = Parameters { nodes: 2, child_tasks: 2, kinds: 2, ..Parameters::default() };
        let machines = Machines { speed: vec![1.0, 2.0], bandwidth: vec![1.0, 2.0], price: vec![1.0, 3.0] };
        World::of(parameters, machines, vec![1.0, 1.0, 1.0, 0.5])
    }

    pub(in crate::mdts::paper) fn task(work: f64, data: f64, kind: usize) -> ChildTask {
        ChildTask { work, data, kind }
    }

    #[test]
    fn two_jobs_by_hand() {
        let world = pair();
        let mut queues = Queues::new(2);
        // Both on node 1: data after 0.5 s, runs 2 s until 2.5; kind 1 waits for it and runs 1 / (2 * 0.5) = 1 s.
        let both = queues.place(&world, &[task(4.0, 1.0, 0), task(1.0, 2.0, 1)], &[1, 1]);
        assert_eq!(both, Outcome { time: 3.5, imbalance: 1.75, cost: 9.0 });
        assert_eq!((queues.backlog(), queues.unfinished(1)), (&[0.0, 3.5][..], 2));
        queues.wait(3.0);
        assert_eq!((queues.backlog(), queues.unfinished(1)), (&[0.0, 0.5][..], 1));
        // One each: 1 + 2 = 3 s on node 0; on node 1 the queue (0.5 s) outlasts the data (0.25 s), then 1 s.
        let each = queues.place(&world, &[task(2.0, 1.0, 1), task(2.0, 0.5, 0)], &[0, 1]);
        assert_eq!(each, Outcome { time: 3.0, imbalance: 0.75, cost: 5.0 });
        assert_eq!((queues.unfinished(0), queues.unfinished(1)), (1, 2));
        queues.wait(9.0);
        assert_eq!((queues.backlog(), queues.unfinished(1)), (&[0.0, 0.0][..], 0));
        let reward = world.reward(&each);
        assert_eq!(reward, -(0.25 * 3.0 + 0.25 * 0.75 + 0.125 * 5.0));
    }

    #[test]
    fn the_nominal_model_does_not_know_affinity() {
        let world = pair();
        let mut backlog = [0.0, 1.0];
        let tasks = [task(1.0, 0.0, 1), task(2.0, 0.0, 0)];
        let found = nominal_outcome(&world.machines, &mut backlog, &tasks, &[1, 0]);
        assert_eq!(found, Outcome { time: 2.0, imbalance: 0.25, cost: 3.5 });
        assert_eq!(backlog, [2.0, 1.5]);
    }
}
