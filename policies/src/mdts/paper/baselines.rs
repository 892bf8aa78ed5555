//! The rules without learning.

use mdts_core::Rng;
use rand::Rng as _;

use super::environment::Episode;
use super::pso::Swarm;
use super::queues::{nominal_outcome, run};

/// What MDTS is compared with, raw DRL apart. They know nominal speeds; none knows the hidden affinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// Any node for each child task.
    Random,
    /// Nodes take turns.
    RoundRobin,
    /// The node with the fewest unfinished tasks, those of this job counted; the first of equals.
    LeastConnection,
    /// The node where the child task is expected to finish first, one child task after the other.
    EarliestFinish,
    /// A swarm that plans for empty queues.
    PsoStatic,
    /// A swarm that sees the queues.
    PsoLive,
}

impl Baseline {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Random,
        Self::RoundRobin,
        Self::LeastConnection,
        Self::EarliestFinish,
        Self::PsoStatic,
        Self::PsoLive,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round-robin",
            Self::LeastConnection => "least-connection",
            Self::EarliestFinish => "eft",
            Self::PsoStatic => "pso-static",
            Self::PsoLive => "pso-live",
        }
    }

    /// One node per child task of the present job.
    pub fn place(self, episode: &Episode, rng: &mut Rng) -> Vec<u32> {
        let (nodes, child_tasks) = (episode.world().machines.len(), episode.job().tasks.len());
        match self {
            Self::Random => (0..child_tasks).map(|_| rng.random_range(0..nodes as u32)).collect(),
            Self::RoundRobin => {
                let first = episode.placed() * child_tasks;
                (first..first + child_tasks).map(|turn| (turn % nodes) as u32).collect()
            }
            Self::LeastConnection => least_connection(episode),
            Self::EarliestFinish => earliest_finish(episode),
            Self::PsoStatic => swarm(episode, &vec![0.0; nodes], rng),
            Self::PsoLive => swarm(episode, episode.queues().backlog(), rng),
        }
    }
}

fn least_connection(episode: &Episode) -> Vec<u32> {
    let nodes = 0..episode.world().machines.len();
    let mut counts: Vec<usize> = nodes.map(|node| episode.queues().unfinished(node)).collect();
    let place = |_| {
        let least = counts.iter().enumerate().min_by_key(|(_, count)| **count).map_or(0, |(node, _)| node);
        counts[least] += 1;
        least as u32
    };
    episode.job().tasks.iter().map(place).collect()
}

fn earliest_finish(episode: &Episode) -> Vec<u32> {
    let machines = &episode.world().machines;
    let mut backlog = episode.queues().backlog().to_vec();
    let place = |task| {
        let finish = |node: usize| {
            let (start, seconds) = run(machines, task, node, backlog[node], machines.nominal(task, node));
            (node, start + seconds)
        };
        let best = (0..machines.len()).map(finish).min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
        backlog[best.0] = best.1;
        best.0 as u32
    };
    episode.job().tasks.iter().map(place).collect()
}

/// The best reward by the nominal model.
fn swarm(episode: &Episode, backlog: &[f64], rng: &mut Rng) -> Vec<u32> {
    let (world, tasks) = (episode.world(), &episode.job().tasks);
    let mut after = backlog.to_vec();
    Swarm::default().search(backlog.len(), tasks.len(), rng, |nodes| {
        after.copy_from_slice(backlog);
        world.reward(&nominal_outcome(&world.machines, &mut after, tasks, nodes))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::SeedableRng;

    use super::*;
    use crate::mdts::paper::queues::tests::pair;

    fn place(baseline: Baseline, episode: &Episode) -> Vec<u32> {
        baseline.place(episode, &mut Rng::seed_from_u64(1))
    }

    #[test]
    fn rules_by_hand() {
        let mut episode = Episode::new(Arc::new(pair()), 1);
        assert_eq!(place(Baseline::RoundRobin, &episode), [0, 1]);
        assert_eq!(place(Baseline::LeastConnection, &episode), [0, 1]);
        // Node 1 is twice as fast in everything: empty, it takes the first task.
        assert_eq!(place(Baseline::EarliestFinish, &episode)[0], 1);
        episode.place(&[1, 1]).unwrap();
        if episode.queues().unfinished(1) == 2 {
            assert_eq!(place(Baseline::LeastConnection, &episode), [0, 0]);
        }
        for _ in 0..40 {
            episode.place(&[1, 1]).unwrap();
        }
        assert!(episode.queues().unfinished(1) > 2, "one node cannot keep up with the stream");
        assert_eq!(place(Baseline::LeastConnection, &episode), [0, 0]);
        assert_eq!(place(Baseline::EarliestFinish, &episode), [0, 0]);
        assert_eq!(place(Baseline::PsoLive, &episode), [0, 0]);
        assert_ne!(place(Baseline::PsoStatic, &episode), [0, 0], "it does not see the queue");
    }

    #[test]
    fn the_live_swarm_is_as_good_as_trying_everything() {
        let mut episode = Episode::new(Arc::new(pair()), 5);
        for _ in 0..20 {
            let world = episode.world();
            let worth = |nodes: &[u32]| {
                let mut backlog = episode.queues().backlog().to_vec();
                world.reward(&nominal_outcome(&world.machines, &mut backlog, &episode.job().tasks, nodes))
            };
            let best = [[0, 0], [0, 1], [1, 0], [1, 1]]
                .map(|nodes| worth(&nodes))
                .into_iter()
                .fold(f64::MIN, f64::max);
            let found = place(Baseline::PsoLive, &episode);
            assert_eq!(worth(&found), best);
            episode.place(&found).unwrap();
        }
    }
}
