//! One look at the queue, and what it says of every job of the run.

use mdts_core::engine::TaskRun;
use mdts_core::runner::{Outcome, Report};
use tokio::time::Instant;

use super::book::{Stage, Wanted};
use super::conductor::Conductor;
use super::fate::{self, Fate};
use super::reasons::{self, Waiting};
use crate::{Change, JobId, JobRecord, JobState, Placement, Result, Selection};

impl Conductor {
    /// Looks at all jobs at once.
    pub(super) async fn poll(&mut self) -> Result<()> {
        let jobs = self.slurm.jobs(&Selection::Own).await?;
        let now = Instant::now();
        let (mut left, mut strays, mut forgotten) = (0, Vec::new(), Vec::new());
        for wave in &mut self.book.waves {
            for watch in wave.elements.iter_mut().filter(|watch| !watch.is_over()) {
                watch.missing_since.get_or_insert(now);
            }
        }
        for job in jobs {
            let Some(wave) = self.folder.wave_of(&job.comment) else { continue };
            left += usize::from(!job.state.is_over());
            let Some(at) = self.book.wave_at(wave) else { continue };
            match self.book.waves[at].job {
                Some(number) if number == job.id.job => {
                    if self.is_release_forgotten(at, &job) {
                        forgotten.push(at);
                    }
                    self.take_record(at, job, now);
                }
                // A submission that was thought lost and arrived after all: it has nothing left to do.
                Some(_) if !job.state.is_over() => strays.push(JobId::whole(job.id.job)),
                _ => {}
            }
        }
        forgotten.dedup();
        for at in forgotten {
            self.book.waves[at].stage = Stage::Held;
            self.book.queue.push_back(at);
        }
        strays.sort_unstable();
        strays.dedup();
        if !strays.is_empty() {
            tracing::warn!(?strays, "jobs that were submitted twice are cancelled");
            self.slurm.cancel(&strays).await?;
        }
        self.look_now()?;
        self.judge_all().await?;
        self.judge_ghosts()?;
        self.finish_cancelling(Some(left));
        Ok(())
    }

    fn take_record(&mut self, at: usize, job: JobRecord, now: Instant) {
        let element = job.id.element.unwrap_or_default() as usize;
        let Some(watch) = self.book.waves[at].elements.get_mut(element) else { return };
        let is_new = watch.record.as_ref().is_none_or(|known| known.state != job.state);
        watch.missing_since = None;
        watch.has_run |= !job.state.is_waiting() && !job.state.is_over();
        if job.state.is_over() {
            watch.over_since.get_or_insert(now);
        }
        watch.record = Some(job);
        if is_new {
            self.hurry();
        }
    }

    /// Judges all attempts of whose end there is no word.
    async fn judge_all(&mut self) -> Result<()> {
        let (mut changes, mut missing) = (Vec::new(), Vec::new());
        for (wave, element) in self.book.open_elements() {
            let stage = self.book.waves[wave].stage;
            if !matches!(stage, Stage::Held | Stage::Released) {
                continue;
            }
            let watch = &self.book.waves[wave].elements[element];
            if watch.is_over() {
                self.judge_over(wave, element)?;
            } else if watch.missing_since.is_some_and(|since| since.elapsed() >= self.options.poll.0 * 4) {
                missing.push((wave, element));
            } else if let Some(record) = watch.record.clone().filter(|_| stage == Stage::Released) {
                if record.state.is_waiting() {
                    changes.extend(self.judge_waiting(wave, element, &record)?);
                } else {
                    self.book.watch(wave, element).waits_since = None;
                }
            }
        }
        if !missing.is_empty() {
            self.judge_missing(&missing).await?;
        }
        if !changes.is_empty() {
            for (at, reason) in self.slurm.update(&changes).await? {
                tracing::warn!("{:?}: {reason}", changes.get(at).and_then(|change| change.job));
            }
        }
        Ok(())
    }

