//! The executor with a keeper is held to the contract of all executors.

use std::time::Duration;

use mdts_core::testkit::{SampleTasks, check_executor};
use mdts_local::{KeeperOptions, LocalExecutor, LocalOptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keeper_conforms() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    // Longer than the name of a socket may be.
    let deep = folder.path().join("x".repeat(120));
    let mut runs = 0;
    let make = |cluster: &std::sync::Arc<mdts_core::Cluster>| {
        runs += 1;
        let mut options = LocalOptions::new(folder.path().join("logs"), folder.path());
        options.grace = Duration::from_millis(300);
        let command = vec![env!("CARGO_BIN_EXE_mdts").into(), "keep".into()];
        options.keeper = Some(KeeperOptions { folder: deep.join(format!("run{runs}")), command });
        LocalExecutor::new(options, cluster.clone())
    };
    let tasks = SampleTasks {
        linger_once: Some(|task| task.command(["sh", "-c", "test $MDTS_ATTEMPT -gt 1 || exec sleep 600"])),
        ..SampleTasks::default()
    };
    check_executor(make, &tasks, Duration::from_mins(1)).await
}
