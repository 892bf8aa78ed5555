//! The comparison of MDTS as text: the environment, a table per setting, the paper's marks, and the sizes.

use std::fmt::Write as _;

use mdts_policies::mdts::paper::{Budget, Comparison, Metric, Parameters, Summary};

use super::mdts::AFFINITY_OF_SIZES;
use super::report::{Report, Row, Setting};
use crate::text::{Table, count, number};

/// The paper's figures: a measure, the policy it is below, and by how much.
const MARKS: [(Metric, &str, f64); 5] = [
    (Metric::Time, "least-connection", -0.153),
    (Metric::Time, "pso-static", -0.398),
    (Metric::Time, Comparison::RAW, -0.428),
    (Metric::Imbalance, Comparison::RAW, -0.475),
    (Metric::Cost, Comparison::RAW, -0.590),
];

/// Everything; `seconds` is how long it took.
pub(super) fn show(report: &Report, budget: &Budget, seconds: f64) -> String {
    let mut text = environment(report, budget);
    for setting in &report.settings {
        let actions = setting.parameters["joint_actions"].as_u64().unwrap_or_default();
        let gap = setting.parameters["mean_gap"].as_f64().unwrap_or_default();
        _ = write!(text, "\n{}: {actions} joint actions, a job every {} s\n", setting.setting, number(gap));
        text += &policies(setting);
    }
    text += "\nmean (low to high) over seeds; mdts: how far it is above that policy, mean over seeds; jobs and s: learnt \
             from, in so many seconds\nof one core. raw-drl has the time that mdts took, mdts-equal-steps no more jobs than \
             raw-drl had.\n\n";
    text += &marks(report);
    text += "\nthe paper's figures are the marks; its environment is not public, so they need not hold in this one\n\n";
    text += &sizes(report);
    _ = write!(
        text,
        "\naffinity {AFFINITY_OF_SIZES}; below 0: mdts is better; took {} s\n",
        number(seconds.round())
    );
    text
}

fn environment(report: &Report, budget: &Budget) -> String {
    let Parameters {
        kinds,
        speed,
        bandwidth,
        base_price,
        price_by_speed,
        work,
        data,
        utilisation,
        episode_jobs,
        penalties,
        ..
    } = Parameters::default();
    let range = |[low, high]: [f64; 2]| format!("{low} to {high}");
    let training = &budget.training;
    let mut text = format!(
        "mdts: all child tasks of a job are placed on nodes at once; {}, each with its own cluster, trainings and jobs\n\n\
         environment, nodes x child tasks as in the headings:\n",
        count(report.seeds as usize, "seed")
    );
    let lines = [
        ("node speed, bandwidth", format!("{}, {}", range(speed), range(bandwidth))),
        ("price per busy second", format!("{base_price} + speed^2 x ({})", range(price_by_speed))),
        ("work, data of a task", format!("{}, {}; one of {kinds} kinds", range(work), range(data))),
        ("hidden affinity a", "speeds times 1 - a to 1 + a, by node and kind; no policy sees it".into()),
        (
            "arrivals",
            format!(
                "exponential gaps, utilisation {utilisation}; queues are emptied every {episode_jobs} jobs"
            ),
        ),
        ("reward", format!("-({} time + {} imbalance + {} cost)", penalties[0], penalties[1], penalties[2])),
        (
            "learning",
            format!(
                "{}, trunk {}, {} jobs per update; mdts learns from {} jobs",
                if training.actors > 1 {
                    format!("A3C with {} actors", training.actors)
                } else {
                    "A2C".into()
                },
                training.trunk.iter().map(usize::to_string).collect::<Vec<_>>().join("-"),
                training.jobs_per_update(),
                budget.jobs
            ),
        ),
        (
            "measured on",
            format!("{} streams of {episode_jobs} jobs, the same for all policies", budget.episodes),
        ),
    ];
    for (what, value) in lines {
        _ = writeln!(text, "  {what:<22} {value}");
    }
    text
}

