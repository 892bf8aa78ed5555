//! `mdts status --journal DIR [TASK]`: how a run stands, and why tasks are not running.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mdts_core::engine::Phase;
use mdts_core::journal::holder;
use mdts_core::runner::Obstacle;
use mdts_dag::TaskId;
use serde::Serialize;

use crate::error::Result;
use crate::journal::{Shown, remedy};
use crate::output;
use crate::text::{count, number};

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
    /// Seconds that the run has lasted by its journal.
    now: f64,
    /// Seconds that the rest takes at least along its longest path, by the expected run times.
    critical_path_seconds: f64,
    waiting: Vec<Waiting<'a>>,
}

#[derive(Debug, Serialize)]
struct Running<'a> {
    task: &'a str,
    attempt: u32,
    node: &'a str,
    start: f64,
    expected_finish: f64,
}

#[derive(Debug, Serialize)]
struct Waiting<'a> {
    task: &'a str,
    why: String,
    /// It waits for tasks that wait or run themselves.
    #[serde(skip)]
    is_for_parents: bool,
}

impl Status {
    pub(super) fn carry_out(&self) -> Result<()> {
        let shown = Shown::read(&self.journal)?;
        let only = self.task.as_deref().map(|name| shown.task(name)).transpose()?;
        let report = report(&shown, holder(&self.journal)?.is_some(), only);
        if self.json {
            return output::print_json(&report);
        }
        output::print(&match only {
            Some(task) => show_task(&shown, &report, task),
            None => show(&report, &self.journal),
        })
    }
}

fn report<'a>(shown: &'a Shown, is_held: bool, only: Option<TaskId>) -> Report<'a> {
    let (graph, standing) = (&shown.kept.job.graph, &shown.standing);
    let name = |task: TaskId| &*graph.task(task).name;
    let chosen = |task: &TaskId| only.is_none_or(|only| only == *task);
    let running = graph.task_ids().filter(chosen).filter(|task| standing.phase(*task) == Phase::Running);
    let running = running.filter_map(|task| {
        let attempt = standing.attempt(task)?;
        Some(Running {
            task: name(task),
            attempt: attempt.number,
            node: &shown.instance.cluster().node(attempt.node).name,
            start: attempt.start,
            expected_finish: attempt.start + shown.instance.exec(task, attempt.node),
        })
    });
    let begun = standing.state().job_count() > 0;
    let waiting = graph.task_ids().filter(chosen).filter_map(|task| {
        if !begun {
            let why = "the run has not begun".to_owned();
            return Some(Waiting { task: name(task), why, is_for_parents: false });
        }
        let obstacle = Obstacle::of(standing.state(), &shown.instance, task)?;
        let is_for_parents = matches!(obstacle, Obstacle::Parents(_));
        let why = obstacle.explain(&shown.instance).to_string();
        Some(Waiting { task: name(task), why, is_for_parents })
    });
    Report {
        job: graph.name(),
        policy: &shown.kept.policy,
        state: standing.end().unwrap_or_else(|| if is_held { "running" } else { "killed" }),
        process: standing.process(),
        tasks: graph.len(),
        succeeded: standing.count(Phase::Done),
        failed: standing.count(Phase::Failed),
        blocked: standing.count(Phase::Blocked),
        now: standing.state().now(),
        critical_path_seconds: critical_path(shown),
        running: running.collect(),
        waiting: waiting.collect(),
    }
}

/// Seconds along the longest path of what is not done, every task on its fastest node; what runs counts with what is
/// left of it.
fn critical_path(shown: &Shown) -> f64 {
    let (instance, standing) = (&shown.instance, &shown.standing);
    let mut behind = vec![0.0_f64; instance.tasks()];
    let mut longest = 0.0_f64;
    for &task in instance.graph().topological_order().iter().rev() {
        let own = match standing.phase(task) {
            Phase::Done | Phase::Failed | Phase::Blocked => continue,
            Phase::Running => standing.attempt(task).map_or(0.0, |attempt| {
                let left = attempt.start + instance.exec(task, attempt.node) - standing.state().now();
                left.max(0.0)
            }),
            Phase::Waiting | Phase::Ready => instance.min_exec(task),
        };
        let children = instance.graph().children(task).iter().map(|child| behind[child.index()]);
        behind[task.index()] = own + children.fold(0.0, f64::max);
        longest = longest.max(behind[task.index()]);
    }
    longest
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
        let (now, left) = (number(report.now), number(report.critical_path_seconds));
        line("time", format!("{now} s so far; the longest path of the rest takes {left} s"));
        line("", format!("it cannot end before {} s", number(report.now + report.critical_path_seconds)));
    }
    for running in report.running.iter().take(MOST) {
        let (start, finish) = (number(running.start), number(running.expected_finish));
        let (task, node) = (running.task, running.node);
        line(
            "running",
            format!(
                "{task}, attempt {} on {node} since {start} s, expected until {finish} s",
                running.attempt
            ),
        );
    }
    more(&mut line, report.running.len());
    // What blocks most tasks comes first.
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for waiting in report.waiting.iter().filter(|waiting| !waiting.is_for_parents) {
        reasons.entry(&waiting.why).or_default().push(waiting.task);
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

fn more(line: &mut impl FnMut(&str, String), of: usize) {
    if of > MOST {
        line("", format!("and {} more; --json has all", of - MOST));
    }
}

fn show_task(shown: &Shown, report: &Report<'_>, task: TaskId) -> String {
    let name = &shown.kept.job.graph.task(task).name;
    let attempt = shown.standing.attempt(task);
    let said = match shown.standing.phase(task) {
        Phase::Done => "it has succeeded".to_owned(),
        Phase::Failed => {
            let reason = shown.standing.reason(task).unwrap_or("nobody knows why");
            format!("it failed for good: {reason}")
        }
        Phase::Running => report.running.first().map_or_else(String::new, |running| {
            let (start, finish) = (number(running.start), number(running.expected_finish));
            format!("it runs on {} since {start} s, expected until {finish} s", running.node)
        }),
        _ => report.waiting.first().map_or_else(String::new, |waiting| waiting.why.clone()),
    };
    let attempts = attempt.map_or(String::new(), |a| format!(" ({})", count(a.number as usize, "attempt")));
    format!("{name}{attempts}: {said}\n")
}
