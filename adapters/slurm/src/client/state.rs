//! How a job stands, in Slurm's own words.

use std::fmt;

/// The states of Slurm's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // they are Slurm's, named as squeue(1) has them
pub enum JobState {
    BootFail,
    Cancelled,
    Completed,
    Configuring,
    Completing,
    Deadline,
    Failed,
    NodeFail,
    OutOfMemory,
    Pending,
    Preempted,
    Running,
    ResvDelHold,
    RequeueFed,
    RequeueHold,
    Requeued,
    Resizing,
    Revoked,
    Signaling,
    SpecialExit,
    StageOut,
    Stopped,
    Suspended,
    Timeout,
    /// One that this crate does not know.
    Unknown,
}

impl JobState {
    /// Every state with its name.
    pub const NAMES: [(Self, &str); 24] = [
        (Self::BootFail, "BOOT_FAIL"),
        (Self::Cancelled, "CANCELLED"),
        (Self::Completed, "COMPLETED"),
        (Self::Configuring, "CONFIGURING"),
        (Self::Completing, "COMPLETING"),
        (Self::Deadline, "DEADLINE"),
        (Self::Failed, "FAILED"),
        (Self::NodeFail, "NODE_FAIL"),
        (Self::OutOfMemory, "OUT_OF_MEMORY"),
        (Self::Pending, "PENDING"),
        (Self::Preempted, "PREEMPTED"),
        (Self::Running, "RUNNING"),
        (Self::ResvDelHold, "RESV_DEL_HOLD"),
        (Self::RequeueFed, "REQUEUE_FED"),
        (Self::RequeueHold, "REQUEUE_HOLD"),
        (Self::Requeued, "REQUEUED"),
        (Self::Resizing, "RESIZING"),
        (Self::Revoked, "REVOKED"),
        (Self::Signaling, "SIGNALING"),
        (Self::SpecialExit, "SPECIAL_EXIT"),
        (Self::StageOut, "STAGE_OUT"),
        (Self::Stopped, "STOPPED"),
        (Self::Suspended, "SUSPENDED"),
        (Self::Timeout, "TIMEOUT"),
    ];

    /// The state of this name; what follows the name (`CANCELLED by 0`) is left out.
    ///
    /// ```
    /// use mdts_slurm::JobState;
    /// assert_eq!(JobState::of("CANCELLED by 1000"), JobState::Cancelled);
    /// assert_eq!(JobState::of("NEW_IN_30"), JobState::Unknown);
    /// ```
    pub fn of(text: &str) -> Self {
        let word = text.split([' ', '+', ',']).next().unwrap_or_default();
        Self::NAMES.iter().find(|(_, name)| *name == word).map_or(Self::Unknown, |(state, _)| *state)
    }

    /// Whether the job has come to its end and will not run again by itself.
    pub fn is_over(self) -> bool {
        matches!(
            self,
            Self::BootFail
                | Self::Cancelled
                | Self::Completed
                | Self::Deadline
                | Self::Failed
                | Self::NodeFail
                | Self::OutOfMemory
                | Self::Preempted
                | Self::Revoked
                | Self::Timeout
        )
    }

    /// Whether the job has not begun, or is to begin again.
    pub fn is_waiting(self) -> bool {
        matches!(
            self,
            Self::Pending
                | Self::Configuring
                | Self::ResvDelHold
                | Self::RequeueFed
                | Self::RequeueHold
                | Self::Requeued
                | Self::SpecialExit
        )
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(state, _)| state == self).map_or("UNKNOWN", |(_, name)| name);
        f.write_str(name)
    }
}
