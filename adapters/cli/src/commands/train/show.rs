//! How a training is told: progress, the curve as CSV and as a picture, the summary.

use std::fmt::Write as _;
use std::time::Instant;

use indicatif::ProgressBar;
use mdts_policies::mdts::training::{Phase, Report as Round};

use super::session::Report;
use crate::error::Result;
use crate::gantt::Form;
use crate::output;
use crate::plot::{self, Lines};
use crate::progress;

/// Progress on standard error: a bar on a terminal, elsewhere a line per measured round.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    rounds: u64,
    is_quiet: bool,
    /// When rounds began, and how many have been since.
    begin: Option<(Instant, u64)>,
    /// What was measured last.
    measured: String,
}

impl Progress {
    /// For so many rounds in all.
    pub(super) fn new(rounds: u64, quiet: bool) -> Self {
        let bar = progress::steps(rounds, quiet);
        Self { bar, rounds, is_quiet: quiet, begin: None, measured: String::new() }
    }

    /// The lessons of some rounds have been made again.
    pub(super) fn refill(&self, done: usize, of: usize) {
        self.bar.set_message(format!("making the lessons of round {} of {of} again", done + 1));
        if done == 0 && self.bar.is_hidden() && !self.is_quiet {
            output::complain(&format!("making the lessons of the last rounds again, {of} in all\n"));
        }
    }

    /// A round has ended.
    pub(super) fn show(&mut self, round: &Round, is_better: bool) {
        let (begin, first) = *self.begin.get_or_insert_with(|| (Instant::now(), round.round));
        let done = round.round - first;
        let left = (done > 0).then(|| {
            let each = begin.elapsed().as_secs_f64() / done as f64;
            format!(", {} left", duration(each * self.rounds.saturating_sub(round.round) as f64))
        });
        if let (Some(plan), Some(run)) = (round.plan, round.run) {
            self.measured = format!(", plans {plan:.4} x HEFT, runs {run:.4} x EFT");
        }
        let reward = format!("reward {:.4}", reward(round));
        let lessons =
            if round.gain.is_none() { format!(", {} lessons", round.lessons) } else { String::new() };
        let rest = format!("{lessons}{}", left.unwrap_or_default());
        self.bar.set_position(round.round);
        self.bar.set_message(format!("{reward}{}{rest}", self.measured));
        if round.plan.is_some() && self.bar.is_hidden() && !self.is_quiet {
            let better = if is_better { "; the best so far" } else { "" };
            let head = format!("round {} of {}: ", round.round, self.rounds);
            output::complain(&format!("{head}{reward}{}{rest}{better}\n", self.measured));
        }
    }

    /// The bar goes away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// In percent: minus the expected cost of choices in plans, or how much shorter than online EFT's runs were.
fn reward(round: &Round) -> f64 {
    round.gain.unwrap_or(0.0 - round.cost)
}

/// `45 s`, `12 min`, `2 h 5 min`.
fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0..2 => format!("{seconds:.0} s"),
        2..60 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// One line per measured round.
pub(super) fn csv(curve: &[Round]) -> String {
    let mut text = "round,phase,reward,greedy_reward,lessons,plan_to_heft,run_to_eft,score\n".to_owned();
    let cell = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
    for round in curve {
        let (plan, run, score) = (cell(round.plan), cell(round.run), cell(round.score()));
        let phase = match round.phase {
            Phase::Imitation => "imitation",
            Phase::Lessons => "lessons",
            Phase::Runs => "runs",
        };
        let (reward, greedy) = (reward(round), round.gain.unwrap_or(0.0 - round.greedy));
        let lessons = round.lessons;
        _ = writeln!(text, "{},{phase},{reward},{greedy},{lessons},{plan},{run},{score}", round.round);
    }
    text
}

/// The ratios and the reward over rounds.
///
/// # Errors
/// As [`plot::draw_lines`].
pub(super) fn picture(curve: &[Round], form: Form) -> Result<String> {
    let points = |value: fn(&Round) -> Option<f64>| -> Vec<(f64, f64)> {
        curve.iter().filter_map(|round| Some((round.round as f64, value(round)?))).collect()
    };
    // Nothing has been learnt from before the first round.
    let in_phase = |phase: Phase| -> Vec<(f64, f64)> {
        let learnt = curve.iter().filter(|r| r.phase == phase && r.lessons > 0);
        learnt.map(|r| (r.round as f64, 0.0 - r.cost)).collect()
    };
    let mut in_plans = vec![("imitation", in_phase(Phase::Imitation)), ("lessons", in_phase(Phase::Lessons))];
    in_plans.retain(|line| !line.1.is_empty());
    let in_runs = points(|r| r.gain);
    let mut panels = vec![
        Lines {
            title: "Makespan on validation jobs, relative to list policies".into(),
            level: Some(1.0),
            lines: vec![("plans / HEFT", points(|r| r.plan)), ("runs / online EFT", points(|r| r.run))],
        },
        Lines {
            title: "Reward in plans: minus the expected cost of choices, in percent of the makespan".into(),
            level: None,
            lines: in_plans,
        },
    ];
    if !in_runs.is_empty() {
        panels.push(Lines {
            title: "Reward in runs: by how many percent they are shorter than online EFT's".into(),
            level: None,
            lines: vec![("reward in runs", in_runs)],
        });
    }
    plot::draw_lines("Training", "rounds", &panels, form)
}

/// The summary.
pub(super) fn told(report: &Report) -> String {
    let best = &report.best;
    let ratio = |x: Option<f64>| x.map_or("-".into(), |x| format!("{x:.4}"));
    let weights = if report.replaced { "has" } else { "keeps, as nothing better came," };
    let mut text = format!(
        "round {} of {} after {}\n{} {weights} the weights of round {}: plans {} x HEFT, runs {} x online EFT\n",
        report.round,
        report.rounds,
        duration(report.seconds),
        report.out.display(),
        best.round,
        ratio(best.plan),
        ratio(best.run),
    );
    if report.interrupted {
        _ = writeln!(text, "interrupted; mdts train {} --resume continues", report.out.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let table = [(3.4, "3 s"), (80.0, "80 s"), (130.0, "2 min"), (7500.0, "2 h 5 min")];
        for (seconds, text) in table {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn rounds_that_were_not_measured_have_empty_cells() {
        let round = Round {
            round: 2,
            phase: Phase::Imitation,
            cost: 0.5,
            greedy: 0.25,
            lessons: 7,
            plan: None,
            run: None,
            gain: None,
        };
        let measured = Round { plan: Some(1.0), run: Some(0.25), ..round };
        let generation = Round { phase: Phase::Runs, lessons: 0, gain: Some(9.5), ..measured };
        let text = csv(&[round, measured, generation]);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "2,imitation,-0.5,-0.25,7,,,",
                "2,imitation,-0.5,-0.25,7,1,0.25,0.5",
                "2,runs,9.5,9.5,0,1,0.25,0.5"
            ]
        );
    }
}
