//! The desk: the brain behind a lock, with a clock, a journal and the idempotency keys.
//!
//! A change is applied, recorded and only then answered. When it cannot be recorded, the desk closes: nothing more is
//! answered, and the service must begin anew from what is recorded.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mdts_core::engine::JobId;
use mdts_core::journal::{Durability, Entry, Folder, Journal};
use mdts_core::{Cluster, Placer};
use rustc_hash::FxHashMap;
use serde::Serialize;
use tokio::sync::Notify;

use crate::api::{NodeSpec, Problem};
use crate::brain::{self, Brain, Change, Figures, ImageRead, Outcome};
use crate::commit::Commit;
use crate::histogram::Histogram;
use crate::keys::{Answered, Key, Keys, Known};
use crate::record::{self, Record};
use crate::{Error, Options, Result};

/// Leases wait for a service that could not look after them for so many seconds.
const STALL: f64 = 2.0;
/// Seconds until a snapshot that could not be made is tried again.
const NEXT_SNAPSHOT: f64 = 60.0;

/// All that a service knows; safe to share.
#[derive(Debug)]
pub struct Desk {
    inner: Mutex<Inner>,
    /// Clients that wait for grants, by job.
    waiting: Mutex<FxHashMap<JobId, Arc<Notify>>>,
    clock: Clock,
    /// Syncs the journal, if it is to survive the loss of power.
    commit: Option<Arc<Commit>>,
}

#[derive(Debug)]
struct Inner {
    brain: Brain,
    keys: Keys,
    journal: Option<Journal>,
    commit: Option<Arc<Commit>>,
    /// Why nothing more can be recorded.
    fault: Option<String>,
    /// When leases were looked after last.
    ticked: f64,
    /// After a snapshot that could not be made the next one waits.
    no_snapshot_before: f64,
    measures: Measures,
}

/// What the desk has measured since the process began.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measures {
    /// Seconds of changes in which the policy decided.
    pub(crate) decisions: Histogram,
    pub(crate) records: u64,
    pub(crate) snapshots: u64,
    pub(crate) syncs: u64,
    pub(crate) journal_bytes: u64,
}

/// Seconds since the journal began, also over restarts.
#[derive(Debug, Clone, Copy)]
struct Clock {
    base: f64,
    since: Instant,
}

impl Clock {
    fn now(self) -> f64 {
        self.base + self.since.elapsed().as_secs_f64()
    }
}

/// How a request is answered that was carried out before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeated {
    AnswerStored,
    AnswerAnew,
}

/// An answer that was given and recorded.
pub(crate) type Answer = Result<Answered, Problem>;

impl Desk {
    /// Begins a service, or goes on with the one in the journal. `policy` decides from now on.
    ///
    /// # Errors
    /// [`Error::Core`] if the journal is in use, damaged, of other models or cannot be written; [`Error::Strange`] if it
    /// does not hold together.
    pub fn open(options: &Options, policy: Box<dyn Placer>) -> Result<Arc<Self>> {
        let terms = brain::Terms {
            slots: options.slots,
            data: options.data,
            network: options.network.clone(),
            node_lease: options.node_lease.as_secs_f64(),
            job_lease: options.job_lease.as_secs_f64(),
            keep_seconds: options.keep.as_secs_f64(),
            keep_tasks: options.keep_tasks,
            most_bytes: options.most_bytes,
        };
        let (mut brain, mut keys) = (Brain::new(terms, policy), Keys::default());
        let (mut journal, mut created_ms) = (None, wall_ms());
        if let Some(path) = &options.journal {
            let folder = private(path).and_then(|()| Ok(Folder::lock(path)?))?;
            let opened = if folder.has_journal() {
                let mut past = folder.resume(options.durability)?;
                record::check(past.manifest(), past.place(), options.slots, options.data)?;
                created_ms = past.manifest().created_ms;
                replay(&mut past, &mut brain, &mut keys)?;
                past
            } else {
                let manifest = record::manifest(options.slots, options.data, created_ms);
                folder.begin(manifest, options.durability)?
            };
            journal = Some(opened.compact_after(options.snapshot_after));
        }
        let commit = match journal.as_ref().filter(|_| options.durability == Durability::Power) {
            Some(journal) => {
                let commit = Commit::new(journal.syncing()?);
                Some(Arc::new(commit.map_err(|error| Error::Closed(error.to_string()))?))
            }
            None => None,
        };
        let elapsed = wall_ms().saturating_sub(created_ms) as f64 / 1000.0;
        let clock = Clock { base: elapsed.max(brain.now()), since: Instant::now() };
        let inner = Inner {
            brain,
            keys,
            journal,
            commit: commit.clone(),
            fault: None,
            ticked: clock.now(),
            no_snapshot_before: 0.0,
            measures: Measures::default(),
        };
        let desk = Self { inner: Mutex::new(inner), waiting: Mutex::default(), clock, commit };
        desk.change(Change::Opened).map_err(|problem| Error::Setting(problem.detail))?;
        Ok(Arc::new(desk))
    }

