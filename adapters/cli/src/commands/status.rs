//! `mdts status --journal DIR [TASK]`: how a run stands, and why tasks are not running.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mdts_core::engine::Phase;
use mdts_core::journal::{events_file, holder};
use mdts_core::runner::{Obstacle, Obstacles};
use mdts_dag::TaskId;
use serde::Serialize;

use crate::error::Result;
use crate::forecast::Forecast;
use crate::journal::{Shown, remedy};
use crate::output;
use crate::progress::duration;
use crate::text::{count, number};

/// From here on a pace is worth a line.
const NOTABLE: f64 = 0.05;
/// Most tasks of a kind that are listed.
const MOST: usize = 10;

/// Arguments of `mdts status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Folder of the run
    #[arg(long, value_name = "DIR")]
    journal: PathBuf,
    /// Tell of this task alone
    task: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    job: &'a str,
    policy: &'a str,
    /// `running`, `killed` if its process is gone without a word, else why it stopped.
    state: &'a str,
    process: Option<u32>,
    tasks: usize,
    succeeded: usize,
    failed: usize,
    blocked: usize,
    running: Vec<Running<'a>>,
    /// Seconds that the run has lasted; the clock stands still while no process is at it.
    now: f64,
    /// Seconds that done tasks took over those that they should have taken.
    pace: f64,
    /// When the run should end at that pace, on this clock; null if it is over or that cannot be told.
    expected_end: Option<f64>,
    /// Seconds that the rest takes at least along its longest path, by the expected run times.
    critical_path_seconds: f64,
    /// The tasks of that path, in order.
    critical_path: Vec<&'a str>,
    waiting: Vec<Waiting<'a>>,
    /// The attempt of the task asked for that ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    latest: Option<Latest<'a>>,
}

#[derive(Debug, Serialize)]
struct Latest<'a> {
    attempt: u32,
    node: &'a str,
    start: f64,
    finish: f64,
    /// Of all its processes; null if it is not known.
    cpu_seconds: Option<f64>,
    /// Most bytes of memory at a time; null if it is not known.
    peak_memory: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Running<'a> {
    task: &'a str,
    attempt: u32,
    node: &'a str,
    start: f64,
    /// Seconds that it has run so far, and should run in all.
    elapsed: f64,
    expected_seconds: f64,
    expected_finish: f64,
}

#[derive(Debug, Serialize)]
struct Waiting<'a> {
    task: &'a str,
    why: String,
    /// The same for all that wait for the same thing.
    #[serde(skip)]
    kind: String,
    /// It waits for tasks that wait or run themselves.
    #[serde(skip)]
    is_for_parents: bool,
}

impl Status {
    pub(super) fn carry_out(&self) -> Result<()> {
        let shown = Shown::read(&self.journal)?;
        let only = self.task.as_deref().map(|name| shown.task(name)).transpose()?;
        let report = report(&shown, now(&shown, &self.journal)?, only)?;
        if self.json {
            return output::print_json(&report);
        }
        output::print(&match only {
            Some(task) => show_task(&shown, &report, task),
            None => show(&report, &self.journal),
        })
    }
}

/// Time on the clock of the run, and whether a process is at it.
fn now(shown: &Shown, folder: &Path) -> Result<(f64, bool)> {
    let last = shown.standing.state().now();
    if holder(folder)?.is_none() {
        return Ok((last, false));
    }
    // The last event was recorded when it happened.
    let written = std::fs::metadata(events_file(folder)).and_then(|file| file.modified());
    let since = written.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
    Ok((last + since.as_secs_f64(), true))
}