fn policies(setting: &Setting) -> String {
    let mut table = Table::new([
        "policy",
        ">time s",
        ">mdts",
        ">imbalance s",
        ">mdts",
        ">cost",
        ">mdts",
        ">reward",
        ">mdts",
        ">jobs",
        ">s",
    ]);
    for row in &setting.rows {
        let [time, imbalance, cost, reward] = Metric::ALL.map(|metric| spread(row, metric));
        let [by_time, by_imbalance, by_cost, by_reward] =
            Metric::ALL.map(|metric| row.change.get(metric.name()).map_or("-".into(), |c| percent(c.mean)));
        let (jobs, seconds) = if row.steps > 0.0 {
            (format!("{:.0}", row.steps), format!("{:.1}", row.cpu_seconds))
        } else {
            ("-".into(), "-".into())
        };
        let name = row.policy.into();
        table.row([
            name,
            time,
            by_time,
            imbalance,
            by_imbalance,
            cost,
            by_cost,
            reward,
            by_reward,
            jobs,
            seconds,
        ]);
    }
    table.show()
}

fn marks(report: &Report) -> String {
    let headings = MARKS.map(|(metric, policy, _)| {
        let what = match metric {
            Metric::Time => "time",
            Metric::Imbalance => "imbalance",
            Metric::Cost => "cost",
            Metric::Reward => "reward",
        };
        format!(">{what} / {policy}")
    });
    let [a, b, c, d, e] = &headings;
    let mut table = Table::new(["setting", a, b, c, d, e]);
    let [a, b, c, d, e] = MARKS.map(|(_, _, mark)| percent(mark));
    table.row(["the paper".into(), a, b, c, d, e]);
    for setting in &report.settings {
        let [a, b, c, d, e] = MARKS.map(|(metric, policy, mark)| {
            let change = row(setting, policy).and_then(|row| row.change.get(metric.name()));
            change.map_or("-".into(), |change| {
                let told = if change.mean <= mark { "reached" } else { "not reached" };
                format!("{} {told}", percent(change.mean))
            })
        });
        table.row([setting.setting.clone(), a, b, c, d, e]);
    }
    table.show()
}

/// How the advantage over raw DRL grows with the number of joint actions.
fn sizes(report: &Report) -> String {
    let mut table = Table::new([
        ">joint actions",
        "nodes x tasks",
        ">jobs of raw / of mdts",
        ">time, equal time",
        ">imbalance",
        ">cost",
        ">time, equal steps",
        ">imbalance",
        ">cost",
    ]);
    let number_of = |setting: &Setting, key: &str| setting.parameters[key].as_f64().unwrap_or_default();
    for setting in report.settings.iter().filter(|s| number_of(s, "affinity") == AFFINITY_OF_SIZES) {
        let Some((mdts, raw)) = row(setting, Comparison::MDTS).zip(row(setting, Comparison::RAW)) else {
            continue;
        };
        let shown = |changes: &std::collections::BTreeMap<&'static str, Summary>, metric: Metric| {
            changes.get(metric.name()).map_or("-".into(), |c| {
                format!("{} ({:+.0} to {:+.0})", percent(c.mean), c.low * 100.0, c.high * 100.0)
            })
        };
        table.row([
            format!("{:.0}", number_of(setting, "joint_actions")),
            format!("{} x {}", number_of(setting, "nodes"), number_of(setting, "child_tasks")),
            format!("{:.1} %", 100.0 * raw.steps / mdts.steps),
            shown(&raw.change, Metric::Time),
            shown(&raw.change, Metric::Imbalance),
            shown(&raw.change, Metric::Cost),
            shown(&setting.equal_steps, Metric::Time),
            shown(&setting.equal_steps, Metric::Imbalance),
            shown(&setting.equal_steps, Metric::Cost),
        ]);
    }
    table.show()
}

fn row<'a>(setting: &'a Setting, policy: &str) -> Option<&'a Row> {
    setting.rows.iter().find(|row| row.policy == policy)
}

fn spread(row: &Row, metric: Metric) -> String {
    row.metrics
        .get(metric.name())
        .map_or("-".into(), |s| format!("{:.2} ({:.2} to {:.2})", s.mean, s.low, s.high))
}

fn percent(change: f64) -> String {
    format!("{:+.1} %", change * 100.0)
}
