//! Writes a snapshot in pieces: it is never in memory as a whole, however much it holds.

use std::fmt;
use std::io::{self, Write};

use super::entry::{Entry, Snapshot};
use super::log::encode;

/// Bytes after which a piece is handed on.
const PIECE: usize = 128 << 10;

/// Takes the two halves of a snapshot, in any order and as often as wanted; see [`Journal::compact`](super::Journal::compact).
pub struct SnapshotWriter<'a> {
    out: &'a mut dyn Write,
    piece: Snapshot,
    buffer: Vec<u8>,
    /// Bytes handed on.
    written: u64,
    /// What the first half that could not be written has said: encoders do not pass it on.
    fault: Option<io::Error>,
}

impl fmt::Debug for SnapshotWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotWriter").field("written", &self.written).finish_non_exhaustive()
    }
}

impl<'a> SnapshotWriter<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, piece: Snapshot::default(), buffer: Vec::new(), written: 0, fault: None }
    }

    /// Takes bytes of the engine's half.
    pub fn engine(&mut self) -> impl Write {
        Half { of: self, bytes: |piece| &mut piece.engine }
    }

    /// Takes bytes of the runner's half.
    pub fn runner(&mut self) -> impl Write {
        Half { of: self, bytes: |piece| &mut piece.runner }
    }

    /// Writes another entry.
    pub(super) fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        self.buffer.clear();
        encode(entry, &mut self.buffer)?;
        self.out.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        Ok(())
    }

    /// Writes the end of the snapshot, if all went well so far.
    pub(super) fn end(&mut self, result: io::Result<()>) -> io::Result<()> {
        match self.fault.take() {
            Some(fault) => Err(fault),
            None => result.and_then(|()| self.hand_on(Entry::Snapshot)),
        }
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    fn hand_on(&mut self, of: fn(Snapshot) -> Entry) -> io::Result<()> {
        let entry = of(std::mem::take(&mut self.piece));
        self.entry(&entry)?;
        if let Entry::Piece(mut piece) = entry {
            piece.engine.clear();
            piece.runner.clear();
            self.piece = piece; // with its room
        }
        Ok(())
    }
}

/// One half of a snapshot.
struct Half<'b, 'a> {
    of: &'b mut SnapshotWriter<'a>,
    bytes: fn(&mut Snapshot) -> &mut Vec<u8>,
}

impl Write for Half<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let of = &mut *self.of;
        if of.fault.is_some() {
            return Err(io::Error::other("an earlier piece could not be written"));
        }
        (self.bytes)(&mut of.piece).extend_from_slice(bytes);
        if of.piece.engine.len() + of.piece.runner.len() >= PIECE
            && let Err(fault) = of.hand_on(Entry::Piece)
        {
            let kind = fault.kind();
            of.fault = Some(fault);
            return Err(kind.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
