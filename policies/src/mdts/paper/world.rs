//! The cluster, and the jobs that arrive at it.

use mdts_core::Rng;
use rand::Rng as _;

use super::parameters::Parameters;
use crate::learn::Result;

/// What is known of the nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Machines {
    /// Work per second, one number per node.
    pub speed: Vec<f64>,
    /// Data per second into the node.
    pub bandwidth: Vec<f64>,
    /// Cost of a busy second.
    pub price: Vec<f64>,
}

/// One of the parallel tasks of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChildTask {
    /// Seconds on a node of speed 1.
    pub work: f64,
    /// What must reach the node first.
    pub data: f64,
    /// Its kind, a number from 0.
    pub kind: usize,
}

/// The child tasks that are placed together.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its child tasks.
    pub tasks: Vec<ChildTask>,
    /// Seconds until the next job arrives.
    pub gap: f64,
}

/// A cluster with what nobody knows of it.
#[derive(Debug, Clone)]
pub struct World {
    /// What it was made from.
    pub parameters: Parameters,
    /// What is known.
    pub machines: Machines,
    /// Factors on speeds, kind by kind.
    factors: Vec<f64>,
    mean_gap: f64,
}

impl Machines {
    /// Seconds until a task's data has reached a node.
    pub fn transfer(&self, task: &ChildTask, node: usize) -> f64 {
        task.data / self.bandwidth[node]
    }

    /// Seconds that a task is expected to take on a node.
    pub fn nominal(&self, task: &ChildTask, node: usize) -> f64 {
        task.work / self.speed[node]
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.speed.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.speed.is_empty()
    }
}

impl World {
    /// Draws a cluster. The same generator gives the same machines for every affinity.
    ///
    /// # Errors
    /// [`crate::learn::Error::Setting`] for parameters that make no environment.
    pub fn new(parameters: Parameters, rng: &mut Rng) -> Result<Self> {
        parameters.check()?;
        let nodes = parameters.nodes;
        let mut many = |range: [f64; 2]| (0..nodes).map(|_| uniform(range, rng)).collect::<Vec<_>>();
        let (speed, bandwidth) = (many(parameters.speed), many(parameters.bandwidth));
        let by_speed = many(parameters.price_by_speed);
        let price = speed.iter().zip(by_speed).map(|(s, p)| parameters.base_price + s * s * p).collect();
        let factors = (0..parameters.kinds * nodes)
            .map(|_| 1.0 + parameters.affinity * uniform([-1.0, 1.0], rng))
            .collect();
        Ok(Self::of(parameters, Machines { speed, bandwidth, price }, factors))
    }

    /// A cluster of given machines and factors on their speeds, kind by kind.
    pub(super) fn of(parameters: Parameters, machines: Machines, factors: Vec<f64>) -> Self {
        let work = parameters.child_tasks as f64 * f64::midpoint(parameters.work[0], parameters.work[1]);
        let mean_gap = work / (parameters.utilisation * machines.speed.iter().sum::<f64>());
        Self { parameters, machines, factors, mean_gap }
    }

    /// Mean seconds between two jobs.
    pub fn mean_gap(&self) -> f64 {
        self.mean_gap
    }

    /// Seconds that a task takes on a node.
    pub(super) fn seconds(&self, task: &ChildTask, node: usize) -> f64 {
        self.machines.nominal(task, node) / self.factors[task.kind * self.machines.len() + node]
    }

    /// The next job of a stream.
    pub(super) fn draw(&self, rng: &mut Rng) -> Job {
        let Parameters { child_tasks, work, data, kinds, .. } = self.parameters;
        let task = |_| ChildTask {
            work: uniform(work, rng),
            data: uniform(data, rng),
            kind: rng.random_range(0..kinds),
        };
        let tasks = (0..child_tasks).map(task).collect();
        Job { tasks, gap: -self.mean_gap * (1.0 - rng.random::<f64>()).ln() }
    }

    /// The reward of a placement: minus the weighted sum of its three measures.
    pub fn reward(&self, outcome: &super::queues::Outcome) -> f64 {
        let [time, imbalance, cost] = self.parameters.penalties;
        -(time * outcome.time + imbalance * outcome.imbalance + cost * outcome.cost)
    }
}

fn uniform([low, high]: [f64; 2], rng: &mut Rng) -> f64 {
    low + (high - low) * rng.random::<f64>()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn drawn_numbers_lie_in_their_ranges() {
        let parameters = Parameters { affinity: 0.7, ..Default::default() };
        let world = World::new(parameters, &mut Rng::seed_from_u64(1)).unwrap();
        assert!(world.machines.speed.iter().all(|s| (0.5..2.0).contains(s)));
        assert!(world.machines.bandwidth.iter().all(|b| (1.0..4.0).contains(b)));
        for (price, speed) in world.machines.price.iter().zip(&world.machines.speed) {
            assert!((0.2 + 0.3 * speed * speed..=0.2 + 0.7 * speed * speed).contains(price));
        }
        assert!(world.factors.len() == 30 && world.factors.iter().all(|f| (0.3..1.7).contains(f)));
        let job = world.draw(&mut Rng::seed_from_u64(2));
        assert_eq!(job.tasks.len(), 4);
        for task in job.tasks {
            assert!((0.5..3.0).contains(&task.work) && (0.2..2.0).contains(&task.data) && task.kind < 3);
        }
    }

    #[test]
    fn affinity_changes_nothing_else() {
        let world = |affinity| {
            let parameters = Parameters { affinity, ..Default::default() };
            World::new(parameters, &mut Rng::seed_from_u64(1)).unwrap()
        };
        assert_eq!(world(0.0).machines, world(0.7).machines);
        assert!(world(0.0).factors.iter().all(|f| *f == 1.0));
    }

    #[test]
    fn jobs_arrive_as_fast_as_the_utilisation_says() {
        let world = World::new(Parameters::default(), &mut Rng::seed_from_u64(1)).unwrap();
        let mut rng = Rng::seed_from_u64(2);
        let jobs: Vec<Job> = (0..20_000).map(|_| world.draw(&mut rng)).collect();
        let work: f64 = jobs.iter().flat_map(|j| &j.tasks).map(|t| t.work).sum();
        let seconds: f64 = jobs.iter().map(|j| j.gap).sum();
        let utilisation = work / seconds / world.machines.speed.iter().sum::<f64>();
        assert!((utilisation - 0.6).abs() < 0.02, "{utilisation}");
    }
}
