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

#[test]
fn a_snapshot_that_was_cut_is_torn_as_a_whole() -> Result<()> {
    let (memory, mut journal) = begun()?;
    let begin = memory.bytes().len();
    journal.compact(|to| write(&halves(), to))?;
    let bytes = memory.bytes();
    for cut in (begin + 1..bytes.len()).step_by(9973).chain([bytes.len() - 1]) {
        let mut reader = Memory::holding(bytes[..cut].to_vec()).reader()?;
        assert_eq!(reader.next()?, None, "cut at {cut}");
        let torn = reader.torn().expect("something is torn");
        assert_eq!((torn.offset, torn.bytes), (begin as u64, (cut - begin) as u64));
        assert_eq!(reader.offset(), begin as u64);
    }
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