    /// Jobs that only seem to run. A controller that was killed may have forgotten that a job has ended, or believe in one
    /// that no node knows; both would hold their nodes for a long time.
    fn judge_ghosts(&mut self) -> Result<()> {
        let mut ghosts = Vec::new();
        for (wave, of) in self.book.waves.iter_mut().enumerate() {
            for (element, watch) in of.elements.iter_mut().enumerate() {
                let runs = watch.record.as_ref().is_some_and(|job| job.state == JobState::Running);
                if !runs || watch.is_over() || watch.is_ending {
                    continue;
                }
                let tickets = &of.wave.elements[element].tickets;
                let has_ended = tickets.iter().all(|ticket| self.book.finished.contains(ticket));
                let has_begun = || tickets.iter().any(|ticket| self.folder.is_claimed(*ticket));
                if !has_ended && has_begun() {
                    watch.odd_since = None;
                } else if watch.odd_since.get_or_insert_with(Instant::now).elapsed() >= self.options.patience
                {
                    ghosts.push((wave, element));
                }
            }
        }
        for (wave, element) in ghosts {
            let job = self.book.job(wave, element).map(|job| job.to_string()).unwrap_or_default();
            tracing::warn!("Slurm's job {job} only seems to run; it is cancelled");
            let reason = format!("Slurm's job {job} seemed to run, and has not begun it");
            self.give_up(wave, element, &Fate::Lost(reason))?;
        }
        Ok(())
    }

    /// The job is over: attempts in it without a result did not come to a good end.
    fn judge_over(&mut self, wave: usize, element: usize) -> Result<()> {
        let watch = &self.book.waves[wave].elements[element];
        let (Some(record), Some(since)) = (watch.record.clone(), watch.over_since) else { return Ok(()) };
        let is_ending = watch.is_ending;
        let log = self.folder.wave_folder(self.book.waves[wave].wave.number).join(format!("{element}.log"));
        let fate = fate::of(&record, &log.display().to_string());
        // The script ended by itself, so that it has written how; the file may be seen later.
        let is_told = matches!(record.state, JobState::Completed | JobState::Failed)
            && record.exit.0 <= 1
            && record.exit.1 == 0;
        let is_cut_off =
            record.reason == "DependencyNeverSatisfied" || record.exit.0 == super::script::NO_PARENT;
        for ticket in self.book.open(wave, element) {
            if is_cut_off && !self.folder.is_claimed(ticket) {
                // All that it depends on has succeeded meanwhile, or it would not have been asked for.
                self.submit_again(ticket.run())?;
            } else if self.folder.claim(ticket)? {
                self.conclude(ticket.run(), &unused(&record, &fate, is_ending));
            } else if is_told && since.elapsed() < self.options.result_patience {
                self.look_now()?;
            } else if is_ending {
                self.conclude(ticket.run(), &Fate::Lost(WITH_ANOTHER.to_owned()));
            } else {
                self.conclude(ticket.run(), &fate);
            }
        }
        Ok(())
    }

    /// The same attempt gets another job.
    fn submit_again(&mut self, run: TaskRun) -> Result<()> {
        match self.book.wanted.remove(&run) {
            Some(Wanted { assignment, .. }) => self.start(vec![assignment]),
            None => Ok(()),
        }
    }

    /// The controller does not know these any more; its accounts may.
    async fn judge_missing(&mut self, missing: &[(usize, usize)]) -> Result<()> {
        self.look_now()?;
        let jobs: Vec<JobId> =
            missing.iter().filter_map(|(wave, element)| self.book.job(*wave, *element)).collect();
        let ends = self.slurm.history(&jobs).await?;
        for &(wave, element) in missing {
            let Some(job) = self.book.job(wave, element) else { continue };
            let watch = self.book.watch(wave, element);
            watch.over_since = Some(Instant::now());
            if let Some(end) = ends.iter().find(|end| end.id == job && end.state.is_over()) {
                watch.record = Some(end.clone());
                self.judge_over(wave, element)?;
                continue;
            }
            for ticket in self.book.open(wave, element) {
                // Whoever has not begun must not begin from now on.
                let what = if self.folder.claim(ticket)? { "begun" } else { "ended" };
                let reason = format!("Slurm has forgotten job {job}, and the task had not {what}");
                self.conclude(ticket.run(), &Fate::Lost(reason));
            }
        }
        Ok(())
    }

