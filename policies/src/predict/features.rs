//! What is known of a task that may explain its run time.

use mdts_core::Node;
use mdts_dag::{Demand, FlatGraph, JobGraph, Task, TaskId};
use serde::{Deserialize, Serialize};

use super::{Error, Result};

/// Names of the columns, in the order of [`Features::columns`].
pub const COLUMNS: [&str; 10] = [
    "inputs",
    "outputs",
    "parents",
    "children",
    "cores",
    "gpus",
    "speed",
    "input_bytes",
    "memory",
    "output_bytes",
];

/// The features of one task on one node.
///
/// ```
/// use mdts_policies::predict::Features;
/// let features = Features { input_bytes: 1e6, inputs: 1.0, ..Features::default() };
/// assert_eq!(features.speed, 1.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(into = "[f64; COLUMNS.len()]", from = "[f64; COLUMNS.len()]")]
pub struct Features {
    /// Number of files read.
    pub inputs: f64,
    /// Number of files written.
    pub outputs: f64,
    /// Number of tasks waited for.
    pub parents: f64,
    /// Number of tasks that wait.
    pub children: f64,
    /// Cores demanded.
    pub cores: f64,
    /// GPUs demanded.
    pub gpus: f64,
    /// The node's speed for this kind of task, above 0.
    pub speed: f64,
    /// Bytes read, from files and dependencies; 0 when unknown.
    pub input_bytes: f64,
    /// Bytes of memory demanded (in a trace: used); 0 when unknown.
    pub memory: f64,
    /// Bytes written, to files and dependencies; 0 when unknown.
    pub output_bytes: f64,
}

impl Default for Features {
    /// One core of a node of speed 1, no data.
    fn default() -> Self {
        Self { cores: 1.0, speed: 1.0, ..Self::from([0.0; COLUMNS.len()]) }
    }
}

impl From<Features> for [f64; COLUMNS.len()] {
    fn from(f: Features) -> Self {
        [
            f.inputs,
            f.outputs,
            f.parents,
            f.children,
            f.cores,
            f.gpus,
            f.speed,
            f.input_bytes,
            f.memory,
            f.output_bytes,
        ]
    }
}

impl From<[f64; COLUMNS.len()]> for Features {
    fn from(values: [f64; COLUMNS.len()]) -> Self {
        let [inputs, outputs, parents, children, cores, gpus, speed, input_bytes, memory, output_bytes] =
            values;
        Self { inputs, outputs, parents, children, cores, gpus, speed, input_bytes, memory, output_bytes }
    }
}

impl Features {
    /// The features of all tasks of a job on a node of speed 1, in the order of their ids.
    /// O(tasks + dependencies + file references).
    pub fn of_job(job: &JobGraph) -> Vec<Self> {
        let mut all: Vec<Self> = job.tasks().map(|task| Self::without_edges(job, task)).collect();
        for (parent, child, data) in job.dependencies() {
            all[parent.index()].children += 1.0;
            all[parent.index()].output_bytes += data.direct;
            all[child.index()].parents += 1.0;
            all[child.index()].input_bytes += data.direct;
        }
        all
    }

    /// The features of one task of a job on a node of speed 1; `graph` is the job's flat form.
    /// O(dependencies of the task + file references).
    pub fn of_task(job: &JobGraph, graph: &FlatGraph, task: TaskId) -> Self {
        let mut features = Self::without_edges(job, job.task(task));
        for edge in graph.parent_edges(task) {
            features.parents += 1.0;
            features.input_bytes += graph.edge_direct_bytes(edge);
        }
        for edge in graph.child_edges(task) {
            features.children += 1.0;
            features.output_bytes += graph.edge_direct_bytes(*edge);
        }
        features
    }

    fn without_edges(job: &JobGraph, task: &Task) -> Self {
        let default = Demand::default();
        let demand = task.demand.as_deref().unwrap_or(&default);
        let bytes = |files: &[mdts_dag::FileId]| files.iter().map(|f| job.file(*f).bytes).sum::<f64>();
        Self {
            inputs: task.inputs.len() as f64,
            outputs: task.outputs.len() as f64,
            cores: demand.cores,
            gpus: demand.gpus,
            memory: demand.memory as f64,
            input_bytes: bytes(&task.inputs),
            output_bytes: bytes(&task.outputs),
            ..Self::default()
        }
    }

