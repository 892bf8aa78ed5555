//! What is kept of a run: the engine's records for the report, and the journal.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::attempts::Attempts;
use super::replay::Replay;
use super::{RunEnd, Usage};
use crate::engine::{Engine, Event, Record, State, TaskRun};
use crate::journal::{Entry, Journal, StepEntry, Torn, digest, wall_ms};
use crate::policy::Placer;
use crate::{Error, Instance, Result};

/// Keeps what an engine does.
#[derive(Debug)]
pub(super) struct Ledger {
    journal: Option<Journal>,
    /// For the report, if it is to hold them.
    records: Option<Vec<Record>>,
    /// Why attempts failed since the last step.
    reasons: Vec<(TaskRun, String)>,
    /// What attempts used that ended since then.
    usage: Vec<(TaskRun, Usage)>,
    /// When the oldest entry is to be handed on that nothing follows from.
    due: Option<Instant>,
}

/// Longest time that such an entry waits for another.
const LATER: Duration = Duration::from_millis(20);

/// A run as its journal has left it.
#[derive(Debug)]
pub(super) struct Past {
    pub(super) state: State,
    pub(super) attempts: Attempts,
}

impl Ledger {
    pub(super) fn new(journal: Option<Journal>, keep_records: bool) -> Self {
        Self {
            journal,
            records: keep_records.then(Vec::new),
            reasons: Vec::new(),
            usage: Vec::new(),
            due: None,
        }
    }

    /// Whether the engine has to keep records.
    pub(super) fn is_on(&self) -> bool {
        self.journal.is_some() || self.records.is_some()
    }

    /// What the journal tells of earlier processes, if there were any that began the job. `queues` says whether attempts
    /// begin later than told.
    ///
    /// # Errors
    /// [`Error::Journal`] if it is damaged or of another job.
    pub(super) fn open(&mut self, instance: &Arc<Instance>, queues: bool) -> Result<Option<Past>> {
        let Some(journal) = &mut self.journal else { return Ok(None) };
        if journal.manifest().digest != digest(instance) {
            let message = "workflow, cluster or model are not those of the journal; resume with what the run began \
                           with, or begin a new run in another folder";
            return Err(Error::Journal { place: journal.place().to_owned(), message: message.to_owned() });
        }
        let place = journal.place().to_owned();
        let mut replay = Replay::new(instance.clone(), queues, place.clone());
        if let Some(Torn { offset, bytes }) = journal.replay(|entry| replay.take(entry))? {
            tracing::warn!("{place}: the last record, {bytes} bytes at {offset}, was torn and is dropped");
        }
        let opened = Entry::Opened { at_ms: wall_ms(), process: std::process::id() };
        journal.append(&opened)?;
        Ok((replay.state.job_count() > 0).then_some(Past { state: replay.state, attempts: replay.attempts }))
    }

    /// Notes why an attempt failed, for the next step.
    pub(super) fn note(&mut self, run: TaskRun, reason: &str) {
        if self.journal.is_some() {
            self.reasons.push((run, reason.to_owned()));
        }
    }

    /// Notes what an attempt used, for the next step.
    pub(super) fn note_usage(&mut self, run: TaskRun, usage: Usage) {
        if self.journal.is_some() {
            self.usage.push((run, usage));
        }
    }

    /// Whether there is a journal.
    pub(super) fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Keeps the engine's latest records. Only when this has returned may its `commands` be carried out.
    ///
    /// # Errors
    /// [`Error::NotRecorded`].
    pub(super) fn keep<P: Placer>(&mut self, engine: &mut Engine<P>, has_commands: bool) -> Result<()> {
        if !self.is_on() {
            return Ok(());
        }
        let records = engine.take_records();
        if let Some(journal) = &mut self.journal {
            for record in records.iter().filter(|r| !r.events.is_empty() || !r.decisions.is_empty()) {
                let may_wait = !has_commands && is_minor(record);
                let mut entry = StepEntry::new(record, std::mem::take(&mut self.reasons));
                entry.usage = std::mem::take(&mut self.usage);
                let entry = Entry::Step(entry);
                if may_wait {
                    journal.append_later(&entry)?;
                } else {
                    journal.append(&entry)?;
                }
            }
            let waits = journal.has_unwritten();
            self.due = waits.then(|| self.due.unwrap_or_else(|| Instant::now() + LATER));
        }
        if let Some(kept) = &mut self.records {
            kept.extend(records);
        }
        Ok(())
    }

    /// When [`Ledger::flush`] is to be called.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Hands on what waits, if it has waited long enough.
    ///
    /// # Errors
    /// [`Error::NotRecorded`].
    pub(super) fn flush(&mut self) -> Result<()> {
        if let Some(journal) = self.journal.as_mut()
            && self.due.is_some_and(|due| due <= Instant::now())
        {
            self.due = None;
            journal.flush()?;
        }
        Ok(())
    }

    /// Puts a snapshot in the place of the journal's entries if there are many. Only when the commands of the last step
    /// are noted in `attempts`, and nothing of the next step is. Without it the run goes on as well.
    pub(super) fn compact(&mut self, state: &State, attempts: &Attempts) {
        let Some(journal) = self.journal.as_mut().filter(|journal| journal.wants_snapshot()) else {
            return;
        };
        let compacted = journal.compact(|snapshot| {
            let written = state.write(snapshot.engine());
            written
                .and_then(|()| postcard::to_io(attempts, snapshot.runner()).map(drop))
                .map_err(io::Error::other)
        });
        if let Err(error) = compacted {
            tracing::warn!("no snapshot takes the place of the journal's entries, which stay: {error}");
        }
    }

    /// The run stops.
    ///
    /// # Errors
    /// [`Error::NotRecorded`].
    pub(super) fn close(&mut self, end: RunEnd) -> Result<()> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.append(&Entry::Ended { at_ms: wall_ms(), why: end.word().to_owned() })?;
        journal.sync()
    }

    /// The records kept for the report.
    pub(super) fn take_records(&mut self) -> Vec<Record> {
        self.records.take().unwrap_or_default()
    }
}

/// Whether a run that goes on without this record is as good: it then finds out itself which attempts have begun.
fn is_minor(record: &Record) -> bool {
    let is_minor = |event: &Event| matches!(event, Event::Started(_) | Event::Tick);
    record.decisions.is_empty() && record.events.iter().all(is_minor)
}
