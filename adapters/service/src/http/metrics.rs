//! Counters and latencies, in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::brain::Figures;
use crate::desk::Measures;
use crate::histogram::Histogram;

/// Nodes that have numbers of their own.
const MOST_NODES: usize = 1000;

/// Requests answered since the process began.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    routes: Mutex<BTreeMap<(String, String), Route>>,
}

#[derive(Debug, Default)]
struct Route {
    statuses: BTreeMap<u16, u64>,
    latency: Histogram,
}

impl Metrics {
    pub(super) fn answered(&self, method: &str, path: &str, status: u16, took: Duration) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        // Methods that nobody knows are not counted one by one.
        let method = if matches!(method, "GET" | "POST" | "PUT" | "DELETE") { method } else { "other" };
        let route = routes.entry((path.to_owned(), method.to_owned())).or_default();
        *route.statuses.entry(status).or_default() += 1;
        route.latency.add(took);
    }

    pub(super) fn show(&self, figures: &Figures, measures: &Measures) -> String {
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
            ("journal_records_total", "Changes recorded since the process began", measures.records),
            ("journal_syncs_total", "Syncs of the journal that answers waited for", measures.syncs),
            ("snapshots_total", "Snapshots made since the process began", measures.snapshots),
        ];
        for (name, help, value) in counters {
            _ = writeln!(text, "# HELP mdts_{name} {help}\n# TYPE mdts_{name} counter\nmdts_{name} {value}");
        }
        let memory = resident_bytes();
        let gauges = [
            ("jobs_open", "Jobs that have not ended", figures.open_jobs),
            ("tasks_running", "Attempts that hold a node", figures.running),
            ("tasks_queued", "Tasks placed and not granted", figures.queued),
            ("tasks_unplaced", "Ready tasks asked for that the policy keeps back", figures.unplaced),
            ("predictor_samples", "Run times that predictions rest on", figures.predictor_samples),
            ("nodes_busy", "Nodes on which something runs", figures.busy),
            ("jobs_known", "Jobs that can be asked about", figures.known_jobs),
            ("graph_bytes", "Memory of the graphs of all jobs, by estimate", figures.graph_bytes),
            ("journal_bytes", "Size of the journal", measures.journal_bytes as usize),
            ("resident_bytes", "Memory of the process", memory),
        ];
        for (name, help, value) in gauges {
            _ = writeln!(text, "# HELP mdts_{name} {help}\n# TYPE mdts_{name} gauge\nmdts_{name} {value}");
        }
        _ = writeln!(text, "# HELP mdts_nodes Nodes by state\n# TYPE mdts_nodes gauge");
        for (state, count) in ["ready", "draining", "lost"].iter().zip(figures.nodes) {
            _ = writeln!(text, "mdts_nodes{{state=\"{state}\"}} {count}");
        }
        show_nodes(&figures.of_nodes, &mut text);
        let name = "mdts_decision_seconds";
        _ = writeln!(
            text,
            "# HELP {name} Time of changes in which the policy decided\n# TYPE {name} histogram"
        );
        measures.decisions.show(name, "", &mut text);
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
            route.latency.show(name, &format!("method=\"{method}\",path=\"{path}\","), text);
        }
    }
}

/// What runs and waits on every node.
fn show_nodes(nodes: &[(String, usize, usize)], text: &mut String) {
    let label = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"");
    for (metric, help) in [("running", "Attempts that hold the node"), ("queued", "Tasks that wait for it")] {
        let metric = format!("mdts_node_{metric}");
        _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} gauge");
        for (name, running, queued) in nodes.iter().take(MOST_NODES) {
            let count = if metric.ends_with("running") { running } else { queued };
            _ = writeln!(text, "{metric}{{node=\"{}\"}} {count}", label(name));
        }
    }
}

/// Memory of this process; 0 where the system does not tell.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * rustix::param::page_size()
}
