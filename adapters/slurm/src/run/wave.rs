//! Waves: attempts that are submitted as one, because Slurm has to give the same to each.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use mdts_core::engine::{JobId, TaskRun};
use mdts_core::runner::Assignment;
use mdts_dag::{Demand, Task};
use serde::{Deserialize, Serialize};

use crate::executor::{Packing, SlurmOptions};

/// What a job asks of Slurm for its tasks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) cpus: u32,
    pub(crate) memory_mib: Option<u64>,
    pub(crate) gres: Vec<(String, u32)>,
    pub(crate) minutes: Option<u32>,
}

/// What is submitted as one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wave {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) elements: Vec<Element>,
}

/// One job, or one element of an array: attempts that run one after the other.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Element {
    /// The node that it is meant for, by its number in the cluster.
    pub(crate) node: u32,
    pub(crate) tickets: Vec<Ticket>,
    /// Wave and number of the elements that must have succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) after: Vec<(u32, u32)>,
    /// Taken off its priority.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) nice: i32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde wants it so
fn is_zero(nice: &i32) -> bool {
    *nice == 0
}

/// The right to run an attempt once. What was given to a job that will never use it is given anew under another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u32, u32, u32)", into = "(u32, u32, u32)")]
pub(crate) struct Ticket {
    pub(crate) task: u32,
    pub(crate) attempt: u32,
    /// How many were given for the attempt before.
    pub(crate) again: u32,
}

impl From<(u32, u32, u32)> for Ticket {
    fn from((task, attempt, again): (u32, u32, u32)) -> Self {
        Self { task, attempt, again }
    }
}

impl From<Ticket> for (u32, u32, u32) {
    fn from(of: Ticket) -> Self {
        (of.task, of.attempt, of.again)
    }
}

impl Ticket {
    /// The first for an attempt.
    pub(crate) fn first(run: TaskRun) -> Self {
        Self { task: run.task.get(), attempt: run.attempt, again: 0 }
    }

    /// The attempt.
    pub(crate) fn run(self) -> TaskRun {
        TaskRun { job: JobId::default(), task: self.task.into(), attempt: self.attempt }
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.task, self.attempt)?;
        if self.again > 0 { write!(f, ".{}", self.again) } else { Ok(()) }
    }
}

impl FromStr for Ticket {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let numbers: Vec<u32> =
            text.split('.').map(|part| part.parse().map_err(|_| ())).collect::<Result<_, _>>()?;
        match numbers[..] {
            [task, attempt] => Ok(Self { task, attempt, again: 0 }),
            [task, attempt, again] => Ok(Self { task, attempt, again }),
            _ => Err(()),
        }
    }
}

impl Shape {
    /// What a task wants.
    pub(crate) fn of(task: &Task, options: &SlurmOptions) -> Self {
        let default = Demand::default();
        let demand = task.demand.as_deref().unwrap_or(&default);
        let cpus = demand.cores.ceil().max(1.0) as u32;
        let memory_mib = match demand.memory.div_ceil(1 << 20) {
            0 => options.memory_per_core_mib.map(|share| share * u64::from(cpus)),
            mib => Some(mib),
        };
        let gpus = (demand.gpus > 0.0).then(|| ("gpu".to_owned(), demand.gpus.ceil() as u32));
        let others = demand.other.iter().filter(|(_, amount)| **amount > 0.0);
        let others = others.map(|(name, amount)| (name.clone(), amount.ceil() as u32));
        let timeout = task.run.as_ref().and_then(|run| run.timeout);
        Self {
            cpus,
            memory_mib,
            gres: gpus.into_iter().chain(others).collect(),
            minutes: timeout.map(minutes),
        }
    }
}

/// Whole minutes after which Slurm itself ends a job; mdts ends it sooner if it is there.
fn minutes(seconds: f64) -> u32 {
    (seconds / 60.0).ceil() as u32 + 1
}

/// A part of a batch that is to become a wave.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) elements: Vec<Vec<Assignment>>,
}

/// Parts a batch: by what tasks ask for, then by node, then into elements of at most so many attempts as packing allows; at
/// most `most` elements each. O(n log n).
pub(crate) fn groups(batch: Vec<Assignment>, options: &SlurmOptions, most: usize) -> Vec<Group> {
    let mut by_shape: BTreeMap<Shape, Vec<Assignment>> = BTreeMap::new();
    for assignment in batch {
        by_shape.entry(Shape::of(assignment.task(), options)).or_default().push(assignment);
    }
    let most = if options.arrays { most.max(1) } else { 1 };
    let mut groups = Vec::new();
    for (shape, mut assignments) in by_shape {
        assignments.sort_by_key(|assignment| assignment.node); // stable: the order of the plan stays
        let elements = pack(assignments, options.packing);
        let mut elements = elements.into_iter().peekable();
        while elements.peek().is_some() {
            let some: Vec<Vec<Assignment>> = elements.by_ref().take(most).collect();
            let packed = some.iter().map(Vec::len).max().unwrap_or(1) as u32;
            let minutes = shape.minutes.map(|minutes| minutes.saturating_mul(packed));
            groups.push(Group {
                name: name(&some),
                shape: Shape { minutes, ..shape.clone() },
                elements: some,
            });
        }
    }
    groups
}

