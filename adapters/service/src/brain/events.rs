//! Reports about attempts.

use mdts_core::engine::{Event, JobId, Phase, State, TaskRun};
use mdts_dag::TaskId;
use mdts_policies::predict::Features;
use rustc_hash::FxHashMap;

use super::{Brain, Outcome, Report};
use crate::api::{EventsAnswer, Heard, Problem, TaskEvent, What};

/// Longest reason that is kept, in bytes.
const LONGEST_REASON: usize = 2000;
/// Failed tasks of a job whose reasons are kept so long; of the others a hundred bytes are, which count as part of the task.
const LONG_REASONS: usize = 500;
const SHORT_REASON: usize = 100;
/// Run times of one kind that are all learnt from; of more, ever fewer are, so that memory stays small.
const THINNED: u64 = 2048;
/// Attempts of a task that may be interrupted without being counted as failed.
const MOST_INTERRUPTED: u32 = 1000;
/// Most kinds that are learnt.
const MOST_KINDS: usize = 10_000;

impl Brain {
    pub(super) fn events(&mut self, job: JobId, reports: &[Report]) -> Result<Outcome, Problem> {
        let (entry, state) = (self.job(job)?, self.state()?);
        let graph = entry.graph.clone();
        let mut over = FxHashMap::default();
        let (mut heard, mut begun, mut ended) = (Vec::with_capacity(reports.len()), Vec::new(), Vec::new());
        let mut taken = Vec::new();
        for report in reports {
            let task = TaskId::from(report.task);
            if task.index() >= graph.len() {
                return Err(Problem::not_found(format!("{job:?} has no task {task:?}")));
            }
            let run = TaskRun { job, task, attempt: report.attempt };
            let is_started = entry.started.get(&task) == Some(&report.attempt);
            let verdict = judge(state, run, report.what, is_started, &mut over);
            let why = match verdict {
                Ok(counts) => {
                    if counts {
                        let events = if report.what == What::Started { &mut begun } else { &mut ended };
                        events.push(event(run, report.what));
                        taken.push((run, report));
                    }
                    None
                }
                Err(why) => Some(why),
            };
            heard.push(Heard { task: graph.task(task).name.to_string(), accepted: why.is_none(), why });
        }
        // What began and ended in one call is learnt from its beginning.
        if !begun.is_empty() {
            self.advance(begun)?;
        }
        for (run, report) in taken {
            self.take_report(run, report);
        }
        self.advance(ended)?;
        Ok(Outcome::Heard(heard))
    }

    /// Keeps what a report says beside the event.
    fn take_report(&mut self, run: TaskRun, report: &Report) {
        let now = self.now;
        match report.what {
            What::Finished => {
                self.totals.finished += 1;
                self.learn(run, report.seconds);
                if let (Some(seconds), Some(engine)) = (report.seconds, &mut self.engine) {
                    engine.state_mut().observe(now, run, seconds);
                }
            }
            What::Failed => self.totals.failed += 1,
            What::Started | What::Interrupted => {}
        }
        let Some(job) = self.jobs.get_mut(&run.job) else { return };
        match report.what {
            What::Started => drop(job.started.insert(run.task, run.attempt)),
            _ => drop(job.started.remove(&run.task)),
        }
        if report.what == What::Failed {
            let most = if job.failures.len() < LONG_REASONS { LONGEST_REASON } else { SHORT_REASON };
            let reason = report.reason.as_deref().unwrap_or("no reason was given");
            job.failures.insert(run.task, reason[..reason.floor_char_boundary(most)].to_owned());
        }
    }

    /// Learns how long a task ran on its node.
    fn learn(&mut self, run: TaskRun, told: Option<f64>) {
        let (Some(engine), Some(cluster)) = (&self.engine, &self.cluster) else { return };
        let Some(job) = self.jobs.get(&run.job) else { return };
        let state = engine.state();
        let started = state.times(run.job, run.task).map(|(start, _)| self.now - start);
        let (Some(seconds), Some(node)) = (told.or(started), state.node_of(run.job, run.task)) else {
            return;
        };
        let kind = &job.graph.task(run.task).kind;
        let known = self.seen.len();
        let seen = match self.seen.get_mut(kind) {
            Some(seen) => seen,
            None if known >= MOST_KINDS => return,
            None => self.seen.entry(kind.clone()).or_default(),
        };
        *seen += 1;
        if !seen.is_multiple_of((*seen / THINNED).max(1)) {
            return;
        }
        let features = Features::of_task(&job.graph, &job.flat, run.task).on(cluster.node(node), kind);
        // What cannot be learnt from is no reason to refuse the report.
        _ = self.predictor.observe(kind, features, seconds);
    }

