//! Unpacking gzip with a limit on the size of what comes out.

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use flate2::read::MultiGzDecoder;

use super::place::unhidden;
use crate::{Error, Result};

/// Whether the data begins as every gzip file does.
pub(super) fn is_gzip(data: &[u8]) -> bool {
    data.starts_with(b"\x1f\x8b")
}

/// The unpacked text of all members of a gzip file. The errors that it gives hide one of this crate: the data is
/// damaged, cut off or unpacks to more than `limit` bytes.
pub(super) fn unpacking<R: Read>(packed: R, limit: u64) -> Unpacking<R> {
    Unpacking { decoder: MultiGzDecoder::new(packed), done: 0, limit }
}

pub(super) struct Unpacking<R> {
    decoder: MultiGzDecoder<R>,
    done: u64,
    limit: u64,
}

impl<R: Read> Read for Unpacking<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(into).map_err(|reason| match reason.kind() {
            io::ErrorKind::UnexpectedEof => damage(self.done, "the compressed data is cut off".into()),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                damage(self.done, format!("the compressed data is damaged ({reason})"))
            }
            _ => reason,
        })?;
        self.done += read as u64;
        if self.done > self.limit {
            return Err(damage(
                self.done,
                format!("it unpacks to more than the {} bytes allowed", self.limit),
            ));
        }
        Ok(read)
    }
}

fn damage(offset: u64, message: String) -> io::Error {
    let place = format!("byte {offset} of the unpacked data");
    io::Error::other(Error::Parse { format: "gzip", place, message })
}

/// Lets `read` take the text while another thread unpacks what comes next. What is wrong with `text` itself, however
/// far behind, goes before what `read` finds wrong.
///
/// It is this thread that reads: the graph is made of many small pieces, which memory allocators give fastest to the
/// main one.
///
/// # Errors
/// Those that `text` hides, and those of `read`.
pub(super) fn read_behind<T>(
    text: impl Read + Send,
    read: impl FnOnce(&mut dyn Read) -> Result<T>,
) -> Result<T> {
    let (full, pieces) = mpsc::channel();
    let (empty, returned) = mpsc::channel();
    for _ in 0..PIECES {
        _ = empty.send(vec![0; PIECE]); // never fails: the other end is here
    }
    thread::scope(|scope| {
        scope.spawn(move || fill_pieces(text, &returned, &full));
        let mut behind = Behind { pieces, empty, piece: Vec::new(), taken: 0, len: 0 };
        let result = read(&mut behind);
        if result.is_err() {
            io::copy(&mut behind, &mut io::sink()).map_err(unhidden)?;
        }
        result
    })
}

/// Bytes of a piece: many enough that handing it over costs little beside its bytes.
const PIECE: usize = 1 << 16;

/// Pieces that go round between the two threads.
const PIECES: usize = 4;

/// A piece and how much of it is filled.
type Filled = io::Result<(Vec<u8>, usize)>;

fn fill_pieces(mut text: impl Read, empty: &Receiver<Vec<u8>>, full: &Sender<Filled>) {
    for mut piece in empty {
        let mut len = 0;
        let end = loop {
            match text.read(&mut piece[len..]) {
                Ok(0) => break Some(Ok(())),
                Ok(read) => len += read,
                Err(reason) if reason.kind() == io::ErrorKind::Interrupted => {}
                Err(reason) => break Some(Err(reason)),
            }
            if len == piece.len() {
                break None;
            }
        };
        let is_gone = full.send(Ok((piece, len))).is_err();
        if let Some(Err(reason)) = end {
            _ = full.send(Err(reason)); // a reader that is gone misses nothing
            return;
        }
        if is_gone || end.is_some() {
            return;
        }
    }
}

/// The pieces as one text.
struct Behind {
    pieces: Receiver<Filled>,
    empty: Sender<Vec<u8>>,
    piece: Vec<u8>,
    taken: usize,
    len: usize,
}

impl Read for Behind {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.len {
            if !self.piece.is_empty() {
                _ = self.empty.send(std::mem::take(&mut self.piece)); // not needed once all is unpacked
            }
            let Ok(filled) = self.pieces.recv() else { return Ok(0) };
            (self.taken, self.len) = (0, 0);
            (self.piece, self.len) = filled?;
        }
        let n = (self.len - self.taken).min(into.len());
        into[..n].copy_from_slice(&self.piece[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn unpack(packed: &[u8], limit: u64) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        unpacking(packed, limit).read_to_end(&mut text).map_err(unhidden)?;
        Ok(text)
    }

    fn pack(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn all_members_are_unpacked() {
        let packed = [pack(b"one "), pack(b"two")].concat();
        assert!(is_gzip(&packed));
        assert_eq!(unpack(&packed, 7).unwrap(), b"one two");
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = pack(&vec![b' '; 10_000_000]);
        assert!(bomb.len() < 20_000);
        let error = unpack(&bomb, 1000).unwrap_err().to_string();
        assert!(error.contains("more than the 1000 bytes allowed"), "{error}");
        assert_eq!(unpack(&bomb, 10_000_000).unwrap().len(), 10_000_000);
    }

    #[test]
    fn damage_is_an_error() {
        let packed = pack(&(0..2000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>());
        for end in (2..packed.len()).step_by(64) {
            let error = unpack(&packed[..end], u64::MAX).unwrap_err().to_string();
            assert!(error.contains("cut off"), "{error}");
        }
        let mut flipped = packed.clone();
        let checksum = packed.len() - 6;
        flipped[checksum] ^= 1;
        assert!(unpack(&flipped, u64::MAX).unwrap_err().to_string().contains("damaged"));
    }
}
