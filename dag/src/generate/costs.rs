//! Random run times and data sizes with a given ratio between them.
//!
//! ```text
//! seconds of a task ~ share * mean_seconds       * U(1 - spread, 1 + spread)
//! bytes of an edge  ~ ccr * mean_seconds * bandwidth * U(1 - spread, 1 + spread)
//! ```
//! so that the mean time of a transfer at the reference `bandwidth` over the mean time of a task is `ccr`. `share`
//! is 1 on average over a graph; it differs between tasks where the algorithm fixes their relative work. Source:
//! Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, section 5.2 (CCR, and `2 * spread` as the range percentage).

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::check;
use crate::Result;

/// How long tasks take and how much data they pass on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Costs {
    /// Mean work of a task in seconds on a node of speed 1.
    pub mean_seconds: f64,
    /// Half the width of the uniform distributions over their mean, 0 (all equal) to 1.
    pub spread: f64,
    /// Communication to computation ratio: mean time of a transfer over mean time of a task.
    pub ccr: f64,
    /// Bytes per second at which `ccr` holds.
    pub bandwidth: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Self { mean_seconds: 10.0, spread: 0.5, ccr: 1.0, bandwidth: 100e6 }
    }
}

impl Costs {
    /// Mean size of a dependency in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.ccr * self.mean_seconds * self.bandwidth
    }

    pub(super) fn check(&self, generator: &str) -> Result<()> {
        let name = |parameter: &str| format!("{generator}:{parameter}");
        check::within(&name("mean_seconds"), self.mean_seconds, 0.0..=1e12)?;
        check::within(&name("spread"), self.spread, 0.0..=1.0)?;
        check::within(&name("ccr"), self.ccr, 0.0..=1e6)?;
        check::within(&name("bandwidth"), self.bandwidth, 0.0..=1e18)?;
        check::within(&name("ccr * mean_seconds * bandwidth"), self.mean_bytes(), 0.0..=1e17)
    }

    pub(super) fn seconds(&self, share: f64, rng: &mut (impl Rng + ?Sized)) -> f64 {
        share * self.around(self.mean_seconds, rng)
    }

    pub(super) fn bytes(&self, rng: &mut (impl Rng + ?Sized)) -> f64 {
        self.around(self.mean_bytes(), rng)
    }

    /// Always draws, so that graphs of one seed and different costs keep one structure.
    fn around(&self, mean: f64, rng: &mut (impl Rng + ?Sized)) -> f64 {
        mean * (1.0 + self.spread * rng.random_range(-1.0..=1.0))
    }
}