    /// Registers the nodes of a cluster, which never expire. Nodes that are known as they are stay so.
    ///
    /// # Errors
    /// [`Error::Setting`] that says why they cannot be taken.
    pub fn register(&self, cluster: &Cluster) -> Result<()> {
        let spec = |node: &mdts_core::Node| NodeSpec {
            speed: node.speed,
            speeds: node.speeds.clone(),
            cores: node.capacity.cores,
            memory: node.capacity.memory,
            gpus: node.capacity.gpus,
            resources: node.capacity.other.clone(),
            lease_seconds: Some(0.0),
        };
        let nodes: Vec<(String, NodeSpec)> =
            cluster.nodes().iter().map(|node| (node.name.clone(), spec(node))).collect();
        let is_known = self.look(|brain| brain.knows(nodes.iter().map(|(name, spec)| (name, spec))));
        if is_known {
            return Ok(());
        }
        let change = Change::nodes(nodes.iter().map(|(name, spec)| (name, spec)));
        self.change(change).map(drop).map_err(|problem| Error::Setting(problem.detail))
    }

    /// Ends leases that are over and forgets what ended long ago. To be called several times per second.
    ///
    /// # Errors
    /// [`Error::Closed`] if nothing can be recorded any more.
    pub fn tick(&self) -> Result<()> {
        let closed = |problem: Problem| Error::Closed(problem.detail);
        let mut inner = self.lock();
        inner.usable().map_err(closed)?;
        let now = self.clock.now();
        let late = now - std::mem::replace(&mut inner.ticked, now);
        if late > STALL {
            tracing::warn!(seconds = late, "nobody was heard for some time; all leases are longer by that");
            inner.brain.be_patient(late);
        }
        inner.brain.set_now(now);
        for change in inner.brain.due() {
            inner.apply(now, &change).map_err(closed)?;
            inner.record(now, change, None).map_err(closed)?;
        }
        self.wake(&mut inner);
        inner.compact(now);
        drop(inner);
        self.waiting_jobs().retain(|_, bell| Arc::strong_count(bell) > 1);
        Ok(())
    }

