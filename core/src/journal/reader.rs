//! Reads a journal record by record and tells a torn end from damage.

use std::io::{self, BufReader, Read};

use super::entry::{Entry, Manifest, Snapshot};
use super::frame::{self, FILE_HEADER, FileKind, RECORD_HEADER, VERSION};
use crate::{Error, Result};

/// A record that was being written when the process or the machine stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Offset of its first byte; all before it is good.
    pub offset: u64,
    /// Bytes from there to the end of the file.
    pub bytes: u64,
}

/// What is wrong with a snapshot that is not whole.
const CUT: &str = "the snapshot is not whole";
/// First bytes of [`Entry::Snapshot`] and [`Entry::Piece`].
const SNAPSHOTS: [u8; 2] = [3, 6];

/// Reads the entries of a journal. Memory is that of the largest record, or twice that of the snapshot.
pub struct Reader {
    bytes: BufReader<Box<dyn Read + Send>>,
    /// What messages call it.
    place: String,
    offset: u64,
    payload: Vec<u8>,
    torn: Option<Torn>,
    /// Where the snapshot begins of which pieces were read.
    pieces: Option<u64>,
    manifest: Manifest,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("place", &self.place)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// Reads up to the manifest. Messages call the journal `place`.
    ///
    /// # Errors
    /// [`Error::Journal`] if it is no journal, one of a newer version, or damaged.
    pub fn new(bytes: Box<dyn Read + Send>, place: impl Into<String>) -> Result<Self> {
        let manifest = Manifest {
            job: String::new(),
            tasks: 0,
            digest: 0,
            policy: String::new(),
            seed: 0,
            created_ms: 0,
            notes: Vec::new(),
        };
        let bytes = BufReader::with_capacity(1 << 16, bytes);
        let mut reader = Self {
            bytes,
            place: place.into(),
            offset: 0,
            payload: Vec::new(),
            torn: None,
            pieces: None,
            manifest,
        };
        reader.read_file_header()?;
        match reader.next()? {
            Some(Entry::Manifest(manifest)) => reader.manifest = manifest,
            Some(_) => return Err(reader.damage(FILE_HEADER as u64, "the first record is no manifest")),
            None => return Err(reader.too_short()),
        }
        Ok(reader)
    }

    /// What the run is about.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Offset behind the last good record.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The torn record at the end, once the end is reached.
    pub fn torn(&self) -> Option<Torn> {
        self.torn
    }

    /// The next entry; `None` at the end, torn or not.
    ///
    /// # Errors
    /// [`Error::Journal`] with the offset if a record is damaged.
    #[allow(clippy::should_implement_trait)] // entries come with errors that end the reading
    pub fn next(&mut self) -> Result<Option<Entry>> {
        match self.next_record()? {
            Some(Entry::Piece(piece)) => self.next_snapshot(piece),
            entry => Ok(entry),
        }
    }

    fn next_record(&mut self) -> Result<Option<Entry>> {
        if self.torn.is_some() || !self.next_payload()? {
            return Ok(None);
        }
        let begin = self.offset;
        let entry = postcard::from_bytes(&self.payload)
            .map_err(|error| self.damage(begin, &format!("the record cannot be decoded ({error})")))?;
        self.offset += (RECORD_HEADER + self.payload.len()) as u64;
        Ok(Some(entry))
    }

    /// The snapshot that begins with a piece. It was on disk as a whole before it got its name, so that one without its end is no
    /// write that was interrupted.
    fn next_snapshot(&mut self, mut whole: Snapshot) -> Result<Option<Entry>> {
        let begin = self.offset - (RECORD_HEADER + self.payload.len()) as u64;
        self.pieces = Some(begin);
        loop {
            let (piece, is_last) = match self.next_record()? {
                Some(Entry::Piece(piece)) => (piece, false),
                Some(Entry::Snapshot(last)) => (last, true),
                Some(_) | None => return Err(self.damage(begin, CUT)),
            };
            whole.engine.extend_from_slice(&piece.engine);
            whole.runner.extend_from_slice(&piece.runner);
            if is_last {
                self.pieces = None;
                return Ok(Some(Entry::Snapshot(whole)));
            }
        }
    }

