//! What actions were worth: discounted returns and advantages along the trace of one environment.
//!
//! A trace may hold several episodes. Each step knows what its state was worth (`value`), what came after it was worth
//! (`next_value`: 0 after a terminal step, the value of the last state where an episode was cut) and whether an episode
//! ended with it; nothing flows back across an end. Source of the advantages: Schulman et al.: High-dimensional
//! continuous control using generalized advantage estimation, ICLR 2016. All functions are O(steps) but
//! [`n_step_returns`], which is O(steps x n).

/// One step of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The reward of the step.
    pub reward: f32,
    /// The estimated value of the state in which it was made.
    pub value: f32,
    /// The estimated value of the state that came after it, 0 if none did.
    pub next_value: f32,
    /// Whether the next step of the trace begins another episode.
    pub ended: bool,
}

/// Generalised advantages. With `lambda` 1 they are discounted returns minus values, with 0 one-step errors.
///
/// ```
/// use mdts_policies::learn::returns::{Step, advantages};
/// let first = Step { reward: 1.0, value: 2.0, next_value: 4.0, ended: false };
/// let last = Step { reward: 3.0, value: 4.0, next_value: 0.0, ended: true };
/// // The errors of the steps are 1 + 0.5 * 4 - 2 = 1 and 3 - 4 = -1.
/// assert_eq!(advantages(&[first, last], 0.5, 1.0), [1.0 - 0.5, -1.0]);
/// ```
pub fn advantages(trace: &[Step], discount: f32, lambda: f32) -> Vec<f32> {
    backward(trace, |step, after| {
        let error = step.reward + discount * step.next_value - step.value;
        error + discount * lambda * after.unwrap_or(0.0)
    })
}

/// Discounted sums of rewards to the end of the episode or, where the trace ends first, to the value of what follows.
pub fn discounted_returns(trace: &[Step], discount: f32) -> Vec<f32> {
    backward(trace, |step, after| step.reward + discount * after.unwrap_or(step.next_value))
}

/// Discounted sums of the rewards of at most `n` steps plus the discounted value of what comes after them.
pub fn n_step_returns(trace: &[Step], discount: f32, n: usize) -> Vec<f32> {
    let from = |start: usize| {
        let (mut sum, mut factor) = (0.0, 1.0);
        for (i, step) in trace[start..].iter().take(n.max(1)).enumerate() {
            sum += factor * step.reward;
            factor *= discount;
            if step.ended || i + 1 == n.max(1) || start + i + 1 == trace.len() {
                sum += factor * step.next_value;
                break;
            }
        }
        sum
    };
    (0..trace.len()).map(from).collect()
}

/// Shifts and scales to mean 0 and standard deviation 1; equal numbers become 0.
pub fn normalise(values: &mut [f32]) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().copied().map(f64::from).sum::<f64>() / count;
    let variance = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / count;
    let scale = 1.0 / (variance.sqrt() + 1e-8);
    for value in values {
        *value = ((f64::from(*value) - mean) * scale) as f32;
    }
}

/// From the last step to the first; each sees the result of the one after it in the same episode.
fn backward(trace: &[Step], each: impl Fn(&Step, Option<f32>) -> f32) -> Vec<f32> {
    let mut results = vec![0.0; trace.len()];
    let mut after = None;
    for (step, result) in trace.iter().zip(&mut results).rev() {
        *result = each(step, if step.ended { None } else { after });
        after = Some(*result);
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(reward: f32, value: f32, next_value: f32, ended: bool) -> Step {
        Step { reward, value, next_value, ended }
    }

    /// Two steps of an episode that ends, one that is cut, and two that go on.
    fn trace() -> Vec<Step> {
        vec![
            step(1.0, 0.5, 2.0, false),
            step(2.0, 2.0, 0.0, true),
            step(4.0, 1.0, 8.0, true),
            step(1.0, 3.0, 5.0, false),
            step(0.0, 5.0, 6.0, false),
        ]
    }

    #[test]
    fn returns_by_hand() {
        assert_eq!(discounted_returns(&trace(), 0.5), [2.0, 2.0, 8.0, 2.5, 3.0]);
        assert_eq!(n_step_returns(&trace(), 0.5, 1), [2.0, 2.0, 8.0, 3.5, 3.0]);
        assert_eq!(n_step_returns(&trace(), 0.5, 2), [2.0, 2.0, 8.0, 2.5, 3.0]);
        assert_eq!(n_step_returns(&trace(), 0.5, 9), discounted_returns(&trace(), 0.5));
        assert!(discounted_returns(&[], 0.5).is_empty());
    }

    #[test]
    fn advantages_by_hand() {
        // Errors of single steps: 1.5, 0, 7, 0.5, -2.
        assert_eq!(advantages(&trace(), 0.5, 0.0), [1.5, 0.0, 7.0, 0.5, -2.0]);
        assert_eq!(advantages(&trace(), 0.5, 0.5), [1.5, 0.0, 7.0, 0.0, -2.0]);
        let full = advantages(&trace(), 0.5, 1.0);
        for ((advantage, total), step) in full.iter().zip(discounted_returns(&trace(), 0.5)).zip(trace()) {
            assert!((advantage - (total - step.value)).abs() < 1e-6);
        }
    }

    #[test]
    fn nothing_crosses_an_end() {
        let mut other = trace();
        other[2].reward = 1e6;
        let all = |trace: &[Step]| {
            [advantages(trace, 0.9, 0.9), discounted_returns(trace, 0.9), n_step_returns(trace, 0.9, 3)]
        };
        for (before, after) in all(&trace()).iter().zip(all(&other)) {
            assert_eq!((&before[..2], &before[3..]), (&after[..2], &after[3..]));
            assert!(after[2] > 9e5);
        }
    }

    #[test]
    fn normalising() {
        let mut values = [1.0, 2.0, 3.0, 6.0];
        normalise(&mut values);
        let deviation = 3.5_f32.sqrt();
        for (found, expected) in values.iter().zip([-2.0, -1.0, 0.0, 3.0]) {
            assert!((found - expected / deviation).abs() < 1e-5);
        }
        let mut equal = [5.0; 3];
        normalise(&mut equal);
        assert_eq!(equal, [0.0; 3]);
        normalise(&mut []);
    }
}
