//! `mdts compare DAG...`: policies side by side, in plans or under noise.
//!
//! Without noise, affinity, failures and contention every policy plans, and the plan is measured. With any of them every
//! policy runs in the simulator, once per seed; all policies meet the same noise and failures (common random numbers).
//! `search` searches once per workflow then: its plan is followed, and HEFT plans anew what is late.

mod stream;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use mdts_core::sim::{Conditions, Failures, JobTrace, simulate};
use mdts_core::{Instance, Objectives, Placer, lower_bounds, objectives};
use mdts_policies::PolicyInfo;
use serde::Serialize;

use crate::choice::Choice;
use crate::error::{Error, Result};
use crate::gantt::Form;
use crate::history::{self, HistoryFlag};
use crate::input::{self, Machines};
use crate::interrupt::Interrupts;
use crate::output::{self, OutputFile};
use crate::plot::{self, Panel};
use crate::policy::{self, Plan, Policy, Timed};
use crate::progress;
use crate::search::{self, SearchFlags};
use crate::settings::{ModelFlags, Settings};
use crate::text::{Table, column, count, number};
use crate::weights::WeightsFlag;

/// Seeds under noise when none are asked for.
const SEEDS_UNDER_NOISE: u64 = 10;
/// Nodes fail for this part of the lower bound, and at most so many times each.
const REPAIR_SHARE: f64 = 0.1;
const MOST_FAILURES: u32 = 100;

/// What is said when Ctrl-C was pressed.
const SAID: &str = "interrupted: the search ends with the best plan so far, and the comparison goes on; press Ctrl-C again to end it";

/// Arguments of `mdts compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = search::HELP)]
pub(crate) struct Compare {
    /// Workflow files, or logs of clusters (.swf); default: a built-in example
    dags: Vec<PathBuf>,
    /// Policies, see mdts policies
    #[arg(long, value_name = "A,B,...|all", value_delimiter = ',', default_value = "all")]
    policies: Vec<String>,
    #[command(flatten)]
    search: SearchFlags,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    history: HistoryFlag,
    #[command(flatten)]
    weights: WeightsFlag,
    /// Sigma of lognormal factors on run times, that policies do not know
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    noise: f64,
    /// Hidden factors of 1 +- X on run times, one per node and kind of task
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    affinity: f64,
    /// Mean number of failures of each node in the time of the lower bound; each lasts a tenth of it
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    failures: f64,
    /// Transfers share the network by max-min fairness
    #[arg(long)]
    contention: bool,
    /// Number of seeds, the first is that of --seed [default: 1, or 10 with noise, affinity or failures]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: Option<u64>,
    /// Draw the comparison as .svg or .html
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    slots: &'static str,
    data: &'static str,
    nodes: usize,
    noise: f64,
    affinity: f64,
    failures: f64,
    contention: bool,
    seed: u64,
    seeds: u64,
    rows: Vec<Row>,
}

/// Means over all seeds; of the makespan also the extremes.
#[derive(Debug, Clone, Serialize)]
struct Row {
    dag: String,
    policy: &'static str,
    makespan: f64,
    makespan_low: f64,
    makespan_high: f64,
    slr: f64,
    imbalance: f64,
    cost: f64,
    energy: f64,
    moved_bytes: f64,
    plan_seconds: f64,
    lower_bound: f64,
}

/// One workflow with its name in the tables.
struct Case {
    dag: String,
    instance: Arc<Instance>,
}

impl Compare {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<()> {
        let settings = self.settings()?;
        if self.dags.iter().any(|path| input::is_log(path)) {
            return self.carry_out_logs(&settings, quiet);
        }
        let policies = self.policies(&settings)?;
        self.conditions(settings.seed, 1.0)?;
        let form = self.plot.as_deref().map(Form::of).transpose()?;
        let plot = OutputFile::create_if(self.plot.as_deref())?;
        let machines = input::machines_for(&settings, self.dags.iter().map(PathBuf::as_path))?;
        let cases = self.cases(&settings, &machines)?;
        let is_certain = self.noise == 0.0 && self.affinity == 0.0 && self.failures == 0.0;
        let ideal = is_certain && !self.contention;
        let seeds = self.seeds.unwrap_or(if is_certain { 1 } else { SEEDS_UNDER_NOISE });

