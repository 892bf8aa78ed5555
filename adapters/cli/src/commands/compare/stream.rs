//! `mdts compare LOG.swf...`: policies on the stream of jobs that a log tells of, each job submitted when it was.
//!
//! A job is one task that needs all its processors on one node; those that fit no node are left out and counted. Policies that plan see
//! one job at a time, as they would in production. Without a cluster, the machine is one node of as many cores as the log's.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use mdts_core::sim::{JobTrace, Trace, simulate};
use mdts_core::{Cluster, Instance, Link, Network, Node, Placement, Schedule, SlotModel, objectives};
use mdts_dag::{DataModel, JobGraph};
use mdts_slurm::import::{Arrival, Workload, read_swf};
use serde::Serialize;

use super::{Compare, Row};
use crate::choice::Choice;
use crate::error::{Error, Result};
use crate::input::{self, Machines};
use crate::output;
use crate::policy::{Policy, Timed};
use crate::progress;
use crate::search;
use crate::settings::{OtherFlags, Settings};
use crate::text::{Table, column, count, number};

/// Shorter jobs count as so long when their slowdown is measured.
const SHORTEST: f64 = 10.0;

#[derive(Debug, Serialize)]
struct Report {
    slots: &'static str,
    nodes: usize,
    seed: u64,
    seeds: u64,
    rows: Vec<StreamRow>,
}

/// The same as of a workflow, and what concerns streams; all are means over seeds.
#[derive(Debug, Clone, Serialize)]
struct StreamRow {
    #[serde(flatten)]
    row: Row,
    jobs: usize,
    left_out: usize,
    /// From submission to end.
    mean_completion: f64,
    /// From submission to start.
    mean_wait: f64,
    /// Completion over run time; jobs of less than 10 seconds count as of 10.
    mean_slowdown: f64,
}

/// A log on a cluster.
struct Stream {
    name: String,
    jobs: Vec<(f64, Arc<Instance>)>,
    /// All jobs in one, for the measures of schedules.
    whole: Instance,
    left_out: usize,
    bound: f64,
}

impl Compare {
    /// Compares on logs.
    pub(super) fn carry_out_logs(&self, settings: &Settings, quiet: bool) -> Result<()> {
        if let Some(other) = self.dags.iter().find(|path| !input::is_log(path)) {
            let message = format!(
                "{}: logs and workflows are compared one after the other, not together",
                other.display()
            );
            return Err(Error::Usage(message));
        }
        if self.plot.is_some() || self.search.are_given() {
            return Err(Error::Usage(
                "--plot, --budget and --iterations are for workflows, not for logs".to_owned(),
            ));
        }
        // A search would think a second about every job.
        let policies: Vec<Policy> =
            self.policies(settings)?.into_iter().filter(|policy| policy.name() != search::NAME).collect();
        self.conditions(settings.seed, 1.0)?;
        let certain = self.noise == 0.0 && self.affinity == 0.0 && self.failures == 0.0;
        let seeds = self.seeds.unwrap_or(if certain { 1 } else { super::SEEDS_UNDER_NOISE });
        let mut rows = Vec::new();
        let mut text = String::new();
        let mut shape = (SlotModel::Resources, 0);
        for path in &self.dags {
            let (stream, machines) = stream(path, settings)?;
            shape = (machines.cluster.slots(), machines.cluster.len());
            let bar = progress::steps(policies.len() as u64, quiet);
            let mut of_log = Vec::new();
            for policy in &policies {
                bar.set_message(format!("{} on {}", policy.name(), stream.name));
                of_log.push(self.measure_stream(&stream, policy, settings.seed, seeds)?);
                bar.inc(1);
            }
            bar.finish_and_clear();
            of_log.sort_by(|a, b| a.mean_completion.total_cmp(&b.mean_completion));
            text += &show(&of_log, &stream, &machines);
            rows.extend(of_log);
        }
        let report = Report { slots: shape.0.word(), nodes: shape.1, seed: settings.seed, seeds, rows };
        match (self.json, quiet) {
            (true, _) => output::print_json(&report),
            (false, true) => Ok(()),
            (false, false) => output::print(&text),
        }
    }

