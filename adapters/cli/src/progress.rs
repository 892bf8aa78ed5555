//! Progress of long work on standard error: a bar on a terminal, plain lines elsewhere.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mdts_core::Instance;
use mdts_core::engine::{JobId, Phase};
use mdts_core::runner::Snapshot;
use mdts_policies::search::Found;

use crate::forecast::Outlook;
use crate::output;
use crate::text::{count, number};

/// Time between two plain lines.
const PAUSE: Duration = Duration::from_secs(2);

/// A bar of so many steps; hidden where nobody watches.
pub(crate) fn steps(steps: u64, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    ProgressBar::new(steps).with_style(style("{bar:30} {pos}/{len}  {msg}"))
}

/// Steps of [`shares`] for each piece of work.
pub(crate) const SHARE: u64 = 1000;

/// A bar for so many long pieces of work, each of [`SHARE`] steps; hidden where nobody watches.
pub(crate) fn shares(pieces: usize, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(pieces as u64 * SHARE);
    bar.set_style(style("{bar:30} {percent:>3} %  {elapsed} of {duration}  {msg}"));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// A line for a search; hidden where nobody watches.
pub(crate) fn search(quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_style(style("{elapsed}  {msg}")).with_message("planning");
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Shows how far a search is.
pub(crate) fn show_search(bar: &ProgressBar, found: &Found) {
    if !bar.is_hidden() {
        let (best, bound) = (number(found.schedule.makespan()), number(found.lower_bound));
        bar.set_message(format!("best {best} s, lower bound {bound} s, {} trials", found.iterations));
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("█▉░")
}

/// Shows how far a run is: how much is done, what runs where, and when it should end.
#[derive(Debug)]
pub(crate) struct RunProgress {
    view: View,
    run: Watched,
    /// When it was shown the last time, and how long that took.
    last: Option<(Instant, Duration)>,
}

/// What is known of a run beside its moments.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) instance: Arc<Instance>,
    pub(crate) outlook: Outlook,
}

#[derive(Debug)]
enum View {
    /// On a terminal.
    Bar(ProgressBar),
    /// Elsewhere.
    Lines,
    Off,
}

/// Time between two updates of the bar.
const UPDATE: Duration = Duration::from_millis(250);
/// Part of the time that is spent on showing, at most.
const SHARE_OF_TIME: u32 = 200;
/// Nodes, and tasks of each, that are named.
const MOST_NODES: usize = 6;
const MOST_TASKS: usize = 2;

impl RunProgress {
    /// For a run.
    pub(crate) fn new(run: Watched, quiet: bool) -> Self {
        let view = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => View::Off,
            (false, false) => View::Lines,
            (false, true) => View::Bar(live(run.instance.tasks() as u64)),
        };
        Self { view, run, last: None }
    }

    /// Shows a moment of the run; the last one always.
    pub(crate) fn show(&mut self, moment: &Snapshot<'_>) {
        let is_last = moment.ended() == moment.tasks;
        let pause = match self.view {
            View::Off => return,
            View::Lines => PAUSE,
            View::Bar(_) => UPDATE,
        };
        let is_early = |(at, took): &(Instant, Duration)| at.elapsed() < pause.max(*took * SHARE_OF_TIME);
        if !is_last && self.last.as_ref().is_some_and(is_early) {
            return;
        }
        let begin = Instant::now();
        match &self.view {
            View::Off => {}
            View::Bar(bar) if is_last => bar.finish_and_clear(),
            View::Bar(bar) => {
                bar.set_position(moment.ended() as u64);
                bar.set_prefix(format!("{}{}", details(moment), self.time_left(moment)));
                bar.set_message(self.by_node(moment));
            }
            View::Lines => output::complain(&format!(
                "{:.1} s: {} of {} tasks; {}{}\n",
                moment.now,
                moment.ended(),
                moment.tasks,
                details(moment),
                self.time_left(moment)
            )),
        }
        self.last = Some((begin, begin.elapsed()));
    }

    fn time_left(&self, moment: &Snapshot<'_>) -> String {
        if moment.ended() == moment.tasks || moment.state.is_held() {
            return String::new();
        }
        let end = self.run.outlook.end(moment.state, &self.run.instance, moment.now);
        format!("; about {} left", duration(end - moment.now))
    }

    /// The tasks that run, by node.
    fn by_node(&self, moment: &Snapshot<'_>) -> String {
        let (instance, job) = (&self.run.instance, JobId::default());
        let mut running = vec![(0, String::new()); instance.nodes()];
        for task in instance.graph().tasks().filter(|task| moment.state.phase(job, *task) == Phase::Running) {
            let Some(node) = moment.state.node_of(job, task) else { continue };
            let (count, names) = &mut running[node.index()];
            *count += 1;
            if *count <= MOST_TASKS {
                _ = write!(
                    names,
                    "{}{}",
                    if *count > 1 { ", " } else { "" },
                    instance.graph().task_name(task)
                );
            }
        }
        let busy = || running.iter().enumerate().filter(|(_, (count, _))| *count > 0);
        let mut text = String::new();
        for (node, (count, names)) in busy().take(MOST_NODES) {
            let name = &instance.cluster().nodes()[node].name;
            let gap = if text.is_empty() { "" } else { "  " };
            _ = write!(text, "{gap}{name}: {names}");
            if *count > MOST_TASKS {
                _ = write!(text, " +{}", count - MOST_TASKS);
            }
        }
        let hidden = busy().count().saturating_sub(MOST_NODES);
        if hidden > 0 {
            _ = write!(text, "  and {} more", count(hidden, "node"));
        }
        text.replace(char::is_control, " ") // names come from files
    }
}

/// Two lines: a bar with counts, and what runs where.
fn live(tasks: u64) -> ProgressBar {
    /// Updates per second; more would show nothing new.
    const RATE: u8 = 4;
    let bar = ProgressBar::with_draw_target(Some(tasks), ProgressDrawTarget::stderr_with_hz(RATE));
    bar.set_style(style("{bar:30} {pos}/{len} tasks  {elapsed}  {prefix}\n{wide_msg}"));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// `12 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) => format!(
            "{} s",
            if seconds < 10.0 { format!("{:.1}", seconds.max(0.0)) } else { whole.to_string() }
        ),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

fn details(moment: &Snapshot<'_>) -> String {
    let mut text = format!("{} running", moment.running);
    let others = [
        (moment.failed, "failed"),
        (moment.blocked, "blocked"),
        (moment.cancelled, "cancelled"),
        (moment.retried, "repeated"),
    ];
    for (n, what) in others {
        if n > 0 {
            _ = write!(text, ", {n} {what}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_two_units_at_most() {
        let table = [
            (-1.0, "0.0 s"),
            (0.04, "0.0 s"),
            (9.96, "10.0 s"),
            (12.4, "12 s"),
            (59.7, "1 min 0 s"),
            (3599.0, "59 min 59 s"),
            (7500.0, "2 h 5 min"),
        ];
        for (seconds, text) in table {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
    }
}
