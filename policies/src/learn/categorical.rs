//! Choices among options of which some are masked, for one branch or for all branches of a sample.
//!
//! Two forms of the same thing: [`Categorical`] on plain slices with its gradient written out, which is what training
//! uses because it is faster, and [`BranchDistribution`] on tensors, for losses that are differentiated automatically.
//! Masked options have probability 0, add nothing to the entropy and get no gradient. A branch in which everything is
//! masked is an error; branches that only fill up a batch count 0.

use candle_core::{D, Tensor};
use mdts_core::Rng;
use rand::Rng as _;

use super::error::{Error, Result};

/// Probabilities below this count as 0: they change no sum, and their gradients would become denormal numbers, with
/// which processors compute many times slower.
const NEGLIGIBLE: f32 = 1e-20;

/// Which options each branch of one sample may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    options: usize,
    /// Branch by branch.
    allowed: Vec<bool>,
}

impl Mask {
    /// Everything is allowed.
    pub fn all(branches: usize, options: usize) -> Self {
        Self { options, allowed: vec![true; branches * options] }
    }

    /// From the options of all branches, one branch after the other.
    ///
    /// # Errors
    /// [`Error::Size`] if the branches have not all so many options, [`Error::NothingAllowed`] if a branch has none.
    pub fn new(options: usize, allowed: Vec<bool>) -> Result<Self> {
        if options == 0 || !allowed.len().is_multiple_of(options) {
            return Err(Error::size("mask", allowed.len(), format!("a multiple of {options} options")));
        }
        if allowed.chunks(options).any(|row| !row.contains(&true)) {
            return Err(Error::NothingAllowed { options });
        }
        Ok(Self { options, allowed })
    }

    /// How many branches there are.
    pub fn branches(&self) -> usize {
        self.allowed.len().checked_div(self.options).unwrap_or(0)
    }

    /// How many options each branch has.
    pub fn options(&self) -> usize {
        self.options
    }

    /// The options of each branch.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[bool]> {
        self.allowed.chunks(self.options.max(1))
    }
}

/// One branch: probabilities over its options. Holds its buffers, so that it can be set again without allocation.
///
/// ```
/// use mdts_policies::learn::Categorical;
/// let mut choice = Categorical::default();
/// choice.set(&[0.0, 2.0, 0.0], &[true, false, true])?;
/// assert_eq!(choice.probabilities(), [0.5, 0.0, 0.5]);
/// assert!((choice.entropy() - 2.0_f32.ln()).abs() < 1e-6);
/// # Ok::<(), mdts_policies::learn::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Categorical {
    probabilities: Vec<f32>,
    /// Minus infinity where masked.
    logs: Vec<f32>,
}

impl Categorical {
    /// Probabilities in proportion to exp(logit), 0 where masked.
    ///
    /// # Errors
    /// [`Error::NothingAllowed`] if all is masked, [`Error::NotFinite`] if an allowed logit is not finite,
    /// [`Error::Size`] if the mask has another length.
    pub fn set(&mut self, logits: &[f32], allowed: &[bool]) -> Result<()> {
        if logits.len() != allowed.len() {
            return Err(Error::size("mask", allowed.len(), logits.len()));
        }
        let mut largest = f32::NEG_INFINITY;
        for (logit, _) in logits.iter().zip(allowed).filter(|(_, allowed)| **allowed) {
            if !logit.is_finite() {
                return Err(Error::not_finite("a logit"));
            }
            largest = largest.max(*logit);
        }
        if largest == f32::NEG_INFINITY {
            return Err(Error::NothingAllowed { options: logits.len() });
        }
        self.probabilities.clear();
        let exp = |(logit, allowed): (&f32, &bool)| if *allowed { (logit - largest).exp() } else { 0.0 };
        self.probabilities.extend(logits.iter().zip(allowed).map(exp));
        let sum: f32 = self.probabilities.iter().sum();
        let log_sum = largest + sum.ln();
        for p in &mut self.probabilities {
            *p = if *p < NEGLIGIBLE { 0.0 } else { *p / sum };
        }
        self.logs.clear();
        let log =
            |(logit, allowed): (&f32, &bool)| if *allowed { logit - log_sum } else { f32::NEG_INFINITY };
        self.logs.extend(logits.iter().zip(allowed).map(log));
        Ok(())
    }

    /// The probability of each option.
    pub fn probabilities(&self) -> &[f32] {
        &self.probabilities
    }

