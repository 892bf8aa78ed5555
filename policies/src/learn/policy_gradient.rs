//! The loss of policy-gradient methods for policies with branches.
//!
//! Per sample, with sums over the branches k: a policy term in log pi, their sum of log-probabilities, plus `value_weight` times the
//! squared error of the value, minus `entropy_weight` times the sum of entropies; the mean over samples. Its gradient by the
//! outputs of the network is written out on plain slices, and only the network itself is differentiated automatically:
//! the loss that candle sees is the sum of outputs times these constants. O(samples x branches x options).

use candle_core::{Device, Tensor};

use super::categorical::{Categorical, check_fits};
use super::error::{Error, Result};
use super::network::Heads;
use super::rollout::Sample;
use super::storage::with_values;

/// The parts of a loss, each as the mean over samples and before weighting.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Losses {
    /// The policy term.
    pub policy: f64,
    /// The squared error of the value.
    pub value: f64,
    /// The entropy, summed over branches.
    pub entropy: f64,
}

/// What a sample's policy term is, given the logarithm of the present probability of what was chosen.
pub(super) struct Term {
    pub(super) loss: f32,
    /// Derivative of the loss by that logarithm.
    pub(super) slope: f32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    pub(super) value: f32,
    pub(super) entropy: f32,
}

/// A tensor whose gradient by the parameters is that of the loss, and the parts of the loss.
pub(super) fn surrogate<O>(
    heads: &Heads,
    samples: &[Sample<'_, O>],
    weights: Weights,
    term: impl Fn(&Sample<'_, O>, f32) -> Term,
) -> Result<(Tensor, Losses)> {
    let (count, branches, options) = heads.logits.dims3()?;
    if count != samples.len() || count == 0 || heads.values.elem_count() != count {
        return Err(Error::size("outputs of the network", count, samples.len().max(1)));
    }
    let share = 1.0 / count as f32;
    let mut losses = Losses::default();
    let mut by_logits = vec![0.0; heads.logits.elem_count()];
    let mut choices = vec![Categorical::default(); branches];
    let logits = heads.logits.contiguous()?;
    with_values(&logits, |logits| {
        let rows = logits.chunks(branches * options).zip(by_logits.chunks_mut(branches * options));
        for (sample, (logits, into)) in samples.iter().zip(rows) {
            check_fits(sample.mask, branches, options)?;
            if sample.choices.len() != sample.mask.branches() {
                return Err(Error::size("choices", sample.choices.len(), sample.mask.branches()));
            }
            let (mut log_prob, mut entropy) = (0.0, 0.0);
            let all = sample.mask.rows().zip(sample.choices).zip(&mut choices);
            for (((allowed, option), choice), logits) in all.zip(logits.chunks(options)) {
                choice.set(&logits[..allowed.len()], allowed)?;
                log_prob += choice.log_prob(*option as usize)?;
                entropy += choice.entropy();
            }
            let Term { loss, slope } = term(sample, log_prob);
            for ((choice, option), into) in choices.iter().zip(sample.choices).zip(into.chunks_mut(options)) {
                let into = &mut into[..sample.mask.options()];
                choice.add_gradient(*option as usize, share * slope, -share * weights.entropy, into);
            }
            losses.policy += f64::from(share * loss);
            losses.entropy += f64::from(share * entropy);
        }
        Ok(())
    })??;
    let by_values = value_gradient(&heads.values, samples, share * weights.value, &mut losses)?;
    let by_logits = Tensor::from_vec(by_logits, logits.shape(), &Device::Cpu)?;
    let loss = (logits.mul(&by_logits)?.sum_all()? + heads.values.mul(&by_values)?.sum_all()?)?;
    check_finite(&losses)?;
    Ok((loss, losses))
}

fn value_gradient<O>(
    values: &Tensor,
    samples: &[Sample<'_, O>],
    weight: f32,
    losses: &mut Losses,
) -> Result<Tensor> {
    let errors: Vec<f32> =
        values.to_vec1::<f32>()?.iter().zip(samples).map(|(value, sample)| value - sample.target).collect();
    let squares: f64 = errors.iter().map(|e| f64::from(*e) * f64::from(*e)).sum();
    losses.value = squares / samples.len() as f64;
    let gradient = errors.iter().map(|e| 2.0 * weight * e).collect::<Vec<_>>();
    Ok(Tensor::from_vec(gradient, values.shape(), &Device::Cpu)?)
}

fn check_finite(losses: &Losses) -> Result<()> {
    for (what, part) in
        [("policy loss", losses.policy), ("value loss", losses.value), ("entropy", losses.entropy)]
    {
        if !part.is_finite() {
            return Err(Error::not_finite(format!("the {what}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;
    use crate::learn::categorical::{BranchDistribution, Mask};

    const WEIGHTS: Weights = Weights { value: 0.5, entropy: 0.1 };

    /// Two samples, one with a masked option, one with only one branch of two options.
    fn check(term: impl Fn(&Sample<'_, ()>, f32) -> Term, on_tensors: impl Fn(&Tensor) -> Tensor) {
        let masks = [Mask::new(3, vec![true, false, true, true, true, true]).unwrap(), Mask::all(1, 2)];
        let sample = |i: usize, choices, advantage, target| Sample {
            observation: &(),
            mask: &masks[i],
            choices,
            log_prob: -1.0,
            advantage,
            target,
        };
        let samples = [sample(0, &[2, 1], 1.5, 2.0), sample(1, &[1], -0.5, -1.0)];
        let logits = [0.3_f32, 9.0, -0.5, 1.0, 0.2, -0.1, 0.4, 0.6, 5.0, 5.0, 5.0, 5.0];
        let logits = Var::from_slice(&logits, (2, 2, 3), &Device::Cpu).unwrap();
        let values = Var::from_slice(&[1.0_f32, 0.5], 2, &Device::Cpu).unwrap();
        let heads = Heads { logits: logits.as_tensor().clone(), values: values.as_tensor().clone() };
        let (loss, parts) = surrogate(&heads, &samples, WEIGHTS, term).unwrap();
        let manual = loss.backward().unwrap();

        let all = BranchDistribution::new(&logits, &[&masks[0], &masks[1]]).unwrap();
        let policy = on_tensors(&all.log_prob(&[&[2, 1], &[1]]).unwrap()).mean_all().unwrap();
        let targets = Tensor::new(&[2.0_f32, -1.0], &Device::Cpu).unwrap();
        let value = (values.as_tensor() - targets).unwrap().sqr().unwrap().mean_all().unwrap();
        let entropy = all.entropy().unwrap().mean_all().unwrap();
        let number = |t: &Tensor| f64::from(t.to_scalar::<f32>().unwrap());
        let pairs = [(parts.policy, &policy), (parts.value, &value), (parts.entropy, &entropy)];
        for (found, expected) in pairs {
            assert!((found - number(expected)).abs() < 1e-6, "{found} {expected}");
        }
        let total = ((policy + (value * 0.5).unwrap()).unwrap() - (entropy * 0.1).unwrap()).unwrap();
        let automatic = total.backward().unwrap();
        for var in [&logits, &values] {
            let plain = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            for (a, b) in plain(manual.get(var).unwrap()).iter().zip(plain(automatic.get(var).unwrap())) {
                assert!((a - b).abs() < 1e-6, "{a} {b}");
            }
        }
    }

    #[test]
    fn gradient_of_actor_critic() {
        let term = |sample: &Sample<'_, ()>, log_prob: f32| Term {
            loss: -sample.advantage * log_prob,
            slope: -sample.advantage,
        };
        let advantages = Tensor::new(&[-1.5_f32, 0.5], &Device::Cpu).unwrap();
        check(term, |log_probs| (log_probs * &advantages).unwrap());
    }

    #[test]
    fn gradient_of_a_curved_term() {
        let term = |_: &Sample<'_, ()>, log_prob: f32| Term { loss: log_prob.exp(), slope: log_prob.exp() };
        check(term, |log_probs| log_probs.exp().unwrap());
    }

    #[test]
    fn bad_numbers_are_named() {
        let mask = Mask::all(1, 2);
        let heads = |logit: f32, value: f32| Heads {
            logits: Tensor::new(&[[[logit, 0.0]]], &Device::Cpu).unwrap(),
            values: Tensor::new(&[value], &Device::Cpu).unwrap(),
        };
        let run = |logit, value, advantage, option: u32| {
            let choices = [option];
            let sample = Sample {
                observation: &(),
                mask: &mask,
                choices: &choices,
                log_prob: 0.0,
                advantage,
                target: 0.0,
            };
            let term = |s: &Sample<'_, ()>, log: f32| Term { loss: -s.advantage * log, slope: -s.advantage };
            surrogate(&heads(logit, value), &[sample], WEIGHTS, term).map(|_| ()).unwrap_err().to_string()
        };
        assert!(run(f32::NAN, 0.0, 1.0, 0).starts_with("a logit is not finite"));
        assert!(run(0.0, f32::NAN, 1.0, 0).starts_with("the value loss is not finite"));
        assert!(run(0.0, 0.0, f32::INFINITY, 0).starts_with("the policy loss is not finite"));
        assert!(run(0.0, 0.0, 1.0, 2).starts_with("option 2 of 2"));
    }
}
