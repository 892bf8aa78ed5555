//! A job for tests.

use crate::{JobId, JobRecord, JobState};

/// A waiting job of one CPU.
pub(crate) fn record() -> JobRecord {
    JobRecord {
        id: JobId::whole(1),
        name: "job".into(),
        user: "root".into(),
        partition: "main".into(),
        state: JobState::Pending,
        reason: "Priority".into(),
        comment: String::new(),
        command: String::new(),
        directory: String::new(),
        nodes: String::new(),
        required_nodes: String::new(),
        features: String::new(),
        dependency: String::new(),
        exit: (0, 0),
        cpus: 1,
        memory_mib: 100,
        is_memory_per_cpu: true,
        gres: String::new(),
        limit_seconds: Some(60),
        priority: 1,
        nice: 0,
        submitted: None,
        began: None,
        ended: None,
        node_count: 1,
        admin_comment: String::new(),
        is_component: false,
    }
}
