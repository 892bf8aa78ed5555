//! Counters and latencies, in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::brain::Figures;

/// Upper ends of the buckets, in seconds.
const BUCKETS: [f64; 12] = [1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 5e-2, 0.25, 1.0, 10.0];

/// Requests answered since the process began.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    routes: Mutex<BTreeMap<(String, String), Route>>,
}

#[derive(Debug, Default)]
struct Route {
    statuses: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    pub(super) fn answered(&self, method: &str, path: &str, status: u16, took: Duration) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        // Methods that nobody knows are not counted one by one.
        let method = if matches!(method, "GET" | "POST" | "PUT" | "DELETE") { method } else { "other" };
        let route = routes.entry((path.to_owned(), method.to_owned())).or_default();
        *route.statuses.entry(status).or_default() += 1;
        let seconds = took.as_secs_f64();
        for (count, _) in route.buckets.iter_mut().zip(BUCKETS).filter(|(_, end)| seconds <= *end) {
            *count += 1;
        }
        route.count += 1;
        route.seconds += seconds;
    }

    pub(super) fn show(&self, figures: &Figures) -> String {
        let mut text = String::new();
        let totals = &figures.totals;
        let counters = [
            ("jobs_total", "Jobs submitted", totals.jobs),
            ("tasks_total", "Tasks submitted", totals.tasks),
            ("grants_total", "Attempts granted", totals.grants),
            ("revoked_total", "Attempts that lost their node", totals.revoked),
            ("finished_total", "Attempts reported as finished", totals.finished),
            ("failed_total", "Attempts reported as failed", totals.failed),
            ("decision_steps_total", "Decision steps since the process began", figures.steps),
            ("decisions_total", "Placements decided since the process began", figures.decisions),
            ("fallbacks_total", "Decision steps that EFT had to decide", figures.fallbacks),
        ];
        for (name, help, value) in counters {
            _ = writeln!(text, "# HELP mdts_{name} {help}\n# TYPE mdts_{name} counter\nmdts_{name} {value}");
        }
        let gauges = [
            ("jobs_open", "Jobs that have not ended", figures.open_jobs),
            ("tasks_running", "Attempts that hold a node", figures.running),
            ("tasks_queued", "Tasks placed and not granted", figures.queued),
            ("predictor_samples", "Run times that predictions rest on", figures.predictor_samples),
        ];
        for (name, help, value) in gauges {
            _ = writeln!(text, "# HELP mdts_{name} {help}\n# TYPE mdts_{name} gauge\nmdts_{name} {value}");
        }
        _ = writeln!(text, "# HELP mdts_nodes Nodes by state\n# TYPE mdts_nodes gauge");
        for (state, count) in ["ready", "draining", "lost"].iter().zip(figures.nodes) {
            _ = writeln!(text, "mdts_nodes{{state=\"{state}\"}} {count}");
        }
        self.show_routes(&mut text);
        text
    }

    fn show_routes(&self, text: &mut String) {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        _ = writeln!(
            text,
            "# HELP mdts_requests_total Requests by status\n# TYPE mdts_requests_total counter"
        );
        for ((path, method), route) in &*routes {
            for (status, count) in &route.statuses {
                let labels = format!("method=\"{method}\",path=\"{path}\",status=\"{status}\"");
                _ = writeln!(text, "mdts_requests_total{{{labels}}} {count}");
            }
        }
        let name = "mdts_request_seconds";
        _ = writeln!(text, "# HELP {name} Time from request to answer\n# TYPE {name} histogram");
        for ((path, method), route) in &*routes {
            let labels = format!("method=\"{method}\",path=\"{path}\"");
            for (end, count) in BUCKETS.iter().zip(route.buckets) {
                _ = writeln!(text, "{name}_bucket{{{labels},le=\"{end}\"}} {count}");
            }
            _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", route.count);
            _ = writeln!(
                text,
                "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {}",
                route.seconds, route.count
            );
        }
    }
}