/// Attempts in the order of their nodes, put together as packing allows.
fn pack(assignments: Vec<Assignment>, packing: Packing) -> Vec<Vec<Assignment>> {
    let mut elements: Vec<Vec<Assignment>> = Vec::new();
    let mut seconds = 0.0;
    for assignment in assignments {
        let expected = assignment.expected_seconds;
        let fits = elements.last().is_some_and(|last| {
            last.first().is_some_and(|first| first.node == assignment.node)
                && packing.allows(last.len() + 1, seconds + expected)
        });
        if let Some(last) = elements.last_mut().filter(|_| fits) {
            last.push(assignment);
            seconds += expected;
        } else {
            elements.push(vec![assignment]);
            seconds = expected;
        }
    }
    elements
}

/// The kind of the tasks, or the job if there are several.
fn name(elements: &[Vec<Assignment>]) -> String {
    let mut tasks = elements.iter().flatten();
    let Some(first) = tasks.next() else { return String::new() };
    let kind = &first.task().kind;
    let name = if tasks.all(|other| other.task().kind == *kind) { kind } else { first.job.name() };
    // Names are for people, and Slurm's programs print them in lines.
    name.chars().map(|c| if c.is_control() || c == '"' { '_' } else { c }).take(60).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mdts_dag::JobGraph;

    use super::*;

    fn batch(tasks: &[(&str, f64, usize, f64)]) -> Result<Vec<Assignment>, mdts_dag::Error> {
        let mut job = JobGraph::builder("job");
        for (name, cores, ..) in tasks {
            job.task(Task::new(*name).cores(*cores))?;
        }
        let job = Arc::new(job.build()?);
        let assignment = |(at, (_, _, node, seconds)): (usize, &(&str, f64, usize, f64))| Assignment {
            run: TaskRun { job: JobId::default(), task: (at as u32).into(), attempt: 1 },
            node: mdts_core::NodeId::new(*node),
            expected_seconds: *seconds,
            job: job.clone(),
        };
        Ok(tasks.iter().enumerate().map(assignment).collect())
    }

    fn show(groups: &[Group]) -> String {
        let element = |element: &Vec<Assignment>| {
            element.iter().map(|a| a.task().name.to_string()).collect::<Vec<_>>().join("+")
        };
        let group = |group: &Group| {
            let elements: Vec<String> = group.elements.iter().map(element).collect();
            format!("{}x{}: {}", group.name, group.shape.cpus, elements.join(" "))
        };
        groups.iter().map(group).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn batches_are_parted() -> Result<(), mdts_dag::Error> {
        let options = SlurmOptions::new("run", "logs", ".");
        let tasks = [
            ("a1", 1.0, 1, 5.0),
            ("b1", 1.5, 0, 5.0),
            ("a2", 1.0, 0, 5.0),
            ("a3", 1.0, 1, 5.0),
            ("a4", 1.0, 1, 50.0),
        ];
        let table = [
            (options.clone(), 9, "ax1: a2 a1 a3 a4; bx2: b1"),
            (options.clone(), 3, "ax1: a2 a1 a3; ax1: a4; bx2: b1"),
            (
                SlurmOptions { arrays: false, ..options.clone() },
                9,
                "ax1: a2; ax1: a1; ax1: a3; ax1: a4; bx2: b1",
            ),
            (SlurmOptions { packing: Packing::Tasks(2), ..options.clone() }, 9, "ax1: a2 a1+a3 a4; bx2: b1"),
            (SlurmOptions { packing: Packing::Seconds(20.0), ..options }, 9, "ax1: a2 a1+a3 a4; bx2: b1"),
        ];
        for (options, most, expected) in table {
            assert_eq!(show(&groups(batch(&tasks)?, &options, most)), expected);
        }
        Ok(())
    }

    #[test]
    fn demands_become_what_slurm_counts() {
        let options =
            SlurmOptions { memory_per_core_mib: Some(500), ..SlurmOptions::new("run", "logs", ".") };
        let shape = |task: Task| Shape::of(&task, &options);
        let plain = Shape { cpus: 1, memory_mib: Some(500), ..Shape::default() };
        assert_eq!(shape(Task::new("a")), plain);
        assert_eq!(shape(Task::new("a").cores(0.5)), plain);
        assert_eq!(shape(Task::new("a").cores(2.5)).memory_mib, Some(1500));
        assert_eq!(shape(Task::new("a").memory(1)).memory_mib, Some(1));
        assert_eq!(shape(Task::new("a").gpus(1.5)).gres, [("gpu".to_owned(), 2)]);
        assert_eq!(shape(Task::new("a").timeout(61.0)).minutes, Some(3));
    }
}
