//! Changes a run that no process runs: by a step that is added to its journal.

use std::sync::Arc;

use super::replay::Replay;
use crate::engine::{Event, TaskRun};
use crate::journal::{Entry, Happening, Journal, StepEntry, digest, wall_ms};
use crate::{Error, Instance, Result};

/// Adds events such as [`Event::Retried`] and [`Event::Dropped`] to the journal of a run, with the reasons of those that
/// fail something. Nothing starts from them until the run is resumed. `why` is what [`Standing::end`](super::Standing)
/// tells from then on; `queues` says whether the executor of the run [queues](super::Executor::queues). The folder of the journal stays locked as long as
/// what is returned lives.
///
/// # Errors
/// [`Error::Journal`] if the journal is damaged, of another job than `instance`, or tells of no beginning;
/// [`Error::NotRecorded`].
pub fn amend(
    mut journal: Journal,
    instance: &Arc<Instance>,
    queues: bool,
    events: &[Event],
    reasons: Vec<(TaskRun, String)>,
    why: &str,
) -> Result<Journal> {
    let place = journal.place().to_owned();
    let wrong = |message: &str| Error::Journal { place: place.clone(), message: message.to_owned() };
    if journal.manifest().digest != digest(instance) {
        return Err(wrong("workflow, cluster or model are not those of the journal"));
    }
    let mut replay = Replay::new(instance.clone(), queues, place.clone());
    journal.replay(|entry| replay.take(entry))?;
    if replay.state.job_count() == 0 {
        return Err(wrong("the run has not begun; there is nothing in it to change"));
    }
    let events = std::iter::once(&Event::Held).chain(events).map(Happening::from).collect();
    let step =
        StepEntry { now: replay.state.now(), events, decisions: Vec::new(), reasons, usage: Vec::new() };
    journal.append(&Entry::Step(step))?;
    journal.append(&Entry::Ended { at_ms: wall_ms(), why: why.to_owned() })?;
    journal.sync()?;
    Ok(journal)
}
