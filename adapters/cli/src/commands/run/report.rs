//! What is told of a plan, and of what came of the run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use mdts_core::Placement;
use mdts_core::runner::{RunReport, TaskOutcome};
use mdts_dag::{JobGraph, TaskId};
use mdts_local::log_files;
use mdts_slurm::SlurmSummary;
use serde::{Serialize, Serializer};

use super::ready::Ready;
use crate::choice::Choice;
use crate::commands::plan::above_bound;
use crate::error::Result;
use crate::gantt::Chart;
use crate::journal::remedy;
use crate::policy::{self, Policy};
use crate::text::{Table, column, count, number};
use crate::usage::Usage;

/// What the plan is shown beside.
const BASELINES: [&str; 4] = ["eft", "fastest-node", "round-robin", "random"];
/// Most failures that are listed.
const MOST_FAILURES: usize = 10;

/// A superset of the stable keys.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    dag: &'a str,
    policy: &'static str,
    nodes: usize,
    slots: &'static str,
    data: &'static str,
    seed: u64,
    /// Seconds, those of the emulation if it is one.
    makespan: f64,
    planned_makespan: f64,
    lower_bound: f64,
    pub(super) tasks: usize,
    pub(super) succeeded: usize,
    failed: usize,
    blocked: usize,
    cancelled: usize,
    retried: usize,
    /// Attempts begun beside one that ran for too long.
    speculated: usize,
    end: &'static str,
    failures: Vec<Failure<'a>>,
    overhead_per_task_us: f64,
    /// Null where the system does not tell.
    peak_memory_mib: Option<f64>,
    /// Processor time of the last attempts of all tasks, as far as known; null if of none.
    tasks_cpu_seconds: Option<f64>,
    /// Most memory of one of them; null if it is of none known.
    tasks_peak_memory_mib: Option<f64>,
    /// Tasks that did not run because the cache had their outputs.
    pub(super) cached: usize,
    /// Tasks that were done before this process went on with the run.
    done_before: usize,
    /// Folder where the run is recorded; null if it is not.
    journal: Option<Text<&'a Path>>,
    /// What Slurm was asked; absent if the tasks did not run through it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slurm: Option<SlurmSummary>,
}

#[derive(Debug, Serialize)]
struct Failure<'a> {
    task: &'a str,
    reason: &'a str,
    /// Where its error output is; null if it left none, as in an emulation.
    log: Option<Text<PathBuf>>,
}

/// A path that becomes text in JSON, which has none that are not UTF-8.
#[derive(Debug)]
struct Text<P>(P);

impl<P: AsRef<Path>> Serialize for Text<P> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.as_ref().to_string_lossy())
    }
}

impl Ready {
    /// What came of a run that has used so much.
    pub(super) fn report<'a>(&'a self, run: &'a RunReport, usage: Usage) -> Report<'a> {
        let graph = &self.work.job.graph;
        let failures = run.failures().map(|(task, reason)| Failure {
            task: &graph.task(task).name,
            reason,
            log: self
                .work
                .emulate
                .is_none()
                .then(|| self.log(graph, run, task))
                .filter(|log| log.exists())
                .map(Text),
        });
        let used = || run.tasks.iter().filter_map(|task| task.usage);
        let most = used().map(|usage| usage.peak_memory).max();
        let peak = most.filter(|bytes| *bytes > 0); // 0: less than mdts itself
        Report {
            tasks_cpu_seconds: most.map(|_| used().map(|usage| usage.cpu_seconds).sum()),
            tasks_peak_memory_mib: peak.map(|bytes| bytes as f64 / f64::from(1 << 20)),
            dag: graph.name(),
            policy: self.plan.policy,
            nodes: self.work.instance.nodes(),
            slots: self.work.instance.slots().word(),
            data: self.work.instance.data().word(),
            seed: self.settings.seed,
            makespan: run.makespan,
            planned_makespan: self.plan.objectives.makespan * self.scale(),
            lower_bound: self.plan.lower_bound() * self.scale(),
            tasks: run.tasks.len(),
            succeeded: run.succeeded(),
            failed: run.failed(),
            blocked: run.blocked(),
            cancelled: run.cancelled(),
            retried: run.retried(),
            speculated: run.speculated,
            end: run.end.word(),
            failures: failures.collect(),
            overhead_per_task_us: usage.cpu_seconds * 1e6 / run.tasks.len() as f64,
            peak_memory_mib: usage.peak_memory_mib,
            cached: self.cached.load(Ordering::Relaxed),
            done_before: run.done_before,
            journal: self.journal.as_deref().map(Text),
            slurm: None,
        }
    }

    fn log(&self, graph: &JobGraph, run: &RunReport, task: TaskId) -> PathBuf {
        log_files(&self.settings.logs, graph, task, run.tasks[task.index()].attempts).err
    }

    /// A picture of it.
    pub(super) fn chart(&self, run: &RunReport, report: &Report<'_>) -> Chart {
        let title = format!("{} run under {}", report.dag, report.policy);
        let subtitle = format!(
            "{} of {} succeeded; makespan {} s, planned {} s, lower bound {} s",
            report.succeeded,
            count(report.tasks, "task"),
            number(report.makespan),
            number(report.planned_makespan),
            number(report.lower_bound)
        );
        let attempts = run.tasks.iter().enumerate().filter_map(|(i, task)| {
            let node = task.node?;
            let failed = task.outcome != TaskOutcome::Succeeded;
            Some((Placement { task: TaskId::new(i), node, start: task.start, finish: task.finish }, failed))
        });
        let mut chart = Chart::new(&self.work.instance, title, subtitle, report.lower_bound);
        chart.add(&self.work.instance, attempts);
        chart
    }
}

