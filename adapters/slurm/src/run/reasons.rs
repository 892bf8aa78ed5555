//! Why a job waits, and whether that can pass by itself.

/// What to think of a job that waits for this reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Its turn will come.
    Patient,
    /// Its turn may never come on the node that it must have; it could on another.
    Misplaced,
    /// Its turn will never come, unless somebody changes something.
    Hopeless,
    /// Somebody holds it on purpose.
    Held,
    /// Its node could not begin it, and Slurm holds it since.
    NotLaunched,
}

/// Slurm's reasons that cannot pass by themselves; some are followed by details, so that beginnings count.
const REASONS: [(&str, Waiting); 29] = [
    ("ReqNodeNotAvail", Waiting::Misplaced),
    ("NodeDown", Waiting::Misplaced),
    ("Node_", Waiting::Misplaced),
    ("BadConstraints", Waiting::Misplaced),
    ("Nodes_required_for_job_are_DOWN", Waiting::Misplaced),
    ("Nodes required for job are DOWN", Waiting::Misplaced),
    ("PartitionConfig", Waiting::Misplaced),
    ("PartitionNodeLimit", Waiting::Hopeless),
    ("PartitionTimeLimit", Waiting::Hopeless),
    ("PartitionDown", Waiting::Hopeless),
    ("PartitionInactive", Waiting::Hopeless),
    ("AccountNotAllowed", Waiting::Hopeless),
    ("AssociationJobLimit", Waiting::Hopeless),
    ("AssociationResourceLimit", Waiting::Hopeless),
    ("AssociationTimeLimit", Waiting::Hopeless),
    ("DependencyNeverSatisfied", Waiting::Hopeless),
    ("FedJobLock", Waiting::Hopeless),
    ("InvalidAccount", Waiting::Hopeless),
    ("InvalidQOS", Waiting::Hopeless),
    ("JobHoldMaxRequeue", Waiting::Hopeless),
    ("JobLaunchFailure", Waiting::NotLaunched),
    ("OutOfMemory", Waiting::Hopeless),
    ("QOSNotAllowed", Waiting::Hopeless),
    ("QOSJobLimit", Waiting::Hopeless),
    ("ReservationDeleted", Waiting::Hopeless),
    ("launch failed", Waiting::NotLaunched),
    ("launch_failed", Waiting::NotLaunched),
    ("JobHeldUser", Waiting::Held),
    ("JobHeldAdmin", Waiting::Held),
];

/// What Slurm's word says of a job that waits. Limits on single jobs (`...PerJob...`, `...PerUser...` on nodes) never pass.
pub(crate) fn judge(reason: &str) -> Waiting {
    if let Some((_, waiting)) = REASONS.iter().find(|(word, _)| reason.starts_with(word)) {
        return *waiting;
    }
    let is_limit = reason.starts_with("Assoc") || reason.starts_with("QOS");
    if is_limit && reason.contains("PerJob") { Waiting::Hopeless } else { Waiting::Patient }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_judged() {
        let table = [
            ("Resources", Waiting::Patient),
            ("Priority", Waiting::Patient),
            ("Dependency", Waiting::Patient),
            ("BeginTime", Waiting::Patient),
            ("Licenses", Waiting::Patient),
            ("", Waiting::Patient),
            ("QOSMaxCpuPerUserLimit", Waiting::Patient),
            ("QOSMaxCpuPerJobLimit", Waiting::Hopeless),
            ("AssocMaxWallDurationPerJobLimit", Waiting::Hopeless),
            ("ReqNodeNotAvail, UnavailableNodes:fast1", Waiting::Misplaced),
            ("PartitionConfig", Waiting::Misplaced),
            ("PartitionTimeLimit", Waiting::Hopeless),
            ("launch failed requeued held", Waiting::NotLaunched),
            ("JobHeldUser", Waiting::Held),
        ];
        for (reason, expected) in table {
            assert_eq!(judge(reason), expected, "{reason}");
        }
    }
}
