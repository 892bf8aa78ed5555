//! The two roles of a policy.

use std::fmt::Debug;

use mdts_dag::TaskId;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::engine::Step;
use crate::{Instance, NodeId, Result, Schedule, plain};

/// The one source of randomness: seeded, handed down, the same on every machine.
pub type Rng = ChaCha8Rng;

/// Plans a whole job before it starts.
///
/// **An implementer** returns a schedule in which every task of the instance is placed once and that passes
/// [`Schedule::verify`]; is deterministic given the instance and the state of `rng`; and, if the instance has
/// [`Instance::progress`], keeps started tasks as they are, starts nothing before its `now` and uses no lost
/// node ([`crate::PartialSchedule`] does all three). **A caller** may call it often and from several threads.
pub trait Planner: Debug + Send + Sync {
    /// Plans the job.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] if the job needs what the planner cannot do.
    fn plan(&self, instance: &Instance, rng: &mut Rng) -> Result<Schedule>;
}

/// Decides while the job runs: all child tasks that are ready together get their nodes in one step.
///
/// **An implementer** places every task of [`Step::ready`] on a node that can run it and is not lost. It may
/// leave a task for later; it is asked again at the next step of the job (with [`Placer::watches_progress`] also
/// whenever a task of any job finishes), and a job whose tasks are all left while nothing runs is reported as stuck. It may place tasks that are not ready yet, and move tasks that
/// wait on another node. **A caller** calls it once per decision step, with time that never goes back.
pub trait Placer: Debug + Send {
    /// Places the ready tasks of one job.
    ///
    /// # Errors
    /// Whatever makes further decisions impossible; the run then ends.
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()>;

    /// Whether the policy also wants a step whenever a task of the job finishes or is overdue, though none became ready,
    /// and for ready tasks that it left for later whenever a task of another job finishes.
    fn watches_progress(&self) -> bool {
        false
    }

    /// Takes note of a decision step of the past, which was decided so and is not decided again: a journal is replayed. A
    /// policy that learns from its steps learns here what it has learnt then. By default nothing is noted.
    fn replayed(&mut self, step: &Step<'_>, decisions: &[Decision]) {
        _ = (step, decisions);
    }

    /// What was learnt from jobs so far, as bytes to keep beside a snapshot of the engine; none if nothing is learnt.
    fn memory(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Knows again what was kept. Bytes that another policy kept are passed over.
    fn recall(&mut self, memory: &[u8]) {
        _ = memory;
    }
}

impl<P: Placer + ?Sized> Placer for Box<P> {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        (**self).place(step, decisions)
    }

    fn watches_progress(&self) -> bool {
        (**self).watches_progress()
    }

    fn replayed(&mut self, step: &Step<'_>, decisions: &[Decision]) {
        (**self).replayed(step, decisions);
    }

    fn memory(&self) -> Vec<u8> {
        (**self).memory()
    }

    fn recall(&mut self, memory: &[u8]) {
        (**self).recall(memory);
    }
}

impl<P: Placer + ?Sized> Placer for &mut P {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        (**self).place(step, decisions)
    }

    fn watches_progress(&self) -> bool {
        (**self).watches_progress()
    }

    fn replayed(&mut self, step: &Step<'_>, decisions: &[Decision]) {
        (**self).replayed(step, decisions);
    }

    fn memory(&self) -> Vec<u8> {
        (**self).memory()
    }

    fn recall(&mut self, memory: &[u8]) {
        (**self).recall(memory);
    }
}

impl<P: Planner + ?Sized> Planner for Box<P> {
    fn plan(&self, instance: &Instance, rng: &mut Rng) -> Result<Schedule> {
        (**self).plan(instance, rng)
    }
}

/// How a placed task waits on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Order {
    /// In the order of placement; a task whose data is there may overtake one whose data is not.
    #[default]
    Arrival,
    /// Strictly behind the tasks that were placed in this way before it.
    Strict,
}

/// One task's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Decision {
    /// The task.
    #[serde(with = "plain::task")]
    pub task: TaskId,
    /// Where it is to run.
    pub node: NodeId,
    /// How it waits there.
    pub order: Order,
}

/// Collects what a policy decides in one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decisions {
    list: Vec<Decision>,
}

impl Decisions {
    /// Places a task at the end of the node's queue.
    pub fn place(&mut self, task: TaskId, node: NodeId) {
        self.list.push(Decision { task, node, order: Order::Arrival });
    }

    /// Places a task strictly behind those placed so before.
    pub fn place_in_order(&mut self, task: TaskId, node: NodeId) {
        self.list.push(Decision { task, node, order: Order::Strict });
    }

    /// What was decided so far, in order.
    pub fn as_slice(&self) -> &[Decision] {
        &self.list
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}

impl Extend<Decision> for Decisions {
    fn extend<I: IntoIterator<Item = Decision>>(&mut self, decisions: I) {
        self.list.extend(decisions);
    }
}