    /// What to wait for before an answer: until all that was recorded by now survives what it is to survive. None: it does.
    pub(crate) fn settled(&self) -> Option<impl Future<Output = Result<(), Problem>> + Send + '_> {
        let waits = self.commit.as_ref()?.settled();
        Some(async move {
            waits.await.map_err(|fault| {
                self.lock().fault.get_or_insert_with(|| fault.clone());
                Problem::busy(fault)
            })
        })
    }

    /// Whether changes can be made and recorded.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn readiness(&self) -> Result<(), Problem> {
        self.lock().usable()
    }

    /// Looks, without changing what is recorded.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Brain) -> T) -> T {
        let mut inner = self.lock();
        inner.brain.set_now(self.clock.now());
        look(&mut inner.brain)
    }

    pub(crate) fn figures(&self) -> (Figures, Measures) {
        let figures = self.look(|brain| brain.figures());
        let inner = self.lock();
        let mut measures = inner.measures.clone();
        measures.syncs = inner.commit.as_ref().map_or(0, |commit| commit.syncs());
        measures.journal_bytes = inner.journal.as_ref().map_or(0, Journal::bytes);
        (figures, measures)
    }

    /// Makes a change that nobody waits for.
    fn change(&self, change: Change) -> Result<Outcome, Problem> {
        let mut inner = self.lock();
        inner.usable()?;
        let now = self.clock.now();
        let outcome = inner.apply(now, &change)?;
        inner.record(now, change, None)?;
        self.wake(&mut inner);
        Ok(outcome)
    }

    /// Carries out a request once: `plan` says which change it is, if any, `answer` what is answered with which status.
    pub(crate) fn carry_out<T: Serialize>(
        &self,
        key: Option<Key>,
        plan: impl FnOnce(&mut Brain) -> Result<Option<Change>, Problem>,
        answer: impl FnOnce(&Brain, Outcome) -> Result<(u16, T), Problem>,
    ) -> Answer {
        self.carry_out_as(Repeated::AnswerStored, key, plan, answer)
    }

    /// The same for a request that is harmless to repeat and whose answer must not be an old one: its key only protects it
    /// from being taken for another.
    pub(crate) fn carry_out_anew<T: Serialize>(
        &self,
        key: Option<Key>,
        plan: impl FnOnce(&mut Brain) -> Result<Option<Change>, Problem>,
        answer: impl FnOnce(&Brain, Outcome) -> Result<(u16, T), Problem>,
    ) -> Answer {
        self.carry_out_as(Repeated::AnswerAnew, key, plan, answer)
    }

    fn carry_out_as<T: Serialize>(
        &self,
        repeated: Repeated,
        mut key: Option<Key>,
        plan: impl FnOnce(&mut Brain) -> Result<Option<Change>, Problem>,
        answer: impl FnOnce(&Brain, Outcome) -> Result<(u16, T), Problem>,
    ) -> Answer {
        let mut inner = self.lock();
        inner.usable()?;
        let now = self.clock.now();
        inner.brain.set_now(now);
        match key.as_ref().map(|key| inner.keys.look_up(now, key)) {
            Some(Known::Again(answered)) if repeated == Repeated::AnswerStored => return Ok(answered.clone()),
            Some(Known::Again(_)) => key = None, // it is known already
            Some(Known::Other) => {
                let what = "this Idempotency-Key was used for another request; choose a new one";
                return Err(Problem::unusable(what));
            }
            Some(Known::New) | None => {}
        }
        let change = match plan(&mut inner.brain)? {
            Some(change) => change,
            None if key.is_some() => Change::Nothing,
            None => return answered(answer(&inner.brain, Outcome::Done)?),
        };
        let outcome = inner.apply(now, &change)?;
        let told = answer(&inner.brain, outcome).and_then(answered);
        let kept = key.zip(told.as_ref().ok().cloned());
        inner.record(now, change, kept)?;
        self.wake(&mut inner);
        told
    }

    /// What a job's waiting clients are woken by.
    pub(crate) fn bell(&self, job: JobId) -> Arc<Notify> {
        self.waiting_jobs().entry(job).or_default().clone()
    }

    fn wake(&self, inner: &mut Inner) {
        let news = inner.brain.take_news();
        if news.is_empty() {
            return;
        }
        let mut waiting = self.waiting_jobs();
        for job in news {
            if let Some(bell) = waiting.remove(&job) {
                bell.notify_waiters();
            }
        }
    }

    fn waiting_jobs(&self) -> MutexGuard<'_, FxHashMap<JobId, Arc<Notify>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic may have left the brain in the middle of a change.
        self.inner.lock().unwrap_or_else(|poisoned| {
            let mut inner = poisoned.into_inner();
            inner.fault.get_or_insert_with(|| "the service had a fault; start it again".to_owned());
            inner
        })
    }
}

impl Inner {
    fn usable(&self) -> Result<(), Problem> {
        match &self.fault {
            None => Ok(()),
            Some(fault) => Err(Problem::busy(fault.clone())),
        }
    }

    /// Applies a change. A refusal changes nothing; a fault leaves nobody knows what, so that nothing more is answered.
    fn apply(&mut self, now: f64, change: &Change) -> Result<Outcome, Problem> {
        let (begin, steps) = (Instant::now(), self.brain.steps());
        let outcome = self.brain.apply(now, change).inspect_err(|problem| {
            if problem.status == 500 {
                tracing::error!("{}", problem.detail);
                self.fault = Some(problem.detail.clone());
            }
        });
        if self.brain.steps() != steps {
            self.measures.decisions.add(begin.elapsed());
        }
        outcome
    }