    /// The job has not begun: it must not wait for ever.
    fn judge_waiting(&mut self, wave: usize, element: usize, record: &JobRecord) -> Result<Option<Change>> {
        let id = record.id;
        if self.book.watch(wave, element).has_run {
            return self.judge_put_back(wave, element, id).map(|()| None);
        }
        let waiting = reasons::judge(&record.reason);
        let watch = self.book.watch(wave, element);
        let can_move = !watch.is_free && self.options.placement != Placement::None;
        let limit = match waiting {
            Waiting::Patient if can_move && self.options.placement == Placement::Soft => {
                self.options.soft_patience
            }
            Waiting::Patient => {
                watch.waits_since = None;
                return Ok(None);
            }
            Waiting::NotLaunched => {
                let fate = Fate::Lost(format!("Slurm's job {id} could not be launched ({})", record.reason));
                return self.give_up(wave, element, &fate).map(|()| None);
            }
            Waiting::Held => {
                if watch.waits_since.replace(Instant::now()).is_none() {
                    tracing::warn!(
                        "Slurm's job {id} is held ({}); it waits until it is released",
                        record.reason
                    );
                }
                return Ok(None);
            }
            Waiting::Misplaced | Waiting::Hopeless => self.options.patience,
        };
        let waited = watch.waits_since.get_or_insert_with(Instant::now).elapsed();
        if waited < limit {
            return Ok(None);
        }
        if can_move && waiting != Waiting::Hopeless {
            (watch.is_free, watch.waits_since) = (true, None);
            if waiting == Waiting::Misplaced {
                self.tell_moved(wave, element, record);
            }
            return Ok(Some(Change { nodes: Some(String::new()), ..Change::of(id) }));
        }
        let fate = Fate::Final(format!(
            "Slurm's job {id} waited in vain for {} s: {}; change what the task demands, the partition or the placement",
            waited.as_secs(),
            record.reason
        ));
        self.give_up(wave, element, &fate).map(|()| None)
    }

    /// The job has run and waits again: what it has claimed it would not run a second time.
    fn judge_put_back(&mut self, wave: usize, element: usize, id: JobId) -> Result<()> {
        self.end_job(wave, element);
        for ticket in self.book.open(wave, element) {
            self.folder.claim(ticket)?;
            let reason = format!("Slurm's job {id} was put back into the queue");
            self.conclude(ticket.run(), &Fate::Lost(reason));
        }
        Ok(())
    }

    /// A job that has not begun never will.
    fn give_up(&mut self, wave: usize, element: usize, fate: &Fate) -> Result<()> {
        for ticket in self.book.open(wave, element) {
            if self.folder.claim(ticket)? {
                self.conclude(ticket.run(), fate);
            }
        }
        self.end_job(wave, element);
        Ok(())
    }

    fn tell_moved(&self, wave: usize, element: usize, record: &JobRecord) {
        let node = &self.cluster.node(self.book.element(wave, element).node.into()).name;
        let tasks = self.book.open(wave, element);
        let names = tasks.iter().filter_map(|ticket| self.book.wanted.get(&ticket.run()));
        let names: Vec<String> = names.map(|wanted| format!("'{}'", wanted.assignment.task().name)).collect();
        let text = format!(
            "{} may run anywhere, as it waited for {node} in vain: {}",
            names.join(", "),
            record.reason
        );
        tracing::warn!("{text}");
        self.summarize(|summary| summary.moved.push(text));
    }

    /// Tells the runner what became of an attempt.
    pub(super) fn conclude(&mut self, run: TaskRun, fate: &Fate) {
        if *fate == Fate::GoesOn {
            return;
        }
        let Some(Wanted { assignment, .. }) = self.book.wanted.remove(&run) else { return };
        let task = assignment.task();
        if let Some(outcome) = fate.outcome(task) {
            self.tell(Report::Ended(run, outcome));
        }
        let Fate::Lost(reason) = fate else { return };
        let losses = self.losses.entry(run.task).or_default();
        *losses += 1;
        if *losses >= self.options.most_losses {
            let reason = format!("lost {losses} times; at last, {reason}");
            self.tell(Report::Ended(run, Outcome::Failure(reason)));
        } else {
            tracing::warn!("'{}' is to run again: {reason}", task.name);
            self.tell(Report::Lost(run));
        }
    }
}

/// Why an attempt was lost that shared its job with another.
const WITH_ANOTHER: &str = "its job was cancelled with another task";

/// What becomes of an attempt that its job has never begun, when that is over.
fn unused(record: &JobRecord, fate: &Fate, is_ending: bool) -> Fate {
    match fate {
        // The others of its job have used up the time, or what else it was.
        Fate::Failed(..) | Fate::Success | Fate::GoesOn if record.exit.0 <= 1 => {
            Fate::Lost(format!("Slurm's job {} ended before its turn", record.id))
        }
        Fate::Final(_) if is_ending => Fate::Lost(WITH_ANOTHER.to_owned()),
        fate => fate.clone(),
    }
}