    /// The settings of a comparison.
    pub(super) fn settings(&self) -> Result<Settings> {
        let other = OtherFlags {
            history: self.history.path(),
            weights: self.weights.path(),
            ..OtherFlags::default()
        };
        Settings::load(&self.model, other)
    }

    fn measure_stream(&self, stream: &Stream, policy: &Policy, first: u64, seeds: u64) -> Result<StreamRow> {
        let mut sum = StreamRow::empty(stream, policy.name());
        for seed in (0..seeds).map(|i| first.wrapping_add(i)) {
            let mut seconds = 0.0;
            let placer = Timed { placer: policy.placer(seed), seconds: &mut seconds };
            let trace = simulate(&stream.jobs, placer, &self.conditions(seed, stream.bound)?)?;
            sum.add(stream, &trace, seconds, 1.0 / seeds as f64);
        }
        Ok(sum)
    }
}

impl StreamRow {
    fn empty(stream: &Stream, policy: &'static str) -> Self {
        let row = Row {
            dag: stream.name.clone(),
            policy,
            makespan: 0.0,
            makespan_low: f64::INFINITY,
            makespan_high: 0.0,
            slr: 0.0,
            imbalance: 0.0,
            cost: 0.0,
            energy: 0.0,
            moved_bytes: 0.0,
            plan_seconds: 0.0,
            lower_bound: stream.bound,
        };
        let jobs = stream.jobs.len();
        Self {
            row,
            jobs,
            left_out: stream.left_out,
            mean_completion: 0.0,
            mean_wait: 0.0,
            mean_slowdown: 0.0,
        }
    }

    /// Adds the share of one run.
    fn add(&mut self, stream: &Stream, trace: &Trace, seconds: f64, share: f64) {
        let all = objectives(&stream.whole, &whole(trace));
        let makespan = trace.makespan();
        let row = &mut self.row;
        row.makespan += makespan * share;
        row.makespan_low = row.makespan_low.min(makespan);
        row.makespan_high = row.makespan_high.max(makespan);
        row.slr += makespan / stream.bound.max(f64::MIN_POSITIVE) * share;
        row.imbalance += all.imbalance * share;
        row.cost += all.cost * share;
        row.energy += all.energy * share;
        row.plan_seconds += seconds * share;
        let mean = |of: &dyn Fn(&JobTrace) -> f64| {
            trace.jobs.iter().map(of).sum::<f64>() / trace.jobs.len().max(1) as f64
        };
        let run = |job: &JobTrace| job.attempts.last().map_or(0.0, |last| last.finish - last.start);
        self.mean_completion += mean(&JobTrace::completion_seconds) * share;
        self.mean_wait += mean(&|job| job.completion_seconds() - run(job)) * share;
        let slowdown = |job: &JobTrace| (job.completion_seconds() / run(job).max(SHORTEST)).max(1.0);
        self.mean_slowdown += mean(&slowdown) * share;
    }
}

/// What ran where, as one schedule: job `i` is task `i` of the whole.
fn whole(trace: &Trace) -> Schedule {
    let done = trace.jobs.iter().zip(0_u32..).filter_map(|(job, i)| {
        let last = job.attempts.iter().rev().find(|attempt| attempt.succeeded)?;
        Some(Placement { task: i.into(), node: last.node, start: last.start, finish: last.finish })
    });
    Schedule::new(done.collect())
}

