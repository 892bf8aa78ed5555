//! What a policy has learnt of nodes while jobs run: by how much each of them is slower or faster with a kind of task
//! than others are.
//!
//! Logarithms of real over expected run times have three parts: one that all tasks share (the workflow's times are in
//! another unit, say), one of the kind, and one of the kind on the node. Each is estimated from what was seen, and drawn
//! towards the one before as if that had been seen, too: a node that was not seen counts as the others do (a
//! random-effects model; Searle, Casella and others: Variance components, 1992). So an error that all run times have
//! changes no difference between nodes. O(log kinds) per observation, O(kinds x nodes) per estimate.

use std::collections::BTreeMap;

use mdts_core::NodeId;
use serde::{Deserialize, Serialize};

/// Observations that a node's part is doubted by.
const DOUBT: f64 = 1.0;
/// Nodes, seen very often, that a kind's part is doubted by: kinds differ less from each other than nodes do. (Of 1 to
/// 100, this and 10 made runs shortest, by a fifth of a percent.)
const KIND_DOUBT: f64 = 4.0;
/// A node differs from others by this factor at most.
const MOST: f64 = 10.0;
/// Logarithms beyond this are errors of measurement.
const FAR: f64 = 50.0;
/// Most nodes that are believed to be in kept experience.
const NODES: usize = 1 << 24;

/// Run times seen so far, by the names of kinds and by node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Kept")]
pub struct Experience {
    kinds: BTreeMap<String, Vec<Sum>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Sum {
    logs: f64,
    count: f64,
}

impl Sum {
    /// How far the mean is believed.
    fn weight(self) -> f64 {
        self.count / (self.count + DOUBT)
    }

    fn mean(self) -> f64 {
        if self.count > 0.0 { self.logs / self.count } else { 0.0 }
    }
}

/// Experience as it is read, before it is believed.
#[derive(Deserialize)]
struct Kept {
    kinds: BTreeMap<String, Vec<Sum>>,
}

impl TryFrom<Kept> for Experience {
    type Error = String;

    fn try_from(Kept { kinds }: Kept) -> Result<Self, String> {
        let is_good = |sum: &Sum| {
            (0.0..=1e15).contains(&sum.count) && sum.logs.is_finite() && sum.logs.abs() <= FAR * sum.count
        };
        for (kind, rows) in &kinds {
            if rows.len() > NODES || !rows.iter().all(is_good) {
                return Err(format!("the run times seen of kind '{kind}' make no sense"));
            }
        }
        Ok(Self { kinds })
    }
}

/// What is to be expected, as factors on expected run times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate<'a> {
    experience: &'a Experience,
    /// Logarithm of what all run times share.
    shared: f64,
}

impl Experience {
    /// Takes note of a run; run times that are not positive tell nothing.
    pub fn observe(&mut self, kind: &str, node: NodeId, expected: f64, seconds: f64) {
        let log = (seconds / expected).ln();
        if log.is_nan() || log.abs() > FAR {
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
        sum.logs += log;
        sum.count += 1.0;
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// What follows from all that was seen.
    pub(crate) fn estimate(&self) -> Estimate<'_> {
        let (mut sum, mut weights) = (0.0, 0.0);
        for rows in self.kinds.values() {
            let (mean, weight) = mean_of(rows);
            let weight = weight / (weight + KIND_DOUBT);
            sum += weight * mean;
            weights += weight;
        }
        Estimate { experience: self, shared: if weights > 0.0 { sum / weights } else { 0.0 } }
    }
}

impl<'a> Estimate<'a> {
    /// The factor that all run times share.
    pub(crate) fn pace(&self) -> f64 {
        self.shared.exp()
    }

    /// The factors on run times of this kind on every node, beside the one that all share.
    pub(crate) fn factors(&self, kind: &str, nodes: usize) -> impl Iterator<Item = f64> + use<'a> {
        let rows = self.experience.kinds.get(kind).map_or(&[][..], Vec::as_slice);
        let (mean, weight) = mean_of(rows);
        let kind = weight * (mean - self.shared) / (weight + KIND_DOUBT);
        let shared = self.shared;
        let factor = move |node: usize| {
            let own = rows.get(node).map_or(0.0, |sum| sum.weight() * (sum.mean() - shared - kind));
            (kind + own.clamp(-MOST.ln(), MOST.ln())).exp()
        };
        (0..nodes).map(factor)
    }
}