    /// The reports by number, checked as far as that can be done before they are applied.
    pub(crate) fn reports(&self, job: JobId, events: &[TaskEvent]) -> Result<Vec<Report>, Problem> {
        let report = |event: &TaskEvent| {
            if event.seconds.is_some_and(|seconds| !(0.0..=1e12).contains(&seconds)) {
                return Err(Problem::unusable(format!("task '{}': seconds must be 0 to 1e12", event.task)));
            }
            let cut = |reason: &String| {
                let end = reason.floor_char_boundary(LONGEST_REASON);
                reason[..end].to_owned()
            };
            Ok(Report {
                task: self.task(job, &event.task)?.get(),
                attempt: event.attempt,
                what: event.event,
                seconds: event.seconds,
                reason: event.reason.as_ref().map(cut),
            })
        };
        events.iter().map(report).collect()
    }

    /// What is told to a client about its reports.
    pub(crate) fn events_answer(&self, job: JobId, reports: &[Report], results: Vec<Heard>) -> EventsAnswer {
        let (Ok(entry), Ok(state)) = (self.job(job), self.state()) else { return EventsAnswer::default() };
        let is_new = |task: &TaskId| state.phase(job, *task) == Phase::Ready && !state.is_asked(job, *task);
        let mut ready: Vec<TaskId> = Vec::new();
        for report in reports {
            match report.what {
                What::Finished => {
                    ready.extend(entry.flat.children(report.task.into()).iter().filter(|t| is_new(t)));
                }
                What::Failed => ready.extend(Some(TaskId::from(report.task)).iter().filter(|t| is_new(t))),
                _ => {}
            }
        }
        ready.sort_unstable();
        ready.dedup();
        EventsAnswer {
            results,
            ready: ready.into_iter().map(|task| entry.graph.task(task).name.to_string()).collect(),
            remaining: state.remaining(job),
            after: entry.grants.latest(),
        }
    }
}

fn event(run: TaskRun, what: What) -> Event {
    match what {
        What::Started => Event::Started(run),
        What::Finished => Event::Finished(run),
        What::Interrupted if run.attempt < MOST_INTERRUPTED => Event::Interrupted(run),
        What::Failed | What::Interrupted => Event::Failed(run),
    }
}

/// Whether a report counts now (true), counted before (false), or is about an attempt that is over. `is_started`: the attempt
/// was reported as started before; `over` are attempts that the same call has ended.
fn judge(
    state: &State,
    run: TaskRun,
    what: What,
    is_started: bool,
    over: &mut FxHashMap<TaskId, What>,
) -> Result<bool, String> {
    let attempts = state.attempts(run.job, run.task);
    if run.attempt == 0 || run.attempt > attempts {
        return Err(format!("attempt {} was not granted; {attempts} were", run.attempt));
    }
    let ended_here = over.get(&run.task).copied();
    let is_latest = run.attempt == attempts;
    let phase = state.phase(run.job, run.task);
    let is_running = is_latest && phase == Phase::Running && ended_here.is_none();
    if is_running {
        if what == What::Started && is_started {
            return Ok(false);
        }
        if what != What::Started {
            over.insert(run.task, what);
        }
        return Ok(true);
    }
    let same = |ended: What| what == ended || what == What::Started;
    let was_done = is_latest && phase == Phase::Done && same(What::Finished);
    let was_failed = is_latest && phase == Phase::Failed && same(What::Failed);
    if was_done || was_failed || (is_latest && ended_here.is_some_and(same)) {
        return Ok(false);
    }
    Err(match phase {
        Phase::Done => format!("the task is done, by attempt {attempts}"),
        Phase::Failed => "the task has failed for good".to_owned(),
        Phase::Blocked => "the job was cancelled".to_owned(),
        _ => format!("attempt {} has lost its node or has ended", run.attempt),
    })
}
