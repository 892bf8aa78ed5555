//! What a learner acts in.

use super::categorical::Mask;
use super::error::Result;

/// One copy of a world that a policy learns in. Trainers take a slice of them and ask the network once for all.
///
/// **An implementer** brings its own seeded randomness; gives observations and masks that describe the present
/// state; and stays as it is after an episode has ended, until [`Environment::reset`]. **A caller** resets before the
/// first step and after every end, and chooses one allowed option per branch of the mask.
pub trait Environment {
    /// What the policy sees. Trainers keep many of them: wrap large ones in an `Arc`.
    type Observation: Clone;

    /// Begins the next episode.
    ///
    /// # Errors
    /// Whatever makes the environment unusable.
    fn reset(&mut self) -> Result<()>;

    /// The present state.
    fn observation(&self) -> Self::Observation;

    /// What may be chosen in the present state. It has at least one branch.
    ///
    /// # Errors
    /// [`super::Error::NothingAllowed`] if a branch has no option.
    fn mask(&self) -> Result<Mask>;

    /// Carries out one option per branch.
    ///
    /// # Errors
    /// [`super::Error::Forbidden`] for an option that is masked.
    fn step(&mut self, choices: &[u32]) -> Result<Feedback>;
}

/// What a step brings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feedback {
    /// The reward.
    pub reward: f32,
    /// Whether the episode goes on.
    pub end: End,
}

/// Whether an episode goes on after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It goes on.
    Open,
    /// It is over: nothing follows.
    Terminal,
    /// It was cut for length: more would follow, and the value of the last state stands for it.
    Cut,
}
