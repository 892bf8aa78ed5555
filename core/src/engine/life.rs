//! The life of tasks: how they become ready, run, end, are repeated and given up.

use std::collections::BTreeMap;
use std::sync::Arc;

use mdts_dag::TaskId;

use super::ready::SeenReady;
use super::state::{Job, Phase, State, TaskState};
use super::{Command, JobId, TaskRun, Trigger};
use crate::{Instance, NodeId, Progress};

/// Whether a task that has failed may be repeated, if it has retries left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Retry {
    Never,
    /// Not before this time.
    At(f64),
}

impl State {
    pub(super) fn submit(&mut self, instance: &Arc<Instance>, out: &mut Vec<Command>) {
        let graph = instance.graph();
        let asked = !self.on_demand;
        let task = |t: TaskId| TaskState::new(graph.parents(t).len() as u32, asked);
        let id = JobId::new(self.jobs.len());
        self.open.insert(id);
        self.jobs.push(Some(Job {
            tasks: graph.tasks().map(task).collect(),
            ready: Vec::new(),
            seen_ready: SeenReady::default(),
            second: BTreeMap::new(),
            trigger: None,
            remaining: graph.len(),
            lost: 0,
            closed: false,
            terms: std::mem::take(&mut self.next_terms),
            instance: instance.clone(),
        }));
        if let Some(progress) = instance.progress() {
            self.resume(id, progress);
        }
        for task in graph.tasks() {
            let t = self.task(id, task);
            if t.open_parents == 0 && t.phase == Phase::Waiting {
                self.make_ready(id, task);
            }
        }
        self.call_step(id, Trigger::Submitted);
        self.close(id, out);
    }

    /// Takes over a job that has begun: what is done is done, what runs goes on as its first attempt.
    fn resume(&mut self, id: JobId, progress: &Progress) {
        let instance = self.jobs[id.index()].instance.clone();
        self.now = self.now.max(progress.now);
        for node in &progress.lost {
            self.nodes[node.index()].alive = false;
        }
        for task in &progress.dropped {
            self.task(id, *task).phase = Phase::Blocked;
            self.jobs[id.index()].remaining -= 1;
        }
        for p in &progress.started {
            let done = p.finish <= progress.now;
            let (_, weight, _) = self.load(id, p.task, p.node);
            let t = self.task(id, p.task);
            (t.node, t.attempts, t.number) = (Some(p.node), 1, 1);
            (t.start, t.finish) = (p.start, p.finish);
            if !done {
                t.phase = Phase::Running;
                let demand = instance.demand(p.task);
                self.nodes[p.node.index()].occupy(self.slots, demand, p.finish, weight);
                self.nodes[p.node.index()].here.insert((id, p.task));
                self.task(id, p.task).hold = self.hold_node(id, p.task, p.node);
                continue;
            }
            t.phase = Phase::Done;
            self.jobs[id.index()].remaining -= 1;
            for &child in instance.graph().children(p.task) {
                self.task(id, child).open_parents -= 1;
            }
        }
    }

    pub(super) fn make_ready(&mut self, job: JobId, task: TaskId) {
        let staging = self.staging;
        let t = self.task(job, task);
        t.phase = Phase::Ready;
        let (node, asked) = (t.node, t.asked);
        self.note_ready(job, task);
        match node {
            None if !asked => {}
            None => {
                self.jobs[job.index()].ready.push(task);
                self.unplaced.insert(job);
                self.call_step(job, Trigger::Ready);
            }
            Some(node) => {
                // Placed ahead of time. Without staging its data is where it needs to be.
                self.task(job, task).staged |= !staging;
                self.enqueue(job, task);
                self.touch(node);
            }
        }
    }

    pub(super) fn staged(&mut self, job: JobId, task: TaskId, node: NodeId) {
        let t = self.task(job, task);
        if t.node != Some(node) || t.phase != Phase::Ready {
            return;
        }
        t.staged = true;
        self.enqueue(job, task);
        self.touch(node);
    }

    pub(super) fn started(&mut self, run: TaskRun) {
        if !self.is_running(run) {
            return;
        }
        let job = &mut self.jobs[run.job.index()];
        let t = &mut job.tasks[run.task.index()];
        let (node, start, finish) = match job.second.get_mut(&run.task) {
            Some(second) if second.number == run.attempt => {
                (Some(second.node), &mut second.start, &mut second.finish)
            }
            _ => (t.node, &mut t.start, &mut t.finish),
        };
        let Some(node) = node else { return };
        let old = *finish;
        *finish += self.now - *start;
        *start = self.now;
        let new = *finish;
        let (_, weight, _) = self.load(run.job, run.task, node);
        let demand = self.jobs[run.job.index()].instance.demand(run.task);
        let node = &mut self.nodes[node.index()];
        node.release(self.slots, demand, old, weight);
        node.occupy(self.slots, demand, new, weight);
    }