    /// The logarithm of the probability of an option.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if the option is masked or does not exist.
    pub fn log_prob(&self, option: usize) -> Result<f32> {
        match self.logs.get(option) {
            Some(log) if log.is_finite() => Ok(*log),
            _ => Err(Error::Forbidden { option, options: self.logs.len() }),
        }
    }

    /// The entropy in nats.
    pub fn entropy(&self) -> f32 {
        -self.terms().map(|(p, log)| p * log).sum::<f32>()
    }

    /// Draws an option.
    pub fn sample(&self, rng: &mut Rng) -> usize {
        let mut left: f32 = rng.random();
        let mut last = 0;
        for (option, p) in self.probabilities.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            last = option;
            left -= p;
            if left < 0.0 {
                break;
            }
        }
        last
    }

    /// The likeliest option; the first of equals.
    pub fn best(&self) -> usize {
        let better = |best: usize, i: usize| if self.logs[i] > self.logs[best] { i } else { best };
        (0..self.logs.len()).reduce(better).unwrap_or(0)
    }

    /// Adds the gradient by the logits of `log_prob * log(p[option]) + entropy * H(p)`:
    /// `log_prob * (1[i = option] - p_i) - entropy * p_i * (log p_i + H)`.
    ///
    /// `into` has one number per option.
    pub fn add_gradient(&self, option: usize, log_prob: f32, entropy: f32, into: &mut [f32]) {
        let own = self.entropy();
        for ((p, log), into) in self.terms().zip(into.iter_mut()) {
            *into -= p * (log_prob + entropy * (log + own));
        }
        if let Some(into) = into.get_mut(option) {
            *into += log_prob;
        }
    }

    /// Probabilities with their logarithms; 0 and 0 where there is no probability.
    fn terms(&self) -> impl Iterator<Item = (f32, f32)> {
        let term = |(p, log): (&f32, &f32)| if *p > 0.0 { (*p, *log) } else { (0.0, 0.0) };
        self.probabilities.iter().zip(&self.logs).map(term)
    }
}

/// All branches of a batch of samples as tensors that loss functions can differentiate.
#[derive(Debug, Clone)]
pub struct BranchDistribution {
    /// Logarithms of probabilities, [samples, branches, options]; large negative numbers where masked.
    logs: Tensor,
    /// 1, or 0 for branches that a sample does not have, [samples, branches].
    active: Tensor,
}

impl BranchDistribution {
    /// What is added to masked logits. Unlike minus infinity it leaves entropies and gradients free of NaN.
    const FORBIDDEN: f32 = -1e9;

    /// From logits [samples, branches, options]. Samples may have fewer branches and options; the rest fills up.
    ///
    /// # Errors
    /// [`Error::Size`] if a mask is larger than the logits or missing.
    pub fn new(logits: &Tensor, masks: &[&Mask]) -> Result<Self> {
        let (samples, branches, options) = logits.dims3()?;
        if samples != masks.len() {
            return Err(Error::size("masks", masks.len(), samples));
        }
        let mut forbidden = vec![Self::FORBIDDEN; samples * branches * options];
        let mut active = vec![0.0_f32; samples * branches];
        for (sample, mask) in masks.iter().enumerate() {
            check_fits(mask, branches, options)?;
            for (branch, row) in mask.rows().enumerate() {
                let at = sample * branches + branch;
                active[at] = 1.0;
                for (into, allowed) in forbidden[at * options..].iter_mut().zip(row) {
                    *into = if *allowed { 0.0 } else { Self::FORBIDDEN };
                }
            }
        }
        let forbidden = Tensor::from_vec(forbidden, logits.shape(), logits.device())?;
        let logits = logits.add(&forbidden.to_dtype(logits.dtype())?)?;
        let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?.detach())?;
        let logs = shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(D::Minus1)?.log()?)?;
        let active = Tensor::from_vec(active, (samples, branches), logits.device())?;
        Ok(Self { active: active.to_dtype(logs.dtype())?, logs })
    }

    /// Per sample, the sum over its branches of the logarithm of the probability of what it chose.
    ///
    /// # Errors
    /// [`Error::Size`] if a sample chose for more branches than there are.
    pub fn log_prob(&self, chosen: &[&[u32]]) -> Result<Tensor> {
        let (samples, branches, _) = self.logs.dims3()?;
        let mut flat = vec![0_u32; samples * branches];
        for (into, chosen) in flat.chunks_mut(branches.max(1)).zip(chosen) {
            if chosen.len() > branches {
                return Err(Error::size("choices", chosen.len(), branches));
            }
            into[..chosen.len()].copy_from_slice(chosen);
        }
        let chosen = Tensor::from_vec(flat, (samples, branches, 1), self.logs.device())?;
        let logs = self.logs.gather(&chosen, D::Minus1)?.squeeze(D::Minus1)?;
        Ok(logs.mul(&self.active)?.sum(D::Minus1)?)
    }

    /// Per sample, the sum of the entropies of its branches.
    ///
    /// # Errors
    /// [`Error::Tensor`] if an operation fails.
    pub fn entropy(&self) -> Result<Tensor> {
        let branches = self.logs.exp()?.mul(&self.logs)?.sum(D::Minus1)?.neg()?;
        Ok(branches.mul(&self.active)?.sum(D::Minus1)?)
    }
}

