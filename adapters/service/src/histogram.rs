//! Counts of durations, as Prometheus wants them.

use std::fmt::Write as _;
use std::time::Duration;

/// Upper ends of the buckets, in seconds.
const BUCKETS: [f64; 13] = [1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 5e-2, 0.25, 1.0, 10.0];

/// Durations by bucket.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

impl Histogram {
    pub(crate) fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        for (count, _) in self.buckets.iter_mut().zip(BUCKETS).filter(|(_, end)| seconds <= *end) {
            *count += 1;
        }
        self.count += 1;
        self.seconds += seconds;
    }

    /// Writes it under a name; `labels` are empty or end with a comma.
    pub(crate) fn show(&self, name: &str, labels: &str, text: &mut String) {
        // Writing to a string does not fail.
        for (end, count) in BUCKETS.iter().zip(self.buckets) {
            _ = writeln!(text, "{name}_bucket{{{labels}le=\"{end}\"}} {count}");
        }
        _ = writeln!(text, "{name}_bucket{{{labels}le=\"+Inf\"}} {}", self.count);
        let labels = labels.strip_suffix(',').map_or(String::new(), |labels| format!("{{{labels}}}"));
        _ = writeln!(text, "{name}_sum{labels} {}\n{name}_count{labels} {}", self.seconds, self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_all_that_is_shorter() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::from_millis(1));
        histogram.add(Duration::from_secs(20));
        let mut text = String::new();
        histogram.show("x", "path=\"a\",", &mut text);
        assert!(text.contains("x_bucket{path=\"a\",le=\"0.0005\"} 0\n"), "{text}");
        assert!(text.contains("x_bucket{path=\"a\",le=\"0.001\"} 1\n"), "{text}");
        assert!(text.contains("x_bucket{path=\"a\",le=\"+Inf\"} 2\n"), "{text}");
        assert!(text.contains("x_sum{path=\"a\"} 20.001\nx_count{path=\"a\"} 2\n"), "{text}");
    }
}
