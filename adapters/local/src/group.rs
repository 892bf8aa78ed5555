//! The process group of one attempt: everything that the attempt starts, unless it leaves the group on purpose.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::time::{Instant, sleep};

/// How often to look whether a group that was asked to end has done so.
const LOOK: Duration = Duration::from_millis(10);

/// A process group; dropping it kills what is left of it.
#[derive(Debug)]
pub(crate) struct Group {
    /// `None` once nobody is left: the system may give the number to others.
    id: Option<Pid>,
}

impl Group {
    /// The group led by the process of this number.
    pub(crate) fn led_by(process: u32) -> Self {
        Self { id: i32::try_from(process).ok().and_then(Pid::from_raw) }
    }

    /// Asks all processes of the group to end, gives them `grace` to do so and kills the rest.
    ///
    /// Someone must wait for the leader meanwhile: it stays in the group until its status is fetched.
    pub(crate) async fn end(&mut self, grace: Duration) {
        let Some(id) = self.id else { return };
        if kill_process_group(id, Signal::TERM).is_ok() {
            self.outlast(grace).await;
        } else {
            self.id = None; // nobody is left
        }
    }

    /// Waits for processes that were asked to end and kills those that are there after `grace`.
    pub(crate) async fn outlast(&mut self, grace: Duration) {
        let Some(id) = self.id else { return };
        let asked = Instant::now();
        let mut left = true;
        while left && asked.elapsed() < grace {
            sleep(LOOK).await;
            left = test_kill_process_group(id).is_ok();
        }
        if !left {
            self.id = None;
        }
        self.kill();
    }

    /// Kills all processes of the group.
    pub(crate) fn kill(&mut self) {
        if let Some(id) = self.id.take() {
            kill_process_group(id, Signal::KILL).ok(); // an error says that nobody is left
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