/// The mean over nodes, those that were seen more often counting more, and the sum of their weights.
fn mean_of(rows: &[Sum]) -> (f64, f64) {
    let weight: f64 = rows.iter().map(|sum| sum.weight()).sum();
    let sum: f64 = rows.iter().map(|sum| sum.weight() * sum.mean()).sum();
    (if weight > 0.0 { sum / weight } else { 0.0 }, weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(experience: &Experience, kind: &str, nodes: usize) -> Vec<f64> {
        experience.estimate().factors(kind, nodes).collect()
    }

    fn assert_near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        assert!(
            found.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-12),
            "{found:?} {expected:?}"
        );
    }

    #[test]
    fn estimates_by_hand() {
        let mut experience = Experience::default();
        assert_eq!(experience.estimate().pace(), 1.0);
        assert_eq!(factors(&experience, "train", 2), [1.0, 1.0]);
        for _ in 0..3 {
            experience.observe("train", NodeId::new(1), 2.0, 4.0);
        }
        experience.observe("train", NodeId::new(1), 0.0, 4.0);
        experience.observe("train", NodeId::new(0), 1.0, f64::NAN);
        experience.observe("train", NodeId::new(0), 1.0, 0.0);
        // All that ran took twice as long: so will all.
        assert!((experience.estimate().pace() - 2.0).abs() < 1e-12);
        assert_near(&factors(&experience, "train", 3), &[1.0; 3]);
        assert_near(&factors(&experience, "other", 2), &[1.0; 2]);
        // Logarithms to base 2 from here: node 1 has mean 1, seen 3 times, node 0 mean 4, seen once.
        experience.observe("train", NodeId::new(0), 1.0, 16.0);
        let mean: f64 = (0.75 * 1.0 + 0.5 * 4.0) / 1.25;
        assert!((experience.estimate().pace().log2() - mean).abs() < 1e-12);
        let own = [0.5 * (4.0 - mean), 0.75 * (1.0 - mean), 0.0];
        assert_near(&factors(&experience, "train", 3), &own.map(f64::exp2));
        // Another kind, seen once with mean -1: weights are those of nodes over themselves and 4.
        experience.observe("other", NodeId::new(2), 2.0, 1.0);
        let weights = [1.25 / 5.25, 0.5 / 4.5];
        let shared = (weights[0] * mean - weights[1]) / (weights[0] + weights[1]);
        assert!((experience.estimate().pace().log2() - shared).abs() < 1e-12);
        let kind = (-1.0 - shared) / 9.0;
        let own = [kind, kind, kind + 0.5 * (-1.0 - shared - kind)];
        assert_near(&factors(&experience, "other", 3), &own.map(f64::exp2));
    }

    /// Runs of three kinds on four nodes, in another unit of time.
    fn seen(unit: f64) -> Experience {
        let mut experience = Experience::default();
        for i in 0..20_u32 {
            let (kind, node) = (["a", "b", "c"][i as usize % 3], NodeId::new((i as usize * 7) % 4));
            let seconds = 1.0 + f64::from(i * i % 11);
            experience.observe(kind, node, 3.0, seconds * unit);
        }
        experience
    }

    #[test]
    fn what_all_run_times_share_is_no_difference_between_nodes() {
        let as_stated = seen(1.0);
        for unit in [1e-3, 0.05, 3.0, 3600.0] {
            let other = seen(unit);
            let pace = other.estimate().pace() / as_stated.estimate().pace();
            assert!((pace / unit - 1.0).abs() < 1e-9, "{unit}: {pace}");
            for kind in ["a", "b", "c", "unseen"] {
                let (a, b) = (factors(&as_stated, kind, 6), factors(&other, kind, 6));
                assert!(
                    a.iter().zip(&b).all(|(a, b)| (a / b - 1.0).abs() < 1e-9),
                    "{unit}, {kind}: {a:?} {b:?}"
                );
            }
        }
        assert!(factors(&as_stated, "a", 4).iter().any(|factor| (factor - 1.0).abs() > 0.1), "nodes differ");
    }

    #[test]
    fn the_more_is_seen_of_a_node_the_more_it_is_believed() {
        let mut experience = Experience::default();
        let mut latest = 1.0;
        for _ in 0..30 {
            for (node, seconds) in [(0, 2.0), (1, 1.0), (2, 1.0), (3, 1.0)] {
                experience.observe("a", NodeId::new(node), 1.0, seconds);
            }
            let factors = factors(&experience, "a", 4);
            let slower = factors[0] / factors[1];
            assert!(slower > latest && slower < 2.0, "{slower}");
            latest = slower;
        }
        assert!(latest > 1.9, "{latest}");
        experience.observe("b", NodeId::new(0), 1.0, 1.0);
        for _ in 0..100 {
            experience.observe("b", NodeId::new(1), 1.0, 1e6);
        }
        let factors = factors(&experience, "b", 2);
        assert!(factors[1] / factors[0] <= 101.0, "one node is not a million times as slow: {factors:?}");
    }

    #[test]
    fn what_makes_no_sense_is_not_read() {
        let kept = serde_json::to_string(&seen(1.0)).unwrap();
        assert_eq!(serde_json::from_str::<Experience>(&kept).unwrap(), seen(1.0));
        for row in
            [r#"{"logs":1e300,"count":1.0}"#, r#"{"logs":0.0,"count":-1.0}"#, r#"{"logs":1.0,"count":0.0}"#]
        {
            let text = format!(r#"{{"kinds":{{"train":[{row}]}}}}"#);
            let error = serde_json::from_str::<Experience>(&text).unwrap_err().to_string();
            assert!(error.contains("'train'"), "{error}");
        }
    }
}
