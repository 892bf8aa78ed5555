//! `mdts plan DAG`: one policy's verified schedule against the lower bound, improved by a search if asked for.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mdts_core::{Bounds, Instance, Objectives, SlotModel};
use mdts_dag::{JobGraph, TaskId, Work};
use serde::Serialize;

use crate::choice::Choice;
use crate::error::{Error, Result};
use crate::gantt::{self, Chart, Form};
use crate::history::{self, HistoryFlag};
use crate::input::{self, Machines};
use crate::interrupt::Interrupts;
use crate::output::{self, OutputFile};
use crate::policy::{self, Policy};
use crate::search::{self, SearchFlags, Trace};
use crate::settings::{ModelFlags, OtherFlags, Settings};
use crate::text::{Table, column, count, meter, number};
use crate::weights::WeightsFlag;

/// Stands for standard output.
const STDOUT: &str = "-";
/// What is said when Ctrl-C was pressed.
const SAID: &str = "interrupted: the search ends with the best plan so far; press Ctrl-C again for none";
/// Most nodes in the table of utilisation.
const MOST_NODES: usize = 24;

/// Arguments of `mdts plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = search::HELP)]
pub(crate) struct Plan {
    /// Workflow file; default: a built-in example
    dag: Option<PathBuf>,
    /// Policy, see mdts policies; a search starts from its plan if no list policy has a shorter one [default: heft]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    #[command(flatten)]
    search: SearchFlags,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    history: HistoryFlag,
    #[command(flatten)]
    weights: WeightsFlag,
    /// Write the plan as JSON; - prints it, as --json does
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw the plan as .svg or .html
    #[arg(long, value_name = "FILE")]
    gantt: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A superset of the stable keys.
#[derive(Debug, Serialize)]
struct Report<'a> {
    dag: &'a str,
    policy: &'static str,
    tasks: usize,
    edges: usize,
    nodes: usize,
    slots: &'static str,
    data: &'static str,
    seed: u64,
    makespan: f64,
    slr: f64,
    lower_bound: f64,
    lower_bounds: Bounds,
    optimal: bool,
    objectives: Objectives,
    plan_seconds: f64,
    verified: bool,
    #[serde(flatten)]
    search: Option<SearchReport>,
    /// Tasks whose run times the workflow does not tell and the history does.
    predicted: Vec<&'a str>,
    placements: Vec<Named<'a>>,
}

/// Keys of a plan that was searched for.
#[derive(Debug, Serialize)]
struct SearchReport {
    start: StartReport,
    iterations: u64,
    /// Null if iterations were counted.
    budget_seconds: Option<f64>,
    interrupted: bool,
}

#[derive(Debug, Serialize)]
struct StartReport {
    policy: &'static str,
    makespan: f64,
}

impl From<Trace> for SearchReport {
    fn from(trace: Trace) -> Self {
        Self {
            start: StartReport { policy: trace.start, makespan: trace.start_makespan },
            iterations: trace.iterations,
            budget_seconds: trace.budget_seconds,
            interrupted: trace.was_interrupted,
        }
    }
}

#[derive(Debug, Serialize)]
struct Named<'a> {
    task: &'a str,
    node: &'a str,
    start: f64,
    finish: f64,
}

impl Plan {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<()> {
        let other = OtherFlags {
            policy: self.policy.as_deref(),
            history: self.history.path(),
            weights: self.weights.path(),
            ..OtherFlags::default()
        };
        let settings = Settings::load(&self.model, other)?;
        let info = policy::find(&settings.policy).map_err(|error| settings.blame("policy", error))?;
        let policy = Policy::new(info, self.weights.load(&[info.name], &settings)?.as_ref());
        if let (Some(plan), Some(gantt)) = (&self.output, &self.gantt)
            && plan == gantt
        {
            let path = plan.display();
            return Err(Error::Usage(format!(
                "-o and --gantt both name {path}; give each a file of its own"
            )));
        }
        let form = self.gantt.as_deref().map(Form::of).transpose()?;
        let gantt = OutputFile::create_if(self.gantt.as_deref())?;
        let is_printed = self.json || self.output.as_deref() == Some(Path::new(STDOUT));
        let plan_file = self.output.as_deref().filter(|path| *path != Path::new(STDOUT));
        let plan_file = OutputFile::create_if(plan_file)?;
        let read = input::job(self.dag.as_deref())?;
        let unknown: Vec<TaskId> =
            read.graph.task_ids().filter(|task| read.graph.task(*task).work == Work::Unknown).collect();
        let unknown = if settings.history.is_some() { unknown } else { Vec::new() };
        let job = history::fill(read, &settings)?;
        let machines = input::machines_for(&settings, self.dag.as_deref())?;
        let instance = input::instance(&job, &machines, settings.data_model)?;

        let search = self.search.search(&policy, &instance);
        let interrupts = search.map(|_| Interrupts::watch(SAID)).transpose()?;
        let plan = match search {
            Some(search) => {
                search::plan(search, &policy, settings.seed, &instance, quiet, interrupts.as_ref())?
            }
            None => policy::plan(&policy, settings.seed, &instance)?,
        };
        let report = report(&job.graph, &instance, settings.seed, &plan, &unknown);
        let mut text =
            if quiet || self.json { String::new() } else { show(&report, &instance, &machines, &plan) };
        if let Some(file) = plan_file {
            _ = writeln!(text, "wrote {}", file.path().display());
            file.write(&output::json(&report).map_err(|e| Error::Stdout(e.into()))?)?;
        }
        if let (Some(file), Some(form)) = (gantt, form) {
            _ = writeln!(text, "wrote {}", file.path().display());
            file.write(&gantt::draw(&chart(&report, &instance, &plan), form))?;
        }
        match (is_printed, quiet) {
            (true, _) => output::print_json(&report),
            (false, true) => Ok(()),
            (false, false) => output::print(&text),
        }
    }
}

