//! The desk: the brain behind a lock, with a clock, a journal and the idempotency keys.
//!
//! A change is applied, recorded and only then answered. When it cannot be recorded, the desk closes: nothing more is
//! answered, and the service must begin anew from what is recorded.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mdts_core::engine::JobId;
use mdts_core::journal::{Entry, Folder, Journal, Snapshot};
use mdts_core::{Cluster, Placer};
use rustc_hash::FxHashMap;
use serde::Serialize;
use tokio::sync::Notify;

use crate::api::{NodeSpec, Problem};
use crate::brain::{self, Brain, Change, Figures, Outcome};
use crate::keys::{Answered, Key, Keys, Known};
use crate::record::{self, Record};
use crate::{Error, Options, Result};

/// The file beside the journal in which learnt run times are kept when the journal is compacted.
const HISTORY: &str = "history";

/// All that a service knows; safe to share.
#[derive(Debug)]
pub struct Desk {
    inner: Mutex<Inner>,
    /// Clients that wait for grants, by job.
    waiting: Mutex<FxHashMap<JobId, Arc<Notify>>>,
    clock: Clock,
}

#[derive(Debug)]
struct Inner {
    brain: Brain,
    keys: Keys,
    journal: Option<Journal>,
    history: Option<PathBuf>,
    /// Why nothing more can be recorded.
    fault: Option<String>,
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
        };
        let (mut brain, mut keys) = (Brain::new(terms, policy), Keys::default());
        let (mut journal, mut created_ms) = (None, wall_ms());
        let history = options.journal.as_ref().map(|folder| folder.join(HISTORY));
        if let Some(path) = &options.journal {
            let folder = Folder::lock(path)?;
            journal = Some(if folder.has_journal() {
                let mut past = folder.resume(options.durability)?;
                record::check(past.manifest(), past.place(), options.slots, options.data)?;
                created_ms = past.manifest().created_ms;
                replay(&mut past, &mut brain, &mut keys, history.as_deref())?;
                past
            } else {
                let manifest = record::manifest(options.slots, options.data, created_ms);
                folder.begin(manifest, options.durability)?
            });
        }
        let elapsed = wall_ms().saturating_sub(created_ms) as f64 / 1000.0;
        let clock = Clock { base: elapsed.max(brain.now()), since: Instant::now() };
        let inner = Inner { brain, keys, journal, history, fault: None };
        let desk = Self { inner: Mutex::new(inner), waiting: Mutex::default(), clock };
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
        let due = self.look(|brain| brain.due());
        for change in due {
            self.change(change).map_err(|problem| Error::Closed(problem.detail))?;
        }
        self.waiting_jobs().retain(|_, bell| Arc::strong_count(bell) > 1);
        let mut inner = self.lock();
        inner.compact()?;
        match &inner.fault {
            Some(fault) => Err(Error::Closed(fault.clone())),
            None => Ok(()),
        }
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

    pub(crate) fn figures(&self) -> Figures {
        self.look(|brain| brain.figures())
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
        let mut inner = self.lock();
        inner.usable()?;
        let now = self.clock.now();
        inner.brain.set_now(now);
        match key.as_ref().map(|key| inner.keys.look_up(key)) {
            Some(Known::Again(answered)) => return Ok(answered.clone()),
            Some(Known::Other) => {
                let what = "this Idempotency-Key was used for another request; choose a new one";
                return Err(Problem::unusable(what));
            }
            Some(Known::New) | None => {}
        }
        let Some(change) = plan(&mut inner.brain)? else {
            return answered(answer(&inner.brain, Outcome::Done)?);
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
        self.brain.apply(now, change).inspect_err(|problem| {
            if problem.status == 500 {
                tracing::error!("{}", problem.detail);
                self.fault = Some(problem.detail.clone());
            }
        })
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
            Ok(entry) => journal.append(&entry).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        appended.map_err(|fault| {
            tracing::error!("{fault}");
            self.fault = Some(fault.clone());
            Problem::busy(fault)
        })
    }

    /// Puts a snapshot in the place of the journal's records when there are many.
    fn compact(&mut self) -> Result<()> {
        let Some(journal) = self.journal.as_mut().filter(|journal| journal.wants_snapshot()) else {
            return Ok(());
        };
        let fault = |error: String| Error::Closed(format!("a snapshot cannot be made: {error}"));
        if let Some(history) = &self.history {
            self.brain.save_history(history).map_err(fault)?;
        }
        let keys: Vec<(f64, Key, Answered)> =
            self.keys.all().map(|(since, key, answer)| (since, key, answer.clone())).collect();
        let (engine, brain) = self.brain.image().map_err(fault)?;
        let runner = postcard::to_stdvec(&(brain, keys)).map_err(|error| fault(error.to_string()))?;
        journal.compact(Snapshot { engine, runner })?;
        Ok(())
    }
}

/// Applies what a journal holds.
fn replay(
    journal: &mut Journal,
    brain: &mut Brain,
    keys: &mut Keys,
    history: Option<&std::path::Path>,
) -> Result<()> {
    let place = journal.place().to_owned();
    let (mut number, mut strange) = (0, None);
    let torn = journal.replay(|entry| {
        number += 1;
        if let Err(message) = take(entry, brain, keys, history) {
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

fn take(
    entry: Entry,
    brain: &mut Brain,
    keys: &mut Keys,
    history: Option<&std::path::Path>,
) -> Result<(), String> {
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
            let (image, known): (Vec<u8>, Vec<(f64, Key, Answered)>) =
                postcard::from_bytes(&snapshot.runner).map_err(|error| error.to_string())?;
            brain.restore(&snapshot.engine, &image)?;
            if let Some(history) = history.filter(|history| history.exists()) {
                brain.load_history(history)?;
            }
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

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
