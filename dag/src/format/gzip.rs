//! Unpacking gzip with a limit on the size of what comes out.

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use flate2::read::MultiGzDecoder;

use crate::{Error, Result};

/// Whether the data begins as every gzip file does.
pub(super) fn is_gzip(data: &[u8]) -> bool {
    data.starts_with(b"\x1f\x8b")
}

/// Unpacks all members of a gzip file. No more than `limit` bytes are ever held.
///
/// # Errors
/// [`Error::Parse`] if the data is damaged, cut off or larger than `limit`.
pub(super) fn unpack(packed: &[u8], limit: u64) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    // A good guess saves copying; no honest file is packed better than 1032 times.
    let guess = size_hint(packed).min(packed.len() as u64 * 1032).min(limit);
    if text.try_reserve_exact(guess as usize + 1).is_err() {
        return Err(error(0, format!("{guess} bytes do not fit into memory")));
    }
    unpacking(packed, limit).read_to_end(&mut text).map_err(unhide)?;
    Ok(text)
}

/// The same, in pieces. The errors that it gives hide one of this crate.
pub(super) fn unpacking(packed: &[u8], limit: u64) -> impl Read + Send {
    Unpacking { decoder: MultiGzDecoder::new(packed), done: 0, limit }
}

struct Unpacking<'a> {
    decoder: MultiGzDecoder<&'a [u8]>,
    done: u64,
    limit: u64,
}

impl Read for Unpacking<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(into).map_err(|reason| {
            let message = match reason.kind() {
                io::ErrorKind::UnexpectedEof => "the compressed data is cut off".into(),
                _ => format!("the compressed data is damaged ({reason})"),
            };
            io::Error::other(error(self.done, message))
        })?;
        self.done += read as u64;
        if self.done > self.limit {
            let message = format!("it unpacks to more than the {} bytes allowed", self.limit);
            return Err(io::Error::other(error(self.done, message)));
        }
        Ok(read)
    }
}

/// Lets `read` take the text while another thread unpacks what comes next. Damage anywhere goes before what `read`
/// finds wrong.
///
/// # Errors
/// Those of [`unpack`] and of `read`.
pub(super) fn unpack_ahead<T>(
    packed: &[u8],
    limit: u64,
    read: impl FnOnce(&mut dyn Read) -> Result<T>,
) -> Result<T> {
    let (full, pieces) = mpsc::channel();
    let (empty, returned) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || fill_pieces(unpacking(packed, limit), &returned, &full));
        for _ in 0..PIECES {
            _ = empty.send(vec![0; PIECE]); // never fails: the thread ends only after the pieces are full
        }
        let mut ahead = Ahead { pieces, empty, piece: Vec::new(), taken: 0, len: 0 };
        let result = read(&mut ahead);
        if result.is_err() {
            io::copy(&mut ahead, &mut io::sink()).map_err(unhide)?;
        }
        result
    })
}

/// Bytes of a piece: many enough that handing it over costs little beside its bytes.
const PIECE: usize = 1 << 18;

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
struct Ahead {
    pieces: Receiver<Filled>,
    empty: Sender<Vec<u8>>,
    piece: Vec<u8>,
    taken: usize,
    len: usize,
}

impl Read for Ahead {
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

/// The error that [`Unpacking`] hid.
fn unhide(reason: io::Error) -> Error {
    reason.downcast().unwrap_or_else(|reason| error(0, reason.to_string()))
}

/// The size that the last member claims, modulo 2^32.
fn size_hint(packed: &[u8]) -> u64 {
    packed.last_chunk::<4>().map_or(0, |size| u64::from(u32::from_le_bytes(*size)))
}

fn error(offset: u64, message: String) -> Error {
    Error::Parse { format: "gzip", place: format!("byte {offset} of the unpacked data"), message }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

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