fn report<'a>(
    job: &'a JobGraph,
    instance: &'a Instance,
    seed: u64,
    plan: &policy::Plan,
    predicted: &[TaskId],
) -> Report<'a> {
    let graph = instance.graph();
    let named = |p: &mdts_core::Placement| Named {
        task: graph.task_name(p.task),
        node: &instance.cluster().node(p.node).name,
        start: p.start,
        finish: p.finish,
    };
    Report {
        dag: job.name(),
        policy: plan.policy,
        tasks: instance.tasks(),
        edges: graph.edge_count(),
        nodes: instance.nodes(),
        slots: instance.slots().word(),
        data: instance.data().word(),
        seed,
        makespan: plan.objectives.makespan,
        slr: plan.objectives.slr,
        lower_bound: plan.lower_bound(),
        lower_bounds: plan.bounds,
        optimal: plan.is_optimal(),
        objectives: plan.objectives,
        plan_seconds: plan.seconds,
        verified: true, // nothing else comes this far
        search: plan.search.map(SearchReport::from),
        predicted: predicted.iter().map(|task| graph.task_name(*task)).collect(),
        placements: plan.schedule.placements().iter().map(named).collect(),
    }
}

fn chart(report: &Report<'_>, instance: &Instance, plan: &policy::Plan) -> Chart {
    let title = format!("{} planned by {}", report.dag, report.policy);
    let subtitle = format!(
        "{} on {}, {} slots; makespan {} s, lower bound {} s, SLR {}",
        count(report.tasks, "task"),
        count(report.nodes, "node"),
        report.slots,
        number(report.makespan),
        number(report.lower_bound),
        number(report.slr)
    );
    let mut chart = Chart::new(instance, title, subtitle, report.lower_bound);
    chart.add(instance, plan.schedule.placements().iter().map(|p| (*p, false)));
    chart
}

fn show(report: &Report<'_>, instance: &Instance, machines: &Machines, plan: &policy::Plan) -> String {
    let mut text = format!(
        "{}: {}, {}; {}: {}, {} slots, data by {}\n",
        report.dag,
        count(report.tasks, "task"),
        count(report.edges, "edge"),
        machines.label,
        count(report.nodes, "node"),
        report.slots,
        report.data,
    );
    _ = writeln!(text, "  policy       {}, planned in {:.3} ms", report.policy, report.plan_seconds * 1e3);
    if let Some(trace) = plan.search {
        _ = writeln!(text, "  search       {}", trace.told(report.makespan));
    }
    _ = writeln!(text, "  makespan     {} s, verified", number(report.makespan));
    _ = writeln!(text, "  lower bound  {}", above_bound(report.makespan, report.lower_bound, report.optimal));
    _ = writeln!(text, "  SLR          {}\n", number(report.slr));
    text + &utilisation(instance, plan)
}

/// `60 s; the plan is at most 33 % above the optimum`.
pub(super) fn above_bound(makespan: f64, lower_bound: f64, optimal: bool) -> String {
    let bound = number(lower_bound);
    match optimal {
        true => format!("{bound} s; the plan is optimal"),
        false if lower_bound > 0.0 => {
            let above = (makespan / lower_bound - 1.0) * 100.0;
            format!("{bound} s; the plan is at most {above:.1} % above the optimum")
        }
        false => format!("{bound} s"),
    }
}

/// Per node: tasks, busy seconds and the share of its slots or cores in use until the makespan.
fn utilisation(instance: &Instance, plan: &policy::Plan) -> String {
    let rows = plan.schedule.by_node(instance.nodes());
    let busy: Vec<f64> = rows
        .iter()
        .map(|row| row.iter().fold(0.0, |sum, p| sum + (p.finish - p.start) * load(instance, p)))
        .collect();
    let makespan = plan.objectives.makespan;
    let mut table = Table::new(["node", ">tasks", ">busy s", ">use", ""]);
    let texts = column(&busy);
    for (i, row) in rows.iter().enumerate().take(MOST_NODES) {
        let share = if makespan > 0.0 { busy[i] / makespan } else { 0.0 };
        table.row([
            instance.cluster().nodes()[i].name.clone(),
            row.len().to_string(),
            texts[i].clone(),
            format!("{:.0} %", share * 100.0),
            meter(share, 20),
        ]);
    }
    let hidden = rows.len().saturating_sub(MOST_NODES);
    let more = if hidden > 0 { format!("and {} more\n", count(hidden, "node")) } else { String::new() };
    table.show() + &more
}

/// Share of its node that a task takes.
fn load(instance: &Instance, p: &mdts_core::Placement) -> f64 {
    match instance.slots() {
        SlotModel::Exclusive => 1.0,
        SlotModel::Resources => {
            let (demand, capacity) = (instance.demand(p.task), instance.capacity(p.node));
            demand.first().zip(capacity.first()).map_or(1.0, |(d, c)| *d as f64 / *c as f64)
        }
    }
}
