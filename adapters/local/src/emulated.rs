//! An executor that sleeps for the expected run time of a task instead of running it: for traces.

use std::time::Duration;

use async_trait::async_trait;
use mdts_core::engine::TaskRun;
use mdts_core::runner::{Assignment, Executor, FnExecutor, Outcome, Reports, Stopping};
use mdts_core::{Error, Result};

type Sleep = std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Sleeps `expected_seconds * scale` per attempt; every attempt succeeds. The clock ticks in milliseconds.
///
/// ```
/// use mdts_local::EmulatedExecutor;
/// assert!(EmulatedExecutor::new(0.01).is_ok());
/// assert!(EmulatedExecutor::new(-1.0).is_err());
/// ```
#[derive(Debug)]
pub struct EmulatedExecutor {
    sleeps: FnExecutor<Box<dyn Fn(Assignment) -> Sleep + Send + Sync>>,
}

impl EmulatedExecutor {
    /// An executor that runs `1 / scale` times as fast as the tasks would.
    ///
    /// # Errors
    /// [`Error::BadSetting`] if the scale is negative or not finite.
    pub fn new(scale: f64) -> Result<Self> {
        if !(scale >= 0.0 && scale.is_finite()) {
            return Err(Error::BadSetting {
                what: "scale of the emulation",
                value: scale.to_string(),
                expected: "a number of at least 0",
            });
        }
        let sleep = move |assignment: Assignment| -> Sleep {
            let seconds = assignment.expected_seconds * scale;
            // Longer than the clock can count is as good as for ever.
            let duration = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            Box::pin(async move {
                if !duration.is_zero() {
                    tokio::time::sleep(duration).await;
                }
                Outcome::Success
            })
        };
        Ok(Self { sleeps: FnExecutor::new(Box::new(sleep)) })
    }
}

#[async_trait]
impl Executor for EmulatedExecutor {
    async fn start(&mut self, batch: Vec<Assignment>, reports: &Reports) -> Result<()> {
        self.sleeps.start(batch, reports).await
    }

    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping {
        self.sleeps.cancel(runs)
    }
}
