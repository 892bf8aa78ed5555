//! Journals in memory, damaged in every way, and runs that go on from them.

mod damage;
mod folder;
mod replay;
mod rests;
mod runs;
mod snapshots;

use std::io::{self, Cursor, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Durability, Journal, Manifest, Reader, Storage, digest};
use crate::{Instance, Result};

/// A storage in memory that others can look into, with room for so many bytes.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Debug)]
struct Inside {
    bytes: Vec<u8>,
    synced: usize,
    room: usize,
    refuses_snapshots: bool,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self::holding(Vec::new())
    }

    pub(crate) fn holding(bytes: Vec<u8>) -> Self {
        let synced = bytes.len();
        Self {
            inside: Arc::new(Mutex::new(Inside {
                bytes,
                synced,
                room: usize::MAX,
                refuses_snapshots: false,
            })),
        }
    }

    fn look(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn refuse_snapshots(&self, refuse: bool) {
        self.look().refuses_snapshots = refuse;
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.look().bytes.clone()
    }

    pub(crate) fn reader(&self) -> Result<Reader> {
        Reader::new(Box::new(Cursor::new(self.bytes())), "memory")
    }

    pub(crate) fn create(&self, instance: &Instance, durability: Durability) -> Result<Journal> {
        Journal::create(Box::new(self.clone()), "memory", manifest(instance), durability)
    }

    pub(crate) fn open(&self) -> Result<Journal> {
        Journal::open(Box::new(self.clone()), "memory", Durability::Process)
    }
}

impl Storage for Memory {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut inside = self.look();
        let fits = bytes.len().min(inside.room - inside.bytes.len().min(inside.room));
        inside.bytes.extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut inside = self.look();
        inside.synced = inside.bytes.len();
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.look().bytes.truncate(length as usize);
        Ok(())
    }

    fn replace(&mut self, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        let mut inside = self.look();
        if bytes.len() > inside.room || inside.refuses_snapshots {
            return Err(io::ErrorKind::StorageFull.into());
        }
        inside.synced = bytes.len();
        inside.bytes = bytes;
        Ok(())
    }

    fn read(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(Cursor::new(self.bytes())))
    }
}

fn manifest(instance: &Instance) -> Manifest {
    Manifest {
        job: "test".to_owned(),
        tasks: instance.tasks() as u64,
        digest: digest(instance),
        policy: "first".to_owned(),
        seed: 0,
        created_ms: 0,
        notes: vec![("folder".to_owned(), "/tmp".to_owned())],
    }
}
