//! The rounds of one call: learn, measure, keep what is better.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use mdts_policies::mdts::training::{Report as Round, Trainer};
use serde::Serialize;

use super::files::Files;
use super::show::Progress;
use crate::error::{Error, Result};
use crate::interrupt::Interrupts;

/// What is said when Ctrl-C was pressed.
const SAID: &str = "interrupted: the training ends after this round with everything saved; press Ctrl-C again to end at \
                    once, with what was saved last";

/// How a training went.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) out: PathBuf,
    pub(super) state: PathBuf,
    /// Rounds that the training is to have, had at the beginning of this call, and has now.
    pub(super) rounds: u64,
    pub(super) resumed_from: u64,
    pub(super) round: u64,
    pub(super) interrupted: bool,
    /// Whether this call put better weights into `out`.
    pub(super) replaced: bool,
    /// The weights in `out`, as measured.
    pub(super) best: Round,
    pub(super) score: Option<f64>,
    pub(super) seconds: f64,
    pub(super) curve: Vec<Round>,
}

/// One call of the command.
#[derive(Debug)]
pub(super) struct Session {
    trainer: Trainer,
    files: Files,
    progress: Progress,
    /// What is in the file of weights.
    best: Option<Round>,
    replaced: bool,
}

impl Session {
    /// Measures what is in the file of weights.
    ///
    /// # Errors
    /// As [`Files::before`].
    pub(super) fn new(trainer: Trainer, files: Files, progress: Progress, threads: usize) -> Result<Self> {
        let best = files.before()?.map(|weights| trainer.measure_other(&weights, threads));
        Ok(Self { trainer, files, progress, best, replaced: false })
    }

    /// Trains until the last round or Ctrl-C.
    ///
    /// # Errors
    /// [`Error::Learn`] if learning broke down, [`Error::Output`] if a file cannot be written; what was saved before
    /// stays.
    pub(super) fn run(mut self, threads: usize) -> Result<Report> {
        let (begin, resumed_from, rounds) = (Instant::now(), self.trainer.round(), self.trainer.rounds());
        let interrupts = Interrupts::watch(SAID)?;
        let stop = interrupts.begin();
        if resumed_from == 0 && self.trainer.curve().is_empty() {
            let untrained = self.trainer.measure(threads).map_err(Error::learning)?;
            self.keep(&untrained)?;
        }
        while self.trainer.round() < rounds && !stop.load(Ordering::Relaxed) {
            let measure = self.trainer.config().measures(self.trainer.round() + 1);
            let round = self.trainer.step(threads, measure).map_err(Error::learning)?;
            let is_better = measure && self.keep(&round)?;
            self.progress.show(&round, is_better);
        }
        let interrupted = self.trainer.round() < rounds;
        if interrupted {
            self.files.save_state(&self.trainer)?;
        }
        self.progress.end();
        let Some(best) = self.best else {
            return Err(Error::Learn(mdts_policies::learn::Error::NotFinite {
                what: "every score that was measured".into(),
            }));
        };
        let curve = self.trainer.curve().to_vec();
        let report = Report {
            out: self.files.out().into(),
            state: self.files.state().into(),
            rounds,
            resumed_from,
            round: self.trainer.round(),
            interrupted,
            replaced: self.replaced,
            best,
            score: best.score(),
            seconds: begin.elapsed().as_secs_f64(),
            curve,
        };
        self.files.finish_curve(&report.curve)?;
        Ok(report)
    }

    /// Saves everything, the weights only if they are better than those in the file; whether they are.
    fn keep(&mut self, measured: &Round) -> Result<bool> {
        let before = self.best.and_then(|best| best.score());
        let is_better = measured.score().is_some_and(|score| before.is_none_or(|before| score < before));
        if is_better {
            self.files.save_weights(&self.trainer)?;
            self.best = Some(*measured);
            self.replaced = true;
        }
        self.files.save_state(&self.trainer)?;
        self.files.save_curve(self.trainer.curve())?;
        Ok(is_better)
    }
}
