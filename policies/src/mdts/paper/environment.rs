//! A stream of jobs to learn in, with one decision per job.

use std::sync::Arc;

use mdts_core::Rng;
use rand::SeedableRng;

use super::queues::{Outcome, Queues};
use super::world::{Job, World};
use crate::learn::{End, Environment, Error, Feedback, Mask, Result};

/// One stream of jobs and the queues that it meets. Each child task is a branch of the decision.
#[derive(Debug, Clone)]
pub struct Episode {
    world: Arc<World>,
    rng: Rng,
    queues: Queues,
    job: Job,
    /// Jobs placed since the queues were empty.
    placed: usize,
}

impl Episode {
    /// Empty queues and the first job. The stream depends on the seed alone, not on placements.
    pub fn new(world: Arc<World>, seed: u64) -> Self {
        let mut rng = Rng::seed_from_u64(seed);
        let job = world.draw(&mut rng);
        let queues = Queues::new(world.machines.len());
        Self { world, rng, queues, job, placed: 0 }
    }

    /// Where it takes place.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// What waits at the nodes.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// The job to place.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Jobs placed since the queues were empty.
    pub fn placed(&self) -> usize {
        self.placed
    }

    /// Places the job, one node per child task, and lets the next one arrive.
    ///
    /// # Errors
    /// [`Error::Size`] and [`Error::Forbidden`] for a placement that does not fit.
    pub fn place(&mut self, nodes: &[u32]) -> Result<Outcome> {
        let options = self.world.machines.len();
        if nodes.len() != self.job.tasks.len() {
            let (what, found) = ("placement".to_owned(), nodes.len().to_string());
            return Err(Error::Size { what, found, expected: self.job.tasks.len().to_string() });
        }
        if let Some(node) = nodes.iter().find(|node| **node as usize >= options) {
            return Err(Error::Forbidden { option: *node as usize, options });
        }
        let outcome = self.queues.place(&self.world, &self.job.tasks, nodes);
        self.queues.wait(self.job.gap);
        self.job = self.world.draw(&mut self.rng);
        self.placed += 1;
        Ok(outcome)
    }

    /// Numbers in an observation.
    pub fn inputs(world: &World) -> usize {
        let parameters = &world.parameters;
        let by_task = 2 + parameters.kinds + 2 * parameters.nodes;
        parameters.child_tasks * by_task + parameters.nodes
    }

    fn step_with(&mut self, nodes: &[u32]) -> Result<Feedback> {
        let outcome = self.place(nodes)?;
        let is_last = self.placed >= self.world.parameters.episode_jobs;
        let end = if is_last { End::Cut } else { End::Open };
        Ok(Feedback { reward: self.world.reward(&outcome) as f32, end })
    }
}

impl Environment for Episode {
    type Observation = Vec<f32>;

    fn reset(&mut self) -> Result<()> {
        self.queues.clear();
        self.placed = 0;
        Ok(())
    }

    /// Per child task data, work and kind, and its transfer and nominal execution time on every node; and the waiting
    /// time of every node. All are scaled to about 1.
    fn observation(&self) -> Vec<f32> {
        let machines = &self.world.machines;
        let mut seen = Vec::with_capacity(Self::inputs(&self.world));
        for task in &self.job.tasks {
            seen.extend([task.data as f32, task.work as f32]);
            seen.extend((0..self.world.parameters.kinds).map(|kind| f32::from(u8::from(kind == task.kind))));
            seen.extend((0..machines.len()).map(|node| machines.transfer(task, node) as f32));
            seen.extend((0..machines.len()).map(|node| machines.nominal(task, node) as f32 / 2.0));
        }
        seen.extend(self.queues.backlog().iter().map(|seconds| *seconds as f32 / 2.0));
        seen
    }

    fn mask(&self) -> Result<Mask> {
        Ok(Mask::all(self.job.tasks.len(), self.world.machines.len()))
    }

    fn step(&mut self, choices: &[u32]) -> Result<Feedback> {
        self.step_with(choices)
    }
}

/// The same with a single choice among all N^K joint actions.
#[derive(Debug, Clone)]
pub struct JointEpisode {
    episode: Episode,
    actions: usize,
}

impl JointEpisode {
    /// Raw DRL for more joint actions than this would need gigabytes.
    const MOST_ACTIONS: u64 = 1_000_000;

    /// Wraps a stream.
    ///
    /// # Errors
    /// [`Error::Setting`] if there are more than a million joint actions.
    pub fn new(episode: Episode) -> Result<Self> {
        let actions = Self::actions(&episode.world)?;
        Ok(Self { episode, actions })
    }