fn report(shown: &Shown, (now, is_held): (f64, bool), only: Option<TaskId>) -> Result<Report<'_>> {
    let (graph, standing) = (&shown.kept.job.graph, &shown.standing);
    let name = |task: TaskId| &*graph.task(task).name;
    let scale = shown.kept.emulate.unwrap_or(1.0);
    let begun = standing.state().job_count() > 0;
    let forecast = begun.then(|| Forecast::new(standing.state(), &shown.instance, now, scale)).transpose()?;
    let chosen = |task: &TaskId| only.is_none_or(|only| only == *task);
    let running = graph.task_ids().filter(chosen).filter(|task| standing.phase(*task) == Phase::Running);
    let attempts = |task| [standing.attempt(task), standing.second_attempt(task)].into_iter().flatten();
    let running = running.flat_map(|task| attempts(task).map(move |attempt| (task, attempt)));
    let running = running.map(|(task, attempt)| Running {
        task: name(task),
        attempt: attempt.number,
        node: &shown.instance.cluster().node(attempt.node).name,
        start: attempt.start,
        elapsed: (now - attempt.start).max(0.0),
        expected_seconds: shown.instance.exec(task, attempt.node) * scale,
        expected_finish: attempt.start + shown.instance.exec(task, attempt.node) * scale,
    });
    let obstacles = Obstacles::new(standing.state(), &shown.instance, now);
    let waiting = graph.task_ids().filter(chosen).filter_map(|task| {
        if !begun {
            let why = "the run has not begun".to_owned();
            return Some(Waiting { task: name(task), kind: why.clone(), why, is_for_parents: false });
        }
        let obstacle = obstacles.of(task)?;
        let is_for_parents = matches!(obstacle, Obstacle::Parents(_));
        let why = obstacle.explain(&shown.instance).to_string();
        let kind = match &obstacle {
            Obstacle::Behind { node, .. } => {
                let node = &shown.instance.cluster().node(*node).name;
                format!("on '{node}' tasks that were placed earlier come first")
            }
            Obstacle::Resting { .. } => "failed tasks rest before they are repeated".to_owned(),
            _ => why.clone(),
        };
        Some(Waiting { task: name(task), why, kind, is_for_parents })
    });
    Ok(Report {
        job: graph.name(),
        policy: &shown.kept.policy,
        state: standing.end().unwrap_or(if is_held { "running" } else { "killed" }),
        process: standing.process(),
        tasks: graph.len(),
        succeeded: standing.count(Phase::Done),
        failed: standing.count(Phase::Failed),
        blocked: standing.count(Phase::Blocked),
        now,
        pace: forecast.as_ref().map_or(1.0, |forecast| forecast.pace),
        expected_end: forecast.as_ref().and_then(|forecast| forecast.end),
        critical_path_seconds: forecast.as_ref().map_or(0.0, |forecast| forecast.path_seconds),
        critical_path: forecast.iter().flat_map(|forecast| &forecast.path).map(|task| name(*task)).collect(),
        running: running.collect(),
        waiting: waiting.collect(),
        latest: only.and_then(|task| latest(shown, task)),
    })
}

fn latest(shown: &Shown, task: TaskId) -> Option<Latest<'_>> {
    let has_ended = matches!(shown.standing.phase(task), Phase::Done | Phase::Failed);
    let attempt = shown.standing.attempt(task).filter(|_| has_ended)?;
    Some(Latest {
        attempt: attempt.number,
        node: &shown.instance.cluster().node(attempt.node).name,
        start: attempt.start,
        finish: attempt.finish,
        cpu_seconds: attempt.usage.map(|usage| usage.cpu_seconds),
        peak_memory: attempt.usage.map(|usage| usage.peak_memory),
    })
}

impl Latest<'_> {
    fn told(&self) -> String {
        let mut text = format!("on {} in {} s", self.node, number(self.finish - self.start));
        if let (Some(cpu), Some(peak)) = (self.cpu_seconds, self.peak_memory) {
            let mebibytes = peak as f64 / f64::from(1 << 20);
            _ = write!(text, "; {} s of processor time, {mebibytes:.1} MiB of memory at most", number(cpu));
        }
        text
    }
}

