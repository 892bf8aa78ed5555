//! The lognormal distribution of measured run times and file sizes, by the Box-Muller transform.

use rand::Rng;

/// A positive quantity whose logarithm is normal: half the values lie below `median`, and about two thirds within
/// a factor of `exp(sigma)` of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogNormal {
    pub(super) median: f64,
    pub(super) sigma: f64,
}

pub(super) const fn lognormal(median: f64, sigma: f64) -> LogNormal {
    LogNormal { median, sigma }
}

impl LogNormal {
    pub(super) fn draw(self, rng: &mut (impl Rng + ?Sized)) -> f64 {
        let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt(); // the argument of ln is never 0
        let normal = radius * (std::f64::consts::TAU * rng.random::<f64>()).cos();
        self.median * (self.sigma * normal).exp()
    }

    /// A whole number of bytes.
    pub(super) fn draw_bytes(self, rng: &mut (impl Rng + ?Sized)) -> f64 {
        self.draw(rng).round()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::seeded;

    #[test]
    fn logarithms_have_the_mean_and_deviation_asked_for() {
        let mut rng = seeded(1);
        let n = 100_000;
        let logs: Vec<f64> = (0..n).map(|_| lognormal(20.0, 0.5).draw(&mut rng).ln()).collect();
        let mean = logs.iter().sum::<f64>() / f64::from(n);
        let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!((mean - 20.0_f64.ln()).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() - 0.5).abs() < 0.01, "{variance}");
    }
}
