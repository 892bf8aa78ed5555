//! Snapshots of many pieces.

use std::io::{self, Write as _};

use super::Memory;
use crate::journal::{Durability, Entry, Journal, Snapshot, SnapshotWriter};
use crate::testkit::instances;
use crate::{Error, Result};

/// Both halves, longer than several pieces.
fn halves() -> Snapshot {
    let half = |bytes: u32| (0..bytes).map(|at| (at % 251) as u8).collect();
    Snapshot { engine: half(700_001), runner: half(300_003) }
}

/// Writes both halves by turns, in bits of odd lengths.
fn write(of: &Snapshot, to: &mut SnapshotWriter<'_>) -> io::Result<()> {
    let (mut engine, mut runner) = (of.engine.chunks(70_001), of.runner.chunks(10_007));
    loop {
        match (engine.next(), runner.next()) {
            (None, None) => return Ok(()),
            (bits, others) => {
                to.engine().write_all(bits.unwrap_or_default())?;
                to.runner().write_all(others.unwrap_or_default())?;
            }
        }
    }
}

fn begun() -> Result<(Memory, Journal)> {
    let memory = Memory::new();
    let (_, instance) = instances(0)?.swap_remove(0);
    let journal = memory.create(&instance, Durability::Process)?;
    Ok((memory, journal))
}

#[test]
fn a_snapshot_of_many_pieces_is_read_as_a_whole() -> Result<()> {
    let (memory, mut journal) = begun()?;
    journal.append(&Entry::Record(vec![1]))?;
    let whole = halves();
    journal.compact(|to| write(&whole, to))?;
    assert_eq!(journal.bytes(), memory.bytes().len() as u64);
    journal.append(&Entry::Record(vec![2]))?;
    let mut reader = memory.reader()?;
    assert_eq!(reader.next()?, Some(Entry::Snapshot(whole)));
    assert_eq!(reader.next()?, Some(Entry::Record(vec![2])));
    assert_eq!(reader.next()?, None);
    Ok(())
}

/// It was on disk before it got its name: what is missing was lost later, and with it everything that was before.
#[test]
fn a_snapshot_that_was_cut_or_changed_is_damage() -> Result<()> {
    let (memory, mut journal) = begun()?;
    let begin = memory.bytes().len();
    journal.compact(|to| write(&halves(), to))?;
    let bytes = memory.bytes();
    let read = |bytes: Vec<u8>| Memory::holding(bytes).reader().and_then(|mut reader| reader.next());
    for cut in (begin + 13..bytes.len()).step_by(9973).chain([bytes.len() - 1]) {
        let error = read(bytes[..cut].to_vec()).expect_err("cut").to_string();
        assert!(
            error.contains(&format!("damaged at byte {begin}: the snapshot is not whole")),
            "{cut}: {error}"
        );
    }
    let mut last = bytes.clone();
    *last.last_mut().expect("bytes") ^= 1;
    let error = read(last).expect_err("changed").to_string();
    assert!(error.contains("the snapshot is not whole"), "{error}");
    Ok(())
}

#[test]
fn a_snapshot_that_cannot_be_written_leaves_what_was_there() -> Result<()> {
    let (memory, mut journal) = begun()?;
    journal.append(&Entry::Record(vec![1]))?;
    let before = memory.bytes();
    let failed = journal.compact(|to| {
        write(&halves(), to)?;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert!(matches!(failed, Err(Error::NotRecorded { .. })), "{failed:?}");
    assert_eq!(memory.bytes(), before);
    journal.append(&Entry::Record(vec![2]))?;
    let mut reader = memory.reader()?;
    assert_eq!(reader.next()?, Some(Entry::Record(vec![1])));
    assert_eq!(reader.next()?, Some(Entry::Record(vec![2])));
    Ok(())
}
