//! The state of all jobs and nodes, and the three moves on it: apply an event, carry out decisions, dispatch.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use mdts_dag::TaskId;
use serde::{Deserialize, Serialize};

use super::fair::{Accounts, Terms, Turn};
use super::node::{NodeState, Ticket};
use super::{Command, Event, JobId, TaskRun, Trigger};
use crate::plan::require_single_nodes;
use crate::policy::{Decision, Order};
use crate::{Cluster, Error, Instance, Node, NodeId, Progress, Resources, Result, SlotModel};

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Some parent has not finished.
    Waiting,
    /// All parents have finished; it may be placed already.
    Ready,
    /// It has been started.
    Running,
    /// It has succeeded.
    Done,
    /// It has failed for good.
    Failed,
    /// It never runs: a task that it depends on failed, or the job was cancelled.
    Blocked,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TaskState {
    pub(super) phase: Phase,
    pub(super) node: Option<NodeId>,
    order: Order,
    pub(super) staged: bool,
    /// It may be placed and started.
    pub(super) asked: bool,
    pub(super) open_parents: u32,
    /// Attempts begun.
    pub(super) attempt: u32,
    pub(super) failures: u32,
    /// Serial number of its latest placement; tickets with another number are out of date.
    pub(super) ticket: u64,
    /// Goes before the serial number.
    pub(super) turn: Turn,
    pub(super) start: f64,
    /// Expected while running, real when done.
    pub(super) finish: f64,
}

impl TaskState {
    pub(super) fn new(open_parents: u32, asked: bool) -> Self {
        Self {
            phase: Phase::Waiting,
            node: None,
            order: Order::Arrival,
            staged: false,
            asked,
            open_parents,
            attempt: 0,
            failures: 0,
            ticket: 0,
            turn: Turn::default(),
            start: 0.0,
            finish: 0.0,
        }
    }
}

impl TaskState {
    fn place_in_queue(&self, job: JobId, task: TaskId) -> Ticket {
        (self.turn, self.ticket, job, task)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) instance: Arc<Instance>,
    pub(super) terms: Terms,
    pub(super) tasks: Vec<TaskState>,
    /// Ready and not placed.
    pub(super) ready: Vec<TaskId>,
    pub(super) trigger: Option<Trigger>,
    /// Tasks that have not come to their end.
    pub(super) remaining: usize,
    pub(super) lost: usize,
    pub(super) closed: bool,
}

impl Job {
    /// A job without tasks.
    pub(super) fn over(instance: Arc<Instance>) -> Self {
        Self {
            instance,
            terms: Terms::default(),
            tasks: Vec::new(),
            ready: Vec::new(),
            trigger: None,
            remaining: 0,
            lost: 0,
            closed: true,
        }
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.instance, &other.instance)
            && self.tasks == other.tasks
            && self.ready == other.ready
            && self.terms == other.terms
            && (self.remaining, self.lost, self.closed) == (other.remaining, other.lost, other.closed)
    }
}

/// All jobs and nodes at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub(super) now: f64,
    pub(super) slots: SlotModel,
    pub(super) staging: bool,
    pub(super) jobs: Vec<Job>,
    /// Jobs that have not come to their end.
    pub(super) open: BTreeSet<JobId>,
    pub(super) nodes: Vec<NodeState>,
    pub(super) resources: Resources,
    pub(super) cores: Vec<f64>,
    pub(super) tickets: u64,
    pub(super) accounts: Accounts,
    pub(super) next_terms: Terms,
    /// Tasks are placed only when they are asked for.
    pub(super) on_demand: bool,
    /// Nothing is decided or started. While it holds, nothing is noted in the two lists below.
    pub(super) held: bool,
    /// Jobs that need a decision step, and nodes that may be able to start something.
    pub(super) attention: VecDeque<JobId>,
    /// Attention is to be sorted.
    is_unsorted: bool,
    dirty: Vec<NodeId>,
}