    fn read_file_header(&mut self) -> Result<()> {
        let mut header = [0; FILE_HEADER];
        if self.fill(&mut header)? < FILE_HEADER {
            return Err(self.too_short());
        }
        self.offset = FILE_HEADER as u64;
        match frame::file_kind(&header) {
            FileKind::Journal(VERSION) => Ok(()),
            FileKind::Journal(version) => {
                let newer = if version > VERSION { ", or a newer one" } else { "" };
                let message = format!(
                    "it is of version {version}, this mdts reads version {VERSION}; use the mdts that wrote it{newer}"
                );
                Err(Error::Journal { place: self.place.clone(), message })
            }
            FileKind::Damaged => Err(self.damage(0, "the file header is damaged")),
            FileKind::Other => {
                let message = "it is not a journal; name the folder that was given to --journal".to_owned();
                Err(Error::Journal { place: self.place.clone(), message })
            }
        }
    }

    /// Reads the next payload; false at the end.
    fn next_payload(&mut self) -> Result<bool> {
        let mut header = [0; RECORD_HEADER];
        let read = self.fill(&mut header)?;
        if read < RECORD_HEADER {
            self.tear(read as u64);
            return Ok(false);
        }
        let Some((length, sum)) = frame::payload(&header) else {
            let (behind, is_zero) = self.rest()?;
            if is_zero {
                self.tear(read as u64 + behind);
                return Ok(false);
            }
            return Err(self.damage(self.offset, "the header of the record is damaged"));
        };
        self.payload.clear();
        let read = self.bytes.by_ref().take(u64::from(length)).read_to_end(&mut self.payload);
        let read = read.map_err(|error| self.unreadable(&error))? as u64;
        if read == u64::from(length) && crc32fast::hash(&self.payload) == sum {
            return Ok(true);
        }
        if self.payload.first().is_some_and(|tag| SNAPSHOTS.contains(tag)) {
            return Err(self.damage(self.pieces.unwrap_or(self.offset), CUT));
        }
        let (behind, is_zero) = self.rest()?;
        if is_zero {
            self.tear(RECORD_HEADER as u64 + read + behind);
            return Ok(false);
        }
        Err(self.damage(self.offset, "the record does not match its checksum"))
    }

    /// Reads until the buffer is full or the end is reached.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut full = 0;
        while full < buffer.len() {
            match self.bytes.read(&mut buffer[full..]) {
                Ok(0) => break,
                Ok(n) => full += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
        Ok(full)
    }

    /// The number of all further bytes, and whether they are zero: a file that lost power while it grew ends so.
    fn rest(&mut self) -> Result<(u64, bool)> {
        let mut chunk = [0; 4096];
        let (mut bytes, mut is_zero) = (0, true);
        loop {
            let read = self.fill(&mut chunk)?;
            bytes += read as u64;
            is_zero &= chunk[..read].iter().all(|byte| *byte == 0);
            if read < chunk.len() {
                return Ok((bytes, is_zero));
            }
        }
    }

    fn tear(&mut self, bytes: u64) {
        self.torn = (bytes > 0).then_some(Torn { offset: self.offset, bytes });
    }

    fn too_short(&self) -> Error {
        let message = "it ends within its first record, so that nothing of the run is known; begin the run anew in an \
                       empty folder";
        Error::Journal { place: self.place.clone(), message: message.to_owned() }
    }

    fn damage(&self, offset: u64, what: &str) -> Error {
        let remedy = if offset > FILE_HEADER as u64 {
            format!(
                "restore it from a copy, or give up what was recorded from there on: truncate -s {offset} '{}', then \
                 resume; tasks that ended after that run again",
                self.place
            )
        } else {
            "restore it from a copy, or begin the run anew in an empty folder".to_owned()
        };
        let message = format!("damaged at byte {offset}: {what}; {remedy}");
        Error::Journal { place: self.place.clone(), message }
    }

    fn unreadable(&self, error: &io::Error) -> Error {
        let message = format!("cannot be read at byte {}: {error}", self.offset);
        Error::Journal { place: self.place.clone(), message }
    }
}
