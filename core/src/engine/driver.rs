//! The engine proper: events in, one decision step per job, commands out.

use super::{Command, Event, JobId, State, Step};
use crate::policy::{Decision, Decisions, Placer};
use crate::{Cluster, Result};

/// What was told to an engine at one moment and what the policy decided on it.
#[derive(Debug, Clone)]
pub struct Record {
    /// Seconds.
    pub now: f64,
    /// The events, in order.
    pub events: Vec<Event>,
    /// The decisions, per job and in order.
    pub decisions: Vec<(JobId, Decision)>,
}

/// A [`State`] with a policy that decides.
///
/// ```
/// use mdts_core::engine::{Command, Engine, Event};
/// use mdts_core::{Cluster, Decisions, Instance, Placer, SlotModel, engine::Step};
/// use mdts_dag::{DataModel, JobGraph, Task};
///
/// #[derive(Debug)]
/// struct First;
/// impl Placer for First {
///     fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> mdts_core::Result<()> {
///         for &task in step.ready() {
///             decisions.place(task, 0.into());
///         }
///         Ok(())
///     }
/// }
///
/// let mut job = JobGraph::builder("one");
/// job.task(Task::new("a").seconds(2.0))?;
/// let cluster = std::sync::Arc::new(Cluster::identical(2, SlotModel::Exclusive)?);
/// let instance = Instance::new(job.build()?.freeze().into(), cluster.clone(), DataModel::Edges)?;
/// let mut engine = Engine::new(&cluster, First, false);
/// let commands = engine.handle(0.0, [Event::Submitted(instance.into())])?;
/// assert!(matches!(commands, [Command::Start { .. }]));
/// # Ok::<(), mdts_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Engine<P> {
    state: State,
    policy: P,
    decisions: Decisions,
    commands: Vec<Command>,
    records: Option<Vec<Record>>,
}

impl<P: Placer> Engine<P> {
    /// An engine without jobs. With `staging`, it commands to stage inputs and waits until they are there.
    pub fn new(cluster: &Cluster, policy: P, staging: bool) -> Self {
        Self::with_state(State::new(cluster, staging), policy)
    }

    /// An engine that goes on from a state, for example a replayed one; begin with [`Event::Resumed`].
    pub fn with_state(state: State, policy: P) -> Self {
        Self { state, policy, decisions: Decisions::default(), commands: Vec::new(), records: None }
    }

    /// Keeps a [`Record`] of every call from now on.
    pub fn keep_records(&mut self) {
        self.records.get_or_insert_with(Vec::new);
    }

    /// Takes the records kept so far.
    pub fn take_records(&mut self) -> Vec<Record> {
        self.records.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The policy, to tell it what it does not see in its steps.
    pub fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state, for what is no event: [`State::change_cluster`], [`State::extend`], [`State::forget`],
    /// [`State::announce`], [`State::observe`].
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Does once more what an engine did. The policy is not asked, but sees the steps that it would see; they are those
    /// of the past if it is the policy of the past.
    ///
    /// # Errors
    /// As for [`State::repeat`].
    pub fn repeat(&mut self, record: &Record) -> Result<&[Command]> {
        self.commands.clear();
        let watched = self.policy.watches_progress();
        let policy = &mut self.policy;
        self.state.repeat_before(record, watched, &mut self.commands, |step, decisions| {
            policy.replayed(step, decisions);
        })?;
        Ok(&self.commands)
    }

    /// Handles what happened at `now` (seconds; never less than before) and says what to do.
    ///
    /// Events that happen together are best given together: tasks that they make ready are decided in one step.
    ///
    /// # Errors
    /// The policy's own, or [`crate::Error::BadDecision`] if it placed a task where it cannot be;
    /// [`crate::Error::Unsupported`] for a job that wants several nodes at once, [`crate::Error::BadSetting`] for
    /// one of another cluster. The engine must then be discarded.
    pub fn handle(&mut self, now: f64, events: impl IntoIterator<Item = Event>) -> Result<&[Command]> {
        self.commands.clear();
        let mut record =
            self.records.is_some().then(|| Record { now, events: Vec::new(), decisions: Vec::new() });
        let watched = self.policy.watches_progress();
        for event in events {
            self.state.check(&event)?;
            self.state.apply(now, &event, watched, &mut self.commands);
            if let Some(record) = &mut record {
                record.events.push(event);
            }
        }
        while let Some((job, trigger)) = self.state.next_step() {
            self.decisions.clear();
            self.policy.place(&Step::new(&self.state, job, trigger), &mut self.decisions)?;
            self.state.decide(job, self.decisions.as_slice(), &mut self.commands)?;
            if let Some(record) = &mut record {
                record.decisions.extend(self.decisions.as_slice().iter().map(|d| (job, *d)));
            }
        }
        self.state.dispatch(&mut self.commands);
        if let (Some(records), Some(record)) = (&mut self.records, record) {
            records.push(record);
        }
        Ok(&self.commands)
    }
}

impl State {
    /// The state after these records: the same, bit for bit, as that of the engine that kept them.
    ///
    /// # Errors
    /// As for [`State::repeat`].
    pub fn replay(cluster: &Cluster, staging: bool, records: &[Record]) -> Result<Self> {
        let mut state = Self::new(cluster, staging);
        let mut ignored = Vec::new();
        for record in records {
            state.repeat(record, &mut ignored)?;
            ignored.clear();
        }
        Ok(state)
    }

    /// Does once more what an engine did, without asking its policy; the commands are added to `out`.
    ///
    /// # Errors
    /// [`crate::Error::BadDecision`] if the record is not that of an engine in this state,
    /// [`crate::Error::Unsupported`], [`crate::Error::BadSetting`] for jobs that are not for this engine.
    pub fn repeat(&mut self, record: &Record, out: &mut Vec<Command>) -> Result<()> {
        self.repeat_before(record, false, out, |_, _| {})
    }

    /// The same; `see` is shown every decision step before its decisions, possibly none, are applied.
    fn repeat_before(
        &mut self,
        record: &Record,
        watched: bool,
        out: &mut Vec<Command>,
        mut see: impl FnMut(&Step<'_>, &[Decision]),
    ) -> Result<()> {
        for event in &record.events {
            self.check(event)?;
            self.apply(record.now, event, watched, out);
        }
        let mut decided = record.decisions.chunk_by(|a, b| a.0 == b.0).peekable();
        let plain = |of_job: &[(JobId, Decision)]| of_job.iter().map(|(_, decision)| *decision).collect();
        while let Some((job, trigger)) = self.next_step() {
            let of_job = decided.next_if(|of_job| of_job[0].0 == job).unwrap_or_default();
            let decisions: Vec<Decision> = plain(of_job);
            see(&Step::new(self, job, trigger), &decisions);
            self.decide(job, &decisions, out)?;
        }
        // Steps that this policy does not ask for and the one of the past did.
        for of_job in decided {
            let decisions: Vec<Decision> = plain(of_job);
            self.decide(of_job[0].0, &decisions, out)?;
        }
        self.dispatch(out);
        Ok(())
    }
}
