//! Journals in real folders.

use super::manifest;
use crate::journal::{Durability, Entry, Folder, read_folder};
use crate::testkit::instances;
use crate::{Error, Result};

#[test]
fn one_process_at_a_time_has_a_folder() -> Result<()> {
    let instance = instances(0)?[0].1.clone();
    let directory = tempfile::tempdir().expect("a folder");
    let path = directory.path().join("runs/first");
    assert!(
        Folder::lock(&path)?
            .resume(Durability::Process)
            .expect_err("empty")
            .to_string()
            .contains("no journal")
    );
    for durability in [Durability::Process, Durability::Power] {
        std::fs::remove_file(path.join("events")).ok(); // not there the first time
        let mut journal = Folder::lock(&path)?.begin(manifest(&instance), durability)?;
        let error = Folder::lock(&path).expect_err("in use").to_string();
        assert!(error.contains(&format!("it is in use by process {}; wait", std::process::id())), "{error}");
        journal.append(&Entry::Opened { at_ms: 1, process: 2 })?;
        // Others may read meanwhile.
        assert!(read_folder(&path)?.next()?.is_some());
        drop(journal);
        let begun = Folder::lock(&path)?.begin(manifest(&instance), durability);
        assert!(begun.expect_err("there is one").to_string().contains("--resume"));
        let mut journal = Folder::lock(&path)?.resume(durability)?;
        let mut entries = Vec::new();
        journal.replay(|entry| {
            entries.push(entry);
            Ok(())
        })?;
        assert_eq!(entries, [Entry::Opened { at_ms: 1, process: 2 }]);
        journal.append(&Entry::Opened { at_ms: 3, process: 4 })?;
        journal.sync()?;
    }
    Ok(())
}

#[test]
fn a_folder_that_cannot_be_written_is_told() {
    let error = Folder::lock("/proc/no/such/folder").expect_err("not writable");
    assert!(matches!(&error, Error::Journal { .. }));
    assert!(error.to_string().contains("choose a folder that you may write to"), "{error}");
}
