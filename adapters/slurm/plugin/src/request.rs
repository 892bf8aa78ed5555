//! What a job asks for, in the lines that the sidecar reads.

use std::fmt::Write as _;

use crate::escape::escape;
use crate::job::Job;
use crate::layout::{
    ARRAY_INX, BEGIN_TIME, CLUSTERS, COMMENT, CONTIGUOUS, CORES_PER_SOCKET, CPUS_PER_TASK, CPUS_PER_TRES,
    DEPENDENCY, EXC_NODES, FEATURES, Field, HET_JOB_OFFSET, INFINITE, MAX_NODES, MEM_PER_TRES,
    MEMORY_PER_CPU, MIN_CPUS, MIN_NODES, NAME, NICE, NICE_OFFSET, NTASKS_PER_NODE, NUM_TASKS, PARTITION,
    PN_MIN_CPUS, PN_MIN_MEMORY, PREFER, PRIORITY, REQ_NODES, REQ_SWITCH, RESERVATION, SHARED,
    SOCKETS_PER_NODE, THREADS_PER_CORE, TIME_LIMIT, TRES_PER_JOB, TRES_PER_NODE, TRES_PER_SOCKET,
    TRES_PER_TASK, USER_ID,
};

/// The message about a job; `now` is seconds of Unix time.
pub(crate) fn describe(job: &Job<'_>, now: u64) -> String {
    let mut lines = Lines(String::with_capacity(512));
    let texts = [
        ("name", NAME),
        ("comment", COMMENT),
        ("dependency", DEPENDENCY),
        ("partition", PARTITION),
        ("nodelist", REQ_NODES),
        ("exclude", EXC_NODES),
        ("features", FEATURES),
        ("prefer", PREFER),
        ("reservation", RESERVATION),
        ("gres", TRES_PER_NODE),
    ];
    for (key, field) in texts {
        lines.add(key, job.text(field));
    }
    let numbers = [
        ("user", USER_ID),
        ("tasks", NUM_TASKS),
        ("tasks_per_node", NTASKS_PER_NODE),
        ("cpus_per_task", CPUS_PER_TASK),
        ("cpus", MIN_CPUS),
        ("cpus_per_node", PN_MIN_CPUS),
    ];
    for (key, field) in numbers {
        lines.add(key, job.number(field));
    }
    if let Some(least) = job.number(MIN_NODES).filter(|least| *least > 0) {
        let most = job.number(MAX_NODES).filter(|most| *most >= least).unwrap_or(least);
        lines.add("nodes", Some(format!("{least}-{most}")));
    }
    if let Some(memory) = job.number(PN_MIN_MEMORY) {
        let key = if memory & MEMORY_PER_CPU == 0 { "memory" } else { "memory_per_cpu" };
        lines.add(key, Some(memory & !MEMORY_PER_CPU));
    }
    lines.add("minutes", job.number(TIME_LIMIT).filter(|minutes| *minutes != INFINITE));
    let of_job = job.text(TRES_PER_JOB).map(|tres| gpus(&tres));
    let of_task = job.text(TRES_PER_TASK).map(|tres| gpus(&tres));
    lines.add("gpus", of_job.flatten());
    lines.add("gpus_per_task", of_task.flatten());
    lines.flag("opaque", is_opaque(job) || of_job == Some(None) || of_task == Some(None));
    lines.flag("exclusive", job.number(SHARED) == Some(0));
    lines.flag("array", job.has_text(ARRAY_INX));
    lines.flag("component", job.number(HET_JOB_OFFSET).is_some());
    let has_nice = job.number(NICE).is_some_and(|nice| nice != u64::from(NICE_OFFSET));
    lines.flag("has_priority", has_nice || job.number(PRIORITY).is_some());
    lines.flag(
        "waits",
        job.number(PRIORITY) == Some(0) || job.number(BEGIN_TIME).is_some_and(|begin| begin > now),
    );
    lines.0.push('\n');
    lines.0
}

/// Whether the job asks for what only Slurm can judge, or at greater length than is read here.
fn is_opaque(job: &Job<'_>) -> bool {
    let texts = [TRES_PER_SOCKET, CPUS_PER_TRES, MEM_PER_TRES, CLUSTERS];
    let numbers = [SOCKETS_PER_NODE, CORES_PER_SOCKET, THREADS_PER_CORE, REQ_SWITCH];
    let read = [
        PARTITION,
        REQ_NODES,
        EXC_NODES,
        FEATURES,
        PREFER,
        RESERVATION,
        TRES_PER_NODE,
        TRES_PER_JOB,
        TRES_PER_TASK,
    ];
    let is_long = |field: &Field| job.has_text(*field) && job.text(*field).is_none();
    texts.iter().any(|field| job.has_text(*field))
        || numbers.iter().any(|field| job.number(*field).is_some())
        || job.number(CONTIGUOUS) == Some(1)
        || read.iter().any(is_long)
}

/// `gres:gpu:2` as the number of GPUs; none if it names anything else.
fn gpus(tres: &str) -> Option<u64> {
    let counts = tres.split(',').map(|part| {
        let rest = part.strip_prefix("gres:gpu").or(part.strip_prefix("gres/gpu"))?;
        match rest.rsplit_once([':', '=']) {
            None => rest.is_empty().then_some(1),
            Some((_, last)) => Some(last.parse().unwrap_or(1)),
        }
    });
    counts.sum()
}

struct Lines(String);

impl Lines {
    fn add(&mut self, key: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            _ = writeln!(self.0, "{key}={}", escape(&value.to_string()));
        }
    }

    fn flag(&mut self, key: &str, is_set: bool) {
        self.add(key, is_set.then_some(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::{allocator, job, memory};

    #[test]
    fn a_job_becomes_lines() {
        let mut memory = memory();
        let mut job = job(&mut memory);
        for (field, text) in [
            (NAME, "a\nb"),
            (TRES_PER_JOB, "gres:gpu:tesla:2,gres:gpu"),
            (ARRAY_INX, "1-3"),
            (FEATURES, "fast"),
        ] {
            job.set_text(field, text, allocator());
        }
        job.set_number(MIN_NODES, 2);
        job.set_number(MAX_NODES, 1);
        job.set_number(TIME_LIMIT, u32::MAX);
        job.set_number(NICE, NICE_OFFSET);
        job.set_number(PRIORITY, 0xffff_fffe);
        job.set_number(HET_JOB_OFFSET, 0xffff_fffe);
        let lines = describe(&job, 0);
        for expected in
            ["name=a%0Ab\n", "features=fast\n", "nodes=2-2\n", "gpus=3\n", "array=1\n", "exclusive=1\n"]
        {
            assert!(lines.contains(expected), "{expected} {lines}");
        }
        for unexpected in ["minutes=", "has_priority=", "waits=", "component="] {
            assert!(!lines.contains(unexpected), "{unexpected} {lines}");
        }
        assert!(lines.ends_with("\n\n") && !lines.trim_end().contains("\n\n"));
    }

    #[test]
    fn gpus_are_counted() {
        let table = [
            ("gres:gpu", Some(1)),
            ("gres:gpu:2", Some(2)),
            ("gres/gpu=2", Some(2)),
            ("gres:gpu:tesla", Some(1)),
            ("license:x", None),
            ("gres:gpux", None),
        ];
        for (text, expected) in table {
            assert_eq!(gpus(text), expected, "{text}");
        }
    }
}
