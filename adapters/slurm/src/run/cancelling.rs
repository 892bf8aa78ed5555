//! Ends attempts, and whole runs, in Slurm.

use std::time::Duration;

use mdts_core::Result as CoreResult;
use mdts_core::engine::TaskRun;
use mdts_core::runner::Report;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::book::Stage;
use super::conductor::Conductor;
use super::wave::Ticket;
use crate::{JobId, Result, Selection};

/// Jobs that are to be over, and who waits for it.
#[derive(Debug)]
pub(super) struct Cancelling {
    pub(super) what: What,
    /// When Slurm is told again.
    pub(super) again: Option<Instant>,
    pub(super) reply: oneshot::Sender<CoreResult<()>>,
}

#[derive(Debug)]
pub(super) enum What {
    /// Elements by wave and number.
    Elements(Vec<(usize, usize)>),
    /// All jobs of the run.
    All,
}

/// Time after which a job is seen in the queue that was submitted.
const SEEN: Duration = Duration::from_secs(2);

/// Time after which Slurm is told again to cancel what is not over.
const AGAIN: Duration = Duration::from_secs(10);

impl Conductor {
    /// Attempts are to be stopped: those that have not begun never will, those that run are ended with their jobs.
    pub(super) fn begin_cancelling(
        &mut self,
        runs: &[TaskRun],
        reply: oneshot::Sender<CoreResult<()>>,
    ) -> Result<()> {
        self.look_now()?;
        let mut running = Vec::new();
        for run in runs {
            let Some(wanted) = self.book.wanted.remove(run) else { continue }; // it has ended
            let Some(&seat) = self.book.seats.get(run) else { continue };
            drop(wanted);
            if self.folder.claim(seat.ticket)? {
                self.end_if_unused(seat.wave, seat.element);
            } else if !self.book.watch(seat.wave, seat.element).is_over() {
                running.push((seat.wave, seat.element));
            }
        }
        running.sort_unstable();
        running.dedup();
        for &(wave, element) in &running {
            self.book.watch(wave, element).is_ending = true;
            self.give_back(wave, element)?;
        }
        self.cancelling.push(Cancelling { what: What::Elements(running), again: None, reply });
        self.hurry();
        Ok(())
    }

    /// All jobs of the run are to end.
    pub(super) fn begin_cancelling_all(&mut self, reply: oneshot::Sender<CoreResult<()>>) {
        for at in std::mem::take(&mut self.book.queue) {
            if self.book.waves[at].stage == Stage::New {
                self.book.waves[at].stage = Stage::Dropped;
            }
        }
        self.book.wanted.clear();
        self.cancelling.push(Cancelling { what: What::All, again: None, reply });
        self.hurry();
    }

    /// The other attempts of a job that is to end will run in another one.
    fn give_back(&mut self, wave: usize, element: usize) -> Result<()> {
        for ticket in self.book.open(wave, element) {
            if self.folder.claim(ticket)? {
                self.book.wanted.remove(&ticket.run());
                self.tell(Report::Lost(ticket.run()));
            }
        }
        Ok(())
    }

    /// A job that has nothing left to run is cancelled when there is time for it.
    pub(super) fn end_if_unused(&mut self, wave: usize, element: usize) {
        let is_used =
            |ticket: &Ticket| !self.folder.is_claimed(*ticket) && !self.book.finished.contains(ticket);
        let is_unused = !self.book.element(wave, element).tickets.iter().any(is_used);
        let runs = self.book.watch(wave, element).record.as_ref().is_some_and(|job| !job.state.is_waiting());
        if is_unused && !runs {
            self.end_job(wave, element);
        }
    }

    /// A job is cancelled, and nobody waits for it.
    pub(super) fn end_job(&mut self, wave: usize, element: usize) {
        self.book.watch(wave, element).is_ending = true;
        let (reply, _) = oneshot::channel();
        let what = What::Elements(vec![(wave, element)]);
        self.cancelling.push(Cancelling { what, again: None, reply });
    }

    /// Tells Slurm what is to end. A controller that has lost its state gives numbers of jobs anew: only what was just seen
    /// under its own comment is cancelled.
    pub(super) async fn cancel_jobs(&mut self) -> Result<()> {
        let now = Instant::now();
        let is_due = |of: &Cancelling| of.again.is_none_or(|again| again <= now);
        let mut jobs: Vec<JobId> = Vec::new();
        for cancelling in self.cancelling.iter().filter(|of| is_due(of)) {
            match &cancelling.what {
                What::Elements(elements) => {
                    let seen = elements.iter().filter(|(wave, element)| {
                        let watch = &self.book.waves[*wave].elements[*element];
                        watch.record.is_some() && watch.missing_since.is_none() && !watch.is_over()
                    });
                    jobs.extend(seen.filter_map(|(wave, element)| self.book.job(*wave, *element)));
                }
                What::All => jobs.extend(self.own_jobs().await?),
            }
        }
        jobs.sort_unstable();
        jobs.dedup();
        if !jobs.is_empty() {
            self.slurm.cancel(&jobs).await?;
            self.hurry();
        }
        for cancelling in self.cancelling.iter_mut().filter(|of| is_due(of)) {
            cancelling.again = Some(now + AGAIN);
        }
        self.finish_cancelling(None);
        Ok(())
    }

    /// The jobs of the run that are not over.
    async fn own_jobs(&self) -> Result<Vec<JobId>> {
        let jobs = self.slurm.jobs(&Selection::Own).await?;
        let own =
            jobs.iter().filter(|job| !job.state.is_over() && self.folder.wave_of(&job.comment).is_some());
        Ok(own.map(|job| JobId::whole(job.id.job)).collect())
    }

    /// Answers those whose jobs are over; `left` is the number of jobs of the run that are not, if it was just seen.
    pub(super) fn finish_cancelling(&mut self, left: Option<usize>) {
        let book = &self.book;
        let is_gone = |wave: usize, element: usize| {
            let of = &book.waves[wave];
            let watch = &of.elements[element];
            // What Slurm does not have is not there; what is on its way is seen soon.
            let is_missing = watch.missing_since.is_some_and(|since| since.elapsed() >= SEEN);
            watch.is_over() || is_missing || matches!(of.stage, Stage::New | Stage::Dropped)
        };
        let mut open = Vec::new();
        for cancelling in self.cancelling.drain(..) {
            let is_over = match &cancelling.what {
                What::Elements(elements) => elements.iter().all(|(wave, element)| is_gone(*wave, *element)),
                What::All => left == Some(0),
            };
            if is_over {
                cancelling.reply.send(Ok(())).ok(); // nobody may wait for it
            } else {
                open.push(cancelling);
            }
        }
        self.cancelling = open;
    }
}
