//! MDTS against what it was compared with: three sizes, three levels of hidden affinity, and how its advantage over
//! raw DRL grows with the number of joint actions.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use indicatif::ProgressBar;
use mdts_policies::mdts::paper::{
    Budget, Comparison, Measured, Metric, Metrics, Moment, Parameters, Stage, Summary, Training, change,
    compare,
};

use super::report::{Found, Report, Row, Setting};
use super::{Paper, Size, Wanted, mdts_tables};
use crate::error::{Error, Result};
use crate::progress;
use crate::usage;

/// The entry of this paper.
pub(super) const PAPER: Paper =
    Paper { name: "mdts", about: "multi-task deep reinforcement learning, IEEE Big Data 2019", run };

/// Sizes of the paper's comparison, hidden affinities, and the further sizes of the second table.
const SIZES: [Size; 3] = [size(6, 4), size(10, 4), size(10, 5)];
const AFFINITIES: [f64; 3] = [0.0, 0.4, 0.7];
const SMALL_SIZES: [Size; 2] = [size(3, 3), size(5, 3)];
/// The affinity at which sizes are compared.
pub(super) const AFFINITY_OF_SIZES: f64 = 0.4;

const JOBS: u64 = 1_000_000;
const QUICK_JOBS: u64 = 600_000;
const EPISODES: usize = 100;
const QUICK_EPISODES: usize = 30;

fn run(wanted: &Wanted) -> Result<Found> {
    let settings = settings(wanted);
    let budget = Budget {
        jobs: wanted.steps.unwrap_or(if wanted.quick { QUICK_JOBS } else { JOBS }),
        episodes: if wanted.quick { QUICK_EPISODES } else { EPISODES },
        training: Training { actors: wanted.actors, ..Default::default() },
    };
    let begin = Instant::now();
    let found = compare_all(&settings, wanted, &budget)?;
    let settings: Vec<Setting> =
        settings.iter().zip(&found).map(|(parameters, of_seeds)| summarise(parameters, of_seeds)).collect();
    let report = Report { name: PAPER.name, seeds: wanted.seeds, settings };
    let text = mdts_tables::show(&report, &budget, begin.elapsed().as_secs_f64());
    Ok(Found { report, text })
}

const fn size(nodes: usize, child_tasks: usize) -> Size {
    Size { nodes, child_tasks }
}

/// All settings; if it must be quick, one for each claim.
fn settings(wanted: &Wanted) -> Vec<Parameters> {
    let setting = |size: &Size, affinity| Parameters {
        nodes: size.nodes,
        child_tasks: size.child_tasks,
        affinity,
        ..Default::default()
    };
    let small =
        |sizes: &[Size]| sizes.iter().map(|size| setting(size, AFFINITY_OF_SIZES)).collect::<Vec<_>>();
    let grid = |sizes: &[Size]| {
        sizes.iter().flat_map(|size| AFFINITIES.map(|affinity| setting(size, affinity))).collect::<Vec<_>>()
    };
    match (wanted.sizes.as_slice(), wanted.quick) {
        ([], false) => [small(&SMALL_SIZES), grid(&SIZES)].concat(),
        ([], true) => {
            let [small, first, second] = [&SMALL_SIZES[0], &SIZES[0], &SIZES[1]];
            vec![setting(small, AFFINITY_OF_SIZES), setting(first, 0.7), setting(second, AFFINITY_OF_SIZES)]
        }
        (sizes, false) => grid(sizes),
        (sizes, true) => small(sizes),
    }
}

