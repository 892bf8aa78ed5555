//! Truncation and flipped bytes, at every byte of the last 64 KiB.

use std::io::Cursor;

use super::{Memory, manifest};
use crate::engine::{JobId, TaskRun};
use crate::journal::{Durability, Entry, Happening, Journal, Reader, StepEntry, frame};
use crate::testkit::instances;
use crate::{Error, Result};

/// Bytes at the end that are damaged one by one.
const TAIL: usize = 64 << 10;

fn entry(number: u32) -> Entry {
    let run = TaskRun { job: JobId::new(0), task: number.into(), attempt: 1 };
    Entry::Step(StepEntry {
        now: f64::from(number) * 0.1,
        events: vec![Happening::Failed(run)],
        decisions: Vec::new(),
        reasons: vec![(run, "reason ".repeat(60 + number as usize % 7))],
        usage: Vec::new(),
    })
}

/// A journal a little longer than the tail, and where each of its records ends.
fn journal() -> Result<(Vec<u8>, Vec<usize>)> {
    let memory = Memory::new();
    let instance = instances(0)?[0].1.clone();
    let mut journal = memory.create(&instance, Durability::Process)?;
    let mut ends = vec![memory.bytes().len()];
    while ends.last().is_none_or(|end| *end < TAIL + 1000) {
        journal.append(&entry(ends.len() as u32))?;
        ends.push(memory.look().bytes.len());
    }
    Ok((memory.bytes(), ends))
}

/// Number of entries behind the manifest, and the offset of the torn end.
fn read(bytes: Vec<u8>) -> Result<(usize, Option<u64>)> {
    let mut reader = Reader::new(Box::new(Cursor::new(bytes)), "memory")?;
    let mut entries = 0;
    while let Some(found) = reader.next()? {
        entries += 1;
        assert_eq!(found, entry(entries as u32));
    }
    Ok((entries, reader.torn().map(|torn| torn.offset)))
}

#[test]
fn a_torn_end_is_dropped_wherever_it_is_cut() -> Result<()> {
    let (bytes, ends) = journal()?;
    for cut in bytes.len() - TAIL..=bytes.len() {
        let whole = ends.iter().take_while(|end| **end <= cut).count() - 1;
        let torn = (ends[whole] < cut).then_some(ends[whole] as u64);
        assert_eq!(read(bytes[..cut].to_vec())?, (whole, torn), "cut at {cut}");
    }
    Ok(())
}

#[test]
fn an_end_of_zeros_is_torn() -> Result<()> {
    let (bytes, ends) = journal()?;
    let last = ends[ends.len() - 2];
    for kept in [0, 1, 11, 12, 100] {
        let mut zeroed = bytes.clone();
        zeroed[last + kept..].fill(0);
        zeroed.extend([0; 5000]);
        assert_eq!(read(zeroed)?, (ends.len() - 2, Some(last as u64)), "{kept} bytes of the last record");
    }
    Ok(())
}

#[test]
fn a_flipped_byte_is_found_and_its_record_named() -> Result<()> {
    let (bytes, ends) = journal()?;
    let last = ends[ends.len() - 2];
    for at in bytes.len() - TAIL..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let record = ends[ends.partition_point(|end| *end <= at) - 1];
        match read(flipped) {
            Err(Error::Journal { message, .. }) => {
                assert!(message.contains(&format!("damaged at byte {record}:")), "{at}: {message}");
                assert!(message.contains(&format!("truncate -s {record} ")), "{at}: {message}");
            }
            // The end of the file may as well be torn.
            Ok((entries, torn)) => {
                assert_eq!((entries, torn), (ends.len() - 2, Some(record as u64)), "{at}");
                assert_eq!(record, last, "{at}");
            }
            Err(other) => panic!("{other}"),
        }
    }
    Ok(())
}

#[test]
fn what_cannot_be_read_is_told() -> Result<()> {
    let (bytes, _) = journal()?;
    let version = |version: u32| {
        let mut header = frame::file_header();
        header[8..12].copy_from_slice(&version.to_le_bytes());
        let sum = crc32fast::hash(&header[..12]);
        header[12..].copy_from_slice(&sum.to_le_bytes());
        [&header[..], &bytes[16..]].concat()
    };
    let mut damaged = bytes.clone();
    damaged[3] ^= 4;
    let cases = [
        (version(7), "it is of version 7, this mdts reads version 4; use"),
        (damaged, "damaged at byte 0: the file header"),
        (bytes[..10].to_vec(), "ends within its first record"),
        (bytes[..40].to_vec(), "ends within its first record"),
        (Vec::new(), "ends within its first record"),
        (b"{\"name\": \"a workflow\", \"tasks\": []}".to_vec(), "it is not a journal"),
    ];
    for (bytes, expected) in cases {
        let error = read(bytes).expect_err(expected).to_string();
        assert!(error.starts_with("journal memory: ") && error.contains(expected), "{error}");
    }
    assert_eq!(read(version(frame::VERSION))?.1, None);
    Ok(())
}

#[test]
fn a_journal_whose_end_was_cut_goes_on() -> Result<()> {
    let (bytes, ends) = journal()?;
    let memory = Memory::holding(bytes[..bytes.len() - 3].to_vec());
    let mut journal = memory.open()?;
    assert_eq!(journal.replay(|_| Ok(()))?.map(|torn| torn.offset), Some(ends[ends.len() - 2] as u64));
    journal.append(&entry(ends.len() as u32 - 1))?;
    assert_eq!(memory.bytes(), bytes);
    Ok(())
}

#[test]
fn an_entry_that_does_not_fit_leaves_no_trace() -> Result<()> {
    let memory = Memory::new();
    let instance = instances(0)?[0].1.clone();
    let mut journal: Journal = memory.create(&instance, Durability::Power)?;
    assert_eq!(journal.manifest(), &manifest(&instance));
    for number in 1..=3 {
        journal.append(&entry(number))?;
        let inside = memory.look();
        assert_eq!(inside.synced, inside.bytes.len(), "on disk before it counts");
    }
    let full = memory.bytes();
    memory.look().room = full.len() + 20;
    let error = journal.append(&entry(4)).expect_err("no room").to_string();
    assert!(error.contains("cannot be written: no storage space; the run has stopped; make room"), "{error}");
    assert_eq!(memory.bytes(), full);
    memory.look().room = usize::MAX;
    journal.append(&entry(4))?;
    assert_eq!(read(memory.bytes())?, (4, None));
    Ok(())
}

#[test]
fn what_may_wait_is_handed_on_with_what_follows() -> Result<()> {
    let memory = Memory::new();
    let instance = instances(0)?[0].1.clone();
    let mut journal = memory.create(&instance, Durability::Process)?;
    let begin = memory.bytes().len();
    journal.append_later(&entry(1))?;
    journal.append_later(&entry(2))?;
    assert!(journal.has_unwritten() && memory.bytes().len() == begin);
    journal.append(&entry(3))?;
    assert!(!journal.has_unwritten());
    assert_eq!(read(memory.bytes())?, (3, None), "in their order");
    journal.append_later(&entry(4))?;
    journal.flush()?;
    assert_eq!((read(memory.bytes())?.0, memory.bytes().len() as u64), (4, journal.bytes()));
    // What does not fit is not there, nor is what waited for it.
    let full = memory.bytes();
    memory.look().room = full.len() + 20;
    journal.append_later(&entry(5))?;
    assert!(journal.append(&entry(6)).is_err() && !journal.has_unwritten());
    assert_eq!(memory.bytes(), full);
    Ok(())
}