fn show(report: &Report<'_>, folder: &Path) -> String {
    let remedy = remedy(folder);
    let ended = report.succeeded + report.failed + report.blocked;
    let mut text = format!("{}: {}, under {}\n", report.job, count(report.tasks, "task"), report.policy);
    let mut line = |what: &str, value: String| _ = writeln!(text, "  {what:<12}{value}");
    let process = report.process.map_or(String::new(), |process| format!(" (process {process})"));
    line(
        "state",
        match report.state {
            "running" => format!("running{process}"),
            "killed" => format!("killed or crashed; {remedy}"),
            "complete" => "complete".to_owned(),
            why => format!("stopped: {why}; {remedy}"),
        },
    );
    let waiting = report.tasks - ended - report.running.len();
    line(
        "tasks",
        format!(
            "{} succeeded, {} failed, {} blocked behind them, {} running, {waiting} waiting",
            report.succeeded,
            report.failed,
            report.blocked,
            report.running.len()
        ),
    );
    if ended < report.tasks {
        let end = report.expected_end.map_or(String::new(), |end| {
            let left = duration(end - report.now);
            match report.state {
                "running" => format!("; expected to end at {} s, about {left} from now", number(end)),
                _ => format!("; about {left} more when it goes on"),
            }
        });
        line("time", format!("{} s so far{end}", number(report.now)));
        if (report.pace - 1.0).abs() >= NOTABLE {
            line("", format!("tasks took {:.2} times their expected time", report.pace));
        }
        line(
            "path",
            format!(
                "at least {} s more: {}",
                number(report.critical_path_seconds),
                chain(&report.critical_path)
            ),
        );
    }
    for running in report.running.iter().take(MOST) {
        line("running", format!("{}, attempt {} on {}", running.task, running.attempt, running.told()));
    }
    more(&mut line, report.running.len());
    // What blocks most tasks comes first.
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for waiting in report.waiting.iter().filter(|waiting| !waiting.is_for_parents) {
        reasons.entry(&waiting.kind).or_default().push(waiting.task);
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, tasks)| std::cmp::Reverse(tasks.len()));
    for (why, tasks) in reasons.iter().take(MOST) {
        let others = match tasks.len() - 1 {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        line("waiting", format!("{}{others}: {why}", tasks[0]));
    }
    more(&mut line, reasons.len());
    let behind = report.waiting.iter().filter(|waiting| waiting.is_for_parents).count();
    if behind > 0 {
        line(
            "waiting",
            format!("{} for tasks before them; mdts status ... TASK tells for which", count(behind, "task")),
        );
    }
    text
}

impl Running<'_> {
    fn told(&self) -> String {
        let (elapsed, expected) = (number(self.elapsed), number(self.expected_seconds));
        let late = if self.elapsed > self.expected_seconds { ", late" } else { "" };
        format!("{} for {elapsed} of {expected} s{late}", self.node)
    }
}

/// The first and the last tasks of a path.
fn chain(path: &[&str]) -> String {
    const ENDS: usize = 3;
    if path.len() <= 2 * ENDS + 1 {
        return path.join(" > ");
    }
    let (first, last) = (path[..ENDS].join(" > "), path[path.len() - ENDS..].join(" > "));
    format!("{first} > ({} more) > {last}", path.len() - 2 * ENDS)
}

fn more(line: &mut impl FnMut(&str, String), of: usize) {
    if of > MOST {
        line("", format!("and {} more; --json has all", of - MOST));
    }
}

fn show_task(shown: &Shown, report: &Report<'_>, task: TaskId) -> String {
    let name = &shown.kept.job.graph.task(task).name;
    let attempt = shown.standing.attempt(task);
    let latest = report.latest.as_ref().filter(|latest| latest.peak_memory.is_some());
    let told = |before: &str| latest.map_or(String::new(), |latest| format!("{before}{}", latest.told()));
    let said = match shown.standing.phase(task) {
        Phase::Done => format!("it has succeeded{}", told(" ")),
        Phase::Failed => {
            let reason = shown.standing.reason(task).unwrap_or("nobody knows why");
            format!("it failed for good: {reason}{}", told("; the last attempt ended "))
        }
        Phase::Running => report
            .running
            .first()
            .map_or_else(String::new, |running| format!("it runs on {}", running.told())),
        _ => report.waiting.first().map_or_else(String::new, |waiting| waiting.why.clone()),
    };
    let attempts = attempt.map_or(String::new(), |a| format!(" ({})", count(a.number as usize, "attempt")));
    format!("{name}{attempts}: {said}\n")
}
