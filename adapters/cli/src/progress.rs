//! Progress of long work on standard error: a bar on a terminal, plain lines elsewhere.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mdts_core::runner::Snapshot;
use mdts_policies::search::Found;

use crate::output;
use crate::text::number;

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

/// Shows how far a run is.
#[derive(Debug)]
pub(crate) enum RunProgress {
    /// On a terminal.
    Bar(ProgressBar),
    /// Elsewhere; the time of the last line.
    Lines(Option<Instant>),
    /// Nothing.
    Off,
}

impl RunProgress {
    /// For a run of so many tasks.
    pub(crate) fn new(tasks: usize, quiet: bool) -> Self {
        match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Self::Off,
            (false, false) => Self::Lines(None),
            (false, true) => Self::Bar(
                ProgressBar::new(tasks as u64)
                    .with_style(style("{bar:30} {pos}/{len} tasks  {elapsed}  {msg}")),
            ),
        }
    }

    /// Shows a moment of the run; the last one always.
    pub(crate) fn show(&mut self, moment: &Snapshot) {
        let ended = moment.ended();
        match self {
            Self::Off => {}
            Self::Bar(bar) => {
                bar.set_position(ended as u64);
                bar.set_message(details(moment));
                if ended == moment.tasks {
                    bar.finish_and_clear();
                }
            }
            Self::Lines(last) => {
                if ended < moment.tasks && last.is_some_and(|time| time.elapsed() < PAUSE) {
                    return;
                }
                *last = Some(Instant::now());
                let line =
                    format!("{:.1} s: {ended} of {} tasks; {}\n", moment.now, moment.tasks, details(moment));
                output::complain(&line);
            }
        }
    }
}

fn details(moment: &Snapshot) -> String {
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
