//! The journal as the runner sees it: append entries, read them back, compact.

use std::io;

use super::entry::{Entry, Manifest};
use super::frame;
use super::reader::{Reader, Torn};
use super::snapshot::SnapshotWriter;
use super::storage::{Storage, Syncing};
use crate::{Error, Result};

/// What a recorded entry survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// The death of the process: entries are handed to the operating system before their commands are carried out, and
    /// to the disk every 50 ms. Loss of power may lose the last of them; tasks that ended then run again.
    #[default]
    Process,
    /// Also the loss of power: entries are on disk before their commands are carried out.
    Power,
}

/// Bytes of entries after which a snapshot takes their place.
const COMPACT_AFTER: u64 = 64 << 20;

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    storage: Box<dyn Storage>,
    /// What messages call it.
    place: String,
    durability: Durability,
    manifest: Manifest,
    /// Bytes that are good.
    length: u64,
    /// The latest entry of this kind.
    opened: Option<Entry>,
    /// Bytes behind the last snapshot.
    since_snapshot: u64,
    compact_after: u64,
    /// What was there when it was opened, until it is replayed.
    past: Option<Reader>,
    buffer: Vec<u8>,
    /// Something could not be written, nor undone: no more is written.
    is_broken: bool,
}

impl Journal {
    /// Begins a journal in an empty storage that messages call `place`.
    ///
    /// # Errors
    /// [`Error::NotRecorded`].
    pub fn create(
        storage: Box<dyn Storage>,
        place: impl Into<String>,
        manifest: Manifest,
        durability: Durability,
    ) -> Result<Self> {
        let mut journal = Self::new(storage, place.into(), manifest, durability);
        let first = Entry::Manifest(journal.manifest.clone());
        let mut bytes = frame::file_header().to_vec();
        encode(&first, &mut bytes)
            .and_then(|()| journal.storage.replace(&mut |file| file.write_all(&bytes)))
            .map_err(|e| journal.failed(e))?;
        journal.length = bytes.len() as u64;
        Ok(journal)
    }

    /// Opens a journal to go on with it: [`Journal::replay`] comes first.
    ///
    /// # Errors
    /// [`Error::Journal`] if it cannot be read, is damaged or of a newer version.
    pub fn open(storage: Box<dyn Storage>, place: impl Into<String>, durability: Durability) -> Result<Self> {
        let place = place.into();
        let bytes = storage.read().map_err(|error| unreadable(&place, &error))?;
        let reader = Reader::new(bytes, place.clone())?;
        let mut journal = Self::new(storage, place, reader.manifest().clone(), durability);
        journal.past = Some(reader);
        Ok(journal)
    }

    fn new(storage: Box<dyn Storage>, place: String, manifest: Manifest, durability: Durability) -> Self {
        Self {
            storage,
            place,
            durability,
            manifest,
            length: 0,
            opened: None,
            since_snapshot: 0,
            compact_after: COMPACT_AFTER,
            past: None,
            buffer: Vec::new(),
            is_broken: false,
        }
    }

    /// Sets after how many bytes of entries a snapshot takes their place; 64 MiB by default.
    #[must_use]
    pub fn compact_after(mut self, bytes: u64) -> Self {
        self.compact_after = bytes;
        self
    }

    /// What the run is about.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What messages call it.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether there is something to replay.
    pub fn has_past(&self) -> bool {
        self.past.is_some()
    }

    /// Gives all entries behind the manifest to `take`, then cuts a torn end, which is returned.
    ///
    /// # Errors
    /// [`Error::Journal`] if it is damaged, [`Error::NotRecorded`] if the torn end cannot be cut; those of `take`.
    pub fn replay(&mut self, mut take: impl FnMut(Entry) -> Result<()>) -> Result<Option<Torn>> {
        let Some(mut reader) = self.past.take() else { return Ok(None) };
        self.length = reader.offset();
        let mut begin = self.length;
        while let Some(entry) = reader.next()? {
            if matches!(entry, Entry::Snapshot(_)) {
                begin = reader.offset();
            }
            take(entry)?;
        }
        self.length = reader.offset();
        self.since_snapshot = self.length - begin;
        if let Some(torn) = reader.torn() {
            self.storage.truncate(torn.offset).map_err(|e| self.failed(e))?;
        }
        Ok(reader.torn())
    }

    /// Adds an entry; see [`Durability`] for what holds when it returns.
    ///
    /// # Errors
    /// [`Error::NotRecorded`]: the entry is not there, and what follows from it must not be done.
    pub fn append(&mut self, entry: &Entry) -> Result<()> {
        self.append_unsynced(entry)?;
        if self.durability == Durability::Power { self.sync() } else { Ok(()) }
    }