/// Refuses a mask that is larger than what a network gave.
pub(super) fn check_fits(mask: &Mask, branches: usize, options: usize) -> Result<()> {
    if mask.branches() > branches || mask.options() > options {
        let found = format!("{} branches of {} options", mask.branches(), mask.options());
        return Err(Error::size("mask", found, format!("at most {branches} of {options}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};
    use rand::SeedableRng;

    use super::*;

    fn set(logits: &[f32], allowed: &[bool]) -> Categorical {
        let mut choice = Categorical::default();
        choice.set(logits, allowed).unwrap();
        choice
    }

    fn near(a: f32, b: f32) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }

    #[test]
    fn by_hand() {
        // Logits log 1, log 2, (masked), log 5.
        let choice = set(&[0.0, 2.0_f32.ln(), 50.0, 5.0_f32.ln()], &[true, true, false, true]);
        for (p, expected) in choice.probabilities().iter().zip([0.125, 0.25, 0.0, 0.625]) {
            near(*p, expected);
        }
        near(choice.log_prob(1).unwrap(), 0.25_f32.ln());
        let entropy: f32 = [0.125_f32, 0.25, 0.625].map(|p| -p * p.ln()).iter().sum();
        near(choice.entropy(), entropy);
        assert_eq!(choice.best(), 3);
        let mut gradient = vec![0.0; 4];
        choice.add_gradient(1, 2.0, 0.0, &mut gradient);
        for (found, expected) in gradient.iter().zip([-0.25, 1.5, 0.0, -1.25]) {
            near(*found, expected);
        }
    }

    #[test]
    fn one_option_left_is_certain() {
        for logit in [0.0, -1e30, 1e30] {
            let choice = set(&[f32::NAN, logit, 1e38], &[false, true, false]);
            assert_eq!(choice.probabilities(), [0.0, 1.0, 0.0]);
            assert_eq!((choice.log_prob(1).unwrap(), choice.entropy()), (0.0, 0.0));
            assert_eq!((choice.best(), choice.sample(&mut Rng::seed_from_u64(1))), (1, 1));
            let mut gradient = [0.0; 3];
            choice.add_gradient(1, 3.0, 1.0, &mut gradient);
            assert_eq!(gradient, [0.0; 3]);
        }
    }

    #[test]
    fn far_apart_logits_stay_finite() {
        let near = set(&[0.0, 46.0, 92.0], &[true; 3]);
        assert!(near.probabilities().iter().all(|p| *p == 0.0 || *p >= NEGLIGIBLE / 2.0));
        assert_eq!(near.log_prob(0).unwrap(), -92.0);
        let choice = set(&[-1e4, 1e4, 0.0], &[true; 3]);
        assert!(choice.entropy() == 0.0 && choice.log_prob(0).unwrap() == -2e4);
        let mut gradient = [0.0; 3];
        choice.add_gradient(0, 1.0, 1.0, &mut gradient);
        assert_eq!(gradient, [1.0, -1.0, 0.0]);
    }

    #[test]
    fn mistakes() {
        let mut choice = Categorical::default();
        assert!(matches!(choice.set(&[1.0, 2.0], &[false; 2]), Err(Error::NothingAllowed { options: 2 })));
        assert!(matches!(choice.set(&[], &[]), Err(Error::NothingAllowed { options: 0 })));
        assert!(matches!(choice.set(&[f32::NAN, 2.0], &[true; 2]), Err(Error::NotFinite { .. })));
        assert!(matches!(choice.set(&[f32::INFINITY, 2.0], &[true; 2]), Err(Error::NotFinite { .. })));
        assert!(matches!(choice.set(&[1.0], &[true; 2]), Err(Error::Size { .. })));
        let choice = set(&[1.0, 2.0], &[true, false]);
        assert!(matches!(choice.log_prob(1), Err(Error::Forbidden { option: 1, options: 2 })));
        assert!(matches!(choice.log_prob(2), Err(Error::Forbidden { .. })));
        assert!(matches!(Mask::new(2, vec![true, false, false, false]), Err(Error::NothingAllowed { .. })));
        assert!(Mask::new(2, vec![true; 3]).is_err() && Mask::new(0, vec![]).is_err());
    }

    #[test]
    fn samples_follow_the_probabilities() {
        let choice = set(&[0.0, 2.0_f32.ln(), 9.0, 5.0_f32.ln()], &[true, true, false, true]);
        let mut rng = Rng::seed_from_u64(7);
        let mut counts = [0_u32; 4];
        for _ in 0..20_000 {
            counts[choice.sample(&mut rng)] += 1;
        }
        for (count, expected) in counts.iter().zip([0.125, 0.25, 0.0, 0.625]) {
            assert!((f64::from(*count) / 20_000.0 - expected).abs() < 0.015, "{counts:?}");
        }
    }

    /// Two samples: two branches of three options with masks, and one branch of two options.
    fn batch() -> (Vec<f64>, [Mask; 2], [Vec<u32>; 2]) {
        let mut rng = Rng::seed_from_u64(3);
        let logits = (0..12).map(|_| rng.random_range(-2.0..2.0)).collect();
        let masks = [Mask::new(3, vec![true, false, true, true, true, true]).unwrap(), Mask::all(1, 2)];
        (logits, masks, [vec![2, 1], vec![1]])
    }

    /// The same loss on tensors: per sample 1.5 and -0.5 times the log-probability plus 0.3 times the entropy.
    fn tensor_loss(logits: &Tensor) -> Tensor {
        let (_, masks, chosen) = batch();
        let all = BranchDistribution::new(logits, &[&masks[0], &masks[1]]).unwrap();
        let log_prob = all.log_prob(&[&chosen[0], &chosen[1]]).unwrap();
        let weights = Tensor::new(&[1.5_f64, -0.5], &Device::Cpu).unwrap();
        let entropy = (all.entropy().unwrap() * 0.3).unwrap();
        ((log_prob * weights).unwrap() + entropy).unwrap().sum_all().unwrap()
    }

    #[test]
    fn both_forms_and_finite_differences_agree() {
        let (start, masks, chosen) = batch();
        let logits = Var::from_slice(&start, (2, 2, 3), &Device::Cpu).unwrap();
        let loss = tensor_loss(&logits);
        let automatic = loss.backward().unwrap();
        let automatic: Vec<f64> = automatic.get(&logits).unwrap().flatten_all().unwrap().to_vec1().unwrap();

        let (mut value, mut manual) = (0.0, vec![0.0_f32; 12]);
        let plain: Vec<f32> = start.iter().map(|x| *x as f32).collect();
        for (sample, weight) in [1.5, -0.5].into_iter().enumerate() {
            for (branch, allowed) in masks[sample].rows().enumerate() {
                let at = 6 * sample + 3 * branch;
                let choice = set(&plain[at..at + allowed.len()], allowed);
                let option = chosen[sample][branch] as usize;
                value += weight * choice.log_prob(option).unwrap() + 0.3 * choice.entropy();
                choice.add_gradient(option, weight, 0.3, &mut manual[at..at + allowed.len()]);
            }
        }
        near(value, loss.to_scalar::<f64>().unwrap() as f32);
        for i in 0..12 {
            let at = |step: f64| {
                let mut moved = start.clone();
                moved[i] += step;
                let moved = Tensor::from_vec(moved, (2, 2, 3), &Device::Cpu).unwrap();
                tensor_loss(&moved).to_scalar::<f64>().unwrap()
            };
            let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((automatic[i] - numeric).abs() < 1e-6, "{i}: {} {numeric}", automatic[i]);
            near(manual[i], numeric as f32);
        }
        // Masked, and branches and options that only fill up.
        assert!([1, 8, 9, 10, 11].iter().all(|i| automatic[*i] == 0.0 && manual[*i] == 0.0));
    }

    #[test]
    fn tensors_refuse_what_does_not_fit() {
        let logits = Tensor::zeros((1, 2, 3), candle_core::DType::F32, &Device::Cpu).unwrap();
        assert!(BranchDistribution::new(&logits, &[]).is_err());
        assert!(BranchDistribution::new(&logits, &[&Mask::all(3, 3)]).is_err());
        assert!(BranchDistribution::new(&logits, &[&Mask::all(2, 4)]).is_err());
        let all = BranchDistribution::new(&logits, &[&Mask::all(2, 3)]).unwrap();
        assert!(all.log_prob(&[&[0, 1, 2]]).is_err() && all.log_prob(&[&[0, 3]]).is_err());
    }
}
