//! What a policy has learnt of nodes while jobs run: by how much each of them is slower or faster with a kind of task
//! than the cost model says.
//!
//! Per kind and node the mean logarithm of real over expected run time, as if it had been seen `DOUBT` times without a
//! difference before. A node that was not seen counts as expected, even if all others differ from that alike. O(1) per
//! observation and per look-up.

use mdts_core::NodeId;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Observations without a difference that each mean begins with.
const DOUBT: f64 = 1.0;
/// A single run tells no more than this factor.
const MOST: f64 = 10.0;

/// Run times seen so far, by the names of kinds and by node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Experience {
    kinds: FxHashMap<String, Vec<Sum>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Sum {
    logs: f64,
    count: f64,
}

impl Experience {
    /// Takes note of a run; run times that are not positive tell nothing.
    pub fn observe(&mut self, kind: &str, node: NodeId, expected: f64, seconds: f64) {
        let ratio = seconds / expected;
        if !(ratio > 0.0 && ratio.is_finite()) {
            return;
        }
        let rows = match self.kinds.get_mut(kind) {
            Some(rows) => rows,
            None => self.kinds.entry(kind.to_owned()).or_default(),
        };
        if rows.len() <= node.index() {
            rows.resize(node.index() + 1, Sum::default());
        }
        let sum = &mut rows[node.index()];
        sum.logs += ratio.clamp(1.0 / MOST, MOST).ln();
        sum.count += 1.0;
    }

    /// The factor to expect on run times of this kind on every node.
    pub(crate) fn factors(&self, kind: &str, nodes: usize) -> impl Iterator<Item = f64> {
        let rows = self.kinds.get(kind).map_or(&[][..], Vec::as_slice);
        let factor = |node: usize| rows.get(node).map_or(1.0, |s| (s.logs / (s.count + DOUBT)).exp());
        (0..nodes).map(factor)
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_by_hand() {
        let mut experience = Experience::default();
        for _ in 0..3 {
            experience.observe("train", NodeId::new(1), 2.0, 4.0);
        }
        experience.observe("train", NodeId::new(1), 0.0, 4.0);
        experience.observe("train", NodeId::new(0), 1.0, f64::NAN);
        let factors: Vec<f64> = experience.factors("train", 3).collect();
        assert_eq!(factors[0], 1.0);
        assert!((factors[1] - 2.0_f64.powf(0.75)).abs() < 1e-12);
        assert_eq!(factors[2], 1.0);
        assert_eq!(experience.factors("other", 2).collect::<Vec<_>>(), [1.0, 1.0]);
    }
}
