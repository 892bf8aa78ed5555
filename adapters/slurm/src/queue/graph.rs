//! The queue as a job graph: every job that has not ended is a task. O(jobs + dependencies).

use std::collections::BTreeMap;

use mdts_dag::{JobGraph, Task};

use super::named_jobs;
use crate::{JobRecord, Result, spell};

/// What a job is taken to run if it has no time limit, in seconds.
const UNKNOWN_SECONDS: f64 = 3600.0;

/// The graph of a queue.
#[derive(Debug)]
pub struct Queued {
    /// Tasks are named after jobs and their numbers: `align.12`, `align.13_4`.
    pub graph: JobGraph,
    /// Per task, the position of its job among those given.
    pub jobs: Vec<usize>,
}

/// The graph of those jobs that have not ended. A task runs as long as its job may still run by its time limit, or as
/// `seconds` knows better; a job of several nodes is a gang. None if there are no such jobs.
///
/// # Errors
/// [`crate::Error::Strange`] if jobs wait for each other in a circle, which Slurm does not allow.
pub fn graph(
    jobs: &[JobRecord],
    now: u64,
    seconds: impl Fn(&JobRecord) -> Option<f64>,
) -> Result<Option<Queued>> {
    let mut builder = JobGraph::builder("queue");
    let (mut tasks, mut positions) = (BTreeMap::<u32, Vec<_>>::new(), Vec::new());
    let strange = |error: mdts_dag::Error| crate::Error::Strange {
        what: "the queue".to_owned(),
        message: error.to_string(),
    };
    for (at, job) in jobs.iter().enumerate().filter(|(_, job)| !job.state.is_over()) {
        let id = builder.task(task(job, now, seconds(job))).map_err(strange)?;
        tasks.entry(job.id.job).or_default().push(id);
        positions.push(at);
    }
    if positions.is_empty() {
        return Ok(None);
    }
    for (&at, child) in positions.iter().zip(0_u32..) {
        for parent in named_jobs(&jobs[at].dependency).iter().filter_map(|job| tasks.get(job)).flatten() {
            builder.depend(child.into(), *parent, 0.0);
        }
    }
    Ok(Some(Queued { graph: builder.build().map_err(strange)?, jobs: positions }))
}

fn task(job: &JobRecord, now: u64, known: Option<f64>) -> Task {
    let all = known.or(job.limit_seconds.map(|limit| limit as f64)).unwrap_or(UNKNOWN_SECONDS);
    let spent =
        if job.state.is_waiting() { 0 } else { job.began.map_or(0, |began| now.saturating_sub(began)) };
    // What has outrun its prediction ends soon.
    let left = (all - spent as f64).max(1.0);
    let nodes = job.node_count.max(1);
    let cpus = job.cpus.div_ceil(nodes).max(1);
    let memory =
        if job.is_memory_per_cpu { job.memory_mib.saturating_mul(cpus.into()) } else { job.memory_mib };
    let gpus = spell::gres(&job.gres).and_then(|gres| gres.get("gpu").copied()).unwrap_or(0);
    let kind = Task::new(job.name.as_str()).kind;
    Task::new(format!("{}.{}", job.name, job.id)).kind(kind).seconds(left).with_demand(|demand| {
        demand.cores = f64::from(cpus);
        demand.memory = memory.saturating_mul(1 << 20).min(1 << 59);
        demand.gpus = gpus as f64;
        demand.gang = nodes;
    })
}

#[cfg(test)]
mod tests {
    use super::super::graph_tests::record;
    use super::*;
    use crate::{JobId, JobState};

    #[test]
    fn jobs_become_tasks() {
        let jobs = [
            JobRecord {
                id: JobId::element(7, 1),
                name: "align12".into(),
                cpus: 8,
                node_count: 2,
                memory_mib: 10,
                is_memory_per_cpu: true,
                gres: "gres:gpu:1".into(),
                ..record()
            },
            JobRecord { id: JobId::whole(8), state: JobState::Completed, ..record() },
            JobRecord {
                id: JobId::whole(9),
                state: JobState::Running,
                began: Some(100),
                limit_seconds: Some(60),
                dependency: "afterok:7_*".into(),
                ..record()
            },
        ];
        let queued = graph(&jobs, 130, |_| None).unwrap().unwrap();
        assert_eq!(queued.jobs, [0, 2]);
        let tasks: Vec<&Task> = queued.graph.tasks().collect();
        assert_eq!((&*tasks[0].name, &*tasks[0].kind), ("align12.7_1", "align"));
        let demand = tasks[0].demand.as_deref().unwrap();
        assert_eq!((demand.cores, demand.memory, demand.gpus, demand.gang), (4.0, 40 << 20, 1.0, 2));
        assert_eq!(tasks[1].work, mdts_dag::Work::Seconds(30.0));
        assert_eq!(queued.graph.dependency_count(), 1);
        assert!(graph(&jobs[1..2], 0, |_| None).unwrap().is_none());
    }
}
