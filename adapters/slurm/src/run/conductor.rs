//! The one who does everything for a run, one thing at a time: takes orders, submits waves, looks at results and at the
//! queue, and tells the runner.
//!
//! It sleeps until an order comes or the next look is due. What jobs write into the folder of the run is looked at often,
//! as it costs Slurm nothing; the queue is looked at as one, soon after something has happened and then more and more
//! seldom. A look at the folder costs O(attempts of the run), one at the queue O(jobs of the user).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mdts_core::engine::TaskRun;
use mdts_core::runner::{Assignment, Outcome, Report, Reports, Usage};
use mdts_core::{Cluster, Instance, NodeId, Result as CoreResult, Schedule};
use mdts_dag::{Failing, JobGraph, TaskId};
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::book::{Book, Seat, Wanted};
use super::cancelling::Cancelling;
use super::fate::{self, Fate, failed};
use super::folder::{Ending, RunFolder, TaskResult};
use super::nodes::NodeWatch;
use super::words;
use crate::executor::{SlurmOptions, SlurmSummary};
use crate::{Error, Result, Slurm};

/// What the executor asks for.
#[derive(Debug)]
pub(crate) enum Order {
    Start(Vec<Assignment>, Reports),
    Recover(Vec<Assignment>, Reports, oneshot::Sender<CoreResult<Vec<TaskRun>>>),
    Cancel(Vec<TaskRun>, oneshot::Sender<CoreResult<()>>),
    SubmitGraph { job: Arc<JobGraph>, instance: Arc<Instance>, schedule: Schedule, reply: GraphReply },
    CancelAll(oneshot::Sender<CoreResult<()>>),
}

/// The nodes of a graph's tasks, when it is submitted.
pub(crate) type GraphReply = oneshot::Sender<CoreResult<Vec<Option<NodeId>>>>;

/// Shortest time between two looks at the folder, and how many times the cost of a look it is at least.
const LOOK: Duration = Duration::from_millis(40);
const LOOK_COST: u32 = 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Conductor {
    pub(super) slurm: Arc<dyn Slurm>,
    pub(super) options: SlurmOptions,
    pub(super) cluster: Arc<Cluster>,
    pub(super) folder: RunFolder,
    pub(super) book: Book,
    pub(super) reports: Option<Reports>,
    pub(super) cancelling: Vec<Cancelling>,
    pub(super) nodes: NodeWatch,
    /// Which files some task writes, of the job that was seen last.
    pub(super) produced: Option<(Arc<JobGraph>, Arc<[bool]>)>,
    /// Who waits until all waves are submitted.
    pub(super) graph_reply: Option<GraphReply>,
    /// Most elements of an array, once known.
    pub(super) most_elements: Option<usize>,
    pub(super) losses: FxHashMap<TaskId, u32>,
    pub(super) outage: Option<Outage>,
    /// How often Slurm was out of reach.
    pub(super) outages: u32,
    /// When the folder and the queue are looked at next, and how long it is to the look after that.
    look_at: Instant,
    poll_at: Instant,
    poll_pause: Duration,
    summary: Arc<Mutex<SlurmSummary>>,
}

/// A time in which Slurm is out of reach.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outage {
    since: Instant,
    pause: Duration,
    /// Not before this is it asked again.
    pub(super) until: Instant,
}

impl Conductor {
    pub(crate) fn new(
        slurm: Arc<dyn Slurm>,
        options: SlurmOptions,
        cluster: Arc<Cluster>,
        folder: RunFolder,
        summary: Arc<Mutex<SlurmSummary>>,
    ) -> Result<Self> {
        let now = Instant::now();
        Ok(Self {
            slurm,
            nodes: NodeWatch::new(cluster.len()),
            cluster,
            book: Book::read(&folder)?,
            folder,
            reports: None,
            cancelling: Vec::new(),
            produced: None,
            graph_reply: None,
            most_elements: None,
            losses: FxHashMap::default(),
            outage: None,
            outages: 0,
            look_at: now,
            poll_at: now,
            poll_pause: options.poll.0,
            options,
            summary,
        })
    }