    /// Adds an entry that survives the death of the process, whatever the [`Durability`]. It is for callers that sync
    /// several entries at once, with [`Journal::syncing`], before anything follows from them.
    ///
    /// # Errors
    /// As for [`Journal::append`].
    pub fn append_unsynced(&mut self, entry: &Entry) -> Result<()> {
        self.append_later(entry)?;
        self.flush()?;
        if matches!(entry, Entry::Opened { .. }) {
            self.opened = Some(entry.clone());
        }
        Ok(())
    }

    /// Adds an entry that is handed on with the next one, or by [`Journal::flush`]: until then the death of the process loses
    /// it. It is for what nothing follows from.
    ///
    /// # Errors
    /// [`Error::NotRecorded`] if it can be no entry.
    pub fn append_later(&mut self, entry: &Entry) -> Result<()> {
        let before = self.buffer.len();
        encode(entry, &mut self.buffer).map_err(|error| {
            self.buffer.truncate(before);
            self.failed(error)
        })
    }

    /// Whether there are entries that were added for later.
    pub fn has_unwritten(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Hands on what was added for later; it survives the death of the process then.
    ///
    /// # Errors
    /// [`Error::NotRecorded`]: the entries are not there.
    pub fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let added = self.buffer.len() as u64;
        let written = if self.is_broken {
            Err(io::Error::other("an earlier write failed"))
        } else {
            self.storage.append(&self.buffer)
        };
        self.buffer.clear();
        if let Err(error) = written {
            // Part of the entries may be there; without it the journal is good.
            self.is_broken |= self.storage.truncate(self.length).is_err();
            return Err(self.failed(error));
        }
        self.length += added;
        self.since_snapshot += added;
        Ok(())
    }

    /// What makes all entries survive the loss of power when it is called, from any thread, until the next
    /// [`Journal::compact`].
    ///
    /// # Errors
    /// [`Error::NotRecorded`] if the storage cannot do it.
    pub fn syncing(&self) -> Result<Syncing> {
        self.storage.syncing().map_err(|error| self.failed(error))
    }

    /// Bytes of the journal.
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Returns when all entries survive the loss of power.
    ///
    /// # Errors
    /// [`Error::NotRecorded`].
    pub fn sync(&mut self) -> Result<()> {
        self.storage.sync().map_err(|error| self.failed(error))
    }

    /// Whether so much was added that a snapshot should take its place.
    pub fn wants_snapshot(&self) -> bool {
        self.since_snapshot > self.compact_after
    }

    /// Puts the snapshot that `write` writes in the place of all entries; which process is at the run stays known. It goes to the
    /// storage piece by piece.
    ///
    /// # Errors
    /// [`Error::NotRecorded`]; the entries then remain, and a snapshot is wanted again when as much was added once more.
    pub fn compact(
        &mut self,
        mut write: impl FnMut(&mut SnapshotWriter<'_>) -> io::Result<()>,
    ) -> Result<()> {
        self.since_snapshot = 0;
        let (manifest, opened) = (Entry::Manifest(self.manifest.clone()), &self.opened);
        let mut length = 0;
        let replaced = self.storage.replace(&mut |file| {
            let header = frame::file_header();
            file.write_all(&header)?;
            let mut writer = SnapshotWriter::new(file);
            writer.entry(&manifest)?;
            let snapshot = write(&mut writer);
            writer.end(snapshot)?;
            opened.iter().try_for_each(|entry| writer.entry(entry))?;
            length = header.len() as u64 + writer.written();
            Ok(())
        });
        replaced.map_err(|error| self.failed(error))?;
        self.length = length;
        self.buffer.clear(); // the snapshot has it
        Ok(())
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::NotRecorded { place: self.place.clone(), source }
    }
}

pub(super) fn unreadable(place: &str, error: &io::Error) -> Error {
    Error::Journal { place: place.to_owned(), message: format!("cannot be read: {error}") }
}

/// Adds an entry with its header.
pub(super) fn encode(entry: &Entry, bytes: &mut Vec<u8>) -> io::Result<()> {
    let begin = bytes.len();
    bytes.resize(begin + frame::RECORD_HEADER, 0);
    postcard::to_io(entry, &mut *bytes).map_err(io::Error::other)?;
    let payload = begin + frame::RECORD_HEADER;
    let too_long = || io::Error::other("a record of more than 4 GiB");
    let header = frame::record_header(&bytes[payload..]).ok_or_else(too_long)?;
    bytes[begin..payload].copy_from_slice(&header);
    Ok(())
}