impl State {
    /// No job, all nodes alive. With `staging`, the driver is told to bring inputs to nodes before tasks start.
    pub fn new(cluster: &Cluster, staging: bool) -> Self {
        let cores = |n: &Node| n.capacity.cores.unwrap_or(1.0);
        let resources = Resources::new(&[], cluster);
        let node = |n: NodeId| NodeState::new(resources.capacity(n.index()));
        Self {
            now: 0.0,
            slots: cluster.slots(),
            staging,
            jobs: Vec::new(),
            open: BTreeSet::new(),
            nodes: cluster.node_ids().map(node).collect(),
            resources,
            cores: cluster.nodes().iter().map(cores).collect(),
            tickets: 0,
            accounts: Accounts::default(),
            next_terms: Terms::default(),
            on_demand: false,
            held: false,
            attention: VecDeque::new(),
            is_unsorted: false,
            dirty: Vec::new(),
        }
    }

    /// Whether an event can be applied.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::BadSetting`] for jobs that are not for this engine.
    pub(super) fn check(&self, event: &Event) -> Result<()> {
        let Event::Submitted(instance) = event else { return Ok(()) };
        require_single_nodes(instance)?;
        if instance.nodes() != self.nodes.len() || instance.slots() != self.slots {
            let (what, expected) = ("cluster of a job", "that of the engine; all its jobs share one");
            let value = format!("one of {} nodes", instance.nodes());
            return Err(Error::BadSetting { what, value, expected });
        }
        Ok(())
    }

    /// Applies an event; commands that follow at once are added to `out`.
    pub(super) fn apply(&mut self, now: f64, event: &Event, watched: bool, out: &mut Vec<Command>) {
        self.now = self.now.max(now);
        match event {
            Event::Submitted(instance) => self.submit(instance, out),
            Event::Staged { job, task, node } => self.staged(*job, *task, *node),
            Event::Started(run) => self.started(*run),
            Event::Finished(run) => self.finished(*run, watched, out),
            Event::Failed(run) => self.failed(*run, watched, out),
            Event::NodeJoined(node) => self.joined(*node),
            Event::NodeLost(node) => self.lost(*node),
            Event::Interrupted(run) => self.interrupted(*run, watched),
            Event::Held => self.hold(),
            Event::Resumed => self.resumed(),
            Event::Cancelled(job) => self.cancelled(*job, watched, out),
            Event::Asked { job, task } => self.asked(*job, *task),
            Event::Withdrawn(job) => self.withdrawn(*job, watched, out),
            Event::NodeDrained(node) => self.drained(*node),
            Event::Tick => {}
        }
    }