    /// Works until nobody can give orders any more.
    pub(crate) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>) {
        loop {
            let due = self.due();
            let order = tokio::select! {
                biased;
                order = inbox.recv() => order.map(Some),
                () = sleep_until(due) => Some(None),
            };
            let Some(order) = order else { return };
            let mut orders: Vec<Order> = order.into_iter().collect();
            while let Ok(order) = inbox.try_recv() {
                orders.push(order);
            }
            let worked = match self.take(orders) {
                Ok(()) => self.work().await,
                Err(error) => Err(error),
            };
            if let Err(error) = worked {
                self.break_down(&error);
            }
        }
    }

    /// When something is to be done next; `None`: when it is ordered.
    fn due(&self) -> Option<Instant> {
        let mut due: Option<Instant> = None;
        let mut at = |instant: Instant| due = Some(due.map_or(instant, |due: Instant| due.min(instant)));
        let is_busy = !self.book.wanted.is_empty();
        if is_busy {
            at(self.look_at);
        }
        if is_busy || !self.cancelling.is_empty() {
            at(self.after_outage(self.poll_at));
        }
        if !self.book.queue.is_empty() || self.graph_reply.is_some() {
            at(self.after_outage(Instant::now()));
        }
        due
    }

    fn after_outage(&self, at: Instant) -> Instant {
        self.outage.map_or(at, |outage| at.max(outage.until))
    }

    fn take(&mut self, orders: Vec<Order>) -> Result<()> {
        // Batches that came while something else was done become one.
        let mut batch = Vec::new();
        for order in orders {
            match order {
                Order::Start(some, reports) => {
                    self.reports = Some(reports);
                    batch.extend(some);
                }
                Order::Recover(attempts, reports, reply) => {
                    self.reports = Some(reports);
                    let found = self.recover(attempts);
                    reply.send(Ok(found)).ok(); // whoever asked may have given up
                }
                Order::Cancel(runs, reply) => {
                    self.start(std::mem::take(&mut batch))?;
                    self.begin_cancelling(&runs, reply)?;
                }
                Order::SubmitGraph { job, instance, schedule, reply } => {
                    self.begin_graph(&job, &instance, &schedule, reply)?;
                }
                Order::CancelAll(reply) => self.begin_cancelling_all(reply),
            }
        }
        self.start(batch)
    }

    /// All that is due.
    async fn work(&mut self) -> Result<()> {
        self.look()?;
        if self.outage.is_some_and(|outage| Instant::now() < outage.until) {
            return Ok(());
        }
        let asked = self.ask_slurm().await;
        match asked {
            Ok(()) => {
                if let Some(outage) = self.outage.take() {
                    tracing::info!(seconds = outage.since.elapsed().as_secs(), "Slurm answers again");
                }
                Ok(())
            }
            Err(error) if error.is_outage() => self.wait_for_slurm(error),
            Err(error) => Err(error),
        }
    }

    async fn ask_slurm(&mut self) -> Result<()> {
        self.submit_waves().await?;
        if self.cancelling.iter().any(|cancelling| cancelling.again.is_none()) {
            self.poll_at = Instant::now(); // what is to be cancelled is looked at first
        }
        let is_needed = !self.book.wanted.is_empty() || !self.cancelling.is_empty();
        if is_needed && Instant::now() >= self.poll_at {
            self.poll_at = Instant::now() + self.poll_pause;
            self.poll_pause = self.poll_pause.mul_f64(1.5).min(self.options.poll.1);
            self.summarize(|summary| summary.polls += 1);
            self.poll().await?;
            self.cancel_jobs().await?;
            self.watch_nodes().await?;
        }
        Ok(())
    }

    /// Slurm does not answer: it is asked again later, and later still, until that is too late.
    fn wait_for_slurm(&mut self, error: Error) -> Result<()> {
        const FIRST: Duration = Duration::from_millis(500);
        const MOST: Duration = Duration::from_secs(30);
        let now = Instant::now();
        let mut outage = self.outage.unwrap_or(Outage { since: now, pause: FIRST, until: now });
        if self.outage.is_none() {
            self.outages += 1;
            tracing::warn!("{error}; it is asked again until it answers, jobs go on meanwhile");
        }
        if outage.since.elapsed() >= self.options.outage_limit {
            return Err(error);
        }
        outage.until = now + outage.pause;
        outage.pause = (outage.pause * 2).min(MOST);
        self.outage = Some(outage);
        Ok(())
    }

    /// Nothing can go on.
    fn break_down(&mut self, error: &Error) {
        tracing::warn!("{error}");
        let reason = error.to_string();
        self.outage = None;
        self.book.wanted.clear();
        self.book.queue.clear();
        for cancelling in self.cancelling.drain(..) {
            cancelling.reply.send(Err(mdts_core::Error::Executor(reason.clone()))).ok();
        }
        if let Some(reply) = self.graph_reply.take() {
            reply.send(Err(mdts_core::Error::Executor(reason.clone()))).ok();
        }
        self.tell(Report::Broken(reason));
    }

    pub(super) fn tell(&self, report: Report) {
        if let Some(reports) = &self.reports {
            reports.send(report);
        }
    }

    pub(super) fn summarize(&self, change: impl FnOnce(&mut SlurmSummary)) {
        change(&mut self.summary.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Something has happened, and more may follow: the queue is looked at soon.
    pub(super) fn hurry(&mut self) {
        self.poll_pause = self.options.poll.0;
        self.poll_at = self.poll_at.min(Instant::now() + self.poll_pause);
    }

    /// Attempts that an earlier process has submitted, or was about to.
    fn recover(&mut self, attempts: Vec<Assignment>) -> Vec<TaskRun> {
        let mut found = Vec::new();
        for assignment in attempts {
            let run = assignment.run;
            let Some(seat) = self.book.seats.get(&run) else { continue };
            if let Some(seconds) = self.folder.claimed_for(seat.ticket) {
                self.tell(Report::RanFor(run, seconds));
            }
            found.push(run);
            self.book.wanted.insert(run, Wanted { assignment, is_started: false });
        }
        (self.look_at, self.poll_at) = (Instant::now(), Instant::now());
        found
    }

    /// What the jobs have written: which attempts have begun, and how others have ended.
    pub(super) fn look(&mut self) -> Result<()> {
        if self.book.wanted.is_empty() || Instant::now() < self.look_at {
            return Ok(());
        }
        let begin = Instant::now();
        let claims = self.folder.claims()?;
        for ticket in claims {
            self.note_begun(ticket.run());
        }
        let ended = self.folder.ended()?;
        let mut is_new = false;
        for ticket in ended {
            is_new |= self.book.finished.insert(ticket);
        }
        if is_new {
            self.hurry();
        }
        self.settle()?;
        self.look_at = Instant::now() + LOOK.max(begin.elapsed() * LOOK_COST);
        Ok(())
    }

    pub(super) fn look_now(&mut self) -> Result<()> {
        self.look_at = Instant::now();
        self.look()
    }

    fn note_begun(&mut self, run: TaskRun) {
        if let Some(wanted) = self.book.wanted.get_mut(&run)
            && !wanted.is_started
        {
            wanted.is_started = true;
            self.tell(Report::Started(run));
        }
    }

    /// Tells of all wanted attempts of whose end there is word.
    pub(super) fn settle(&mut self) -> Result<()> {
        let ended = |run: &&TaskRun| {
            self.book.seats.get(run).is_some_and(|seat| self.book.finished.contains(&seat.ticket))
        };
        let mut runs: Vec<TaskRun> = self.book.wanted.keys().filter(ended).copied().collect();
        runs.sort_unstable();
        for run in runs {
            let Some(&seat) = self.book.seats.get(&run) else { continue };
            let Some(result) = self.folder.result(seat.ticket)? else { continue };
            match self.is_killed(seat, &result) {
                Killed::No => self.report(run, &result),
                Killed::Perhaps => {}
                Killed::BySlurm(fate) => self.conclude(run, &fate),
            }
        }
        Ok(())
    }

    /// Whether a command was killed by a signal that was Slurm's; the state of its job tells, sooner or later.
    fn is_killed(&mut self, seat: Seat, result: &TaskResult) -> Killed {
        const KILL: i32 = 137;
        const TERM: i32 = 143;
        if !matches!(result.ending, Ending::Exit(KILL | TERM)) {
            return Killed::No;
        }
        let patience = self.options.result_patience;
        let watch = self.book.watch(seat.wave, seat.element);
        let since = *watch.killed_since.get_or_insert_with(Instant::now);
        match &watch.record {
            Some(record) if watch.is_over() => match fate::of(record, "") {
                Fate::Success | Fate::Failed(Failing::Start, _) | Fate::GoesOn => Killed::No,
                fate => Killed::BySlurm(fate),
            },
            _ if since.elapsed() < patience => Killed::Perhaps,
            _ => Killed::No,
        }
    }

    fn report(&mut self, run: TaskRun, result: &TaskResult) {
        let Some(wanted) = self.book.wanted.remove(&run) else { return };
        let task = wanted.assignment.task();
        let outcome = match result.ending {
            Ending::Exit(0) => Outcome::Success,
            Ending::Exit(status) => {
                let (failing, how) = exit(status);
                failed(
                    task,
                    failing,
                    words::with_last_words(&how, &wanted.assignment, &self.options.log_directory),
                )
            }
            Ending::Input(at) => {
                let name = words::file(&wanted.assignment, task.inputs.get(at));
                let reason =
                    format!("its input '{name}' is not there on {}, and no task writes it", result.node);
                failed(task, Failing::Input, reason)
            }
            Ending::Output(at) => {
                let name = words::file(&wanted.assignment, task.outputs.get(at));
                failed(
                    task,
                    Failing::Output,
                    format!("it ended well, but its output '{name}' is not there on {}", result.node),
                )
            }
            Ending::Directory => {
                failed(task, Failing::Start, format!("its folder cannot be entered on {}", result.node))
            }
        };
        let planned = &self.cluster.node(wanted.assignment.node).name;
        if *planned != result.node && self.options.placement != crate::Placement::None {
            let moved = format!("'{}' ran on {} instead of {planned}", task.name, result.node);
            self.summarize(|summary| summary.moved.push(moved));
        }
        let usage = Usage { seconds: result.seconds, cpu_seconds: result.cpu_seconds, peak_memory: 0 };
        self.tell(Report::Used(run, usage));
        self.tell(Report::Ended(run, outcome));
    }
}

/// See [`Conductor::is_killed`].
enum Killed {
    No,
    Perhaps,
    BySlurm(Fate),
}

fn exit(status: i32) -> (Failing, String) {
    match status {
        129..=192 => (Failing::Signal, format!("killed by signal {}", status - 128)),
        _ => (Failing::Status(status), format!("exit status {status}")),
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
