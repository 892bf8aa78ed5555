//! `mdts run --dry-run`: what would run, where, and why.

use std::fmt::Write as _;
use std::path::Path;

use mdts_core::Instance;
use mdts_dag::TaskId;
use serde::Serialize;

use crate::cache::{Cache, Verdict};
use crate::input::Job;
use crate::policy::Plan;
use crate::text::{Table, column, count, number};

/// What is told of a run that does not happen.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    dag: &'a str,
    policy: &'static str,
    nodes: usize,
    planned_makespan: f64,
    cache: Option<&'a Path>,
    /// Number of tasks that would run.
    run: usize,
    /// Number of those that need not, outputs to bring back or not.
    up_to_date: usize,
    /// By planned start.
    tasks: Vec<Told<'a>>,
}

#[derive(Debug, Serialize)]
struct Told<'a> {
    task: &'a str,
    action: Action,
    /// Null if there is no cache.
    why: Option<String>,
    node: &'a str,
    start: f64,
    finish: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Action {
    Run,
    /// Outputs that are missing or changed come from the cache.
    Restore,
    UpToDate,
}

impl Action {
    fn words(self) -> &'static str {
        match self {
            Self::Run => "  run",
            Self::Restore => "  restore",
            Self::UpToDate => "  up to date",
        }
    }
}

/// Looks at every task. O(tasks + edges), and what looking at their files costs.
pub(super) fn report<'a>(
    job: &'a Job,
    instance: &'a Instance,
    plan: &Plan,
    cache: Option<(&Cache, &'a Path)>,
) -> Report<'a> {
    let graph = instance.graph();
    let mut actions = vec![(Action::Run, None); instance.tasks()];
    if let Some((cache, _)) = cache {
        for &task in graph.topological_order() {
            let runs = |parent: &&TaskId| actions[parent.index()].0 == Action::Run;
            actions[task.index()] = match graph.parents(task).iter().find(runs) {
                Some(parent) => {
                    (Action::Run, Some(format!("depends on '{}', which runs", graph.task_name(*parent))))
                }
                None => judge(cache.verdict(&job.graph, task)),
            };
        }
    }
    let mut placements = plan.schedule.placements().to_vec();
    placements.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.task.cmp(&b.task)));
    let tasks = placements.iter().map(|p| {
        let (action, why) = std::mem::replace(&mut actions[p.task.index()], (Action::Run, None));
        let node = &instance.cluster().node(p.node).name;
        Told { task: graph.task_name(p.task), action, why, node, start: p.start, finish: p.finish }
    });
    let tasks: Vec<Told<'_>> = tasks.collect();
    let run = tasks.iter().filter(|told| told.action == Action::Run).count();
    Report {
        dag: job.graph.name(),
        policy: plan.policy,
        nodes: instance.nodes(),
        planned_makespan: plan.objectives.makespan,
        cache: cache.map(|(_, folder)| folder),
        run,
        up_to_date: tasks.len() - run,
        tasks,
    }
}

fn judge(verdict: Verdict) -> (Action, Option<String>) {
    match verdict {
        Verdict::Runs(why) => (Action::Run, Some(why.to_string())),
        Verdict::Current(lacking) => match &lacking[..] {
            [] => (Action::UpToDate, None),
            [output] => (Action::Restore, Some(format!("output '{}' comes from the cache", output.name))),
            [output, others @ ..] => {
                let others = others.len();
                (
                    Action::Restore,
                    Some(format!("output '{}' and {others} more come from the cache", output.name)),
                )
            }
        },
    }
}

/// The report for people.
pub(super) fn show(report: &Report<'_>) -> String {
    let mut text =
        format!("{}: {} of {} would run", report.dag, report.run, count(report.tasks.len(), "task"));
    _ = match report.cache {
        Some(folder) => writeln!(text, "; cache {}", folder.display()),
        None => writeln!(text, "; --cache DIR skips those whose inputs have not changed"),
    };
    _ = writeln!(
        text,
        "  planned by {} on {}: {} s if all run\n",
        report.policy,
        count(report.nodes, "node"),
        number(report.planned_makespan)
    );
    let starts = column(&report.tasks.iter().map(|told| told.start).collect::<Vec<_>>());
    let mut table = Table::new(["  what", "task", "node", ">from s", "why"]);
    for (told, start) in report.tasks.iter().zip(starts) {
        let place =
            if told.action == Action::Run { (told.node.to_owned(), start) } else { Default::default() };
        let why = told.why.clone().unwrap_or_default();
        table.row([told.action.words().to_owned(), told.task.to_owned(), place.0, place.1, why]);
    }
    text + &table.show()
}