    pub(super) fn finished(&mut self, run: TaskRun, watched: bool, out: &mut Vec<Command>) {
        if !self.is_running(run) {
            return;
        }
        if let Some((loser, node)) = self.other(run) {
            out.push(Command::Cancel { run: loser, node });
            self.leave(loser);
        }
        self.leave(run);
        let now = self.now;
        let t = self.task(run.job, run.task);
        (t.phase, t.finish) = (Phase::Done, now);
        let job = &mut self.jobs[run.job.index()];
        job.remaining -= 1;
        let instance = job.instance.clone();
        for &child in instance.graph().children(run.task) {
            let c = self.task(run.job, child);
            c.open_parents -= 1;
            if c.open_parents == 0 && c.phase == Phase::Waiting {
                self.make_ready(run.job, child);
            }
        }
        if watched {
            self.call_waiting(run.job);
        }
        self.close(run.job, out);
    }

    pub(super) fn failed(&mut self, run: TaskRun, retry: Retry, watched: bool, out: &mut Vec<Command>) {
        if !self.is_running(run) {
            return;
        }
        if !self.leave(run) {
            self.fail(run, retry, out);
        }
        if watched {
            self.call_waiting(run.job);
        }
    }

    /// The last attempt of a task that ran has failed.
    fn fail(&mut self, run: TaskRun, retry: Retry, out: &mut Vec<Command>) {
        let retries = self.jobs[run.job.index()].instance.graph().retries(run.task);
        let (on_demand, now) = (self.on_demand, self.now);
        let t = self.task(run.job, run.task);
        (t.node, t.staged, t.asked) = (None, false, !on_demand);
        t.failures += 1;
        match retry {
            Retry::At(until) if t.failures <= retries && until > now => self.rest(run.job, run.task, until),
            Retry::At(_) if t.failures <= retries => self.make_ready(run.job, run.task),
            _ => {
                t.phase = Phase::Failed;
                let job = &mut self.jobs[run.job.index()];
                job.remaining -= 1;
                job.lost += 1;
                self.block_descendants(run.job, run.task);
                self.close(run.job, out);
            }
        }
    }

    pub(super) fn interrupted(&mut self, run: TaskRun, watched: bool) {
        if !self.is_running(run) {
            return;
        }
        if !self.leave(run) {
            let t = self.task(run.job, run.task);
            (t.node, t.staged) = (None, false);
            self.make_ready(run.job, run.task);
        }
        if watched {
            self.call_waiting(run.job);
        }
    }

    pub(super) fn block_descendants(&mut self, job: JobId, task: TaskId) {
        let instance = self.jobs[job.index()].instance.clone();
        let mut open = vec![task];
        while let Some(task) = open.pop() {
            for &child in instance.graph().children(task) {
                if self.task(job, child).phase == Phase::Waiting {
                    self.give_up(job, child);
                    open.push(child);
                }
            }
        }
    }

    /// A task that has not started will never run.
    pub(super) fn give_up(&mut self, job: JobId, task: TaskId) {
        self.unplace(job, task);
        self.resting.remove(job, task);
        self.task(job, task).phase = Phase::Blocked;
        let job = &mut self.jobs[job.index()];
        job.remaining -= 1;
        job.lost += 1;
    }

    pub(super) fn cancelled(&mut self, job: JobId, watched: bool, out: &mut Vec<Command>) {
        let open = self.jobs.get(job.index()).filter(|j| !j.closed);
        let Some(instance) = open.map(|j| j.instance.clone()) else { return };
        for task in instance.graph().tasks() {
            let t = self.task(job, task);
            match (t.phase, t.node) {
                (Phase::Waiting | Phase::Ready, _) => self.give_up(job, task),
                (Phase::Running, Some(node)) => {
                    let run = TaskRun { job, task, attempt: t.number };
                    self.stop(run, node, out);
                    self.task(job, task).phase = Phase::Blocked;
                    let job = &mut self.jobs[job.index()];
                    job.remaining -= 1;
                    job.lost += 1;
                }
                _ => {}
            }
        }
        self.jobs[job.index()].ready.clear();
        self.unplaced.remove(&job);
        self.close(job, out);
        if watched {
            self.call_waiting(job);
        }
    }
}
