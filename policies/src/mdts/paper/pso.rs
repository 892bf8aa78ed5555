//! Particle swarm optimisation of one placement.
//!
//! Source: Kennedy, Eberhart: Particle swarm optimization, ICNN 1995, with the falling inertia of Shi, Eberhart: A
//! modified particle swarm optimizer, ICEC 1998. A particle is a point of [0, N)^K; the whole parts of its
//! coordinates are nodes. O(particles x rounds x (K + N)).

use mdts_core::Rng;
use rand::Rng as _;

/// Settings of the swarm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Swarm {
    /// Particles.
    pub particles: usize,
    /// Rounds in which every particle moves once.
    pub rounds: usize,
    /// Inertia in the first and in the last round.
    pub inertia: [f64; 2],
    /// Pull towards the particle's own best place and that of all.
    pub pulls: [f64; 2],
}

impl Default for Swarm {
    fn default() -> Self {
        Self { particles: 20, rounds: 50, inertia: [0.9, 0.4], pulls: [2.0, 2.0] }
    }
}

struct Particle {
    place: Vec<f64>,
    speed: Vec<f64>,
    best: Vec<f64>,
    best_fitness: f64,
}

impl Swarm {
    /// The placement with the highest fitness that the swarm finds.
    pub fn search(
        &self,
        nodes: usize,
        child_tasks: usize,
        rng: &mut Rng,
        mut fitness: impl FnMut(&[u32]) -> f64,
    ) -> Vec<u32> {
        let width = nodes as f64;
        let mut decoded = vec![0; child_tasks];
        let mut particles: Vec<Particle> = (0..self.particles)
            .map(|_| {
                let place: Vec<f64> = (0..child_tasks).map(|_| width * rng.random::<f64>()).collect();
                let speed = (0..child_tasks).map(|_| width * (rng.random::<f64>() - 0.5)).collect();
                let best_fitness = fitness(decode(&place, nodes, &mut decoded));
                Particle { best: place.clone(), place, speed, best_fitness }
            })
            .collect();
        let leader = particles.iter().max_by(|a, b| a.best_fitness.total_cmp(&b.best_fitness));
        let (mut best, mut best_fitness) =
            leader.map_or((vec![0.0; child_tasks], f64::NEG_INFINITY), |p| (p.best.clone(), p.best_fitness));
        for round in 0..self.rounds {
            let done = round as f64 / (self.rounds.max(2) - 1) as f64;
            let inertia = self.inertia[0] + (self.inertia[1] - self.inertia[0]) * done;
            for particle in &mut particles {
                self.fly(particle, &best, inertia, width, rng);
                let found = fitness(decode(&particle.place, nodes, &mut decoded));
                if found > particle.best_fitness {
                    particle.best_fitness = found;
                    particle.best.copy_from_slice(&particle.place);
                }
                if found > best_fitness {
                    best_fitness = found;
                    best.copy_from_slice(&particle.place);
                }
            }
        }
        decode(&best, nodes, &mut decoded);
        decoded
    }

    fn fly(&self, particle: &mut Particle, best: &[f64], inertia: f64, width: f64, rng: &mut Rng) {
        let Particle { place, speed, best: own, .. } = particle;
        for (((x, v), own), best) in place.iter_mut().zip(speed).zip(own).zip(best) {
            let [to_own, to_best] = self.pulls.map(|pull| pull * rng.random::<f64>());
            *v = inertia * *v + to_own * (*own - *x) + to_best * (*best - *x);
            *v = v.clamp(-width / 2.0, width / 2.0);
            *x = (*x + *v).clamp(0.0, width);
        }
    }
}

fn decode<'a>(place: &[f64], nodes: usize, into: &'a mut [u32]) -> &'a [u32] {
    into.iter_mut().zip(place).for_each(|(node, x)| *node = (*x as u32).min(nodes as u32 - 1));
    into
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn finds_the_optimum_of_a_tiny_case() {
        for seed in 0..10 {
            let mut rng = Rng::seed_from_u64(seed);
            let mut tried = 0;
            let found = Swarm::default().search(4, 3, &mut rng, |nodes| {
                tried += 1;
                -nodes.iter().zip([3, 0, 2]).map(|(n, want)| f64::from(n.abs_diff(want))).sum::<f64>()
            });
            assert_eq!((found.as_slice(), tried), (&[3, 0, 2][..], 20 * 51), "seed {seed}");
        }
    }

    #[test]
    fn no_round_still_gives_the_best_of_the_start() {
        let swarm = Swarm { rounds: 0, ..Default::default() };
        let mut seen = Vec::new();
        let found = swarm.search(5, 2, &mut Rng::seed_from_u64(1), |nodes| {
            seen.push(nodes.to_vec());
            f64::from(nodes[0] * 5 + nodes[1])
        });
        assert_eq!(Some(&found), seen.iter().max());
    }
}
