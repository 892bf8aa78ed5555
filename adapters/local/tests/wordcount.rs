//! The shipped word count, in a directory of its own: its result is what counting here gives.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mdts_core::engine::Step;
use mdts_core::runner::Runner;
use mdts_core::{Decisions, Instance, Placer, Result};
use mdts_dag::{DataModel, format};
use mdts_local::{LocalExecutor, LocalOptions, this_machine};

#[derive(Debug)]
struct Here;

impl Placer for Here {
    fn place(&mut self, step: &Step<'_>, decisions: &mut Decisions) -> Result<()> {
        for &task in step.ready() {
            decisions.place(task, 0.into());
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

#[tokio::test]
async fn words_are_counted() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workflows");
    let directory = tempfile::tempdir()?;
    copy(&shipped.join("wordcount"), &directory.path().join("wordcount"))?;
    let job = Arc::new(format::read_path(shipped.join("wordcount.yaml"))?);
    LocalExecutor::check(&job)?;
    let cluster = Arc::new(this_machine()?);
    let instance = Arc::new(Instance::new(job.freeze().into(), cluster.clone(), DataModel::Files)?);
    let options = LocalOptions::new(directory.path().join("logs"), directory.path());
    let mut executor = LocalExecutor::new(options, cluster)?;
    let report = Runner::new(job, instance, Here).run(&mut executor).await?;
    assert!(report.is_success(), "{:?}", report.failures().collect::<Vec<_>>());

    let text = std::fs::read_to_string(directory.path().join("wordcount/text.txt"))?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let (word, count) = counts.iter().max_by_key(|(_, count)| **count).ok_or("the text has no words")?;
    let result = std::fs::read_to_string(directory.path().join("out/report.txt"))?;
    let line = result.lines().find(|line| line.split_whitespace().any(|w| w == word));
    assert!(
        line.is_some_and(|line| line.split_whitespace().any(|w| w == count.to_string())),
        "{word} {count}:\n{result}"
    );
    Ok(())
}
