//! Settings that change while a policy learns: learning rates, entropy weights, shares of random actions.

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};

/// A number per update: an optional warm-up from zero, then a curve that stays at its end.
///
/// ```
/// use mdts_policies::learn::Schedule;
/// let rate = Schedule::linear(1e-3, 0.0, 100).warm_up(10);
/// assert_eq!([rate.at(4), rate.at(60), rate.at(500)], [0.5e-3, 0.5e-3, 0.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// In the first updates the value is multiplied by 1/n, 2/n, .. 1.
    #[serde(default)]
    pub warm_up: u64,
    /// What follows. Its updates are counted after the warm-up.
    pub curve: Curve,
}

/// The shape of a [`Schedule`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Curve {
    /// Always the same.
    Constant(f64),
    /// A straight line.
    Linear {
        /// Value at the first update.
        from: f64,
        /// Value at the end and ever after.
        to: f64,
        /// How many updates it takes.
        updates: u64,
    },
    /// Half a cosine wave: flat, steep, flat. Source: Loshchilov, Hutter: SGDR, ICLR 2017.
    Cosine {
        /// Value at the first update.
        from: f64,
        /// Value at the end and ever after.
        to: f64,
        /// How many updates it takes.
        updates: u64,
    },
}

impl Schedule {
    /// Always the same.
    pub const fn constant(value: f64) -> Self {
        Self { warm_up: 0, curve: Curve::Constant(value) }
    }

    /// A straight line.
    pub const fn linear(from: f64, to: f64, updates: u64) -> Self {
        Self { warm_up: 0, curve: Curve::Linear { from, to, updates } }
    }

    /// Half a cosine wave.
    pub const fn cosine(from: f64, to: f64, updates: u64) -> Self {
        Self { warm_up: 0, curve: Curve::Cosine { from, to, updates } }
    }

    /// The same with a warm-up of so many updates.
    #[must_use]
    pub const fn warm_up(mut self, updates: u64) -> Self {
        self.warm_up = updates;
        self
    }

    /// The value at an update, counted from 0.
    pub fn at(&self, update: u64) -> f64 {
        if update < self.warm_up {
            return self.curve.at(0) * (update + 1) as f64 / self.warm_up as f64;
        }
        self.curve.at(update - self.warm_up)
    }

    /// Refuses a schedule that leaves a range.
    pub(super) fn check(
        &self,
        what: &'static str,
        range: impl std::ops::RangeBounds<f64>,
        expected: &'static str,
    ) -> Result<()> {
        let (from, to) = match self.curve {
            Curve::Constant(value) => (value, value),
            Curve::Linear { from, to, .. } | Curve::Cosine { from, to, .. } => (from, to),
        };
        if range.contains(&from) && range.contains(&to) && from.is_finite() && to.is_finite() {
            return Ok(());
        }
        Err(Error::Setting { what, found: format!("{from} to {to}"), expected })
    }
}

impl Curve {
    fn at(self, update: u64) -> f64 {
        match self {
            Self::Constant(value) => value,
            Self::Linear { from, to, updates } => from + (to - from) * progress(update, updates),
            Self::Cosine { from, to, updates } => {
                let done = progress(update, updates);
                from + (to - from) * 0.5 * (1.0 - (std::f64::consts::PI * done).cos())
            }
        }
    }
}

/// From 0 to 1.
fn progress(update: u64, updates: u64) -> f64 {
    if update >= updates { 1.0 } else { update as f64 / updates as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let cases = [
            (Schedule::constant(0.5), 0, 0.5),
            (Schedule::constant(0.5), 1000, 0.5),
            (Schedule::constant(0.5).warm_up(4), 0, 0.125),
            (Schedule::constant(0.5).warm_up(4), 3, 0.5),
            (Schedule::linear(1.0, 0.0, 4), 0, 1.0),
            (Schedule::linear(1.0, 0.0, 4), 1, 0.75),
            (Schedule::linear(1.0, 0.0, 4), 4, 0.0),
            (Schedule::linear(1.0, 0.0, 4), 9, 0.0),
            (Schedule::linear(1.0, 0.25, 0), 0, 0.25),
            (Schedule::linear(1.0, 0.0, 4).warm_up(2), 0, 0.5),
            (Schedule::linear(1.0, 0.0, 4).warm_up(2), 2, 1.0),
            (Schedule::linear(1.0, 0.0, 4).warm_up(2), 3, 0.75),
            (Schedule::cosine(1.0, 0.0, 4), 0, 1.0),
            (Schedule::cosine(1.0, 0.0, 4), 1, 0.5 + 0.125_f64.sqrt()),
            (Schedule::cosine(1.0, 0.0, 4), 2, 0.5),
            (Schedule::cosine(1.0, 0.2, 4), 4, 0.2),
        ];
        for (schedule, update, expected) in cases {
            assert!((schedule.at(update) - expected).abs() < 1e-12, "{schedule:?} at {update}");
        }
    }

    #[test]
    fn text_form() {
        let schedule = Schedule::cosine(1e-3, 1e-5, 100).warm_up(5);
        let text = serde_json::to_string(&schedule).unwrap();
        assert_eq!(text, r#"{"warm_up":5,"curve":{"cosine":{"from":0.001,"to":0.00001,"updates":100}}}"#);
        assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), schedule);
    }

    #[test]
    fn ranges() {
        assert!(Schedule::linear(1.0, 0.0, 9).check("x", 0.0..=1.0, "0 to 1").is_ok());
        assert!(Schedule::linear(1.0, -0.1, 9).check("x", 0.0..=1.0, "0 to 1").is_err());
        assert!(Schedule::constant(f64::NAN).check("x", 0.0..=1.0, "0 to 1").is_err());
    }
}