/// The plan against the lower bound and simple policies.
pub(super) fn show_plan(ready: &Ready) -> Result<String> {
    let graph = &ready.work.job.graph;
    let (name, makespan) = (ready.plan.policy, ready.plan.objectives.makespan);
    let mut text = format!(
        "{}: {}, {}; {}: {}, {} slots\n",
        graph.name(),
        count(graph.len(), "task"),
        count(graph.dependency_count(), "edge"),
        ready.work.machines.label,
        count(ready.work.instance.nodes(), "node"),
        ready.work.instance.slots().word()
    );
    _ = writeln!(
        text,
        "  planned by {name} in {:.3} ms: {} s, verified",
        ready.plan.seconds * 1e3,
        number(makespan)
    );
    if let Some(trace) = ready.plan.search {
        _ = writeln!(text, "  {}", trace.told(makespan));
    }
    _ = writeln!(
        text,
        "  lower bound {}\n",
        above_bound(makespan, ready.plan.lower_bound(), ready.plan.is_optimal())
    );
    let mut rows = vec![(name, makespan, ready.plan.objectives.slr)];
    for name in BASELINES.into_iter().filter(|known| *known != name) {
        let plan =
            policy::plan(&Policy::new(policy::find(name)?, None), ready.settings.seed, &ready.work.instance)?;
        rows.push((name, plan.objectives.makespan, plan.objectives.slr));
    }
    let numbers = |value: fn(&(&str, f64, f64)) -> f64| column(&rows.iter().map(value).collect::<Vec<_>>());
    let (makespans, slrs) = (numbers(|r| r.1), numbers(|r| r.2));
    let mut table = Table::new(["  plan by", ">makespan s", ">vs this plan", ">SLR"]);
    for (i, row) in rows.iter().enumerate() {
        let above = if makespan > 0.0 { (row.1 / makespan - 1.0) * 100.0 } else { 0.0 };
        let against = if i == 0 { String::new() } else { format!("{above:+.1} %") };
        table.row([format!("  {}", row.0), makespans[i].clone(), against, slrs[i].clone()]);
    }
    Ok(text + &table.show() + "\n")
}

pub(super) fn show_report(report: &Report<'_>, scale: f64) -> String {
    let mut text = String::new();
    let mut line = |what: &str, value: String| _ = writeln!(text, "  {what:<12}{value}");
    let emulated =
        if scale == 1.0 { String::new() } else { format!(" (the plan's seconds times {})", number(scale)) };
    line(
        "makespan",
        format!(
            "{} s; planned {} s, lower bound {} s{emulated}",
            number(report.makespan),
            number(report.planned_makespan),
            number(report.lower_bound)
        ),
    );
    if report.makespan < report.lower_bound && report.succeeded == report.tasks && report.cached == 0 {
        line("", "faster than the lower bound: the tasks took less than their stated work".into());
    }
    let mut counts = format!("{} of {} succeeded", report.succeeded, report.tasks);
    let others = [
        (report.failed, "failed"),
        (report.blocked, "blocked behind them"),
        (report.cancelled, "cancelled"),
        (report.retried, "attempts repeated"),
        (report.speculated, "second attempts"),
        (report.cached, "from the cache"),
    ];
    for (n, what) in others.into_iter().filter(|(n, _)| *n > 0) {
        _ = write!(counts, ", {n} {what}");
    }
    if report.done_before > 0 {
        _ = write!(counts, "; {} before this process went on", report.done_before);
    }
    line("tasks", counts);
    if let Some(Text(folder)) = report.journal.as_ref().filter(|_| report.cancelled > 0) {
        line("", remedy(folder));
    }
    line(
        "overhead",
        format!(
            "{} us of processor time per task{}",
            number(report.overhead_per_task_us.round()),
            report
                .peak_memory_mib
                .map_or(String::new(), |m| format!(", {} MiB of memory at most", number(m.round())))
        ),
    );
    if let (Some(cpu), Some(most)) = (report.tasks_cpu_seconds, report.tasks_peak_memory_mib) {
        line(
            "used",
            format!("{} s of processor time by tasks, {most:.1} MiB of memory by one at most", number(cpu)),
        );
    }
    if let Some(slurm) = &report.slurm {
        let (waves, submissions) = (slurm.waves as usize, slurm.submissions as usize);
        let looks = count(slurm.polls as usize, "look");
        line(
            "slurm",
            format!("{} in {}, {looks} at the queue", count(submissions, "submission"), count(waves, "wave")),
        );
        for moved in slurm.moved.iter().take(MOST_FAILURES) {
            line("", moved.replace(char::is_control, " "));
        }
        if slurm.moved.len() > MOST_FAILURES {
            line("", format!("and {} more", slurm.moved.len() - MOST_FAILURES));
        }
    }
    text + &show_failures(report)
}

/// The first tasks that failed for good, with reason and log.
pub(super) fn show_failures(report: &Report<'_>) -> String {
    let mut text = String::new();
    for failure in report.failures.iter().take(MOST_FAILURES) {
        let log = failure.log.as_ref().map_or(String::new(), |log| format!("; see {}", log.0.display()));
        let task = failure.task.replace(char::is_control, " "); // it is from a file
        _ = writeln!(text, "  failed      {task}: {}{log}", failure.reason);
    }
    if report.failures.len() > MOST_FAILURES {
        _ = writeln!(text, "  and {} more", report.failures.len() - MOST_FAILURES);
    }
    text
}