/// Every setting with every seed, the largest first, so that threads end together.
fn compare_all(settings: &[Parameters], wanted: &Wanted, budget: &Budget) -> Result<Vec<Vec<Comparison>>> {
    let cases: Vec<(usize, u64)> = (0..settings.len())
        .rev()
        .flat_map(|setting| (1..=wanted.seeds).map(move |seed| (setting, seed)))
        .collect();
    let bar = progress::shares(cases.len(), wanted.quiet);
    let found = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..wanted.threads.min(cases.len()) {
            scope.spawn(|| {
                while let Some(&(setting, seed)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = compare_one(&settings[setting], seed, budget, &bar);
                    if one.is_err() {
                        next.store(cases.len(), Ordering::Relaxed);
                    }
                    if let Ok(mut found) = found.lock() {
                        found.push((setting, seed, one));
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by_key(|(setting, seed, _)| (*setting, *seed));
    let mut by_setting: Vec<Vec<Comparison>> = settings.iter().map(|_| Vec::new()).collect();
    for (setting, _, one) in found {
        by_setting[setting].push(one.map_err(Error::Learn)?);
    }
    Ok(by_setting)
}

fn compare_one(
    parameters: &Parameters,
    seed: u64,
    budget: &Budget,
    bar: &ProgressBar,
) -> mdts_policies::learn::Result<Comparison> {
    let label = format!("{} seed {seed}", name(parameters));
    let mut shown = 0;
    let mut report = |stage: &Stage| {
        let done = (stage.done * progress::SHARE as f64) as u64;
        if done > shown {
            bar.inc(done - shown);
            shown = done;
            bar.set_message(format!("{label}: {}, reward {:.2}", stage.policy, stage.reward));
        }
    };
    // With one actor everything happens on this thread, and its own time tells how much it computed, whoever else
    // uses the machine.
    let (begin, is_alone) = (Instant::now(), budget.training.actors == 1);
    let clock = || {
        let wall = begin.elapsed().as_secs_f64();
        Moment { wall, work: if is_alone { usage::thread_seconds() } else { wall } }
    };
    let found = compare(parameters, seed, budget, &clock, &mut report)?;
    bar.inc(progress::SHARE - shown);
    Ok(found)
}

/// `10 x 4, affinity 0.4`
pub(super) fn name(parameters: &Parameters) -> String {
    format!("{} x {}, affinity {}", parameters.nodes, parameters.child_tasks, parameters.affinity)
}

fn summarise(parameters: &Parameters, of_seeds: &[Comparison]) -> Setting {
    let policies = of_seeds.first().map_or(&[][..], |first| &first.rows);
    let rows = policies.iter().map(|first| {
        let name = first.policy;
        let own = || of_seeds.iter().filter_map(move |comparison| comparison.row(name));
        let mean = |value: fn(&Measured) -> f64| Summary::of(own().map(value)).mean;
        let is_ours = name == Comparison::MDTS;
        Row {
            policy: name,
            metrics: Metric::ALL
                .map(|metric| (metric.name(), Summary::of(own().map(|row| metric.of(&row.metrics)))))
                .into(),
            change: if is_ours { BTreeMap::new() } else { changes(of_seeds, Comparison::MDTS, name) },
            steps: mean(|row| row.jobs as f64),
            wall_seconds: mean(|row| row.wall_seconds),
            cpu_seconds: mean(|row| row.work_seconds),
        }
    });
    let gap = Summary::of(of_seeds.iter().map(|comparison| comparison.mean_gap)).mean;
    let mut shown = serde_json::json!(parameters);
    shown["joint_actions"] = parameters.joint_actions().into();
    shown["mean_gap"] = gap.into();
    Setting {
        setting: name(parameters),
        rows: rows.collect(),
        parameters: shown,
        equal_steps: changes(of_seeds, Comparison::EQUAL_STEPS, Comparison::RAW),
    }
}

/// How far one policy is above another, seed by seed.
fn changes(of_seeds: &[Comparison], ours: &str, theirs: &str) -> BTreeMap<&'static str, Summary> {
    let pairs: Vec<(Metrics, Metrics)> = of_seeds
        .iter()
        .filter_map(|comparison| Some((comparison.row(ours)?.metrics, comparison.row(theirs)?.metrics)))
        .collect();
    let of =
        |metric: Metric| pairs.iter().map(move |(ours, theirs)| change(metric.of(ours), metric.of(theirs)));
    Metric::ALL.map(|metric| (metric.name(), Summary::of(of(metric)))).into()
}