    /// How many joint actions there are.
    ///
    /// # Errors
    /// [`Error::Setting`] if there are more than a million.
    pub fn actions(world: &World) -> Result<usize> {
        let actions = world.parameters.joint_actions();
        if actions > Self::MOST_ACTIONS {
            let (what, found) = ("joint actions", actions.to_string());
            return Err(Error::Setting { what, found, expected: "at most 1000000" });
        }
        Ok(actions as usize)
    }
}

/// The placement of a joint action: the first child task changes fastest.
pub(super) fn decode(mut action: u32, nodes: usize, child_tasks: usize) -> Vec<u32> {
    let nodes = nodes as u32;
    let digit = |_| {
        let node = action % nodes;
        action /= nodes;
        node
    };
    (0..child_tasks).map(digit).collect()
}

impl Environment for JointEpisode {
    type Observation = Vec<f32>;

    fn reset(&mut self) -> Result<()> {
        self.episode.reset()
    }

    fn observation(&self) -> Vec<f32> {
        self.episode.observation()
    }

    fn mask(&self) -> Result<Mask> {
        Ok(Mask::all(1, self.actions))
    }

    fn step(&mut self, choices: &[u32]) -> Result<Feedback> {
        let action = match choices {
            [action] if (*action as usize) < self.actions => *action,
            _ => {
                let option = choices.first().map_or(0, |action| *action as usize);
                return Err(Error::Forbidden { option, options: self.actions });
            }
        };
        let nodes = decode(action, self.episode.world.machines.len(), self.episode.job.tasks.len());
        self.episode.step_with(&nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mdts::paper::queues::tests::pair;

    #[test]
    fn an_observation_by_hand() {
        let episode = Episode::new(Arc::new(pair()), 1);
        let seen = episode.observation();
        assert_eq!(seen.len(), Episode::inputs(&pair()));
        let task = episode.job().tasks[0];
        let (data, work) = (task.data as f32, task.work as f32);
        let kinds = if task.kind == 0 { [1.0, 0.0] } else { [0.0, 1.0] };
        let expected = [data, work, kinds[0], kinds[1], data, data / 2.0, work / 2.0, work / 4.0];
        for (found, expected) in seen.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{seen:?}");
        }
        assert_eq!(seen[16..], [0.0, 0.0]);
    }

    #[test]
    fn streams_do_not_depend_on_placements() {
        let world = Arc::new(pair());
        let (mut a, mut b) = (Episode::new(world.clone(), 7), Episode::new(world, 7));
        for _ in 0..50 {
            assert_eq!(a.job(), b.job());
            a.place(&[0, 0]).unwrap();
            b.place(&[1, 0]).unwrap();
        }
    }

    #[test]
    fn episodes_are_cut_and_begin_with_empty_queues() {
        let mut episode = Episode::new(Arc::new(pair()), 1);
        for job in 1..=50 {
            let feedback = episode.step(&[0, 0]).unwrap();
            assert_eq!(feedback.end, if job == 50 { End::Cut } else { End::Open });
        }
        assert!(episode.queues().backlog()[0] > 0.0);
        episode.reset().unwrap();
        assert_eq!((episode.queues().backlog(), episode.placed()), (&[0.0, 0.0][..], 0));
        assert_eq!(episode.queues().unfinished(0), 0);
    }

    #[test]
    fn every_joint_action_is_another_placement() {
        let all: Vec<Vec<u32>> = (0..9).map(|action| decode(action, 3, 2)).collect();
        assert_eq!(all[..4], [[0, 0], [1, 0], [2, 0], [0, 1]]);
        assert!((1..9).all(|i| !all[..i].contains(&all[i])));
        let world = Arc::new(pair());
        let (mut joint, mut branches) =
            (JointEpisode::new(Episode::new(world.clone(), 3)).unwrap(), Episode::new(world, 3));
        assert_eq!(joint.mask().unwrap(), Mask::all(1, 4));
        assert_eq!(joint.step(&[2]).unwrap(), branches.step(&[0, 1]).unwrap());
    }

    #[test]
    fn wrong_choices_are_refused() {
        let mut episode = Episode::new(Arc::new(pair()), 1);
        assert!(matches!(episode.step(&[0]), Err(Error::Size { .. })));
        assert!(matches!(episode.step(&[0, 2]), Err(Error::Forbidden { option: 2, options: 2 })));
        let mut joint = JointEpisode::new(episode).unwrap();
        assert!(matches!(joint.step(&[4]), Err(Error::Forbidden { option: 4, options: 4 })));
        let parameters = super::super::Parameters { child_tasks: 7, ..Default::default() };
        let world = World::new(parameters, &mut Rng::seed_from_u64(1)).unwrap();
        assert!(JointEpisode::new(Episode::new(Arc::new(world), 1)).is_err());
    }
}
