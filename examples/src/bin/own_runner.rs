//! A runner of one's own in less than forty lines: closures as tasks, placed by HEFT, with a journal. Stopped at any moment
//! and started again, it goes on where it was.
//!
//!     cargo run -p mdts-examples --bin own_runner -- FOLDER

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mdts_core::journal::{Durability, Folder, Manifest};
use mdts_core::runner::{FnExecutor, Outcome, RunReport, Runner};
use mdts_core::{Cluster, Instance, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task};

async fn run(folder: &Path) -> Result<RunReport, Box<dyn Error>> {
    let mut job = JobGraph::builder("letters");
    for (name, after) in [("a", vec![]), ("b", vec!["a"]), ("c", vec!["a"]), ("d", vec!["b", "c"])] {
        let task = job.task(Task::new(name).seconds(0.2).retries(2))?;
        for parent in after {
            job.depend_on(task, parent, 0.0);
        }
    }
    let job = Arc::new(job.build()?);
    let cluster = Arc::new(Cluster::identical(2, SlotModel::Exclusive)?);
    let instance = Arc::new(Instance::new(job.freeze().into(), cluster, DataModel::Edges)?);
    let folder = Folder::lock(folder)?;
    let journal = if folder.has_journal() {
        folder.resume(Durability::Process)?
    } else {
        folder.begin(Manifest::new(&instance, "heft"), Durability::Process)?
    };
    let mut executor = FnExecutor::new(|attempt| async move {
        tokio::time::sleep(Duration::from_secs_f64(attempt.expected_seconds)).await; // the work
        println!("{}", attempt.task().name);
        Outcome::Success
    });
    let policy = mdts_policies::find("heft")?.placer(1);
    Ok(Runner::new(job, instance, policy).journal(journal).run(&mut executor).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name the folder of the journal")?;
    let report = run(Path::new(&folder)).await?;
    println!("{} tasks done, {} of them before", report.succeeded(), report.done_before);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first run is dropped in the middle, as by a crash.
    #[tokio::test(start_paused = true)]
    async fn it_goes_on_where_it_was() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        assert!(tokio::time::timeout(Duration::from_millis(300), run(folder.path())).await.is_err());
        let report = run(folder.path()).await?;
        assert!(report.is_success());
        assert_eq!((report.done_before, report.tasks[0].attempts, report.tasks[1].attempts), (1, 1, 2));
        Ok(())
    }
}