    fn submit(&mut self, instance: &Arc<Instance>, out: &mut Vec<Command>) {
        let graph = instance.graph();
        let asked = !self.on_demand;
        let task = |t: TaskId| TaskState::new(graph.parents(t).len() as u32, asked);
        let id = JobId::new(self.jobs.len());
        self.jobs.push(Job {
            tasks: graph.tasks().map(task).collect(),
            ready: Vec::new(),
            trigger: None,
            remaining: graph.len(),
            lost: 0,
            closed: false,
            terms: std::mem::take(&mut self.next_terms),
            instance: instance.clone(),
        });
        self.open.insert(id);
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
            (t.node, t.attempt, t.start, t.finish) = (Some(p.node), 1, p.start, p.finish);
            if !done {
                t.phase = Phase::Running;
                let demand = instance.demand(p.task);
                self.nodes[p.node.index()].occupy(self.slots, demand, p.finish, weight);
                continue;
            }
            t.phase = Phase::Done;
            self.jobs[id.index()].remaining -= 1;
            for &child in instance.graph().children(p.task) {
                self.task(id, child).open_parents -= 1;
            }
        }
    }

    pub(super) fn task(&mut self, job: JobId, task: TaskId) -> &mut TaskState {
        &mut self.jobs[job.index()].tasks[task.index()]
    }

    /// The state of a run's task, if the run is the current attempt and still running.
    pub(super) fn current(&mut self, run: TaskRun) -> Option<&mut TaskState> {
        let task = self.jobs.get_mut(run.job.index())?.tasks.get_mut(run.task.index())?;
        (task.phase == Phase::Running && task.attempt == run.attempt).then_some(task)
    }

    pub(super) fn make_ready(&mut self, job: JobId, task: TaskId) {
        let staging = self.staging;
        let t = self.task(job, task);
        t.phase = Phase::Ready;
        match t.node {
            None if !t.asked => {}
            None => {
                self.jobs[job.index()].ready.push(task);
                self.call_step(job, Trigger::Ready);
            }
            Some(node) => {
                // Placed ahead of time. Without staging its data is where it needs to be.
                t.staged |= !staging;
                self.enqueue(job, task);
                self.touch(node);
            }
        }
    }

    /// Puts a ready, placed and staged task in arrival order into its node's queue.
    fn enqueue(&mut self, job: JobId, task: TaskId) {
        let t = self.task(job, task);
        let can_start = t.staged && t.asked;
        if let (Phase::Ready, Some(node), true, Order::Arrival) = (t.phase, t.node, can_start, t.order) {
            let ticket = t.place_in_queue(job, task);
            self.nodes[node.index()].arrivals.insert(ticket);
        }
    }

    fn staged(&mut self, job: JobId, task: TaskId, node: NodeId) {
        let t = self.task(job, task);
        if t.node != Some(node) || t.phase != Phase::Ready {
            return;
        }
        t.staged = true;
        self.enqueue(job, task);
        self.touch(node);
    }

    fn started(&mut self, run: TaskRun) {
        let now = self.now;
        let Some(t) = self.current(run) else { return };
        let Some(node) = t.node else { return };
        let (old, delay) = (t.finish, now - t.start);
        (t.start, t.finish) = (now, t.finish + delay);
        let new = t.finish;
        let (demand, weight, _) = self.load(run.job, run.task, node);
        let demand = demand.to_vec();
        let (slots, node) = (self.slots, &mut self.nodes[node.index()]);
        node.release(slots, &demand, old, weight);
        node.occupy(slots, &demand, new, weight);
    }

    fn finished(&mut self, run: TaskRun, watched: bool, out: &mut Vec<Command>) {
        if self.current(run).is_none() {
            return;
        }
        self.vacate(run);
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

    fn failed(&mut self, run: TaskRun, watched: bool, out: &mut Vec<Command>) {
        if self.current(run).is_none() {
            return;
        }
        self.vacate(run);
        let retries = self.jobs[run.job.index()].instance.graph().retries(run.task);
        let on_demand = self.on_demand;
        let t = self.task(run.job, run.task);
        (t.node, t.staged, t.asked) = (None, false, !on_demand);
        t.failures += 1;
        if t.failures <= retries {
            self.make_ready(run.job, run.task);
        } else {
            t.phase = Phase::Failed;
            let job = &mut self.jobs[run.job.index()];
            job.remaining -= 1;
            job.lost += 1;
            self.block_descendants(run.job, run.task);
            self.close(run.job, out);
        }
        if watched {
            self.call_waiting(run.job);
        }
    }

    fn interrupted(&mut self, run: TaskRun, watched: bool) {
        if self.current(run).is_none() {
            return;
        }
        self.vacate(run);
        let t = self.task(run.job, run.task);
        (t.node, t.staged) = (None, false);
        self.make_ready(run.job, run.task);
        if watched {
            self.call_waiting(run.job);
        }
    }

    fn hold(&mut self) {
        self.held = true;
        self.attention.clear();
        self.dirty.clear();
        self.jobs.iter_mut().for_each(|job| job.trigger = None);
    }

    fn resumed(&mut self) {
        self.held = false;
        self.dirty.extend((0..self.nodes.len()).map(NodeId::new));
        self.call_all_steps(Trigger::Submitted);
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
        self.task(job, task).phase = Phase::Blocked;
        let job = &mut self.jobs[job.index()];
        job.remaining -= 1;
        job.lost += 1;
    }

    fn joined(&mut self, node: NodeId) {
        if let Some(state) = self.nodes.get_mut(node.index()).filter(|n| !n.alive) {
            (state.alive, state.draining) = (true, false);
            self.touch(node);
            self.call_all_steps(Trigger::NodesChanged);
        }
    }

    fn lost(&mut self, node: NodeId) {
        if !self.nodes.get(node.index()).is_some_and(|n| n.alive || n.draining) {
            return;
        }
        self.nodes[node.index()].alive = false;
        let open: Vec<JobId> = self.open.iter().copied().collect();
        for job in open {
            for task in self.jobs[job.index()].instance.clone().graph().tasks() {
                let t = self.task(job, task);
                if t.node != Some(node) || matches!(t.phase, Phase::Done | Phase::Failed | Phase::Blocked) {
                    continue;
                }
                let was = t.phase;
                (t.node, t.staged, t.ticket) = (None, false, 0);
                if was != Phase::Waiting {
                    self.make_ready(job, task);
                }
            }
        }
        self.nodes[node.index()].reset(self.resources.capacity(node.index()));
        self.call_all_steps(Trigger::NodesChanged);
    }

    fn cancelled(&mut self, job: JobId, watched: bool, out: &mut Vec<Command>) {
        let open = self.jobs.get(job.index()).filter(|j| !j.closed);
        let Some(instance) = open.map(|j| j.instance.clone()) else { return };
        for task in instance.graph().tasks() {
            let t = self.task(job, task);
            match (t.phase, t.node) {
                (Phase::Waiting | Phase::Ready, _) => self.give_up(job, task),
                (Phase::Running, Some(node)) => {
                    let run = TaskRun { job, task, attempt: t.attempt };
                    out.push(Command::Cancel { run, node });
                    self.vacate(run);
                    self.task(job, task).phase = Phase::Blocked;
                    let job = &mut self.jobs[job.index()];
                    job.remaining -= 1;
                    job.lost += 1;
                }
                _ => {}
            }
        }
        self.jobs[job.index()].ready.clear();
        self.close(job, out);
        if watched {
            self.call_waiting(job);
        }
    }

    fn close(&mut self, id: JobId, out: &mut Vec<Command>) {
        let job = &mut self.jobs[id.index()];
        if job.remaining == 0 && !job.closed {
            job.closed = true;
            self.open.remove(&id);
            out.push(Command::JobDone { job: id, succeeded: job.lost == 0 });
        }
    }

    /// Demand, backlog weight (cores; 1 on exclusive nodes) and run time of a task on a node.
    fn load(&self, job: JobId, task: TaskId, node: NodeId) -> (&[u64], f64, f64) {
        let instance = &self.jobs[job.index()].instance;
        let demand = instance.demand(task);
        let weight = match self.slots {
            SlotModel::Exclusive => 1.0,
            SlotModel::Resources => demand.first().map_or(1.0, |cores| *cores as f64 / 1000.0),
        };
        (demand, weight, instance.exec(task, node))
    }

    /// Frees what a running attempt occupies.
    pub(super) fn vacate(&mut self, run: TaskRun) {
        let t = &self.jobs[run.job.index()].tasks[run.task.index()];
        let (Some(node), finish) = (t.node, t.finish) else { return };
        let instance = self.jobs[run.job.index()].instance.clone();
        let (_, weight, _) = self.load(run.job, run.task, node);
        self.nodes[node.index()].release(self.slots, instance.demand(run.task), finish, weight);
        self.touch(node);
    }

    pub(super) fn unplace(&mut self, job: JobId, task: TaskId) {
        let Some(node) = self.task(job, task).node else { return };
        let (_, weight, exec) = self.load(job, task, node);
        let t = self.task(job, task);
        let ticket = t.place_in_queue(job, task);
        (t.node, t.staged, t.ticket) = (None, false, 0);
        let state = &mut self.nodes[node.index()];
        state.remove_waiting(exec * weight);
        state.arrivals.remove(&ticket);
        self.touch(node);
    }

    /// Carries out what the policy decided for one job.
    ///
    /// # Errors
    /// [`Error::BadDecision`] if a task cannot be placed so; the state must then be discarded.
    pub(super) fn decide(
        &mut self,
        job: JobId,
        decisions: &[Decision],
        out: &mut Vec<Command>,
    ) -> Result<()> {
        for decision in decisions {
            self.check_decision(job, decision)?;
            if self.task(job, decision.task).node == Some(decision.node) {
                self.requeue(job, decision); // its data stays where it is
            } else {
                self.unplace(job, decision.task);
                self.place(job, decision, out);
            }
        }
        if !decisions.is_empty() {
            let Job { ready, tasks, .. } = &mut self.jobs[job.index()];
            ready.retain(|t| tasks[t.index()].node.is_none());
        }
        Ok(())
    }

    fn check_decision(&self, job: JobId, decision: &Decision) -> Result<()> {
        let Decision { task, node, .. } = *decision;
        let of = &self.jobs[job.index()];
        let reason = match of.tasks.get(task.index()) {
            None => "there is no such task".to_owned(),
            Some(t) if !matches!(t.phase, Phase::Waiting | Phase::Ready) => {
                format!("the task is {:?} already", t.phase)
            }
            _ if !self.nodes.get(node.index()).is_some_and(|n| n.alive) => "the node is not there".to_owned(),
            _ if !of.instance.can_run(task, node) => "the node cannot run it".to_owned(),
            _ => return Ok(()),
        };
        Err(Error::BadDecision { task: format!("{task:?}"), node: format!("{node:?}"), reason })
    }

    /// Gives a task a new place in the queue of the node that it is on.
    fn requeue(&mut self, job: JobId, decision: &Decision) {
        let Decision { task, node, .. } = *decision;
        let order = self.order(decision);
        self.tickets += 1;
        let ticket = self.tickets;
        let (_, weight, exec) = self.load(job, task, node);
        let turn = self.accounts.charge(&self.jobs[job.index()].terms, exec * weight);
        let t = self.task(job, task);
        let old = t.place_in_queue(job, task);
        (t.order, t.ticket, t.turn) = (order, ticket, turn);
        let state = &mut self.nodes[node.index()];
        state.arrivals.remove(&old);
        if order == Order::Strict {
            state.strict.push_back((turn, ticket, job, task));
        }
        self.enqueue(job, task);
        self.touch(node);
    }

    /// How a placed task waits: a plan's order holds only where all tasks come by themselves.
    fn order(&self, decision: &Decision) -> Order {
        if self.on_demand { Order::Arrival } else { decision.order }
    }

    fn place(&mut self, job: JobId, decision: &Decision, out: &mut Vec<Command>) {
        let Decision { task, node, .. } = *decision;
        let order = self.order(decision);
        self.tickets += 1;
        let (ticket, staging) = (self.tickets, self.staging);
        let (_, weight, exec) = self.load(job, task, node);
        let turn = self.accounts.charge(&self.jobs[job.index()].terms, exec * weight);
        let t = self.task(job, task);
        (t.node, t.order, t.ticket, t.turn) = (Some(node), order, ticket, turn);
        t.staged = !staging && t.phase == Phase::Ready;
        let state = &mut self.nodes[node.index()];
        state.add_waiting(exec * weight);
        if order == Order::Strict {
            state.strict.push_back((turn, ticket, job, task));
        }
        if staging {
            out.push(Command::Stage { job, task, node });
        }
        self.enqueue(job, task);
        self.touch(node);
    }

    /// Starts all that can start on nodes where something changed.
    pub(super) fn dispatch(&mut self, out: &mut Vec<Command>) {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for node in dirty.drain(..) {
            if self.nodes[node.index()].alive && self.dispatch_strict(node, out) {
                self.dispatch_arrivals(node, out);
            }
        }
        self.dirty = dirty;
    }

    /// Returns false if the first task waits for room: others must not take it.
    fn dispatch_strict(&mut self, node: NodeId, out: &mut Vec<Command>) -> bool {
        while let Some(&(_, ticket, job, task)) = self.nodes[node.index()].strict.front() {
            let t = &self.jobs[job.index()].tasks[task.index()];
            if t.ticket == ticket && t.node == Some(node) && t.phase != Phase::Running {
                if !t.staged || t.phase != Phase::Ready {
                    return true;
                }
                if !self.has_room(node, job, task) {
                    return false;
                }
                self.start(node, job, task, out);
            }
            self.nodes[node.index()].strict.pop_front();
        }
        true
    }

    fn dispatch_arrivals(&mut self, node: NodeId, out: &mut Vec<Command>) {
        while let Some(&(.., job, task)) = self.nodes[node.index()].arrivals.first() {
            if !self.has_room(node, job, task) {
                return;
            }
            self.nodes[node.index()].arrivals.pop_first();
            self.start(node, job, task, out);
        }
    }

    fn has_room(&self, node: NodeId, job: JobId, task: TaskId) -> bool {
        let demand = self.jobs[job.index()].instance.demand(task);
        self.nodes[node.index()].has_room(self.slots, demand)
    }

    fn start(&mut self, node: NodeId, job: JobId, task: TaskId, out: &mut Vec<Command>) {
        let (now, slots) = (self.now, self.slots);
        let (_, weight, exec) = self.load(job, task, node);
        let instance = self.jobs[job.index()].instance.clone();
        let t = self.task(job, task);
        t.phase = Phase::Running;
        t.attempt += 1;
        (t.start, t.finish) = (now, now + exec);
        let run = TaskRun { job, task, attempt: t.attempt };
        let turn = t.turn;
        self.accounts.serve(turn);
        let state = &mut self.nodes[node.index()];
        state.remove_waiting(exec * weight);
        state.occupy(slots, instance.demand(task), now + exec, weight);
        out.push(Command::Start { run, node });
    }

    fn touch(&mut self, node: NodeId) {
        if !self.held {
            self.dirty.push(node);
        }
    }

    pub(super) fn call_step(&mut self, job: JobId, trigger: Trigger) {
        if self.held {
            return;
        }
        let state = &mut self.jobs[job.index()];
        if state.trigger.is_none() {
            self.attention.push_back(job);
            self.is_unsorted = true;
        }
        state.trigger = state.trigger.max(Some(trigger));
    }

    /// A task of this job has left its node, which may be what ready tasks of any job wait for.
    pub(super) fn call_waiting(&mut self, job: JobId) {
        self.call_step(job, Trigger::Finished);
        let others: Vec<JobId> = self.open.iter().copied().filter(|other| *other != job).collect();
        for other in others {
            if !self.jobs[other.index()].ready.is_empty() {
                self.call_step(other, Trigger::Finished);
            }
        }
    }

    pub(super) fn call_all_steps(&mut self, trigger: Trigger) {
        let open: Vec<JobId> = self.open.iter().copied().collect();
        open.into_iter().for_each(|job| self.call_step(job, trigger));
    }

    /// The next job that needs a decision step, and why.
    pub(super) fn next_step(&mut self) -> Option<(JobId, Trigger)> {
        if std::mem::take(&mut self.is_unsorted) {
            self.sort_attention();
        }
        while let Some(job) = self.attention.pop_front() {
            let state = &mut self.jobs[job.index()];
            if let Some(trigger) = state.trigger.take().filter(|_| state.remaining > 0) {
                return Some((job, trigger));
            }
        }
        None
    }

    /// Estimated time at which `node` could begin another task with the demand of `task`.
    pub(super) fn available(&self, job: JobId, task: TaskId, node: NodeId) -> f64 {
        let demand = self.jobs[job.index()].instance.demand(task);
        self.nodes[node.index()].available(self.now, self.slots, demand, self.cores[node.index()])
    }
}
