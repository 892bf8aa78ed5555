//! What value learners remember: a step, or several in a row, with what came after.

use std::collections::VecDeque;

use super::categorical::Mask;

/// A choice with the rewards of one or more steps that followed, and the state after them.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition<O> {
    /// What was seen.
    pub observation: O,
    /// What was chosen, one option per branch.
    pub choices: Vec<u32>,
    /// The discounted sum of the rewards.
    pub reward: f32,
    /// What a reward after them is worth.
    pub discount: f32,
    /// The state after them and what may be chosen in it; none after the end of an episode.
    pub next: Option<(O, Mask)>,
}

/// The last steps of one environment, which still wait for rewards.
#[derive(Debug, Clone)]
pub(super) struct Window<O> {
    waiting: VecDeque<(usize, Transition<O>)>,
}

impl<O> Default for Window<O> {
    fn default() -> Self {
        Self { waiting: VecDeque::new() }
    }
}

impl<O: Clone> Window<O> {
    /// Adds a step; its reward counts for all that wait.
    pub(super) fn push(&mut self, observation: O, choices: Vec<u32>, reward: f32, discount: f32) {
        let new = Transition { observation, choices, reward: 0.0, discount: 1.0, next: None };
        self.waiting.push_back((0, new));
        for (steps, waiting) in &mut self.waiting {
            waiting.reward += waiting.discount * reward;
            waiting.discount *= discount;
            *steps += 1;
        }
    }

    /// Gives what has waited for `n` steps, or everything if the episode ended. `next` is the present state.
    pub(super) fn take(
        &mut self,
        next: Option<&(O, Mask)>,
        ended: bool,
        n: usize,
        mut give: impl FnMut(Transition<O>),
    ) {
        while self.waiting.front().is_some_and(|(steps, _)| ended || *steps >= n) {
            if let Some((_, mut transition)) = self.waiting.pop_front() {
                transition.next = next.cloned();
                give(transition);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (observation, reward, discount, next) of what two-step windows give for three steps that end so.
    fn run(terminal: bool) -> Vec<(u32, f32, f32, Option<u32>)> {
        let (mut window, mut all) = (Window::default(), Vec::new());
        for (step, reward) in [1.0, 2.0, 4.0].into_iter().enumerate() {
            let step = step as u32;
            let ended = step == 2;
            window.push(step, vec![0], reward, 0.5);
            let next = (!(ended && terminal)).then(|| (step + 1, Mask::all(1, 1)));
            window.take(next.as_ref(), ended, 2, |t| {
                all.push((t.observation, t.reward, t.discount, t.next.map(|n| n.0)));
            });
        }
        assert!(window.waiting.is_empty());
        all
    }

    #[test]
    fn two_steps() {
        let first = (0, 2.0, 0.25, Some(2));
        assert_eq!(run(true), [first, (1, 4.0, 0.25, None), (2, 4.0, 0.5, None)]);
        assert_eq!(run(false), [first, (1, 4.0, 0.25, Some(3)), (2, 4.0, 0.5, Some(3))]);
    }
}