fn stream(path: &Path, settings: &Settings) -> Result<(Stream, Machines)> {
    let log: Workload = read_swf(path)?;
    let machines = match settings.cluster {
        Some(_) => input::machines(settings)?,
        None => own_machine(&log, settings)?,
    };
    let fits = |job: &&Arrival| {
        let needs = job.task.demand.as_deref().map_or((1.0, 0), |demand| (demand.cores, demand.memory));
        machines.cluster.nodes().iter().any(|node| {
            node.capacity.cores.unwrap_or(1.0) >= needs.0
                && node.capacity.memory.is_none_or(|memory| memory >= needs.1)
        })
    };
    let kept: Vec<&Arrival> = log.jobs.iter().filter(fits).collect();
    let left_out = log.jobs.len() - kept.len() + log.left_out;
    if kept.is_empty() {
        return Err(Error::Usage(format!("{}: no job fits a node of {}", path.display(), machines.label)));
    }
    let instance = |tasks: &[&Arrival]| -> Result<Instance> {
        let mut job = JobGraph::builder(log.name.as_str());
        for arrival in tasks {
            job.task(arrival.task.clone())?;
        }
        Ok(Instance::new(job.build()?.freeze().into(), machines.cluster.clone(), DataModel::Edges)?)
    };
    let whole = instance(&kept)?;
    let jobs =
        kept.iter().map(|job| Ok((job.seconds, Arc::new(instance(&[job])?)))).collect::<Result<Vec<_>>>()?;
    let bound = bound(&jobs, &machines.cluster);
    Ok((Stream { name: log.name, jobs, whole, left_out, bound }, machines))
}

/// One node of as many cores as the log's machine has processors.
fn own_machine(log: &Workload, settings: &Settings) -> Result<Machines> {
    let node = Node::new("machine").cores(log.processors.into());
    let slots = settings.slots.unwrap_or(SlotModel::Resources);
    let cluster = Cluster::new(vec![node], Network::uniform(Link::INSTANT), slots)?;
    let label = format!("the log's machine of {} processors as one node", log.processors);
    Ok(Machines { cluster: Arc::new(cluster), label, is_default: true, text: None })
}

/// No schedule ends before the last job could, nor before the cluster could have done all the work.
fn bound(jobs: &[(f64, Arc<Instance>)], cluster: &Cluster) -> f64 {
    let only = mdts_dag::TaskId::new(0);
    let last = jobs.iter().map(|(at, job)| at + job.min_exec(only)).fold(0.0, f64::max);
    let is_shared = cluster.slots() == SlotModel::Resources;
    let cores = |cores: f64| if is_shared { cores } else { 1.0 };
    let pace: f64 = cluster.nodes().iter().map(|n| cores(n.capacity.cores.unwrap_or(1.0)) * n.speed).sum();
    let work = |job: &Instance| {
        let graph = job.graph();
        graph.work(only) * cores(graph.demands()[graph.demand(only).index()].cores)
    };
    last.max(jobs.iter().map(|(_, job)| work(job)).sum::<f64>() / pace)
}

fn show(rows: &[StreamRow], stream: &Stream, machines: &Machines) -> String {
    let mut text = format!(
        "{}: {}, {} slots\n\n{}: {} in {} s at least; {} left out\n",
        machines.label,
        count(machines.cluster.len(), "node"),
        machines.cluster.slots().word(),
        stream.name,
        count(stream.jobs.len(), "job"),
        number(stream.bound),
        stream.left_out
    );
    let numbers = |value: fn(&StreamRow) -> f64| column(&rows.iter().map(value).collect::<Vec<_>>());
    let (completion, wait) = (numbers(|r| r.mean_completion), numbers(|r| r.mean_wait));
    let (slowdown, makespan) = (numbers(|r| r.mean_slowdown), numbers(|r| r.row.makespan));
    let head = ["policy", ">mean completion s", ">mean wait s", ">mean slowdown", ">makespan s", ">plan ms"];
    let mut table = Table::new(head);
    for (i, row) in rows.iter().enumerate() {
        table.row([
            row.row.policy.into(),
            completion[i].clone(),
            wait[i].clone(),
            slowdown[i].clone(),
            makespan[i].clone(),
            format!("{:.3}", row.row.plan_seconds * 1e3),
        ]);
    }
    _ = writeln!(text, "{}", table.show().trim_end());
    text
}