        let interrupts = self.search.are_given().then(|| Interrupts::watch(SAID)).transpose()?;
        let bar = progress::steps((cases.len() * policies.len()) as u64, quiet);
        let mut rows = Vec::new();
        for case in &cases {
            for policy in &policies {
                bar.set_message(format!("{} on {}", policy.name(), case.dag));
                let searched = |seed| self.searched(case, policy, seed, interrupts.as_ref());
                rows.push(self.measure(case, policy, (settings.seed, seeds), ideal, searched)?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        // The best of every workflow first; equal ones stay in the order of the registry.
        rows.chunk_by_mut(|a, b| a.dag == b.dag).for_each(|of_dag| {
            of_dag.sort_by(|a, b| a.makespan.total_cmp(&b.makespan));
        });
        let report = Report {
            slots: machines.cluster.slots().word(),
            data: settings.data_model.word(),
            nodes: machines.cluster.len(),
            noise: self.noise,
            affinity: self.affinity,
            failures: self.failures,
            contention: self.contention,
            seed: settings.seed,
            seeds,
            rows,
        };
        let mut text = show(&report, &cases, &machines, ideal);
        if let (Some(file), Some(form)) = (plot, form) {
            _ = writeln!(text, "wrote {}", file.path().display());
            file.write(&plot::draw(&panels(&report), form)?)?;
        }
        match (self.json, quiet) {
            (true, _) => output::print_json(&report),
            (false, true) => Ok(()),
            (false, false) => output::print(&text),
        }
    }

    fn policies(&self, settings: &Settings) -> Result<Vec<Policy>> {
        let mut chosen: Vec<&'static PolicyInfo> = Vec::new();
        for name in self.policies.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            let more: Vec<_> = match name {
                "all" => mdts_policies::policies().iter().collect(),
                name => vec![policy::find(name)?],
            };
            let new = |p: &&'static PolicyInfo| !chosen.iter().any(|c| c.name == p.name);
            let new: Vec<_> = more.into_iter().filter(new).collect();
            chosen.extend(new);
        }
        if chosen.is_empty() {
            return Err(Error::Usage(
                "--policies: no policy is named; write for example heft,peft or all".into(),
            ));
        }
        if self.search.are_given() && !chosen.iter().any(|p| p.name == search::NAME) {
            chosen.push(policy::find(search::NAME)?);
        }
        let names: Vec<&str> = chosen.iter().map(|policy| policy.name).collect();
        let weights = self.weights.load(&names, settings)?;
        Ok(chosen.into_iter().map(|info| Policy::new(info, weights.as_ref())).collect())
    }

    fn cases(&self, settings: &Settings, machines: &Machines) -> Result<Vec<Case>> {
        let paths: Vec<Option<&std::path::Path>> = match self.dags.as_slice() {
            [] => vec![None],
            paths => paths.iter().map(|p| Some(p.as_path())).collect(),
        };
        let mut cases: Vec<Case> = Vec::new();
        for path in paths {
            let job = history::fill(input::job(path)?, settings)?;
            let instance = input::instance(&job, machines, settings.data_model)?;
            let name = job.graph.name();
            let same =
                cases.iter().filter(|c| c.dag == name || c.dag.starts_with(&format!("{name} ("))).count();
            let dag = if same == 0 { name.to_owned() } else { format!("{name} ({})", same + 1) };
            cases.push(Case { dag, instance });
        }
        Ok(cases)
    }

    /// The world of one seed, for a job of this lower bound.
    fn conditions(&self, seed: u64, bound: f64) -> Result<Conditions> {
        if !(self.failures >= 0.0 && self.failures.is_finite()) {
            let value = self.failures;
            return Err(Error::Usage(format!("--failures is {value}; expected a number of at least 0")));
        }
        let failures = (self.failures > 0.0 && bound > 0.0).then(|| Failures {
            mean_between: bound / self.failures,
            repair: bound * REPAIR_SHARE,
            most: MOST_FAILURES,
        });
        let conditions = Conditions {
            seed,
            noise: self.noise,
            affinity: self.affinity,
            failures,
            contention: self.contention,
            ..Conditions::default()
        };
        conditions.check()?;
        Ok(conditions)
    }

    /// The plan of a search, if the policy is one; the first Ctrl-C ends it early if flags ask for a search.
    fn searched(
        &self,
        case: &Case,
        policy: &Policy,
        seed: u64,
        interrupts: Option<&Interrupts>,
    ) -> Result<Option<Plan>> {
        if policy.name() != search::NAME {
            return Ok(None);
        }
        let search = self.search.search(policy, &case.instance);
        let plan = |search| search::plan(search, policy, seed, &case.instance, true, interrupts);
        search.map(plan).transpose()
    }

    fn measure(
        &self,
        case: &Case,
        policy: &Policy,
        (first, seeds): (u64, u64),
        ideal: bool,
        searched: impl Fn(u64) -> Result<Option<Plan>>,
    ) -> Result<Row> {
        let bound = lower_bounds(&case.instance).best();
        // A search does not know what will happen: one plan is followed under all conditions.
        let followed = if ideal { None } else { searched(first)? };
        let mut runs: Vec<(Objectives, f64)> = Vec::new();
        for seed in (0..seeds).map(|i| first.wrapping_add(i)) {
            runs.push(if ideal {
                let plan = match searched(seed)? {
                    Some(plan) => plan,
                    None => policy::plan(policy, seed, &case.instance)?,
                };
                (plan.objectives, plan.seconds)
            } else {
                let placer = match &followed {
                    Some(plan) => search::base(policy)?.placer_with_plan(plan.schedule.clone(), seed),
                    None => policy.placer(seed),
                };
                let (objectives, seconds) = self.simulate(case, placer, seed, bound)?;
                (objectives, seconds + followed.as_ref().map_or(0.0, |plan| plan.seconds))
            });
        }
        let mean = |value: fn(&Objectives) -> f64| {
            runs.iter().map(|(o, _)| value(o)).sum::<f64>() / runs.len() as f64
        };
        let makespans = || runs.iter().map(|(o, _)| o.makespan);
        Ok(Row {
            dag: case.dag.clone(),
            policy: policy.name(),
            makespan: mean(|o| o.makespan),
            makespan_low: makespans().fold(f64::INFINITY, f64::min),
            makespan_high: makespans().fold(0.0, f64::max),
            slr: mean(|o| o.slr),
            imbalance: mean(|o| o.imbalance),
            cost: mean(|o| o.cost),
            energy: mean(|o| o.energy),
            moved_bytes: mean(|o| o.moved_bytes),
            plan_seconds: runs.iter().map(|(_, seconds)| seconds).sum::<f64>() / runs.len() as f64,
            lower_bound: bound,
        })
    }

    /// One run in the simulator. What lost attempts cost is not counted, the time that they take is.
    fn simulate(
        &self,
        case: &Case,
        placer: Box<dyn Placer>,
        seed: u64,
        bound: f64,
    ) -> Result<(Objectives, f64)> {
        let mut seconds = 0.0;
        let placer = Timed { placer, seconds: &mut seconds };
        let arrivals = vec![(0.0, case.instance.clone())];
        let trace = simulate(&arrivals, placer, &self.conditions(seed, bound)?)?;
        let schedule = trace.jobs.first().map(JobTrace::schedule).unwrap_or_default();
        Ok((objectives(&case.instance, &schedule), seconds))
    }
}

fn show(report: &Report, cases: &[Case], machines: &Machines, ideal: bool) -> String {
    let mut text = format!(
        "{}: {}, {} slots, data by {}; {}\n",
        machines.label,
        count(report.nodes, "node"),
        report.slots,
        report.data,
        match (ideal, report.seeds) {
            (true, 1) => "verified plans".to_owned(),
            (true, seeds) => format!("verified plans, means over {seeds} seeds"),
            (false, seeds) => format!(
                "simulated with noise {}, affinity {}, failures {}{}; means over {}",
                report.noise,
                report.affinity,
                report.failures,
                if report.contention { ", contention" } else { "" },
                count(seeds as usize, "seed")
            ),
        }
    );
    for (rows, case) in report.rows.chunk_by(|a, b| a.dag == b.dag).zip(cases) {
        let graph = case.instance.graph();
        _ = writeln!(
            text,
            "\n{}: {}, {}; lower bound {} s",
            case.dag,
            count(graph.len(), "task"),
            count(graph.edge_count(), "edge"),
            number(rows[0].lower_bound)
        );
        text += &table(rows, report.seeds > 1);
    }
    text
}

fn table(rows: &[Row], spread: bool) -> String {
    let numbers = |value: fn(&Row) -> f64| column(&rows.iter().map(value).collect::<Vec<_>>());
    let (makespan, slr) = (numbers(|r| r.makespan), numbers(|r| r.slr));
    let (low, high) = (numbers(|r| r.makespan_low), numbers(|r| r.makespan_high));
    let (imbalance, cost) = (numbers(|r| r.imbalance), numbers(|r| r.cost));
    let range = if spread { ">low to high" } else { "" };
    let mut table =
        Table::new(["policy", ">makespan s", range, ">vs best", ">SLR", ">imbalance s", ">cost", ">plan ms"]);
    for (i, row) in rows.iter().enumerate() {
        let above = if rows[0].makespan > 0.0 { row.makespan / rows[0].makespan - 1.0 } else { 0.0 };
        table.row([
            row.policy.into(),
            makespan[i].clone(),
            if spread { format!("{} to {}", low[i], high[i]) } else { String::new() },
            if above > 0.0 { format!("+{:.1} %", above * 100.0) } else { "best".into() },
            slr[i].clone(),
            imbalance[i].clone(),
            cost[i].clone(),
            format!("{:.3}", row.plan_seconds * 1e3),
        ]);
    }
    table.show()
}

/// One panel per workflow, or one of means over many.
fn panels(report: &Report) -> Vec<Panel> {
    const MOST_PANELS: usize = 6;
    let mut panels: Vec<Panel> = report
        .rows
        .chunk_by(|a, b| a.dag == b.dag)
        .map(|rows| Panel {
            title: rows[0].dag.clone(),
            measure: "makespan in seconds, from lowest to highest; the upright line is the lower bound",
            bound: Some(rows[0].lower_bound),
            bars: rows.iter().map(|r| (r.policy, r.makespan, r.makespan_low, r.makespan_high)).collect(),
        })
        .collect();
    if panels.len() > MOST_PANELS {
        panels = vec![mean_panel(report, panels.len())];
    }
    panels
}

fn mean_panel(report: &Report, dags: usize) -> Panel {
    let mut bars: Vec<(&'static str, f64, f64, f64)> = Vec::new();
    for row in &report.rows {
        match bars.iter_mut().find(|bar| bar.0 == row.policy) {
            Some(bar) => *bar = (bar.0, bar.1 + row.slr, bar.2.min(row.slr), bar.3.max(row.slr)),
            None => bars.push((row.policy, row.slr, row.slr, row.slr)),
        }
    }
    for bar in &mut bars {
        bar.1 /= dags as f64;
    }
    bars.sort_by(|a, b| a.1.total_cmp(&b.1));
    let title = format!("mean over {dags} workflows, with the lowest and highest");
    Panel { title, measure: "schedule length ratio", bound: Some(1.0), bars }
}
