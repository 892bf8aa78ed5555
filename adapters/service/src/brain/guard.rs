//! The policy behind a guard: a step that it cannot decide is decided by EFT, and the reasons of all placements are kept.

use mdts_core::engine::{JobId, Phase, Step};
use mdts_core::{Arrival, Decision, Decisions, NodeId, Placer};
use mdts_dag::TaskId;
use mdts_policies::balance::Eft;
use rustc_hash::FxHashMap;
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Serialize, Serializer};

/// Nodes that are remembered per placement.
const REMEMBERED: usize = 4;

/// A policy that always decides.
#[derive(Debug)]
pub(crate) struct Guarded {
    policy: Box<dyn Placer>,
    spare: Eft,
    reasons: FxHashMap<JobId, FxHashMap<TaskId, Comparison>>,
    arrival: Arrival,
    pub(crate) steps: u64,
    pub(crate) decisions: u64,
    /// Steps that EFT decided.
    pub(crate) fallbacks: u64,
}

/// The nodes where a task would be done first, the earliest first, and the one that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    pub(crate) chosen: Option<NodeId>,
    options: [(f64, f64, NodeId); REMEMBERED],
    count: usize,
}

impl Comparison {
    /// Compares all nodes that can run the task now; its parents must be done. O(nodes).
    pub(crate) fn new(step: &Step<'_>, task: TaskId, chosen: Option<NodeId>, arrival: &mut Arrival) -> Self {
        step.gather(task, arrival);
        let mut found = Self { chosen, options: [(0.0, 0.0, NodeId::default()); REMEMBERED], count: 0 };
        for node in step.instance().cluster().node_ids().filter(|node| step.can_run(task, *node)) {
            let start = step.available(task, node).max(arrival.at(node)).max(step.now()) - step.now();
            found.insert(start, step.instance().exec(task, node), node);
        }
        found
    }

    /// Start and seconds on each node, by when it would be done there.
    pub(crate) fn options(&self) -> &[(f64, f64, NodeId)] {
        &self.options[..self.count]
    }

    fn insert(&mut self, start: f64, seconds: f64, node: NodeId) {
        let at = self.options().partition_point(|(s, x, _)| s + x <= start + seconds);
        if at >= REMEMBERED {
            return;
        }
        self.count = (self.count + 1).min(REMEMBERED);
        self.options[at..self.count].rotate_right(1);
        self.options[at] = (start, seconds, node);
    }
}

impl Guarded {
    pub(crate) fn new(policy: Box<dyn Placer>) -> Self {
        Self {
            policy,
            spare: Eft::default(),
            reasons: FxHashMap::default(),
            arrival: Arrival::default(),
            steps: 0,
            decisions: 0,
            fallbacks: 0,
        }
    }

    /// What was compared when a task was placed last.
    pub(crate) fn reason(&self, job: JobId, task: TaskId) -> Option<&Comparison> {
        self.reasons.get(&job)?.get(&task)
    }

    /// What the policy has learnt, to be kept.
    pub(crate) fn memory(&self) -> Vec<u8> {
        self.policy.memory()
    }

    /// Knows again what was kept.
    pub(crate) fn recall(&mut self, memory: &[u8]) {
        self.policy.recall(memory);
    }

    /// Knows again what was kept.
    pub(crate) fn recall_reasons(&mut self, reasons: Vec<(u32, u32, Comparison)>) {
        for (job, task, comparison) in reasons {
            self.reasons.entry(job.into()).or_default().insert(task.into(), comparison);
        }
    }

    /// What was compared with a node whose number another one gets is not told any more.
    pub(crate) fn forget_node(&mut self, node: NodeId) {
        for tasks in self.reasons.values_mut() {
            tasks.retain(|_, reason| {
                reason.chosen != Some(node) && reason.options().iter().all(|(_, _, option)| *option != node)
            });
        }
    }

    pub(crate) fn forget(&mut self, job: JobId) {
        self.reasons.remove(&job);
    }

    fn note(&mut self, step: &Step<'_>, decisions: &[Decision]) {
        for decision in decisions.iter().filter(|d| step.phase(d.task) == Phase::Ready) {
            let comparison = Comparison::new(step, decision.task, Some(decision.node), &mut self.arrival);
            self.reasons.entry(step.job()).or_default().insert(decision.task, comparison);
        }
    }
}

/// All that was compared, to be kept: a list of jobs, tasks and comparisons.
pub(crate) struct Reasons<'a>(pub(crate) Option<&'a Guarded>);

impl Serialize for Reasons<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tasks = self.0.iter().flat_map(|guarded| guarded.reasons.values().map(FxHashMap::len)).sum();
        let mut list = serializer.serialize_seq(Some(tasks))?;
        for (job, tasks) in self.0.iter().flat_map(|guarded| &guarded.reasons) {
            for (task, comparison) in tasks {
                list.serialize_element(&(job.get(), task.get(), comparison))?;
            }
        }
        list.end()
    }
}

impl Placer for Guarded {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> mdts_core::Result<()> {
        let fault = match self.policy.place(step, decisions) {
            Err(error) => Some(error.to_string()),
            Ok(()) => {
                decisions.as_slice().iter().find(|d| !can_be(step, d)).map(|d| format!("it decided {d:?}"))
            }
        };
        if let Some(fault) = fault {
            tracing::warn!(job = step.job().get(), %fault, "the policy failed, EFT decides this step");
            self.fallbacks += 1;
            decisions.clear();
            self.spare.place(step, decisions)?;
        }
        self.steps += 1;
        self.decisions += decisions.as_slice().len() as u64;
        self.note(step, decisions.as_slice());
        Ok(())
    }

    fn watches_progress(&self) -> bool {
        self.policy.watches_progress()
    }

    fn replayed(&mut self, step: &Step<'_>, decisions: &[Decision]) {
        self.policy.replayed(step, decisions);
        let possible: Vec<Decision> = decisions.iter().filter(|d| can_be(step, d)).copied().collect();
        self.note(step, &possible);
    }
}

fn can_be(step: &Step<'_>, decision: &Decision) -> bool {
    let (task, node) = (decision.task, decision.node);
    task.index() < step.instance().tasks()
        && node.index() < step.instance().nodes()
        && matches!(step.phase(task), Phase::Waiting | Phase::Ready)
        && step.can_run(task, node)
}
