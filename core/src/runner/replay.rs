//! From the entries of a journal to the state of its run.

use std::sync::Arc;

use super::attempts::Attempts;
use crate::engine::{Command, Event, State};
use crate::journal::{Entry, Snapshot, StepEntry};
use crate::{Error, Instance, Result};

/// Does once more what a journal tells.
#[derive(Debug)]
pub(super) struct Replay {
    instance: Arc<Instance>,
    queues: bool,
    place: String,
    pub(super) state: State,
    pub(super) attempts: Attempts,
    commands: Vec<Command>,
}

impl Replay {
    pub(super) fn new(instance: Arc<Instance>, queues: bool, place: String) -> Self {
        let state = State::new(instance.cluster(), false);
        let attempts = Attempts::new(instance.tasks());
        Self { instance, queues, place, state, attempts, commands: Vec::new() }
    }

    pub(super) fn take(&mut self, entry: Entry) -> Result<()> {
        match entry {
            Entry::Step(step) => self.step(&step),
            Entry::Snapshot(snapshot) => self.jump(&snapshot),
            Entry::Manifest(_) | Entry::Opened { .. } | Entry::Ended { .. } | Entry::Piece(_) => Ok(()),
            Entry::Record(_) => Err(self.strange("it is the journal of a service, not of a run")),
        }
    }

    fn step(&mut self, step: &StepEntry) -> Result<()> {
        let record = step.record(&self.instance);
        for (run, usage) in &step.usage {
            self.attempts.note_usage(*run, *usage);
        }
        for event in &record.events {
            match *event {
                Event::Started(run) => drop(self.attempts.started(run, step.now)),
                Event::Finished(run) => drop(self.attempts.end(run, step.now, None)),
                Event::Failed(run) | Event::FailedUntil { run, .. } | Event::FailedForGood(run) => {
                    let reason =
                        step.reasons.iter().find(|(of, _)| *of == run).map(|(_, reason)| reason.clone());
                    self.attempts.end(run, step.now, reason);
                }
                Event::Interrupted(run) => drop(self.attempts.cancel(run, step.now)),
                Event::NodeLost(node) => self.attempts.lose(node, step.now),
                Event::Dropped { task, .. } => {
                    // Its attempt may have failed in the same step, for a reason of its own.
                    let reason = step.reasons.iter().rfind(|(of, _)| of.task == task);
                    self.attempts.blame(task, reason.map_or("", |(_, reason)| reason));
                }
                _ => {}
            }
        }
        self.state.repeat(&record, &mut self.commands).map_err(|error| self.strange(&error.to_string()))?;
        for command in self.commands.drain(..) {
            match command {
                Command::Start { run, node } => self.attempts.begin(run, node, step.now, !self.queues),
                Command::Cancel { run, .. } => drop(self.attempts.cancel(run, step.now)),
                Command::Stage { .. } | Command::JobDone { .. } => {}
            }
        }
        Ok(())
    }

    fn jump(&mut self, snapshot: &Snapshot) -> Result<()> {
        let state = {
            let instance = &self.instance;
            State::from_bytes(&snapshot.engine, instance.cluster(), |_| Some(instance.clone()))
        };
        let attempts: postcard::Result<Attempts> = postcard::from_bytes(&snapshot.runner);
        match (state, attempts) {
            (Ok(Some(state)), Ok(attempts)) if attempts.tasks() == self.instance.tasks() => {
                (self.state, self.attempts) = (state, attempts);
                Ok(())
            }
            (Err(error), _) | (_, Err(error)) => Err(self.strange(&format!("its snapshot: {error}"))),
            _ => Err(self.strange("its snapshot is of another job")),
        }
    }

    fn strange(&self, what: &str) -> Error {
        let message = format!("{what}; it was not written by this version of mdts, or was changed since");
        Error::Journal { place: self.place.clone(), message }
    }
}
