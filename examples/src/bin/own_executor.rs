//! An executor of one's own: runs tasks through an in-house pool of worker threads.
//!
//!     cargo run -p mdts-examples --bin own_executor

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mdts_core::engine::TaskRun;
use mdts_core::runner::{Assignment, Executor, Outcome, Report, Reports, Runner, Stopping};
use mdts_core::{Cluster, Error, Instance, Result, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task};
use tokio::task::JoinHandle;

/// Runs each attempt on a blocking thread; a flag tells it to stop.
#[derive(Default)]
struct Pool {
    running: HashMap<TaskRun, (Arc<AtomicBool>, JoinHandle<()>)>,
}

#[async_trait::async_trait]
impl Executor for Pool {
    async fn start(&mut self, batch: Vec<Assignment>, reports: &Reports) -> Result<()> {
        for assignment in batch {
            let (run, flag, reports) = (assignment.run, Arc::<AtomicBool>::default(), reports.clone());
            let stop = flag.clone();
            let thread = tokio::task::spawn_blocking(move || {
                let outcome = in_house_work(&assignment, &stop);
                reports.send(Report::Ended(run, outcome));
            });
            self.running.insert(run, (flag, thread));
        }
        Ok(())
    }

    fn cancel(&mut self, runs: &[TaskRun]) -> Stopping {
        let stopping: Vec<_> = runs.iter().filter_map(|run| self.running.remove(run)).collect();
        for (stop, _) in &stopping {
            stop.store(true, Ordering::Relaxed);
        }
        Box::pin(async move {
            for (_, thread) in stopping {
                thread.await.map_err(|error| Error::Executor(error.to_string()))?;
            }
            Ok(())
        })
    }
}

/// What the house does for a task: here it waits for as long as the task should take, unless its kind is "broken".
fn in_house_work(assignment: &Assignment, stop: &AtomicBool) -> Outcome {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs_f64(assignment.expected_seconds) {
        if stop.load(Ordering::Relaxed) {
            return Outcome::Failure("stopped".to_owned());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if &*assignment.task().kind == "broken" {
        Outcome::Failure("broken".to_owned())
    } else {
        Outcome::Success
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut job = JobGraph::builder("small");
    let first = job.task(Task::new("first").seconds(0.1))?;
    for name in ["left", "right"] {
        let task = job.task(Task::new(name).seconds(0.2))?;
        job.depend(task, first, 0.0);
    }
    let job = Arc::new(job.build()?);
    let cluster = Arc::new(Cluster::identical(2, SlotModel::Exclusive)?);
    let instance = Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Edges)?);
    let policy = mdts_policies::find("heft")?.placer(1);
    let report = Runner::new(job, instance, policy).run(&mut Pool::default()).await?;
    println!("{} of {} tasks in {:.2} s", report.succeeded(), report.tasks.len(), report.makespan);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mdts_core::testkit::{SampleTasks, check_executor};

    #[test]
    fn it_runs() -> std::result::Result<(), Box<dyn std::error::Error>> {
        main()
    }

    #[tokio::test]
    async fn it_keeps_the_contract() {
        let tasks = SampleTasks {
            succeed: |task| task.seconds(0.01),
            fail: |task| task.seconds(0.01).kind("broken"),
            linger: |task| task.seconds(600.0),
            linger_once: None,
            running: None,
        };
        let checked = check_executor(|_| Ok(Pool::default()), &tasks, Duration::from_secs(30)).await;
        assert_eq!(checked, Ok(()));
    }
}