    /// Records what was applied; after an error nothing more is answered.
    fn record(&mut self, now: f64, change: Change, answer: Option<(Key, Answered)>) -> Result<(), Problem> {
        let decided = self.brain.take_decided();
        if let Some((key, answered)) = &answer {
            self.keys.add(now, key.clone(), answered.clone());
        }
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let record = Record { now, change, decided, answer };
        let appended = match record.entry() {
            Ok(entry) => journal.append_unsynced(&entry).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        self.measures.records += 1;
        if let Some(commit) = &self.commit {
            commit.written();
        }
        appended.map_err(|fault| {
            tracing::error!("{fault}");
            self.fault = Some(fault.clone());
            Problem::busy(fault)
        })
    }

    /// Puts a snapshot in the place of the journal's records when there are many. If that fails the records remain, which
    /// say the same, and it is tried again later.
    fn compact(&mut self, now: f64) {
        let wants = self.journal.as_ref().is_some_and(Journal::wants_snapshot);
        if !wants || now < self.no_snapshot_before {
            return;
        }
        match self.snapshot() {
            Ok(()) => self.measures.snapshots += 1,
            Err(error) => {
                tracing::warn!(error, "a snapshot cannot be made; the journal grows until it can");
                self.no_snapshot_before = now + NEXT_SNAPSHOT;
            }
        }
    }

    fn snapshot(&mut self) -> Result<(), String> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let (brain, keys) = (&self.brain, self.keys.all().collect::<Vec<_>>());
        let rest = (brain.image(), keys);
        let compacted = journal.compact(|snapshot| {
            let written = brain.write_engine(snapshot.engine());
            written
                .and_then(|()| postcard::to_io(&rest, snapshot.runner()).map(drop))
                .map_err(io::Error::other)
        });
        compacted.map_err(|error| error.to_string())?;
        if let Some(commit) = &self.commit {
            commit.follow(journal.syncing().map_err(|error| error.to_string())?);
        }
        Ok(())
    }
}

/// Applies what a journal holds.
fn replay(journal: &mut Journal, brain: &mut Brain, keys: &mut Keys) -> Result<()> {
    let place = journal.place().to_owned();
    let (mut number, mut strange) = (0, None);
    let torn = journal.replay(|entry| {
        number += 1;
        if let Err(message) = take(entry, brain, keys) {
            strange.get_or_insert((number, message));
        }
        Ok(())
    })?;
    if let Some((number, message)) = strange {
        return Err(Error::Strange { place, number, message });
    }
    if let Some(torn) = torn {
        tracing::warn!(bytes = torn.bytes, "the journal's last record was cut off; it was not answered");
    }
    tracing::info!(records = number, "the journal was read");
    Ok(())
}

fn take(entry: Entry, brain: &mut Brain, keys: &mut Keys) -> Result<(), String> {
    match entry {
        Entry::Record(bytes) => {
            let record = Record::read(&bytes).map_err(|error| error.to_string())?;
            let repeated = brain.repeat(record.now, &record.change, record.decided);
            repeated.map_err(|problem| problem.detail)?;
            if let Some((key, answer)) = record.answer {
                keys.add(record.now, key, answer);
            }
            Ok(())
        }
        Entry::Snapshot(snapshot) => {
            let (image, known): (ImageRead, Vec<(f64, Key, Answered)>) =
                postcard::from_bytes(&snapshot.runner).map_err(|error| error.to_string())?;
            brain.restore(&snapshot.engine, image)?;
            *keys = Keys::default();
            for (since, key, answer) in known {
                keys.add(since, key, answer);
            }
            Ok(())
        }
        _ => Err("it is not a record of a service".to_owned()),
    }
}

fn answered<T: Serialize>((status, body): (u16, T)) -> Answer {
    let body = serde_json::to_vec(&body).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(Answered { status, body })
}

/// Makes the journal's folder, which holds everybody's commands, so that no other user can read it.
fn private(folder: &Path) -> Result<()> {
    if let Ok(known) = folder.metadata() {
        if known.mode() & 0o077 != 0 {
            tracing::warn!(
                folder = %folder.display(),
                "other users may read the journal's folder; chmod 700 keeps the commands of jobs to yourself"
            );
        }
        return Ok(());
    }
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Error::File { path: folder.to_owned(), message: error.to_string() })
}

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