    /// The same task of this kind on a node.
    #[must_use]
    pub fn on(self, node: &Node, kind: &str) -> Self {
        Self { speed: node.speeds.get(kind).copied().unwrap_or(node.speed), ..self }
    }

    /// All features as the models see them: logarithms, of 1 + x but for the speed.
    pub fn columns(&self) -> [f64; COLUMNS.len()] {
        let mut columns = <[f64; COLUMNS.len()]>::from(*self).map(f64::ln_1p);
        columns[6] = self.speed.ln();
        columns
    }

    /// Refuses what no model should see.
    pub(super) fn check(&self, kind: &str) -> Result<()> {
        for (&what, value) in COLUMNS.iter().zip(<[f64; COLUMNS.len()]>::from(*self)) {
            let is_good = value.is_finite() && value >= 0.0 && (what != "speed" || value > 0.0);
            if !is_good {
                return Err(Error::BadNumber { kind: kind.into(), what, value });
            }
        }
        Ok(())
    }
}

/// The leading columns that a model uses, by what is known of a task before it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// All.
    Full,
    /// Without what is often known only afterwards: memory and output bytes.
    Before,
    /// Without any sizes.
    Shape,
}

impl View {
    /// The richest first.
    pub(super) const ALL: [Self; 3] = [Self::Full, Self::Before, Self::Shape];

    /// How many of the leading columns.
    pub(super) const fn width(self) -> usize {
        match self {
            Self::Full => COLUMNS.len(),
            Self::Before => 8,
            Self::Shape => 7,
        }
    }

    /// The richest view all of whose sizes are known. A size of 0 is unknown if no sample had 0.
    pub(super) fn of(columns: &[f64], lowest: &[f64]) -> Self {
        let known = |view: &Self| {
            let sizes = Self::Shape.width()..view.width();
            sizes.into_iter().all(|c| columns[c] > 0.0 || lowest[c] <= 0.0)
        };
        Self::ALL.into_iter().find(known).unwrap_or(Self::Shape)
    }
}

#[cfg(test)]
mod tests {
    use mdts_dag::Task;

    use super::*;

    #[test]
    fn features_come_from_files_edges_and_demands() {
        let mut job = JobGraph::builder("two");
        let file = job.file("a", 100.0).unwrap();
        let mut first = Task::new("first").memory(50);
        first.outputs.push(file);
        let first = job.task(first).unwrap();
        let mut second = Task::new("second").cores(4.0);
        second.inputs.push(file);
        let second = job.task(second).unwrap();
        job.depend(second, first, 7.0);
        let features = Features::of_job(&job.build().unwrap());
        let expected = [
            Features {
                outputs: 1.0,
                children: 1.0,
                memory: 50.0,
                output_bytes: 107.0,
                ..Features::default()
            },
            Features { inputs: 1.0, parents: 1.0, cores: 4.0, input_bytes: 107.0, ..Features::default() },
        ];
        assert_eq!(features, expected);
        let mut node = Node::new("n").speed(2.0);
        assert_eq!(features[0].on(&node, "first").speed, 2.0);
        node.speeds.insert("first".into(), 8.0);
        assert_eq!(features[0].on(&node, "first").columns()[6], 8.0_f64.ln());
        assert_eq!(features[1].columns()[7], 108.0_f64.ln());
    }

    #[test]
    fn a_size_of_zero_is_unknown_if_no_sample_had_it() {
        let mut columns = [1.0; COLUMNS.len()];
        let mut lowest = [1.0; COLUMNS.len()];
        assert_eq!(View::of(&columns, &lowest), View::Full);
        columns[9] = 0.0;
        assert_eq!(View::of(&columns, &lowest), View::Before);
        lowest[9] = 0.0;
        assert_eq!(View::of(&columns, &lowest), View::Full);
        columns[7] = 0.0;
        assert_eq!(View::of(&columns, &lowest), View::Shape);
    }

    #[test]
    fn bad_numbers_are_refused_by_name() {
        let table = [("input_bytes", f64::NAN), ("input_bytes", -1.0), ("input_bytes", f64::INFINITY)];
        for (what, value) in table {
            let features = Features { input_bytes: value, ..Features::default() };
            let error = features.check("align").unwrap_err().to_string();
            assert!(error.contains("'align'") && error.contains(what), "{error}");
        }
        let error = Features { speed: 0.0, ..Features::default() }.check("a").unwrap_err().to_string();
        assert!(error.contains("above 0"), "{error}");
    }
}
