//! A job for tests.

use crate::{JobId, JobRecord};

/// A waiting job of one CPU.
pub(crate) fn record() -> JobRecord {
    JobRecord {
        name: "job".into(),
        user: "root".into(),
        partition: "main".into(),
        reason: "Priority".into(),
        cpus: 1,
        memory_mib: 100,
        is_memory_per_cpu: true,
        limit_seconds: Some(60),
        priority: 1,
        ..JobRecord::empty(JobId::whole(1))
    }
}
